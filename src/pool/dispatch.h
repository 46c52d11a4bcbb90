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

/* Under the latch: what follows from a change. */

/* Does all that follows from a change: submitters that fit are admitted, a worker is started if one
 * is wanted, a stopping pool in which nothing is left is stopped. */
void weft__pool_dispatch(weft_pool *pool, struct deferred_wakes *wakes);
/* After tasks were counted as ended: updates the hint that the pool has room (weft_pools_pick). */
void weft__pool_update_room(weft_pool *pool);
/* Starts a worker if one is wanted. `dry`: the caller's processor is about to have nothing to
 * run. */
void weft__pool_start_wanted(weft_pool *pool, struct deferred_wakes *wakes, bool dry);
/* Wakes an idle worker or makes one; false: neither is possible now. */
bool weft__pool_start_worker(weft_pool *pool, struct deferred_wakes *wakes);
/* Counts a worker that is about to be made. */
void weft__pool_count_new(weft_pool *pool);
/* Ends the worker that is idle longest; false: none is idle. */
bool weft__pool_end_oldest(weft_pool *pool, struct deferred_wakes *wakes);
/* The task of the worker is about to park. What the processor has ended is collected, submitters
 * that fit are admitted, and the worker is blocked. */
void weft__worker_block(struct worker *worker, struct deferred_wakes *wakes);

/* Under the latch: whether a worker is wanted. */

/* Active workers that have a processor, as far as is known, and workers that start. */
int64_t weft__pool_actives(const weft_pool *pool);
/* Tasks are ready, and fewer workers are active than there are processors. `stuck`: as many of the
 * active ones seem to be stuck, and do not count. */
bool weft__pool_could_use_worker(const weft_pool *pool, int64_t stuck);
/* weft__pool_could_use_worker, and a place is free. */
bool weft__pool_wants_worker(const weft_pool *pool, int64_t stuck);
/* One more active worker would have no processor. */
bool weft__workers_suffice(const weft_pool *pool, bool dry);
/* A worker is to be started for the next task, or may have to be. */
bool weft__pool_lacks_worker(const weft_pool *pool, bool dry);

/* Outside the latch. A fiber must have entered the runtime where deferred wakes are done. */

/* Does the deferred wakes. */
void weft__wakes_run(struct deferred_wakes *wakes);
/* Releases the latch and does the deferred wakes. */
void weft__pool_unlatch(weft_pool *pool, struct deferred_wakes *wakes);
/* Dispatches, releases the latch, does the deferred wakes, and leaves the runtime if `fiber`. */
void weft__pool_finish(weft_pool *pool, struct deferred_wakes *wakes, bool fiber);
/* The end of a call that has pinned the pool. */
void weft__pool_unpin(weft_pool *pool);
/* Makes a worker that weft__pool_count_new has counted: 0; or an error, and it is not counted any
 * more. */
int weft__pool_make_counted(weft_pool *pool);
/* Makes `count` workers, which are idle until they are needed: 0 or an error. */
int weft__pool_prestart(weft_pool *pool, int64_t count);
/* The hook of the scheduler: the task of a worker is about to park. Inside the runtime. */
void weft__worker_before_park(struct worker *worker);
/* For a call that parks with WAIT_NOTIFIED: if the caller is a worker, notifies its pool that its
 * task is about to park. Not under a pool's latch; a fiber must have entered the runtime. */
void weft__worker_notify_park(void);

#endif
