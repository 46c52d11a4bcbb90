/*
 * task.c: tasks with a handle.
 *
 *     WAITS ---- a worker takes it ----------------------------> RUNS ----> ENDED
 *       |_______ cancelled, dropped, or its context has ended --------------> NEVER_RAN
 *
 * Whether a task has begun is decided under the pool's latch: a worker that takes the record out of
 * the queue sets `begun`, a cancellation takes it out before that. So nothing stays in the queue
 * for a task that will not run. Whether its context had ended by then is decided in the same hold.
 *
 * Two references: the handle's, and the pool's until the task has ended. The state becomes final
 * under the handle's latch, set by a worker or by a call that pins the pool. A task that has not
 * ended keeps its pool from being stopped: so a call that holds the handle's latch, and sees that
 * the task has not ended, may use the pool.
 *
 * A worker that waits for a task of its own pool lends its place: lending.c. A task is counted as
 * ended, and lent places come back, before its state is final: a call that finds the task ended
 * also finds that it has left the pool.
 *
 * Lock order: the handle's latch, then the pool's.
 */
#include <weft/task.h>

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "pool/failure.h"
#include "pool/lending.h"
#include "pool/submit.h"
#include "pool/worker.h"
#include "sched/fiber/compact.h"
#include "sync/context.h"

static WAIT_KIND(wait_task, .text = "waits for a task");

enum { STATE_OPEN, STATE_ENDED, STATE_NEVER_RAN };

struct weft_task {
    struct task task;
    struct latch latch; /* guards what follows */
    void *waiters;
    weft_chan *done; /* NULL until asked for */
    atomic_u32 state;
    struct awaited awaited;
    atomic_u32 references;
    weft_pool *pool;
    const struct latch *tree; /* the pool's latch; a handle may outlive the pool */
    int (*function)(void *);
    int64_t run_timeout;
    atomic_ptr runner;   /* the weft_fiber that runs it */
    struct panic *panic; /* that ended it, or NULL; set before the state is final */
    atomic_u32 asked;    /* weft_task_panic or on_panic has the panic: it is not reported */
    int result;
    _Alignas(max_align_t) unsigned char copy[];
};

static struct weft_task *of(struct task *task)
{
    return container_of(task, struct weft_task, task);
}

static void drop(struct weft_task *task)
{
    /* Pairs with itself: the last to drop sees what the other did. */
    if (atomic_u32_sub_acq_rel(&task->references, 1) != 1)
        return;
    if (task->panic != NULL && !atomic_u32_load_relaxed(&task->asked))
        weft__panic_report(task->panic);
    else
        weft__panic_free(task->panic);
    weft_context_close(task->task.context);
    weft_chan_destroy(task->done);
    weft__os_free(task);
}

/* The end. */

/* The task has ended, or will never run. The caller is its worker, a submitter that runs it, or a
 * call that pins the pool. `taken`: it was taken out of the queue to be run, and is in flight until
 * here. */
static void end(struct weft_task *task, uint32_t state, int result, bool taken)
{
    struct woken woken;
    woken_begin(&woken);
    if (taken) {
        weft__task_count_end(task->pool, &task->task, state == STATE_ENDED,
                             state == STATE_ENDED && result < 0 && task->panic == NULL);
        weft__awaited_end(task->pool, &task->awaited);
    }
    bool fiber = enter_if_fiber();
    latch_acquire(&task->latch);
    task->result = result;
    atomic_u32_store_release(&task->state, state); /* pairs with weft_task_ended */
    (void)waiters_claim_all(&task->waiters, 0, &woken);
    weft_chan *done = task->done;
    latch_release(&task->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
    if (done != NULL)
        (void)weft_chan_close(done);
}

struct call {
    struct weft_task *task;
    int result;
};

static void call_function(void *arg)
{
    struct call *call = arg;
    call->result = call->task->function(call->task->task.arg);
}

/* The function is of another type than on_panic's parameter, which is only a number to know it by.
 * */
static void keep_panic(struct weft_task *task, struct panic *panic)
{
    void (*function)(void *) = (void (*)(void *))(uintptr_t)task->function;
    (void)weft__panic_info(panic); /* all messages in one */
    if (weft__pool_notify_panic(task->pool, panic, function, task->task.arg))
        atomic_u32_store_relaxed(&task->asked, 1);
    task->panic = panic;
}

static void run(struct task *record)
{
    struct weft_task *task = of(record);
    weft_context *before;
    struct call own = {task, 0};
    struct guard guard = {.panic = NULL};
    if (task->task.error != 0) {
        end(task, STATE_NEVER_RAN, task->task.error, true);
        return;
    }
    weft__worker_can_bind();
    bool bound = weft_context_bind(task->task.context, &before) == 0;
    if (bound && before != NULL)
        weft__context_hold(before);
    if (task->run_timeout != 0)
        weft__context_expire_at(task->task.context, weft_after(task->run_timeout));
    atomic_ptr_store_relaxed(&task->runner, weft_self());
    if (unlikely(weft__guarded(&guard, call_function, &own)))
        own.result = panic_error(guard.panic);
    if (unlikely(weft__runtime_forked())) /* a latch may be held by a thread of the parent's */
        return;
    weft__task_clean();
    atomic_ptr_store_relaxed(&task->runner, NULL);
    if (bound)
        (void)weft_context_bind(before, NULL); /* bound before: the memory is there */
    if (bound && before != NULL)
        weft__context_drop(before);
    if (guard.panic != NULL)
        keep_panic(task, guard.panic);
    if (!weft__runtime_forked()) /* else on_panic has forked */
        end(task, STATE_ENDED, own.result, true);
}

static void dropped(weft_pool *pool, struct task *record)
{
    (void)pool;
    end(of(record), STATE_NEVER_RAN, -ECANCELED, false);
}

static void crashed(weft_pool *pool, struct task *record, struct weft_fiber *gone,
                    struct panic *panic)
{
    struct weft_task *task = of(record);
    (void)pool, (void)gone;
    atomic_ptr_store_relaxed(&task->runner, NULL);
    int error = panic_error(panic);
    keep_panic(task, panic);
    if (!weft__runtime_forked()) /* else on_panic has forked */
        end(task, STATE_ENDED, error, true);
}

static void release(struct task *record)
{
    drop(of(record));
}

static const struct task_kind handle_kind = {
    .run = run, .drop = dropped, .crash = crashed, .release = release};

/* Starting. */

static int make(weft_task **out, weft_pool *pool, int (*function)(void *), void *arg,
                const weft_submit_options *options)
{
    struct weft_task *task = weft__os_alloc_zeroed(sizeof *task + options->copy);
    if (task == NULL)
        return -ENOMEM;
    task->pool = pool;
    task->tree = pool->latch;
    task->function = function;
    task->run_timeout = options->run_timeout;
    weft__task_fill(&task->task, &handle_kind, task->copy, arg, options);
    task->task.function = (void (*)(void *))(uintptr_t)function; /* a number to know it by */
    task->task.awaited = &task->awaited;
    atomic_u64_store_relaxed(&task->awaited.pending, AWAITED_TASK);
    atomic_u32_store_relaxed(&task->references, 2);
    weft_context *parent = options->context != NULL ? options->context : weft_context_current();
    weft_context_options context = {.timeout = options->run_timeout != 0 ? WEFT_NEVER : 0};
    int error = weft_context_open(&task->task.context, parent, &context);
    if (error != 0)
        weft__os_free(task);
    else
        *out = task;
    return error;
}

static int start(weft_task **out, weft_pool *pool, int (*function)(void *), void *arg,
                 const weft_submit_options *options, bool tries)
{
    static const weft_submit_options defaults;
    struct offer offer;
    weft_task *task;
    if (options == NULL)
        options = &defaults;
    int error = call_error(out != NULL && pool != NULL && function != NULL &&
                           weft__options_valid(options, arg));
    if (error == 0 && options->copy == 0)
        compact_check_task(arg);
    if (error == 0)
        error = weft__bond_self() == NULL ? -ENOMEM /* the caller may have to run the task */
                                          : make(&task, pool, function, arg, options);
    if (error != 0)
        return error;
    weft__offer_fill(&offer, &task->task, options);
    offer.tries = tries;
    if (tries)
        offer.deadline = WEFT_NOW;
    atomic_u32_store_relaxed(&pool->binds, 1);
    error = weft__pool_offer(pool, &offer);
    if (error != 0) {
        drop(task);
        drop(task);
        return error;
    }
    *out = task;
    return 0;
}

int weft_task_start(weft_task **task, weft_pool *pool, int (*function)(void *), void *arg,
                    const weft_submit_options *options)
{
    return start(task, pool, function, arg, options, false);
}

int weft_task_try_start(weft_task **task, weft_pool *pool, int (*function)(void *), void *arg,
                        const weft_submit_options *options)
{
    return start(task, pool, function, arg, options, true);
}

/* Asking. */

int weft_task_ended(const weft_task *task)
{
    return task != NULL && atomic_u32_load_acquire(&task->state) != STATE_OPEN; /* pairs with end */
}

void *weft_task_arg(const weft_task *task)
{
    return task != NULL ? task->task.arg : NULL;
}

int weft_task_panic(weft_task *task, weft_panic_info *info)
{
    if (task == NULL || info == NULL)
        return -EINVAL;
    if (!weft_task_ended(task) || task->panic == NULL)
        return -ENOENT;
    *info = task->panic->info;
    atomic_u32_store_relaxed(&task->asked, 1);
    return 0;
}

int weft_task_done(weft_task *task, weft_chan **out)
{
    weft_chan *made, *unused = NULL;
    int error = call_error(task != NULL && out != NULL);
    if (error == 0)
        error = weft_chan_make(&made, 0, 0);
    if (error != 0)
        return error;
    latch_acquire(&task->latch);
    if (task->done == NULL)
        task->done = made;
    else
        unused = made;
    *out = task->done;
    bool ended = weft_task_ended(task) != 0;
    latch_release(&task->latch);
    weft_chan_destroy(unused);
    if (ended)
        (void)weft_chan_close(*out); /* the task had ended before; a second close does nothing */
    return 0;
}

void weft_task_release(weft_task *task)
{
    if (task != NULL && !weft__runtime_forked())
        drop(task);
}

/* Cancelling. */

/* Takes the task out of the queue. Returns what weft_task_cancel does; after 0 the caller pins the
 * pool. */
static int take_out(struct weft_task *task, struct deferred_wakes *wakes)
{
    weft_pool *pool = task->pool;
    int result = 2;
    latch_acquire(&task->latch);
    if (!weft_task_ended(task)) {
        latch_acquire(pool->latch);
        if (task->task.begun) {
            result = task->task.error != 0 ? 2 : 1;
        } else if (task->task.place != TASK_NOWHERE) { /* else it is being dropped */
            weft__pool_remove(pool, &task->task);
            pool->in_flight--;
            pool->stats.cancelled++;
            pool->pins++;
            weft__pool_dispatch(pool, wakes);
            result = 0;
        }
        latch_release(pool->latch);
    }
    latch_release(&task->latch);
    return result;
}

int weft_task_cancel(weft_task *task)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    int error = call_error(task != NULL);
    if (error != 0)
        return error;
    bool fiber = enter_if_fiber();
    int result = take_out(task, &wakes);
    if (result == 0)
        weft__wakes_run(&wakes);
    leave_if_fiber(fiber);
    if (result != 2)
        weft_context_cancel(task->task.context);
    if (result != 0)
        return result;
    weft_pool *pool = task->pool;
    end(task, STATE_NEVER_RAN, -ECANCELED, false);
    drop(task);
    weft__pool_unpin(pool);
    return 0;
}

/* Waiting. */

static void unlock_task(void *task)
{
    latch_release(&((struct weft_task *)task)->latch);
}

static int wait_for_end(struct weft_task *task, int64_t deadline)
{
    struct waiter own;
    int error = 0;
    bool fiber = enter_if_fiber();
    latch_acquire(&task->latch);
    if (weft_task_ended(task)) {
        latch_release(&task->latch);
    } else if (deadline <= WEFT_NOW) {
        latch_release(&task->latch);
        error = -ETIMEDOUT;
    } else {
        struct waiter *waiter = weft__waiter_begin(&own);
        waiters_add_last(&task->waiters, waiter);
        error = weft__park(waiter, wait_id(&wait_task), unlock_task, task, deadline);
        if (wait_gave_up(error)) {
            latch_acquire(&task->latch);
            if (!waiters_remove(&task->waiters, waiter))
                error = 0; /* the task ended at the same moment */
            latch_release(&task->latch);
        }
    }
    leave_if_fiber(fiber);
    return error;
}

/* Waits in a worker that holds a place of the pool or its tree, and lends that place. */
static int wait_lending(struct weft_task *task, struct worker *worker, int64_t deadline)
{
    weft__lending_begin(task->pool, &task->awaited, worker);
    int error = wait_for_end(task, deadline);
    weft__lending_end(task->pool, &task->awaited, worker);
    return error;
}

int weft_task_wait_until(weft_task *task, int *result, int64_t deadline)
{
    int error = call_error(task != NULL);
    if (error != 0)
        return error;
    weft_fiber *self = weft_self();
    if (self != NULL && atomic_ptr_load_relaxed(&task->runner) == self)
        return -EDEADLK;
    if (!weft_task_ended(task)) {
        struct worker *worker = deadline > WEFT_NOW ? weft__pool_place(task->tree) : NULL;
        error =
            worker != NULL ? wait_lending(task, worker, deadline) : wait_for_end(task, deadline);
    }
    if (error == 0 && result != NULL)
        *result = task->result;
    return error;
}

int weft_task_wait(weft_task *task, int *result)
{
    return weft_task_wait_until(task, result, WEFT_NEVER);
}
