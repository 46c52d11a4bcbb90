/*
 * chan.h: what channels and select share: the state of a channel, and one attempt at an operation.
 */
#ifndef WEFT_SYNC_CHAN_H
#define WEFT_SYNC_CHAN_H

#include <weft/chan.h>
#include <weft/select.h>

#include "os/latch.h"

enum { CHAN_WAITS = 1 };

/* One who waits to send or to receive; on the stack of the call that waits. Under the channel's latch,
 * and after it is done, the winner's, until that wakes the waiter. */
struct chan_wait {
    struct chan_wait *next, *previous;
    struct chan_wait *sibling; /* the next in the ring of those of one select on one channel */
    struct chan_queue *queue;  /* where it is listed; NULL: nowhere */
    struct waiter *waiter;
    void *element;
    int result; /* of the operation: CHAN_WAITS until it is done */
};

/* First come, first served. `first` is looked at by others without the latch. */
struct chan_queue {
    atomic_ptr first;
    struct chan_wait *last;
};

/* Changed under the latch; what is atomic is looked at without it, to see whether it is worth taking. */
struct weft_chan {
    struct latch latch; /* first: what a park unlocks is the channel */
    atomic_u32 closed;
    atomic_u64 length;
    size_t element_size, capacity;
    size_t head; /* the oldest element, as an index */
    struct chan_queue senders, receivers;
    unsigned char buffer[];
};

/* Whether the operation could be done now: a guess without the latch. With it, `true` may still turn
 * out to be -EAGAIN, if all who wait on the other side have given up; `false` is sure. */
static inline bool chan_ready(const weft_chan *chan, int op)
{
    uint64_t length = atomic_u64_load_relaxed(&chan->length);
    bool possible =
        op == WEFT_SEND
            ? length < chan->capacity || atomic_ptr_load_relaxed(&chan->receivers.first) != NULL
            : length > 0 || atomic_ptr_load_relaxed(&chan->senders.first) != NULL;
    return possible || atomic_u32_load_relaxed(&chan->closed);
}

/* Tries the operation, under the latch. 0 or -ESHUTDOWN if it is done, -EAGAIN if it has to wait;
 * *wake is then somebody to be woken after the latch is released, or NULL. */
int weft__chan_attempt(weft_chan *chan, int op, void *element, struct waiter **wake);

/* Puts the wait in the line for the operation, or takes it out if it still stands there; under the
 * latch. */
void weft__chan_enlist(weft_chan *chan, int op, struct chan_wait *wait);
void weft__chan_delist(struct chan_wait *wait);

#endif
