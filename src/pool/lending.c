/*
 * lending.c: places that workers lend while they wait for tasks of their own pool.
 *
 * Problem. A task that waits for another task of its pool holds a place of the capacity. If all
 * places are held so, the awaited tasks never begin.
 *
 * Pattern. While a worker waits for a task or group of its pool, or of its tree of pools, its place
 * does not count: it is counted in `lent` instead, so another task may begin. The first of the
 * awaited tasks that is still in the queue goes before all other tasks (the urgent queue). When it
 * begins, the next awaited one moves up: O(1) for each task. That order is needed for correctness.
 * With capacity 1:
 *
 *     A locks M, waits for B                  its place is lent
 *     C wants M                               if C began in A's place, B would never begin
 *
 * The places come back when nothing is pending any more: the last awaited task has ended, or was
 * taken out of the queue. In both cases they are back before any worker can look for a task: the
 * worker of the ended task has not looked for its next one, and a task is taken out under the
 * latch. A waiter that is woken otherwise (deadline, context) takes its place back at once. It must
 * not wait for a place: it may hold a lock that the tasks in the places want. Then more than
 * `capacity` tasks may be active; inboxes are closed, and nothing begins until that is over.
 *
 * `pending` counts the tasks and has a bit that says whether a worker waits, so the end of a task
 * for which no worker waits takes no latch. A change between pending and not pending that finds
 * AWAITED_LENDERS takes the latch, and lends or returns the places by the count of that moment:
 *
 *     worker, under the latch                 the last task ends
 *     pending |= AWAITED_LENDERS              pending -= AWAITED_TASK
 *     was a task pending? then it lends       was a worker waiting? then latch, return its place
 *
 * A worker that has its place back before it is woken stays in `lenders`: if a task is added to the
 * group meanwhile, it lends again.
 *
 * Lock order: the pool's latch, which also guards all of struct awaited but `pending`.
 *
 * Rejected: running the awaited task in the waiter: docs/design/pool.md.
 */
#include "pool/lending.h"

#include "base/assert.h"
#include "pool/shard.h"

/* Under the latch. */

static bool is_pending(const struct awaited *awaited)
{
    return atomic_u64_load_relaxed(&awaited->pending) >= AWAITED_TASK;
}

/* Lends the worker's place to `to`, the pool of the awaited task: its own, or another one of the
 * tree (subpools.c). */
static void lend(const weft_pool *to, struct worker *worker)
{
    weft_pool *pool = worker->pool;
    if (worker->lends != LENDS_NOT)
        return;
    worker->lends = pool == to || pool->parent == NULL ? LENDS : LENDS_ACROSS;
    pool->lent++;
    pool->lent_across += worker->lends == LENDS_ACROSS;
    pool_take_places(pool, -1);
}

static void take_back(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    if (worker->lends == LENDS_NOT)
        return;
    pool->lent--;
    pool->lent_across -= worker->lends == LENDS_ACROSS;
    worker->lends = LENDS_NOT;
    pool_take_places(pool, 1);
    if (pool_busy(pool) > pool->capacity)
        weft__shards_close_inboxes(pool);
}

static void lend_all(const weft_pool *pool, struct awaited *awaited)
{
    for (struct link *link = awaited->lenders.first; link != NULL; link = link->next)
        lend(pool, worker_of(link));
}

static void take_back_all(struct awaited *awaited)
{
    for (struct link *link = awaited->lenders.first; link != NULL; link = link->next)
        take_back(worker_of(link));
}

static struct task *first_waiting(const struct awaited *awaited)
{
    struct link *first = awaited->waiting.first;
    return first != NULL ? container_of(first, struct task, awaited_link) : NULL;
}

void weft__awaited_put(struct awaited *awaited, struct task *task)
{
    line_add(&awaited->waiting, &task->awaited_link);
}

void weft__awaited_begin(struct awaited *awaited, struct task *task)
{
    line_leave(&awaited->waiting, &task->awaited_link);
}

void weft__awaited_removed(struct awaited *awaited)
{
    (void)atomic_u64_sub_seq_cst(&awaited->pending, AWAITED_TASK);
    if (!is_pending(awaited))
        take_back_all(awaited);
}

void weft__awaited_expedite(weft_pool *pool, struct awaited *awaited)
{
    struct task *first = awaited->lenders.length > 0 ? first_waiting(awaited) : NULL;
    if (first != NULL)
        weft__pool_expedite(pool, first);
}

/* Outside the latch. */

/* The first task has become pending, or the last is not any more, while workers wait. */
static noinline void rebalance(weft_pool *pool, struct awaited *awaited)
{
    latch_acquire(pool->latch);
    if (is_pending(awaited))
        lend_all(pool, awaited);
    else
        take_back_all(awaited);
    latch_release(pool->latch);
}

void weft__awaited_add(weft_pool *pool, struct awaited *awaited)
{
    if (atomic_u64_add_seq_cst(&awaited->pending, AWAITED_TASK) == AWAITED_LENDERS)
        rebalance(pool, awaited);
}

void weft__awaited_end(weft_pool *pool, struct awaited *awaited)
{
    if (atomic_u64_sub_seq_cst(&awaited->pending, AWAITED_TASK) == AWAITED_TASK + AWAITED_LENDERS)
        rebalance(pool, awaited);
}

void weft__lending_begin(weft_pool *pool, struct awaited *awaited, struct worker *worker)
{
    weft_pool *own = worker->pool;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    (void)runtime_enter(thread_self());
    latch_acquire(own->latch);
    weft__worker_block(worker, &wakes);
    line_add(&awaited->lenders, &worker->link); /* its link is free: it is blocked */
    bool pending = atomic_u64_or_seq_cst(&awaited->pending, AWAITED_LENDERS) >= AWAITED_TASK;
    if (pending) {
        lend(pool, worker);
        weft__awaited_expedite(pool, awaited);
        weft__pool_start_wanted(pool, &wakes, true);
    }
    if (!pending || pool != own)
        weft__pool_start_wanted(own, &wakes, true);
    weft__pool_unlatch(own, &wakes);
    runtime_leave(thread_self());
}

void weft__lending_end(weft_pool *pool, struct awaited *awaited, struct worker *worker)
{
    const weft_pool *own = worker->pool;
    latch_acquire(own->latch);
    struct task *first = first_waiting(awaited);
    if (first != NULL)
        weft__pool_expedite_no_more(pool, first);
    take_back(worker);
    line_leave(&awaited->lenders, &worker->link);
    if (awaited->lenders.length == 0)
        (void)atomic_u64_sub_seq_cst(&awaited->pending, AWAITED_LENDERS);
    latch_release(own->latch);
}
