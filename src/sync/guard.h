/*
 * guard.h: the latch of an object of this floor, as a plain number in its public struct.
 *
 * Releasing it is the last touch of the object (os/latch.h).
 *
 * In a forked child it may be held by a thread that is not there any more. Nobody holds one for long:
 * so a child that waits in vain for a while takes it to be forgotten, and goes on.
 *
 * A fiber may take one outside the runtime. An operation that finds that it has to wake or to wait lets go,
 * enters the runtime, and begins again: so what needs neither does not pay for entering.
 */
#ifndef WEFT_SYNC_GUARD_H
#define WEFT_SYNC_GUARD_H

#include "os/latch.h"

void weft__guard_slow(struct latch *latch);

static inline struct latch *guard_of(uint32_t *guard)
{
    return (struct latch *)(void *)guard;
}

static inline void guard_acquire(uint32_t *guard)
{
    if (unlikely(!latch_try(guard_of(guard))))
        weft__guard_slow(guard_of(guard));
}

static inline void guard_release(uint32_t *guard)
{
    latch_release(guard_of(guard));
}

/* The same for weft__park. */
static inline void guard_release_parked(void *guard)
{
    guard_release(guard);
}

#endif
