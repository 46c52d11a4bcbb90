/*
 * object_latch.h: the latch of a primitive whose public struct holds it as a plain uint32_t.
 *
 * The word is a struct latch (os/latch.h): the release is the last access of its holder to the
 * object, so the next holder may free the object.
 *
 * A fiber may hold an object latch outside the runtime. The fast path of a primitive does. If it
 * finds that it has to wake or to wait, it releases the latch, enters the runtime, and starts over.
 * An operation that needs neither does not pay for entering.
 *
 * In a forked child the holder may be a thread that does not exist there. A latch is held for
 * nanoseconds; a child that has tried for some milliseconds takes it to be abandoned, and goes on
 * as its holder.
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

/* Releases the latch as the `unlock` of weft__park. */
static inline void object_latch_unlock(void *word)
{
    object_latch_release(word);
}

#endif
