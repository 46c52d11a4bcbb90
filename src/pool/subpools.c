/*
 * subpools.c: pools that share the capacity of a parent: weft_pool_options.parent.
 *
 * Problem. A task of a sub-pool needs a place of its pool and one of the parent. No pool may keep
 * another one out, and tasks that wait for tasks of another pool of the tree must not hang.
 *
 * Pattern. A parent, the root, and its sub-pools are a tree of two levels. Each pool of it has its
 * own workers, queue, line of submitters, policies and figures. What they share:
 *
 *   latch      all pools of a tree have the root's. So a place is taken from a sub-pool and from
 *              the root in one hold of it, and a worker can wait for a task of any of them
 *   places     a worker of a sub-pool that holds a place of its pool holds one of the root too:
 *              `below` of the root counts them. pool_take_places is called wherever
 *              active + starting + blocked - lent of a sub-pool changes
 *   begin      a task of a sub-pool begins while both are within their capacity, and neither is
 *              paused
 *
 * All tasks of a tree are taken one by one under the latch (`singly`: no inboxes, no outboxes), so
 * at each end of a task its place may go to another pool.
 *
 * Turns. A pool that wants a worker, and has a place of its own, asks: it stands in the root's line
 * of pools that ask, once. When the tree has a place, the call that holds the latch gives it to the
 * first in line: it wakes or makes a worker of that pool, which is `starting` from then on. If the
 * pool wants another worker it asks again, at the end of the line. A worker whose task has ended
 * looks at that line before its own queue:
 *
 *     no pool asks                     it goes on with its own pool
 *     its own pool is first            that was its turn: it goes on, the pool asks again
 *     another pool is first            it gives its place up, its pool asks, the first is served
 *
 * So each pool that has tasks ready gets a place in turn, the root too.
 *
 *   turns      a task begins only in a place that its pool was given by serving the line
 *              (`granted`, until the worker has looked), that its worker held before, or for which
 *              no other pool asks. A worker that was made otherwise (the first of a pool, prestart,
 *              after a crash) counts as starting, and has no claim
 *   progress   if a pool wants a worker, has a place of its own, and the tree has a place and is
 *              not paused, then some worker of the tree is starting or about to be made, or the
 *              pool has an active one. Each of them starts a wanted worker (dispatch.c) when it has
 *              looked, and that serves the line
 *
 * A pool in line that does not want a place any more (cancel, pause, abort) is passed over. While
 * the root is paused no pool is served: they stay in line, and the resume serves them.
 *
 * Urgent tasks. A worker that waits for a task or group of its tree lends its place in its pool and
 * in the root. The awaited task is urgent in its pool (queue.h), and goes before all pools that
 * ask, in the same hold of the latch in which the place becomes free. That holds even if its pool
 * has as many active workers as there are processors: otherwise the place would go to another pool,
 * whose task might want a lock that the waiter holds. Of several urgent tasks, in any pools, the
 * one that became urgent last is first, as in the queue of one pool: it is the end of a chain of
 * waits, or has the place of its own waiter. A worker whose task has ended looks for urgent tasks
 * of other pools too, before it takes a task of its own.
 *
 * In the root the place comes back from the task that is waited for. If that is in another
 * sub-pool, or in the root, no task gives a place of the waiter's pool back. So that place is lent
 * to urgent tasks only (LENDS_ACROSS: it counts as taken while none is ready). Sub-pool S of
 * capacity 1:
 *
 *     A of S locks M, waits for B of the root
 *     C of S wants M                           may not begin: it would keep the only place of S
 *     B starts D in S, waits for it            D is urgent: it begins in A's place
 *
 * Lifetimes. The root outlives its sub-pools: it cannot be closed while it has any. A handle or
 * group may outlive its pool, so it has the address of the latch beside that of the pool: a worker
 * of a pool with the same latch keeps the latch alive, and under it sees whether the other pool
 * still exists.
 *
 * Rejected: a latch for each pool, held child before parent: lending needs both pools, that of the
 * awaited task and, to serve the line, every other one that asks. Trees of more levels: the first
 * in line could be kept from its turn by a pool between, and taking a place would walk the line.
 * Workers that run tasks of all pools of the tree: their state, stacks and contexts are their
 * pool's.
 */
#include "pool/subpools.h"

#include <errno.h>

#include "pool/pool.h"
#include "pool/worker.h"

static weft_pool *root_of(weft_pool *pool)
{
    return pool->parent != NULL ? pool->parent : pool;
}

/* The lines. Under the latch. */

static void leave_line(weft_pool *root, weft_pool *pool)
{
    if (pool->asks)
        line_leave(&root->asking, &pool->ask_link);
    pool->asks = false;
}

static void leave_urgents(weft_pool *root, weft_pool *pool)
{
    if (pool->urgent)
        line_leave(&root->urgents, &pool->urgent_link);
    pool->urgent = false;
}

static void enter_urgents(weft_pool *root, weft_pool *pool)
{
    if (!pool->urgent)
        line_add(&root->urgents, &pool->urgent_link);
    pool->urgent = true;
}

void weft__tree_note_urgent(weft_pool *pool, struct task *task)
{
    weft_pool *root = root_of(pool);
    task->order = ++root->urgent_order;
    enter_urgents(root, pool);
}

/* The pool wants a worker, if the tree has a place for it. */
static bool wants_place(const weft_pool *pool)
{
    return (pool->parent == NULL || pool_busy(pool) < pool->capacity) &&
           (pool->failing == 0 || pool->idle.length > 0) && weft__pool_could_use_worker(pool, 0);
}

static void ask_if_need_be(weft_pool *root, weft_pool *pool, bool dry)
{
    if (pool->asks || !wants_place(pool) || weft__workers_suffice(pool, dry))
        return;
    line_add(&root->asking, &pool->ask_link);
    pool->asks = true;
}

/* The number of the first urgent task of the pool, by the order in which tasks became urgent. */
static uint64_t urgency(const weft_pool *pool)
{
    return task_of(pool->queues[URGENT].tasks.first)->order;
}

/* Of the urgent tasks that may begin if the tree has a place: the pool of the one that became
 * urgent last; `holder` has a place of its own in any case. NULL: there is no such task. */
static weft_pool *first_urgent(weft_pool *root, const weft_pool *holder)
{
    weft_pool *best = NULL;
    for (struct link *link = root->urgents.first, *next; link != NULL; link = next) {
        weft_pool *pool = container_of(link, weft_pool, urgent_link);
        next = link->next;
        if (pool->queues[URGENT].length == 0)
            leave_urgents(root, pool);
        else if (pool_is_urgent(pool) &&
                 (pool == holder ? weft__pool_could_use_worker(pool, 0) : wants_place(pool)) &&
                 (best == NULL || urgency(pool) > urgency(best)))
            best = pool;
    }
    return best;
}

/* The first pool in line that still wants a place; NULL: none does. */
static weft_pool *first_asking(weft_pool *root)
{
    struct link *first;
    while ((first = root->asking.first) != NULL) {
        weft_pool *pool = container_of(first, weft_pool, ask_link);
        if (wants_place(pool))
            return pool;
        leave_line(root, pool);
    }
    return NULL;
}

static void serve(weft_pool *root, struct deferred_wakes *wakes)
{
    while (!pool_rests(root) && pool_busy(root) < root->capacity) {
        weft_pool *urgent = first_urgent(root, NULL);
        weft_pool *first = urgent != NULL ? urgent : first_asking(root);
        if (first == NULL)
            return;
        if (!weft__pool_start_worker(first, wakes)) {
            if (wakes->make != NULL)
                return; /* the worker that is about to be made serves the others */
            continue;   /* its idle workers have expired, and none is made: it wants no place now */
        }
        if (urgent == NULL)
            leave_line(root, first);
        first->granted++;
        ask_if_need_be(root, first, false);
    }
}

void weft__tree_start_wanted(weft_pool *pool, struct deferred_wakes *wakes, bool dry)
{
    weft_pool *root = root_of(pool);
    ask_if_need_be(root, pool, dry);
    serve(root, wakes);
}

bool weft__tree_passes_on(weft_pool *pool, struct worker *worker)
{
    weft_pool *root = root_of(pool);
    if (worker->state == WORKER_STARTING) {
        bool granted = pool->granted > 0;
        pool->granted -= granted;
        weft__worker_unlist(pool, worker);
        if (granted)
            return false; /* the place is free, and the worker takes it */
    }
    bool holds = worker->state != WORKER_UNLISTED;
    if (pool_rests(root) || !(holds ? pool_may_begin(pool) : pool_has_place(pool)))
        return false; /* nothing begins here in any case */
    const weft_pool *urgent = first_urgent(root, pool);
    const weft_pool *first = urgent != NULL ? urgent : first_asking(root);
    if (first == pool && urgent == NULL)
        leave_line(root, pool);
    if (first == NULL || first == pool)
        return false;
    weft__worker_unlist(pool, worker);
    return true;
}

/* Joining and leaving. */

/* Under the latch of the parent, whose inboxes and outboxes are closed. */
static int join(weft_pool *parent, void *pool)
{
    if (parent->state != POOL_OPEN || pool_has_ended(parent))
        return -ESHUTDOWN;
    parent->children++;
    if (parent->queues[URGENT].length > 0)
        enter_urgents(parent, parent);
    parent->in_tree = ((weft_pool *)pool)->in_tree = true;
    parent->singly = ((weft_pool *)pool)->singly = true;
    return 0;
}

static int leave(weft_pool *parent, void *pool)
{
    leave_line(parent, pool);
    leave_urgents(parent, pool);
    if (--parent->children > 0)
        return 0;
    leave_line(parent, parent);
    leave_urgents(parent, parent);
    parent->in_tree = false;
    parent->singly = parent->rate.limiter != NULL;
    return 0;
}

int weft__tree_join(weft_pool *pool)
{
    return pool->parent != NULL ? weft__pool_change(pool->parent, join, pool) : 0;
}

void weft__tree_leave(weft_pool *pool)
{
    if (pool->parent != NULL)
        (void)weft__pool_change(pool->parent, leave, pool);
}

bool weft__tree_has_children(weft_pool *pool)
{
    latch_acquire(pool->latch);
    bool has = pool->children > 0;
    latch_release(pool->latch);
    return has;
}
