/*
 * latch.h: a lock for the objects of the upper floors: one word, held for some tens of nanoseconds.
 *
 * States: 0 free, 1 held. Zero-initialised is free. To take it is one atomic operation, to give it
 * back is a plain store, which is the last that its holder does to the object: so an object may be
 * freed by whoever takes the latch next. (os/lock.h needs a second operation to learn whether
 * somebody sleeps; with two per channel operation that is a quarter of its cost.)
 *
 * Who waits spins with capped back-off for about 2 us, then gives up its CPU in naps, since the
 * holder must have lost its own.
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
