/*
 * weft/limiter.h: rate limiter: at most `rate` events in a period, and at most `burst` of them at
 * once.
 *
 *     weft_limiter *limiter;
 *     weft_limiter_options options = {.rate = 100, .burst = 10};    // 100 per second
 *     if (weft_limiter_open(&limiter, &options) != 0)
 *         return 1;
 *     ...
 *     if (weft_limiter_take(limiter, 1) == 0)                       // in any fiber or thread
 *         send_request();
 *     ...
 *     weft_limiter_close(limiter);
 *
 * A limiter is a token bucket. It starts with `burst` events and gains `rate` in each period,
 * evenly and without rounding; what it gains above `burst` is lost. A take removes events from it,
 * or waits until it has them.
 *
 *   order     Takes are served in the order in which they came: one for few events does not
 *             overtake one for many.
 *   turn      The turn of a take is the moment at which its events are there, after those of all
 *             takes before it. The turn of a take that waits is reserved: the call returns at its
 *             turn or after it, never before. A call that returns late delays no other take, and
 *             costs the limiter nothing of its rate; several late calls may return close together.
 *   leaving   A take that gives up returns its events to those behind it, whose turns move forward.
 *   range     Exact for every rate and period, for the range of the clock (292 years).
 *
 * Turns fall on whole nanoseconds: in any interval of t nanoseconds the turns of at most burst + (t
 * + 1) * rate / period events come. A caller that takes, works and takes again has nothing reserved
 * while it works: it makes up for lost time by at most `burst` events. With the default burst of 1
 * the events are evenly spaced; a high rate that few callers are to reach needs a larger burst.
 *
 * A limiter has no thread, fiber or timer of its own. While no take waits it costs nothing but its
 * memory.
 */
#ifndef WEFT_LIMITER_H
#define WEFT_LIMITER_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* The largest rate, the largest burst, and the most events that can be reserved at a time. */
#define WEFT_LIMITER_MAX (INT64_MAX / 2)

typedef struct weft_limiter weft_limiter;

/* Zero means default in every field but rate, which has none. */
typedef struct weft_limiter_options {
    int64_t rate;   /* events per period, from 1 to WEFT_LIMITER_MAX */
    int64_t period; /* in nanoseconds, at least 1; default WEFT_S */
    int64_t burst;  /* events that may happen at once, from 1 to WEFT_LIMITER_MAX; default 1 */
    uintptr_t reserved[5]; /* must be zero */
} weft_limiter_options;

/* Opens a limiter with `burst` events available. The options are copied.
 * Returns 0; -EINVAL if limiter or options is NULL, a field is out of its range or a reserved field
 * is set; -ENOMEM; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_limiter_open(weft_limiter **limiter,
                                             const weft_limiter_options *options);

/* Takes n events; waits for its turn if it has to. A fiber parks, a thread blocks.
 * Returns 0: the n events are the caller's. On an error nothing is taken:
 *   -EINVAL      limiter is NULL, n is below 1, or n is above the burst: so many are never
 *                available at once
 *   -ECANCELED   the caller's context (weft/context.h) is cancelled and the call would have to wait
 *   -ETIMEDOUT   the same, by a timeout; or the context's deadline comes before the turn, which is
 *                known at once; or the turn is beyond the range of the clock; or WEFT_LIMITER_MAX
 *                events are reserved
 *   -ECHILD      it would have to wait in a forked child
 * Contexts: fiber, thread.
 * Undefined: during or after weft_limiter_close. */
WEFT_API WEFT_MUST_USE int weft_limiter_take(weft_limiter *limiter, int64_t n);

/* Takes n events as weft_limiter_take does, if its turn comes no later than `deadline`. Events that
 * are available at the call are taken whatever the deadline; WEFT_NOW never waits.
 * Returns as weft_limiter_take. -ETIMEDOUT also if the turn is later than the deadline: at once if
 * that is so at the call; at the deadline at the latest if weft_limiter_set moves the turn during
 * the wait.
 * Contexts: fiber, thread.
 * Undefined: during or after weft_limiter_close. */
WEFT_API WEFT_MUST_USE int weft_limiter_take_until(weft_limiter *limiter, int64_t n,
                                                   int64_t deadline);

/* Takes n events if they are available now and not reserved by takes that wait. Never waits.
 * Returns 0: the n events are the caller's. On an error nothing is taken: -EAGAIN if it would have
 * to wait; -EINVAL if limiter is NULL, n is below 1, or n is above the burst.
 * Contexts: fiber, thread.
 * Undefined: during or after weft_limiter_close. */
WEFT_API WEFT_MUST_USE int weft_limiter_try_take(weft_limiter *limiter, int64_t n);

/* Changes the rate (per period, which stays) and the burst, from now on: what was gained so far was
 * gained at the old rate. Takes that wait keep their order and get new turns. Takes that wait for
 * more than the new burst are served all the same. What is available above the new burst is lost; a
 * larger burst is filled at the new rate.
 * Returns 0; -EINVAL if limiter is NULL, or rate or burst is below 1 or above WEFT_LIMITER_MAX:
 * nothing has changed then; -ECHILD in a forked child.
 * Contexts: fiber, thread.
 * Undefined: during or after weft_limiter_close. */
WEFT_API int weft_limiter_set(weft_limiter *limiter, int64_t rate, int64_t burst);

/* Frees the limiter; NULL is allowed. A limiter for which a take waits is reported, and the process
 * aborts.
 * Contexts: fiber, thread.
 * Undefined: any use during or after it. */
WEFT_API void weft_limiter_close(weft_limiter *limiter);

WEFT_END

#endif
