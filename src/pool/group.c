/*
 * group.c: groups (sync/group.c) whose functions run as tasks of a pool.
 *
 * Each function is a task with a record that knows its group. A task that the pool drops leaves the
 * group as one that was cancelled.
 *
 * A worker of the pool that waits for the group lends its place (dispatch.c). While any does, the
 * first task of the group that has not begun is urgent; when it begins the next one is: so the
 * place goes to what is waited for, at a cost of O(1) a task. The places come back when the last
 * task of the group ends, before its worker looks for another and before the group knows. If a task
 * is added to the group in that moment, the places are lent again.
 */
#include "pool/group.h"

#include <errno.h>
#include <weft/task.h>

#include "base/assert.h"
#include "pool/admission.h"
#include "pool/context.h"
#include "pool/failure.h"
#include "pool/submit.h"
#include "pool/worker.h"
#include "sched/fiber/compact.h"
#include "sync/group.h"

struct pool_group {
    weft_pool *pool;
    const struct latch *tree; /* the pool's latch; the group may outlive the pool */
    struct group_line line;
};

/* A function of the group, as a task. */
struct member {
    struct task task;
    weft_group *group;
    weft_pool
        *pool; /* the function may leave the group, and the group be closed before it panics */
    int (*function)(void *);
};

static struct member *of(struct task *task)
{
    return container_of(task, struct member, task);
}

/* Under the latch. */

void weft__group_line_expedite(weft_pool *pool, struct group_line *group)
{
    if (group->waiting.first != NULL)
        weft__pool_expedite(pool, container_of(group->waiting.first, struct task, group_link));
}

static void return_places(struct pool_group *where)
{
    if (where->line.members == where->line.removed)
        weft__lenders_return(&where->line.lenders);
}

/* Tasks. */

static bool panicked(void *pool, struct panic *panic, int (*function)(void *), void *arg)
{
    weft__group_unwrap(&function, &arg);
    return weft__pool_tell_panic(pool, panic, (void (*)(void *))(uintptr_t)function, arg);
}

/* Under the latch: the task of the caller that is one of the group's leaves it, and goes on. */
static void forget_group(const struct group_line *group)
{
    struct caller_run *run = weft__caller_run();
    while (run != NULL && (run->record == NULL || run->record->group != group))
        run = run->outer;
    struct task *task = run != NULL ? run->record : weft__worker_self()->record;
    must(task->group == group);
    task->group = NULL;
}

/* A function of the group has ended; before the group is told, which may be gone then. */
static void ended(void *arg, enum group_end end)
{
    struct pool_group *where = arg;
    weft_pool *pool = where->pool;
    bool taken = end != GROUP_DROPPED && end != GROUP_LEFT;
    if (taken)
        weft__task_clean();
    latch_acquire(pool->latch);
    if (taken)
        weft__task_count_end(pool, weft__task_self(), end != GROUP_SKIPPED);
    if (end == GROUP_LEFT)
        forget_group(&where->line);
    pool->stats.failed += end == GROUP_FAILED;
    where->line.removed -= end == GROUP_DROPPED && where->line.removed > 0;
    where->line.members--;
    return_places(where);
    latch_release(pool->latch);
    if (end == GROUP_LEFT)
        weft__task_rebind(pool);
}

static void run(struct task *task)
{
    struct member *member = of(task);
    weft__worker_can_bind();
    weft__group_run(member->group, member->function, task->arg, panicked, member->pool);
}

/* Taken out of the queue, under the latch: those who wait for the group alone have their places
 * back at once. */
static void removed(weft_pool *pool, struct task *task)
{
    (void)pool;
    struct pool_group *where = container_of(task->group, struct pool_group, line);
    where->line.removed++;
    return_places(where);
}

static void dropped(weft_pool *pool, struct task *task)
{
    struct member *member = of(task);
    (void)pool;
    weft__group_dropped(member->group, member->function, task->arg);
}

static void crashed(weft_pool *pool, struct task *task, struct weft_fiber *gone,
                    struct panic *panic)
{
    struct member *member = of(task);
    weft__group_crashed(gone, panic, panicked(pool, panic, member->function, task->arg));
}

static weft_context *context_of(struct task *task)
{
    return task->group != NULL ? task->group->context : NULL;
}

static void release(struct task *task)
{
    weft__os_free(of(task));
}

static const struct task_kind member_kind = {.run = run,
                                             .remove = removed,
                                             .drop = dropped,
                                             .crash = crashed,
                                             .context = context_of,
                                             .release = release};

/* Under the latch: one more task; if some wait that have their places back, they lend them
 * again. */
static void add_member(struct pool_group *where)
{
    if (where->line.members++ == where->line.removed)
        weft__lenders_lend(where->pool, &where->line.lenders);
}

static int start(weft_group *group, int (*function)(void *), void *arg, bool wait)
{
    static const weft_submit_options none;
    struct pool_group *where = weft__group_where(group);
    weft_pool *pool = where->pool;
    struct offer offer;
    compact_check(arg, "the argument of a task", "have it in the heap");
    if (weft__bond_self() == NULL)
        return -ENOMEM; /* it may have to run it itself */
    struct member *member = weft__os_alloc_zeroed(sizeof *member);
    if (member == NULL)
        return -ENOMEM;
    member->group = group;
    member->pool = pool;
    member->function = function;
    weft__task_fill(&member->task, &member_kind, NULL, arg, &none);
    member->task.function = (void (*)(void *))(uintptr_t)function; /* a number to know it by */
    member->task.group = &where->line;
    weft__offer_fill(&offer, &member->task, &none);
    offer.tries = !wait;
    if (!wait)
        offer.deadline = WEFT_NOW;
    latch_acquire(pool->latch);
    add_member(where);
    latch_release(pool->latch);
    int error = weft__pool_offer(pool, &offer);
    if (error == 0)
        return 0;
    ended(where, GROUP_DROPPED);
    weft__os_free(member);
    return error;
}

/* Waiting. */

static void waiting(weft_group *group, int change)
{
    struct pool_group *where = weft__group_where(group);
    struct worker *worker = weft__pool_place(where->tree);
    struct errands errands = {.first = NULL};
    if (worker == NULL)
        return;
    weft_pool *own = worker->pool; /* with the same latch; the other may be gone if nothing runs */
    (void)runtime_enter(thread_self());
    latch_acquire(own->latch);
    bool none = where->line.members == where->line.removed;
    if (change < 0) {
        weft__lenders_leave(&where->line.lenders, worker);
    } else {
        weft__lenders_add(where->pool, &where->line.lenders, worker, &errands);
        if (none)
            weft__place_return(worker);
        weft__group_line_expedite(where->pool, &where->line);
        weft__lenders_call(none ? own : where->pool, worker, &errands);
    }
    weft__pool_unlatch(own, &errands);
    runtime_leave(thread_self());
}

static void cancelled(void *arg, int error)
{
    struct pool_group *where = arg;
    struct errands errands = {.first = NULL};
    bool fiber = enter_if_fiber();
    latch_acquire(where->pool->latch);
    weft__line_refuse_group(where->pool, &where->line, error, &errands);
    weft__pool_finish(where->pool, &errands, fiber);
}

static void closed(void *where)
{
    weft__os_free(where);
}

static const struct group_hooks hooks = {
    .start = start, .waiting = waiting, .ended = ended, .cancelled = cancelled, .closed = closed};

int weft_pool_group(weft_group **group, weft_pool *pool, const weft_group_options *options)
{
    if (pool == NULL)
        return -EINVAL;
    struct pool_group *where = weft__os_alloc_zeroed(sizeof *where);
    if (where == NULL)
        return -ENOMEM;
    where->pool = pool;
    where->tree = pool->latch;
    atomic_u32_store_relaxed(&pool->binds, 1);
    int error = weft__group_open(group, options, &hooks, where);
    if (error != 0)
        weft__os_free(where);
    else
        where->line.context = weft_group_context(*group);
    return error;
}
