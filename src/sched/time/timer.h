/*
 * timer.h: what the scheduler needs of the timers that call a function (weft/timer.h). See
 * timer.c.
 */
#ifndef WEFT_SCHED_TIME_TIMER_H
#define WEFT_SCHED_TIME_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct timer;
struct weft_fiber;

/* Called under the wheel's latch when such a timer has expired. Returns its fiber if that must be
 * made ready, else NULL. */
struct weft_fiber *weft__timer_expired(struct timer *timer);
/* Called on the machine's stack when the fiber of a timer has ended. Returns whether it must run
 * again. */
bool weft__timer_rest(struct weft_fiber *fiber);
/* How many timers were ever opened, and closed: an open one counts as alive (weft__fiber_alive). */
uint64_t weft__timers_opened(void);
uint64_t weft__timers_closed(void);

#endif
