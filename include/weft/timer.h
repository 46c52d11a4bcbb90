/*
 * weft/timer.h: call a function later, once or periodically.
 *
 * The function runs in a fiber of the timer's own, one call at a time: it may sleep, wait and use
 * every call of weft, weft_timer_close of its own timer included. No call is ever early.
 *
 *     weft_timer *timer;
 *     if (weft_timer_open(&timer, tick, NULL) != 0)
 *         return 1;
 *     weft_timer_start(timer, weft_after(5 * WEFT_MS), 0);              // once
 *     weft_timer_start(timer, weft_after(WEFT_S), 100 * WEFT_MS);       // instead: every 100 ms
 *     weft_timer_stop(timer);
 *     weft_timer_close(timer);
 */
#ifndef WEFT_TIMER_H
#define WEFT_TIMER_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_timer weft_timer;

/* Makes a timer that is not running. Everything it will need is allocated here: starting and firing
 * cannot fail for lack of memory (only a stack may be waited for, as for any fiber).
 * Returns 0; -EINVAL if timer or function is NULL; or as weft_go.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_timer_open(weft_timer **timer, void (*function)(void *), void *arg);

/* Starts the timer, or starts it anew: what was due before and has not begun is forgotten. It is
 * due at `deadline` (one that has passed: at once; WEFT_NEVER: only stops it), and then, if period
 * is not zero, every `period` after that, without drift. If calls take longer than the period, the
 * calls missed meanwhile become one.
 * Returns 1 if the timer was running (or due and not begun), else 0; -EINVAL if timer is NULL or
 * period negative; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_timer_start(weft_timer *timer, int64_t deadline, int64_t period);

/* Stops the timer: after this returns, no call begins until it is started again. A call that has
 * begun, if only just now, goes on; weft_timer_close waits for it.
 * Returns 1 if that prevented a call, else 0; -EINVAL if timer is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_timer_stop(weft_timer *timer);

/* Stops the timer, waits for a call that has begun, and frees it. From inside the timer's own
 * function it does not wait: the timer is freed when the function returns. If the function starts
 * the timer again meanwhile, that start has no effect.
 * Returns 0; -EINVAL if timer is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread.
 * Undefined: closing twice; any use during or after close, except start and stop by the function
 * that it waits for. */
WEFT_API int weft_timer_close(weft_timer *timer);

WEFT_END

#endif
