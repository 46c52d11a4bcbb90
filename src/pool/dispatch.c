/*
 * dispatch.c: which worker is woken or made, and what follows from a change of the pool.
 *
 * Problem. A ready task needs a worker that looks for it. To wake a worker for each task costs more
 * than a short task, and more active workers than processors cannot run.
 *
 * Pattern. One rule: while a task is ready and a place is free, some worker has the duty to look
 * for tasks. Active workers have it. A worker whose task parks gives the duty up and is blocked
 * from then on; if tasks are ready, another worker is started, that is woken or made. A blocked
 * worker whose task ends takes the next task without the duty. So where tasks wait, a task costs
 * its worker the latch at most once.
 *
 * A worker is started only if it would have a processor at once, and only while fewer are active
 * than there are processors.
 *
 * What follows from a change (weft__pool_dispatch): submitters that fit are admitted, tokens that
 * no task needs are returned, a worker is started if one is wanted, and if nothing is left in the
 * pool the calls that wait for that are woken and a stopping pool is stopped.
 *
 * Deferred wakes. What cannot be done under the latch (wake a waiter, make a worker) is noted in
 * struct deferred_wakes and done when it is released. A worker that is to be made is counted before
 * that, so the pool does not stop meanwhile. If it cannot be made, and no worker is there to look,
 * making one is tried again whenever a fiber ends and every few milliseconds
 * (weft__starve_outside): an admitted task is not stuck. A submit to a pool without any worker
 * makes the first one before the task is admitted, and fails if it cannot (admission.c).
 */
#include "pool/dispatch.h"

#include "base/assert.h"
#include "pool/admission.h"
#include "pool/rate.h"
#include "pool/shard.h"
#include "pool/subpools.h"
#include "pool/worker.h"

/* Whether a worker is wanted; under the latch. */

int64_t weft__pool_actives(const weft_pool *pool)
{
    int64_t count = pool->active.length + pool->starting;
    if (likely(atomic_u32_load_relaxed(&weft__sched.lost) == 0))
        return count;
    for (struct worker *worker = worker_of(pool->active.first); worker != NULL;
         worker = worker_of(worker->link.next))
        count -= worker_lost(worker);
    return count;
}

bool weft__workers_suffice(const weft_pool *pool, bool dry)
{
    return weft__pool_actives(pool) > 0 && !dry &&
           atomic_u32_load_relaxed(&weft__sched.idle_count) == 0;
}

bool weft__pool_could_use_worker(const weft_pool *pool, int64_t stuck)
{
    return !pool->paused && !pool->rate.awaits &&
           (weft__pool_actives(pool) - stuck < processors_in_use() || pool_is_urgent(pool)) &&
           (atomic_i64_load_relaxed(&pool->ready) > pool->starting ||
            atomic_i64_load_relaxed(&pool->ready) + weft__inboxes_length(pool) > pool->starting);
}

bool weft__pool_wants_worker(const weft_pool *pool, int64_t stuck)
{
    return pool_has_place(pool) && weft__pool_could_use_worker(pool, stuck);
}

bool weft__pool_lacks_worker(const weft_pool *pool, bool dry)
{
    return !weft__workers_suffice(pool, dry) &&
           (pool->in_tree || weft__pool_wants_worker(pool, 0) || pool->workers == 0);
}

/* Claims an idle worker with what it is to do; NULL: there is none. */
static struct worker *claim_idle(weft_pool *pool, bool oldest, int what)
{
    struct worker *worker;
    while ((worker = worker_of(oldest ? pool->idle.first : pool->idle.last)) != NULL) {
        line_leave(&pool->idle, &worker->link);
        worker->state = WORKER_UNLISTED; /* even if its clock has claimed it */
        if (waiter_claim(&worker->fiber->waiter, what))
            return worker;
    }
    return NULL;
}

void weft__pool_count_new(weft_pool *pool)
{
    pool_add_starting(pool);
    pool->workers++;
    if (pool->workers > pool->stats.most_workers)
        pool->stats.most_workers = pool->workers;
}

bool weft__pool_start_worker(weft_pool *pool, struct deferred_wakes *wakes)
{
    struct worker *worker = claim_idle(pool, pool->options.reuse == WEFT_FIFO, WORKER_WORK);
    if (worker != NULL) {
        worker->state = WORKER_STARTING;
        pool_add_starting(pool);
        woken_add(&wakes->woken, &worker->fiber->waiter);
        return true;
    }
    if (pool->failing > 0 || wakes->make != NULL)
        return false;
    weft__pool_count_new(pool);
    wakes->make = pool;
    return true;
}

void weft__pool_start_wanted(weft_pool *pool, struct deferred_wakes *wakes, bool dry)
{
    if (unlikely(pool->in_tree))
        weft__tree_start_wanted(pool, wakes, dry);
    else if (!weft__workers_suffice(pool, dry) && weft__pool_wants_worker(pool, 0))
        (void)weft__pool_start_worker(pool, wakes);
}

bool weft__pool_end_oldest(weft_pool *pool, struct deferred_wakes *wakes)
{
    struct worker *worker = claim_idle(pool, true, WORKER_EXIT);
    if (worker != NULL)
        woken_add(&wakes->woken, &worker->fiber->waiter);
    return worker != NULL;
}

/* What follows from a change. */

static void wake_all(void **list, struct deferred_wakes *wakes)
{
    struct waiter *waiter;
    while ((waiter = waiters_claim_first(list, 0)) != NULL)
        woken_add(&wakes->woken, waiter);
}

/* If nothing is left in the pool: wakes the calls that wait for that, and stops a stopping pool. */
static void conclude(weft_pool *pool, struct deferred_wakes *wakes)
{
    if (!pool_is_quiet(pool))
        return;
    wake_all(&pool->quiet_waiters, wakes);
    if (pool->state != POOL_STOPPING || pool->kept)
        return;
    while (weft__pool_end_oldest(pool, wakes))
        continue;
    if (pool->workers > 0)
        return;
    pool->state = POOL_STOPPED;
    wake_all(&pool->stop_waiters, wakes);
}

void weft__pool_update_room(weft_pool *pool)
{
    if (unlikely(pool->room != NULL))
        atomic_u32_store_relaxed(pool->room, pool->in_flight < pool_limit(pool));
}

void weft__pool_dispatch(weft_pool *pool, struct deferred_wakes *wakes)
{
    weft__line_serve(pool, wakes);
    if (pool_has_rate(pool))
        weft__rate_return_tokens(pool, wakes);
    weft__pool_start_wanted(pool, wakes, false);
    conclude(pool, wakes);
    weft__pool_update_room(pool);
}

/* A worker that was counted could not be made. */
static noinline void uncount(weft_pool *pool)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    latch_acquire(pool->latch);
    pool->workers--;
    pool_drop_starting(pool);
    weft__outboxes_close(pool);
    bool lacks =
        pool->in_tree || (weft__pool_actives(pool) == 0 && weft__pool_wants_worker(pool, 0));
    conclude(pool, &wakes);
    weft__pool_unlatch(pool, &wakes);
    if (lacks)
        weft__starve_outside();
}

int weft__pool_make_counted(weft_pool *pool)
{
    int error = weft__worker_make(pool);
    if (unlikely(error != 0))
        uncount(pool);
    return error;
}

void weft__pool_unlatch(weft_pool *pool, struct deferred_wakes *wakes)
{
    latch_release(pool->latch); /* if no worker is to be made the pool may be gone now */
    weft__wakes_run(wakes);
}

void weft__wakes_run(struct deferred_wakes *wakes)
{
    for (struct waiter *waiter = wakes->woken.first, *next; waiter != NULL; waiter = next) {
        next = waiter->next;
        if (wait_kind_of(waiter) == &weft__wait_submit)
            weft__wake_behind(waiter);
        else
            weft__wake(waiter);
    }
    if (unlikely(wakes->make != NULL))
        (void)weft__pool_make_counted(wakes->make);
}

void weft__pool_finish(weft_pool *pool, struct deferred_wakes *wakes, bool fiber)
{
    weft__pool_dispatch(pool, wakes);
    weft__pool_unlatch(pool, wakes);
    leave_if_fiber(fiber);
}

void weft__pool_unpin(weft_pool *pool)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    if (weft__runtime_forked())
        return;
    bool fiber = enter_if_fiber();
    latch_acquire(pool->latch);
    pool->pins--;
    conclude(pool, &wakes);
    weft__pool_unlatch(pool, &wakes);
    leave_if_fiber(fiber);
}

int weft__pool_prestart(weft_pool *pool, int64_t count)
{
    int error = 0;
    for (int64_t i = 0; i < count && error == 0; i++) {
        bool fiber = enter_if_fiber();
        latch_acquire(pool->latch);
        weft__pool_count_new(pool);
        latch_release(pool->latch);
        error = weft__pool_make_counted(pool);
        leave_if_fiber(fiber);
    }
    return error;
}

/* Parking, and places. */

/* The task of a starting or active worker parks: the worker gives up the duty. */
static void block(weft_pool *pool, struct worker *worker)
{
    if (worker->state == WORKER_ACTIVE)
        line_leave(&pool->active, &worker->link);
    else
        pool->starting--;
    worker->state = WORKER_BLOCKED;
    pool->blocked++;
    weft__outboxes_close(pool);
}

/* The caller's processor has nothing else to run. */
static bool processor_is_dry(void)
{
    return !has_fibers(thread_self()->processor);
}

void weft__worker_block(struct worker *worker, struct deferred_wakes *wakes)
{
    weft_pool *pool = worker->pool;
    struct shard *shard = shard_here(pool);
    if (shard != NULL)
        weft__shard_collect(pool, shard);
    if (worker->state != WORKER_BLOCKED)
        block(pool, worker);
    worker->parked = true;
    worker->fiber->notify_park = false;
    weft__line_serve(pool, wakes);
}

void weft__worker_before_park(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    worker->parked = true;
    worker->fiber->notify_park = false;
    if (worker->state == WORKER_BLOCKED &&
        !atomic_u32_load_seq_cst(&pool->drain_request)) /* pairs with look_again: pool_internal.h */
        return;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    latch_acquire(pool->latch);
    weft__worker_block(worker, &wakes);
    weft__pool_start_wanted(pool, &wakes, processor_is_dry());
    weft__pool_update_room(pool);
    weft__pool_unlatch(pool, &wakes);
}

void weft__worker_notify_park(void)
{
    weft_fiber *fiber = weft_self();
    if (fiber != NULL && fiber->notify_park)
        weft__worker_before_park(fiber->object);
}
