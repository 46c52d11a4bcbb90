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
#ifndef WEFT_SYNC_OBJECT_LATCH_H
#define WEFT_SYNC_OBJECT_LATCH_H

#include "os/latch.h"

void weft__object_latch_slow(struct latch *latch);

static inline struct latch *object_latch_of(uint32_t *word)
{
    return (struct latch *)(void *)word;
}

static inline void object_latch_acquire(uint32_t *word)
{
    if (unlikely(!latch_try(object_latch_of(word))))
        weft__object_latch_slow(object_latch_of(word));
}

static inline void object_latch_release(uint32_t *word)
{
    latch_release(object_latch_of(word));
}

/* The same for weft__park. */
static inline void object_latch_unlock(void *word)
{
    object_latch_release(word);
}

#endif
