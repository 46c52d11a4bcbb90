/*
 * limiter.h: a rate limiter and its line, for limiter.c, its test, and pools that begin tasks at a
 * rate (pool/rate.c).
 */
#ifndef WEFT_SYNC_LIMITER_H
#define WEFT_SYNC_LIMITER_H

#include <stdbool.h>
#include <weft/limiter.h>

#include "sched/core/park.h"

/* One take in line; on the stack of the call that waits, or part of a pool. */
struct take {
    struct take *next, *previous;
    struct waiter *waiter;
    int64_t events;
    int64_t wake_at; /* what its clock is set to */
    bool granted;    /* its events are its own, and it is out of the line */
    bool expelled;   /* it was taken out of the line */
    bool firm;       /* no context ends it */
};

struct weft_limiter {
    uint32_t latch; /* for everything below */
    int64_t rate, period, burst;
    int64_t level;    /* whole events there are, those that are reserved included */
    int64_t part;     /* a part of an event, in units of 1/period; from 0 to period - 1 */
    int64_t counted;  /* up to when level and part are counted */
    int64_t reserved; /* events that those in line have asked for */
    struct take *first, *last;
};

struct woken;

/* Takes of one event for an object with a lock of its own, which comes before that of the limiter.
 * What is to be woken is added to `woken`, and woken by the caller when it holds no lock. */

/* Takes an event that is there and not reserved; false: there is none. */
bool weft__limiter_take_now(struct weft_limiter *limiter);
/* Gives back an event that was taken. */
void weft__limiter_give_back(struct weft_limiter *limiter, struct woken *woken);
/* Waits for an event. With the lock of the object held; `unlock` is called when the take stands in
 * line. Inside the runtime. Returns 0; -ECANCELED if it was expelled; -EAGAIN if no event could be
 * reserved, and is to be tried again. */
int weft__limiter_await(struct weft_limiter *limiter, struct take *take, void (*unlock)(void *),
                        void *object);
/* Under the lock of the object: the take, if it is still in line, leaves it, and returns
 * -ECANCELED. */
void weft__limiter_expel(struct weft_limiter *limiter, struct take *take, struct woken *woken);

#endif
