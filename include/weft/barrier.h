/*
 * weft/barrier.h: barrier: nobody goes on before all have arrived, round after round.
 *
 *     weft_barrier barrier;
 *     weft_barrier_init(&barrier, 4);
 *     ...
 *     int last = weft_barrier_wait(&barrier);     // each of the four, in each round
 */
#ifndef WEFT_BARRIER_H
#define WEFT_BARRIER_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* At most so many may meet. */
#define WEFT_BARRIER_MAX INT32_MAX

/* The fields are weft's own. */
typedef struct weft_barrier {
    uint32_t latch;
    uint32_t leaving;
    uint32_t parties, arrived;
    void *waiters;
} weft_barrier;

/* Makes a barrier where `parties` meet.
 * Returns 0; -EINVAL if barrier is NULL or parties not between 1 and WEFT_BARRIER_MAX.
 * Contexts: fiber, thread. Undefined: while somebody uses it. */
WEFT_API WEFT_MUST_USE int weft_barrier_init(weft_barrier *barrier, int64_t parties);

/* Waits until all parties of this round have arrived. What each wrote before is visible to all after.
 * Returns 1 to one of each round and 0 to the others; -ECANCELED or -ETIMEDOUT if the fiber's
 * context has ended: then this call's arrival does not count; -EINVAL if barrier is NULL or was not
 * initialised; -ECHILD if it would have to wait in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_barrier_wait(weft_barrier *barrier);

/* The same with a deadline. Returns also -ETIMEDOUT: then, too, the arrival does not count. */
WEFT_API WEFT_MUST_USE int weft_barrier_wait_until(weft_barrier *barrier, int64_t deadline);

/* Ends its life; any party may do that when its wait has returned, if no other round will begin. One
 * that is waited for is reported and the process aborts. One that is simply not used any more need not
 * be destroyed, if no wait had a deadline or a context.
 * Contexts: fiber, thread. Undefined: a wait that begins after it. */
WEFT_API void weft_barrier_destroy(weft_barrier *barrier);

WEFT_END

#endif
