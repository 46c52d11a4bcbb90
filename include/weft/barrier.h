/*
 * weft/barrier.h: barrier: a number of parties wait for each other, round after round.
 *
 *     weft_barrier barrier;
 *     if (weft_barrier_init(&barrier, 4) != 0)
 *         return 1;
 *     ...
 *     int last = weft_barrier_wait(&barrier);     // each of the four, in each round
 */
#ifndef WEFT_BARRIER_H
#define WEFT_BARRIER_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* The largest number of parties. */
#define WEFT_BARRIER_MAX INT32_MAX

/* The fields are weft's own. */
typedef struct weft_barrier {
    uint32_t latch;
    uint32_t leaving;
    uint32_t parties, arrived;
    void *waiters;
} weft_barrier;

/* Makes a barrier for `parties` parties.
 * Returns 0; -EINVAL if barrier is NULL or parties not between 1 and WEFT_BARRIER_MAX.
 * Contexts: fiber, thread.
 * Undefined: while the barrier is in use. */
WEFT_API WEFT_MUST_USE int weft_barrier_init(weft_barrier *barrier, int64_t parties);

/* Waits until all parties of this round have arrived. What each of them wrote before is visible to
 * all of them after it. The next round begins at once.
 * Returns 1 to one party of each round and 0 to the others; -ECANCELED or -ETIMEDOUT if the
 * caller's context is cancelled first: then this arrival does not count; -EINVAL if barrier is
 * NULL, or zero-initialised and not made by weft_barrier_init; -ECHILD if it would have to wait in
 * a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_barrier_wait(weft_barrier *barrier);

/* Waits until all parties of this round have arrived, at most until `deadline`. WEFT_NOW never
 * waits: it succeeds only for the last party of a round.
 * Returns as weft_barrier_wait; -ETIMEDOUT also if the deadline has passed: then this arrival does
 * not count.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_barrier_wait_until(weft_barrier *barrier, int64_t deadline);

/* Ends the life of a barrier. A party may call it as soon as its own wait has returned, if no other
 * round will begin; it then waits for parties whose deadline or context ended their wait at the
 * same moment. A NULL, and a barrier that is waited for, are reported, and the process aborts. A
 * barrier without waits that can be ended so need not be destroyed: it holds no memory.
 * Contexts: fiber, thread.
 * Undefined: a wait that begins after it. */
WEFT_API void weft_barrier_destroy(weft_barrier *barrier);

WEFT_END

#endif
