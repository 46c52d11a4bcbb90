/*
 * limiter.h: a rate limiter and its line, for limiter.c, its test, and pools that begin tasks at a
 * rate (pool/rate.c).
 */
#ifndef WEFT_SYNC_LIMITER_H
#define WEFT_SYNC_LIMITER_H

#include <stdbool.h>
#include <weft/limiter.h>

#include "sched/core/park.h"

/* A take in line; on the stack of the call that waits, in the stash of a compact fiber, or part of
 * a pool. */
struct take {
    struct take *next, *previous;
    struct waiter *waiter;
    int64_t events;
    int64_t wake_at; /* the deadline of its park */
    bool granted;    /* it has its events, and is out of the line */
    bool expelled;   /* it was taken out of the line */
    bool firm;       /* no context ends it */
};

struct weft_limiter {
    uint32_t latch; /* for everything below */
    int64_t rate, period, burst;
    int64_t level;    /* whole events that are there, reserved ones included */
    int64_t part;     /* a part of an event, in units of 1/period; from 0 to period - 1 */
    int64_t counted;  /* the time up to which level and part are counted */
    int64_t reserved; /* events that the takes in line have asked for */
    struct take *first, *last;
};

struct woken;

/* Takes of one event for an object with a lock of its own, which comes before the latch of the
 * limiter. The calls add waiters to `woken`; the caller wakes them when it holds no lock. */

/* Takes an event that is there and not reserved; false: there is none. */
bool weft__limiter_take_now(struct weft_limiter *limiter);
/* Returns an event that was taken to the bucket. */
void weft__limiter_give_back(struct weft_limiter *limiter, struct woken *woken);
/* Waits for an event. The lock of the object is held; `unlock` is called under the latch of the
 * limiter, before the take can be granted or expelled. A fiber must have entered the runtime.
 * Returns 0; -ECANCELED if the take was expelled; -EAGAIN if no event could be reserved: then the
 * caller tries again. */
int weft__limiter_await(struct weft_limiter *limiter, struct take *take, void (*unlock)(void *),
                        void *object);
/* Takes a take out of the line, if it is still in it: its weft__limiter_await returns -ECANCELED.
 * The lock of the object is held. */
void weft__limiter_expel(struct weft_limiter *limiter, struct take *take, struct woken *woken);

#endif
