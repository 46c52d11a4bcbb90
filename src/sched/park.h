/*
 * park.h: how anything waits. Built so that every primitive of the upper floors is a lock, a list
 * of waiters, and three calls.
 *
 *     lock object
 *     waiter = weft__waiter_begin(&own)   the running fiber's, or on a thread, own
 *     put waiter in the object's list
 *     result = weft__park(waiter, unlock, object, deadline)
 *     if (result == -ETIMEDOUT)           lost to the clock: it is still in the list
 *         lock object; take waiter out; unlock
 *
 *     lock object                         and the other side
 *     take a waiter out of the list
 *     won = waiter_claim(waiter, 0)
 *     unlock object
 *     if (won)
 *         weft__wake(waiter)
 *
 * Invariants:
 *  - A waiter is in WAITING from weft__waiter_begin until exactly one party claims it: the object's
 *    waker, or the clock. The winner, and only it, wakes it.
 *  - A waiter is claimed only under the lock of the object whose list it is in (or by the clock,
 *    under the lock of the wheel). One that lost to the clock takes the object's lock before it
 *    returns. So nobody holds a pointer to a waiter that has moved on to its next wait.
 *  - `unlock` runs after the fiber's context is saved, on the machine's stack: whoever can find the
 *    waiter can also run it.
 *
 * A fiber's waiter is part of its record, never on its stack: a fiber waits for one thing at a
 * time. A thread's is a local variable of the call that waits, so that waiting needs no memory and
 * cannot fail.
 */
#ifndef WEFT_SCHED_PARK_H
#define WEFT_SCHED_PARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

enum waiter_state {
    WAITER_WAITING = 1,
    WAITER_CLAIMED, /* won by somebody, who will wake it */
    WAITER_WOKEN,   /* threads only: what the futex waits for */
};

struct waiter {
    struct waiter *next, *previous; /* the object's */
    atomic_u32 state;
    int16_t result; /* what the park returns; the winner's */
    bool is_fiber;  /* part of a fiber, else of a foreign thread */
};

/* The waiter of the caller, ready to be put in a list: `own` if the caller is a thread. */
struct waiter *weft__waiter_begin(struct waiter *own);

/* Parks the caller until it is woken or the deadline has passed. `unlock` may be NULL. Returns the
 * winner's result, or -ETIMEDOUT. Must follow the weft__waiter_begin that gave `waiter`; a fiber
 * must have entered the runtime. */
int weft__park(struct waiter *waiter, void (*unlock)(void *object), void *object, int64_t deadline);

static inline bool waiter_claim(struct waiter *waiter, int result)
{
    uint32_t waiting = WAITER_WAITING;
    /* Pairs with the winner's: only one cas succeeds; what it read before is ordered after the
     * begin. */
    if (!atomic_u32_cas_acq_rel(&waiter->state, &waiting, WAITER_CLAIMED))
        return false;
    waiter->result = (int16_t)result;
    return true;
}

/* Wakes a waiter that the caller has claimed. A fiber must have entered the runtime. */
void weft__wake(struct waiter *waiter);

#endif
