/*
 * context.c: contexts of a whole pool: cancelling what runs, a context that ends the pool, pauses
 * that end with a context.
 *
 * The pool's context. A pool that is opened with a context, or as cancellable, has a context of its
 * own. Workers are bound to it, so each plain task is. A task with a handle or of a group is bound
 * to another one, which may be anywhere in the program's tree of contexts. So while it runs its
 * record stands in the pool's line `running`, from the hold of the latch in which it begins to the
 * one in which it is counted as ended.
 *
 * weft_pool_cancel puts a new context in place of the pool's, and cancels the old one and those of
 * all in the line:
 *
 *     cancel, under the latch            worker
 *     context = a new one                takes a task, perhaps without the latch
 *     those in the line have begun       is it bound to another context? then it binds itself again
 *     then: cancels the old one          calls the task
 *
 * A task that is submitted after a cancel has returned is taken after the context has changed, so
 * its worker is bound to the new one. A worker has a reference to the context that it is bound to,
 * so an old context cannot come back under the same address.
 *
 * Ties. If the pool depends on a context of the program, that context has a child that belongs to
 * the pool, and the child owns a block (weft__context_own): the tie. It is a block of its own
 * because a cancellation may be on its way to it when the pool is closed. The latch of the tie
 * guards its `pool`, which is NULL once the pool is not to be notified any more. A cancellation
 * that finds the pool there may use it while it holds the tie's latch, and longer if it pins it; a
 * stopped pool has no pins, and nothing would have to be done.
 *
 *     the context of the options    in one hold of the latch: nothing begins any more, admission
 *                                   ends, also for the pool's own tasks, and submitters in line
 *                                   are refused. Then what runs is cancelled, schedules end, and
 *                                   what waits is dropped
 *     the context of a pause        it leaves the pool's line of pauses; after the last one tasks
 *                                   begin
 *
 * The pool's context is under the tie of the first kind, not in it: a cancellation wakes what is
 * bound to a context before it notifies the owner, and the workers would begin the next tasks.
 *
 * The end may be found twice, by the cancellation and by the call that has just made the tie: the
 * second one finds nothing to do.
 *
 * Lock order: the latch of a tie, then a pool's. Contexts are opened, cancelled and closed under no
 * latch.
 */
#include "pool/context.h"

#include <errno.h>

#include "pool/admission.h"
#include "pool/pool.h"
#include "pool/schedule.h"
#include "pool/shard.h"
#include "pool/worker.h"
#include "sync/context.h"

struct tie {
    struct link link;   /* of a pause, in pool->pauses; the pool's latch */
    struct latch latch; /* of `pool` */
    weft_pool *pool;    /* NULL: it is not to be notified, yet or any more */
    weft_context *context;
};

/* Makes a tie, with one reference to its context more until it is armed or discarded. */
static int make_tie(struct tie **out, weft_context *parent)
{
    struct tie *tie = weft__os_alloc_zeroed(sizeof *tie);
    if (tie == NULL)
        return -ENOMEM;
    int error = weft_context_open(&tie->context, parent, NULL);
    if (error != 0) {
        weft__os_free(tie);
        return error;
    }
    weft__context_hold(tie->context);
    *out = tie;
    return 0;
}

/* From here on the tie is notified of the end of its context, also if that has come already. */
static void arm(struct tie *tie, void (*ended)(void *tie))
{
    weft_context *context = tie->context;
    weft__context_own(context, tie, ended, weft__os_free);
    if (weft_context_error(context) != 0)
        ended(tie);
    weft__context_drop(context);
}

/* Frees a tie that was not armed. */
static void discard(struct tie *tie)
{
    weft_context_close(tie->context);
    weft__context_drop(tie->context);
    weft__os_free(tie);
}

/* The pool is not notified any more; cancels what is under the tie. */
static void give_up(struct tie *tie)
{
    latch_acquire(&tie->latch);
    tie->pool = NULL;
    latch_release(&tie->latch);
    weft_context_close(tie->context); /* the tie goes with the last reference */
}

/* Tasks that run. */

/* Finds a task in the line that began before the `begun`-th: its context, with a reference, or NULL
 * if it has none any more. False: there is no such task. Each is found once: it goes to the end of
 * the line, as if it had just begun. */
static bool next_running(weft_pool *pool, uint64_t begun, weft_context **context)
{
    *context = NULL;
    latch_acquire(pool->latch);
    struct link *first = pool->running.first;
    struct task *task = first != NULL ? container_of(first, struct task, age_link) : NULL;
    bool found = task != NULL && task->age < begun;
    if (found) {
        running_leave(pool, task);
        running_add(pool, task);
        *context = task->context;
    }
    if (*context != NULL)
        weft__context_hold(*context);
    latch_release(pool->latch);
    return found;
}

/* Outside the latch; the caller keeps the pool from being closed. */
static void cancel_running(weft_pool *pool, uint64_t begun, int error)
{
    weft_context *context;
    while (next_running(pool, begun, &context)) {
        if (context == NULL)
            continue;
        weft__context_cancel(context, error);
        weft__context_drop(context);
    }
}

/* The pool's context. */

/* Under both latches: the context of the options has ended. False: that was known, or the pool is
 * stopped. After true the caller pins the pool. */
static bool shut(weft_pool *pool, uint64_t *begun, struct deferred_wakes *wakes)
{
    bool known = pool_has_ended(pool);
    pool->paused |= PAUSED_ENDED;
    if (known || pool->state == POOL_STOPPED)
        return false;
    pool->pins++;
    weft__shards_close_inboxes(pool); /* so that none of it begins after this */
    weft__shards_collect(pool);
    (void)weft__pool_shut(pool, wakes);
    weft__line_refuse(pool, -ESHUTDOWN, wakes); /* those of its own tasks too */
    *begun = pool->begun;
    return true;
}

/* Outside the latch, by a call that pins the pool. */
static void cancel_all(weft_pool *pool, uint64_t begun, int error)
{
    weft_context *context = weft__pool_context_hold(pool);
    weft__context_cancel(context, error);
    weft__context_drop(context);
    cancel_running(pool, begun, error);
}

/* Called by the cancellation. */
static void context_ended(void *arg)
{
    struct tie *tie = arg;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    uint64_t begun = 0;
    bool ends = false, fiber = enter_if_fiber();
    latch_acquire(&tie->latch);
    weft_pool *pool = tie->pool;
    if (pool != NULL) {
        latch_acquire(pool->latch);
        ends = shut(pool, &begun, &wakes);
        latch_release(pool->latch);
    }
    latch_release(&tie->latch);
    if (ends)
        weft__wakes_run(&wakes);
    leave_if_fiber(fiber);
    if (!ends)
        return;
    cancel_all(pool, begun, weft_context_error(tie->context));
    weft__pauses_end(pool);
    weft__schedules_stop(pool);
    if (!weft__runtime_forked()) /* else on_drop has forked */
        (void)weft_pool_abort(pool);
    weft__pool_unpin(pool);
}

int weft__pool_context_open(weft_pool *pool)
{
    struct tie *tie = NULL;
    weft_context *context, *above = pool->options.context;
    if (above == NULL && pool->parent != NULL && pool->parent->tie != NULL)
        above = pool->parent->tie->context; /* there as long as the parent is */
    if (above == NULL && !pool->options.cancellable)
        return 0;
    int error = weft_context_error(above);
    if (error == 0 && above != NULL)
        error = make_tie(&tie, above);
    if (error != 0)
        return error;
    error = weft_context_open(&context, tie != NULL ? tie->context : NULL, NULL);
    if (error == 0) {
        atomic_ptr_store_release(&pool->context, context);
        atomic_u32_store_relaxed(&pool->binds, 1);
        pool->tie = tie;
    }
    if (tie != NULL && error != 0) {
        discard(tie);
    } else if (tie != NULL) {
        tie->pool = pool;
        arm(tie, context_ended);
    }
    return error;
}

void weft__pool_context_close(weft_pool *pool)
{
    weft__pauses_end(pool);
    if (pool_has_context(pool))
        weft_context_close(atomic_ptr_load_relaxed(&pool->context));
    if (pool->tie != NULL)
        give_up(pool->tie);
}

int weft__pool_context_error(const weft_pool *pool)
{
    return pool->tie != NULL ? weft_context_error(pool->tie->context) : 0;
}

weft_context *weft__pool_context_hold(weft_pool *pool)
{
    if (likely(!pool_has_context(pool)))
        return NULL;
    latch_acquire(pool->latch);
    weft_context *context = atomic_ptr_load_relaxed(&pool->context);
    weft__context_hold(context);
    latch_release(pool->latch);
    return context;
}

int weft_pool_cancel(weft_pool *pool)
{
    weft_context *context;
    int error = call_error(pool != NULL);
    if (error == 0 && !pool_has_context(pool))
        error = -ENOTSUP;
    if (error == 0)
        error = weft_context_open(&context, pool->tie != NULL ? pool->tie->context : NULL, NULL);
    if (error != 0)
        return error;
    latch_acquire(pool->latch);
    weft_context *before = atomic_ptr_load_relaxed(&pool->context);
    uint64_t begun = pool->begun;
    atomic_ptr_store_release(&pool->context, context); /* pairs with weft__worker_bind */
    latch_release(pool->latch);
    weft_context_close(before);
    cancel_running(pool, begun, -ECANCELED);
    return 0;
}

/* Workers. */

void weft__worker_unbind(struct worker *worker)
{
    if (pool_has_context(worker->pool) && worker->context != NULL) {
        if (weft_context_current() != NULL)
            (void)weft_context_bind(NULL, NULL);
        weft__context_drop(worker->context);
    }
    worker->context = NULL;
}

noinline void weft__worker_bind(struct worker *worker)
{
    /* Pairs with weft_pool_cancel. */
    const weft_context *now = atomic_ptr_load_acquire(&worker->pool->context);
    if (now == NULL || (now == worker->context && now == weft_context_current()))
        return;
    weft__worker_can_bind();
    weft_context *context = weft__pool_context_hold(worker->pool), *before = worker->context;
    (void)weft_context_bind(context, NULL); /* the memory is there */
    worker->context = context;
    if (before != NULL)
        weft__context_drop(before);
}

void weft__task_rebind(weft_pool *pool)
{
    weft_context *context = weft_context_current() == NULL ? weft__pool_context_hold(pool) : NULL;
    if (context == NULL)
        return;
    (void)weft_context_bind(context, NULL); /* bound before: the memory is there */
    weft__context_drop(context);
}

/* Pauses. */

/* Under both latches: a pause ends. True: tasks may begin, and the caller pins the pool and has to
 * dispatch. */
static bool leave_pauses(weft_pool *pool, struct tie *tie)
{
    line_leave(&pool->pauses, &tie->link);
    if (pool->pauses.length == 0)
        pool->paused &= (uint8_t)~PAUSED_CONTEXT;
    bool goes_on = pool->state != POOL_STOPPED && !pool->paused;
    pool->pins += goes_on;
    return goes_on;
}

/* Called by the cancellation, or by weft__pauses_end; the caller has a reference to the context. */
static void pause_ended(void *arg)
{
    struct tie *tie = arg;
    bool goes_on = false;
    latch_acquire(&tie->latch);
    weft_pool *pool = tie->pool;
    tie->pool = NULL;
    if (pool != NULL) {
        latch_acquire(pool->latch);
        goes_on = leave_pauses(pool, tie);
        latch_release(pool->latch);
    }
    latch_release(&tie->latch);
    if (goes_on) {
        struct deferred_wakes wakes = NO_WAKES(wakes);
        bool fiber = enter_if_fiber();
        latch_acquire(pool->latch);
        pool->pins--;
        weft__pool_finish(pool, &wakes, fiber);
    }
    if (pool != NULL)
        weft_context_close(tie->context);
}

void weft__pauses_end(weft_pool *pool)
{
    for (;;) {
        latch_acquire(pool->latch);
        struct link *first = pool->pauses.first;
        struct tie *tie = first != NULL ? container_of(first, struct tie, link) : NULL;
        weft_context *context = tie != NULL ? tie->context : NULL;
        if (context != NULL)
            weft__context_hold(context);
        latch_release(pool->latch);
        if (context == NULL)
            return;
        pause_ended(tie);
        weft__context_drop(context);
    }
}

static int add_pause(weft_pool *pool, void *arg)
{
    struct tie *tie = arg;
    if (pool->state == POOL_STOPPING)
        return -ESHUTDOWN;
    tie->pool = pool;
    line_add(&pool->pauses, &tie->link);
    pool->paused |= PAUSED_CONTEXT;
    return 0;
}

int weft_pool_pause_until(weft_pool *pool, weft_context *context)
{
    struct tie *tie;
    int error = call_error(pool != NULL && context != NULL);
    if (error == 0)
        error = weft_context_error(context);
    if (error == 0)
        error = make_tie(&tie, context);
    if (error != 0)
        return error;
    error = weft__pool_change(pool, add_pause, tie);
    if (error != 0)
        discard(tie);
    else
        arm(tie, pause_ended);
    return error;
}
