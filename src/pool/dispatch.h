/*
 * dispatch.h: which worker is woken or made, and what follows from a change of the pool.
 */
#ifndef WEFT_POOL_DISPATCH_H
#define WEFT_POOL_DISPATCH_H

#include "pool/pool_internal.h"

/* What is done once the latch is released. */
struct deferred_wakes {
    struct woken woken; /* claimed waiters, to be woken */
    weft_pool *make;    /* a worker is to be made for this pool, and is counted; NULL: none */
};

/* The initializer of `wakes`. */
#define NO_WAKES(wakes)                         \
    {                                           \
        .woken = {.end = &(wakes).woken.first } \
    }

static inline bool wakes_any(const struct deferred_wakes *wakes)
{
    return wakes->woken.first != NULL || wakes->make != NULL;
}

/* The following under the latch. */

/* Sees to everything that follows from a change: submitters that fit are admitted, a worker is
 * called if one is wanted, a stopping pool in which nothing is left is stopped. */
void weft__pool_dispatch(weft_pool *pool, struct deferred_wakes *wakes);
/* Under the latch, after tasks were counted as ended: whether it has room, for weft_pools_pick. */
void weft__pool_update_room(weft_pool *pool);
/* Calls a worker if one is wanted. `dry`: the caller's processor is about to have nothing to
 * run. */
void weft__pool_start_wanted(weft_pool *pool, struct deferred_wakes *wakes, bool dry);
/* Wakes one or makes one; false: it cannot now. */
bool weft__pool_start_worker(weft_pool *pool, struct deferred_wakes *wakes);
/* Tasks are ready, and fewer workers are active than processors; so many of those are suspected
 * to be stuck. And: a place is free too. */
bool weft__pool_could_use_worker(const weft_pool *pool, int64_t stuck);
bool weft__pool_wants_worker(const weft_pool *pool, int64_t stuck);
/* Active workers that have a processor, as far as is known, and those that start. */
int64_t weft__pool_actives(const weft_pool *pool);
/* One more active worker would have no processor. */
bool weft__workers_suffice(const weft_pool *pool, bool dry);
/* A worker is to be called. */
bool weft__pool_lacks_worker(const weft_pool *pool, bool dry);
/* Ends the worker that is idle longest. */
bool weft__pool_end_oldest(weft_pool *pool, struct deferred_wakes *wakes);
/* A worker is about to be made. */
void weft__pool_count_new(weft_pool *pool);
/* The task of the worker waits: it is blocked from here on. */
void weft__worker_block(struct worker *worker, struct deferred_wakes *wakes);

/* Outside the latch: does what was deferred. A fiber must have entered the runtime. */
void weft__wakes_run(struct deferred_wakes *wakes);
/* Releases the latch and does what was deferred. A fiber must have entered the runtime. */
void weft__pool_unlatch(weft_pool *pool, struct deferred_wakes *wakes);
/* Settles, releases the latch, does what was deferred and leaves the runtime, if a fiber has entered
 * it. */
void weft__pool_finish(weft_pool *pool, struct deferred_wakes *wakes, bool fiber);
/* A call that kept the pool from stopping ends. */
void weft__pool_unpin(weft_pool *pool);
/* Makes a worker that weft__pool_count_new has counted: 0; or an error, and it is not counted any
 * more. */
int weft__pool_make_counted(weft_pool *pool);
/* Makes `count` workers that are idle until they are needed; 0 or an error. */
int weft__pool_prestart(weft_pool *pool, int64_t count);
/* The hook of the scheduler: the task of a worker is about to park. Inside the runtime. */
void weft__worker_before_park(struct worker *worker);
/* If the caller is a worker, its pool learns that its task is about to wait: for waits that park
 * with WAIT_NOTIFIED. Not under a pool's latch; a fiber must have entered the runtime. */
void weft__worker_notify_park(void);

#endif
