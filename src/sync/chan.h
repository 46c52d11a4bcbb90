/*
 * chan.h: the state of a channel, and one attempt at an operation: what chan.c and select.c share.
 */
#ifndef WEFT_SYNC_CHAN_H
#define WEFT_SYNC_CHAN_H

#include <weft/chan.h>
#include <weft/select.h>

#include "os/latch.h"

enum { CHAN_WAITS = 1 };

/* A wait to send or to receive; on the stack of its call, or for a compact fiber in the stash.
 * Accessed under the channel's latch; from the claim to the wake, by the party that claimed it. */
struct chan_wait {
    struct chan_wait *next, *previous;
    struct chan_wait *sibling; /* the ring of the waits of one select on one channel */
    struct chan_queue *queue;  /* the line that it is in; NULL: none */
    struct waiter *waiter;
    void *element;
    int result; /* of the operation: CHAN_WAITS until it is done */
};

/* A line: first come, first served. `first` is also read without the latch. */
struct chan_queue {
    atomic_ptr first;
    struct chan_wait *last;
};

/* Changed under the latch. The atomic fields are also read without it, to see whether an operation
 * is worth the latch. */
struct weft_chan {
    struct latch latch; /* first: what a park unlocks is the channel */
    atomic_u32 closed;
    atomic_u64 length;
    size_t element_size, capacity;
    size_t head; /* the oldest element, as an index */
    struct chan_queue senders, receivers;
    unsigned char buffer[];
};

/* Whether the operation could be done now, without the latch. `true` is a guess: under the latch
 * the operation may find that all waits of the other side have given up, and return -EAGAIN.
 * `false` is certain. */
static inline bool chan_ready(const weft_chan *chan, int op)
{
    uint64_t length = atomic_u64_load_relaxed(&chan->length);
    bool possible =
        op == WEFT_SEND
            ? length < chan->capacity || atomic_ptr_load_relaxed(&chan->receivers.first) != NULL
            : length > 0 || atomic_ptr_load_relaxed(&chan->senders.first) != NULL;
    return possible || atomic_u32_load_relaxed(&chan->closed);
}

/* Attempts an operation, under the latch. Returns 0 or -ESHUTDOWN if it is done, -EAGAIN if it has
 * to wait. Sets *wake to a waiter that is to be woken after the latch is released, or NULL. */
int weft__chan_attempt(weft_chan *chan, int op, void *element, struct waiter **wake);

/* Adds a wait to the end of the line for its operation; under the latch. */
void weft__chan_enlist(weft_chan *chan, int op, struct chan_wait *wait);
/* Takes a wait out of its line, if it is in one; under the latch. */
void weft__chan_delist(struct chan_wait *wait);

#endif
