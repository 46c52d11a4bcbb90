/*
 * timer.h: what the scheduler needs of the users' timers (weft/timer.h): see timer.c.
 */
#ifndef WEFT_SCHED_TIME_TIMER_H
#define WEFT_SCHED_TIME_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct timer;
struct weft_fiber;

/* A timer of the user's has expired (under the wheel's lock); its fiber, if that must be made
 * ready. */
struct weft_fiber *weft__timer_expired(struct timer *timer);
/* The fiber of a timer has ended; whether it must run again. */
bool weft__timer_rest(struct weft_fiber *fiber);
/* How many were ever opened, and closed: an open timer counts as alive (weft__fiber_alive). */
uint64_t weft__timers_opened(void);
uint64_t weft__timers_closed(void);

#endif
