/*
 * group.c: groups (sync/group.c) whose functions run as tasks of a pool.
 *
 * Each function is a task with a record that has a pointer to its group. A task that the pool drops
 * leaves the group as a cancelled one.
 *
 * A worker of the pool that waits for the group lends its place as long as tasks of the group are
 * pending (lending.c). A task is pending from before it is offered to the pool: while its submitter
 * waits for room in the pool, the lent place lets other tasks end, and so makes room.
 */
#include <errno.h>
#include <weft/task.h>

#include "base/assert.h"
#include "pool/admission.h"
#include "pool/context.h"
#include "pool/failure.h"
#include "pool/lending.h"
#include "pool/submit.h"
#include "pool/worker.h"
#include "sched/fiber/compact.h"
#include "sync/group.h"

struct pool_group {
    weft_pool *pool;
    const struct latch *tree; /* the pool's latch; the group may outlive the pool */
    struct awaited awaited;
};

/* A function of the group, as a task. */
struct member {
    struct task task;
    weft_group *group;
    weft_pool *pool; /* the function may leave the group, which may be gone when it panics */
    int (*function)(void *);
};

static struct member *of(struct task *task)
{
    return container_of(task, struct member, task);
}

/* Tasks. */

static bool panicked(void *pool, struct panic *panic, int (*function)(void *), void *arg)
{
    weft__group_unwrap(&function, &arg);
    return weft__pool_notify_panic(pool, panic, (void (*)(void *))(uintptr_t)function, arg);
}

/* Under the latch: the caller's task that is in the group leaves it, and goes on. */
static void forget_group(struct pool_group *where)
{
    struct caller_run *run = weft__caller_run();
    while (run != NULL && (run->record == NULL || run->record->awaited != &where->awaited))
        run = run->outer;
    struct task *task = run != NULL ? run->record : weft__worker_self()->record;
    must(task->awaited == &where->awaited);
    running_leave(where->pool, task);
    task->awaited = NULL;
    task->context = NULL;
}

static void leave_group(struct pool_group *where)
{
    latch_acquire(where->pool->latch);
    forget_group(where);
    latch_release(where->pool->latch);
    weft__task_rebind(where->pool);
}

/* A function of the group has ended, and the group, which may be gone after that, does not know
 * yet. A dropped one is not pending any more. */
static void ended(void *arg, enum group_end end)
{
    struct pool_group *where = arg;
    weft_pool *pool = where->pool;
    if (end == GROUP_DROPPED)
        return;
    if (end != GROUP_LEFT) {
        weft__task_clean();
        weft__task_count_end(pool, weft__task_self(), end != GROUP_SKIPPED, end == GROUP_FAILED);
    }
    weft__awaited_end(pool, &where->awaited);
    if (end == GROUP_LEFT)
        leave_group(where);
}

static void run(struct task *task)
{
    struct member *member = of(task);
    weft__worker_can_bind();
    weft__group_run(member->group, member->function, task->arg, panicked, member->pool);
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

static void release(struct task *task)
{
    weft__os_free(of(task));
}

static const struct task_kind member_kind = {
    .run = run, .drop = dropped, .crash = crashed, .release = release};

static int start(weft_group *group, int (*function)(void *), void *arg, bool wait)
{
    static const weft_submit_options none;
    struct pool_group *where = weft__group_executor(group);
    weft_pool *pool = where->pool;
    struct offer offer;
    compact_check(arg, "the argument of a task", "have it in the heap");
    if (weft__bond_self() == NULL)
        return -ENOMEM; /* the caller may have to run the task */
    struct member *member = weft__os_alloc_zeroed(sizeof *member);
    if (member == NULL)
        return -ENOMEM;
    member->group = group;
    member->pool = pool;
    member->function = function;
    weft__task_fill(&member->task, &member_kind, NULL, arg, &none);
    member->task.function = (void (*)(void *))(uintptr_t)function; /* a number to know it by */
    member->task.awaited = &where->awaited;
    member->task.context = weft_group_context(group);
    weft__offer_fill(&offer, &member->task, &none);
    offer.tries = !wait;
    if (!wait)
        offer.deadline = WEFT_NOW;
    weft__awaited_add(pool, &where->awaited);
    int error = weft__pool_offer(pool, &offer);
    if (error == 0)
        return 0;
    weft__awaited_end(pool, &where->awaited);
    weft__os_free(member);
    return error;
}

/* Waiting. */

static void waiting(weft_group *group, int change)
{
    struct pool_group *where = weft__group_executor(group);
    struct worker *worker = weft__pool_place(where->tree);
    if (worker == NULL)
        return;
    if (change > 0)
        weft__lending_begin(where->pool, &where->awaited, worker);
    else
        weft__lending_end(where->pool, &where->awaited, worker);
}

static void cancelled(void *arg, int error)
{
    struct pool_group *where = arg;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    bool fiber = enter_if_fiber();
    latch_acquire(where->pool->latch);
    weft__line_refuse_group(where->pool, &where->awaited, error, &wakes);
    weft__pool_finish(where->pool, &wakes, fiber);
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
    where->awaited.refuses = true;
    atomic_u32_store_relaxed(&pool->binds, 1);
    int error = weft__group_open(group, options, &hooks, where);
    if (error != 0)
        weft__os_free(where);
    return error;
}
