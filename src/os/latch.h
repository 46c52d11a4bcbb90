/*
 * latch.h: a spin lock of one word for the objects of the upper floors.
 *
 * States: 0 free, 1 held. Zero-initialised is free. It is held for some tens of nanoseconds. An
 * acquire is one atomic operation, a release is a plain store, and that is the last access of the
 * holder to the object: so the next holder may free the object. (A release of os/lock.h needs a
 * second operation, to learn whether a thread sleeps; with two locks per channel operation that is
 * a quarter of its cost.)
 *
 * A waiter spins with capped back-off for about 4 us. The holder must have lost its CPU then, so
 * the waiter gives up its own: it sleeps for some microseconds at a time.
 */
#ifndef WEFT_OS_LATCH_H
#define WEFT_OS_LATCH_H

#include "base/atomic.h"
#include "base/compiler.h"

struct latch {
    atomic_u32 held;
};

void weft__latch_slow(struct latch *latch);

static inline bool latch_try(struct latch *latch)
{
    uint32_t free = 0;
    return atomic_u32_cas_acquire(&latch->held, &free, 1); /* pairs with latch_release */
}

static inline void latch_acquire(struct latch *latch)
{
    if (unlikely(!latch_try(latch)))
        weft__latch_slow(latch);
}

static inline void latch_release(struct latch *latch)
{
    atomic_u32_store_release(&latch->held, 0);
}

#endif
