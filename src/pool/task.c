/*
 * task.c: tasks with a handle.
 *
 *     WAITS ---- the pool, or one who waits for it ----> RUNS ------> ENDED
 *       |_______ cancelled, or dropped by the pool ----> FORGOTTEN -> NEVER_RAN
 *
 * Whoever changes WAITS decides: a compare-and-swap. What stands in the pool's queue for a task that is
 * not WAITS any more is an empty shell: when its turn comes nothing is called. It counts as a task that
 * has ended.
 *
 * References: the handle, and the queue.
 *
 * A worker that waits for a task of its own pool runs it here if it has not begun. If it runs elsewhere the
 * worker parks, and has passed its baton then; its place counts as taken still, so with as many workers
 * waiting as the capacity allows nobody could run what they wait for. So it lends its place: the capacity
 * is one more while it waits.
 */
#include "pool/task.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "pool/panic.h"
#include "pool/pool.h"
#include "sched/compact.h"
#include "sync/context.h"
#include "sync/waiters.h"

enum { TASK_WAITS, TASK_RUNS, TASK_FORGOTTEN, TASK_ENDED, TASK_NEVER_RAN };

struct weft_task {
    struct latch latch; /* of what follows */
    void *waiters;
    atomic_u32 state;
    atomic_u32 references;
    weft_pool *pool;
    weft_context *context;
    int (*function)(void *, void **);
    void *arg, *result;
    atomic_ptr runner;   /* weft_fiber: that runs it */
    struct panic *panic; /* that ended it, or NULL; set before it is ENDED */
    atomic_u32 asked;    /* somebody knows of it */
    bool keyed;
    int error;
};

static void drop(struct weft_task *task)
{
    /* Pairs with itself: the last one sees what the other did. */
    if (atomic_u32_sub_acq_rel(&task->references, 1) != 1)
        return;
    if (task->panic != NULL && !atomic_u32_load_relaxed(&task->asked))
        weft__panic_report(task->panic);
    else
        weft__panic_free(task->panic);
    weft_context_close(task->context);
    weft__sys_free(task);
}

static bool leave_waiting(struct weft_task *task, uint32_t state)
{
    uint32_t waits = TASK_WAITS;
    return atomic_u32_cas_acq_rel(&task->state, &waits, state);
}

/* The task has ended with an error, or 0. */
static void end(struct weft_task *task, int error)
{
    struct woken woken;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    latch_acquire(&task->latch);
    task->error = error;
    bool ran = atomic_u32_load_relaxed(&task->state) == TASK_RUNS;
    /* Pairs with weft_task_ended. */
    atomic_u32_store_release(&task->state, ran ? TASK_ENDED : TASK_NEVER_RAN);
    (void)waiters_claim_all(&task->waiters, 0, &woken);
    latch_release(&task->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
}

struct call {
    struct weft_task *task;
    void *result;
    int error;
};

static void call_function(void *arg)
{
    struct call *call = arg;
    call->error = call->task->function(call->task->arg, &call->result);
}

/* The function is told to on_panic by its address alone: it is of another type. */
static void keep_panic(struct weft_task *task, struct panic *panic)
{
    void (*function)(void *) = (void (*)(void *))(uintptr_t)task->function;
    (void)weft__panic_info(panic); /* all messages in one */
    if (weft__pool_tell_panic(task->pool, panic, function, task->arg))
        atomic_u32_store_relaxed(&task->asked, 1);
    task->panic = panic;
}

/* Calls the function of a task that is RUNS, bound to its context. If that cannot be, since some fiber that only came
 * by runs it for lack of memory, it is called none the less: it was admitted. */
static void call(struct weft_task *task)
{
    weft_context *before;
    struct call own = {task, NULL, 0};
    struct guard guard = {.panic = NULL};
    weft__worker_can_bind();
    bool bound = weft_context_bind(task->context, &before) == 0;
    if (bound && before != NULL)
        weft__context_hold(before);
    atomic_ptr_store_relaxed(&task->runner, weft_self());
    if (unlikely(weft__guarded(&guard, call_function, &own)))
        own.error = panic_error(guard.panic);
    if (unlikely(
            weft__runtime_forked())) /* the latch may be in the hands of a thread of the parent's */
        return;
    atomic_ptr_store_relaxed(&task->runner, NULL);
    if (bound)
        (void)weft_context_bind(before, NULL); /* it was bound, so there is memory for it */
    if (bound && before != NULL)
        weft__context_drop(before);
    if (guard.panic != NULL)
        keep_panic(task, guard.panic);
    task->result = own.result;
    end(task, own.error);
}

bool weft__task_call(struct weft_task *task)
{
    if (leave_waiting(task, TASK_RUNS))
        call(task);
    uint32_t state = atomic_u32_load_acquire(&task->state);
    drop(task);
    return state == TASK_RUNS || state == TASK_ENDED; /* if not by this, by one who waited for it */
}

void weft__task_crashed(struct weft_task *task, struct panic *panic)
{
    atomic_ptr_store_relaxed(&task->runner, NULL);
    int error = panic_error(panic);
    keep_panic(task, panic);
    end(task, error);
    drop(task);
}

void weft__task_dropped(struct weft_task *task)
{
    if (leave_waiting(task, TASK_FORGOTTEN))
        end(task, -ECANCELED);
    drop(task);
}

int weft_task_start(weft_task **out, weft_pool *pool, int (*function)(void *, void **), void *arg,
                    const weft_submit_options *options)
{
    static const weft_submit_options defaults;
    struct offer offer;
    if (options == NULL)
        options = &defaults;
    if (out == NULL || pool == NULL || function == NULL || options->copy != 0 ||
        !weft__offer_from(&offer, options))
        return -EINVAL;
    compact_check_task(arg);
    struct weft_task *task =
        weft__runtime_forked() || weft__bond_self() != NULL /* it may have to run it itself */
            ? weft__sys_alloc_zeroed(sizeof *task)
            : NULL;
    if (task == NULL)
        return -ENOMEM;
    task->pool = pool;
    task->function = function;
    task->arg = arg;
    task->keyed = options->key != 0;
    atomic_u32_store_relaxed(&task->references, 2);
    int error = weft_context_open(&task->context, NULL, NULL);
    if (error != 0) {
        weft__sys_free(task);
        return error;
    }
    offer.task.handle = task;
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

int weft_task_ended(const weft_task *task)
{
    return task != NULL && atomic_u32_load_acquire(&task->state) >= TASK_ENDED; /* pairs with end */
}

int weft_task_cancel(weft_task *task)
{
    if (task == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    if (leave_waiting(task, TASK_FORGOTTEN)) {
        end(task, -ECANCELED);
        return 0;
    }
    if (weft_task_ended(task))
        return 2;
    weft_context_cancel(task->context);
    return 1;
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

void weft_task_release(weft_task *task)
{
    if (task != NULL && !weft__runtime_forked())
        drop(task);
}

/* Waiting. */

static void unlock_task(void *task)
{
    latch_release(&((struct weft_task *)task)->latch);
}

static int wait_for_end(struct weft_task *task, int64_t deadline)
{
    struct waiter own;
    int result = 0;
    bool fiber = enter_if_fiber();
    latch_acquire(&task->latch);
    if (weft_task_ended(task)) {
        latch_release(&task->latch);
    } else if (deadline <= WEFT_NOW) {
        latch_release(&task->latch);
        result = -ETIMEDOUT;
    } else {
        struct waiter *waiter = weft__waiter_begin(&own);
        waiters_add_last(&task->waiters, waiter);
        result = weft__park(waiter, WAIT_TASK, unlock_task, task, deadline);
        if (wait_gave_up(result)) {
            latch_acquire(&task->latch);
            if (!waiters_remove(&task->waiters, waiter))
                result = 0; /* it ended at the same moment */
            latch_release(&task->latch);
        }
    }
    leave_if_fiber(fiber);
    return result;
}

int weft_task_wait_until(weft_task *task, void **result, int64_t deadline)
{
    if (task == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    weft_fiber *self = weft_self();
    if (self != NULL && atomic_ptr_load_relaxed(&task->runner) == self)
        return -EDEADLK;
    enum role role = weft__pool_role(task->pool);
    /* Those of a key have an order; and one that is run here cannot be isolated. */
    bool runs = role != ROLE_STRANGER && !task->keyed && !task->pool->options.isolate_crashes;
    if (runs && weft__pool_may_stand_in() && leave_waiting(task, TASK_RUNS)) {
        struct stand_in own;
        weft__stand_in_begin(&own, task->pool, false);
        call(task);
        weft__stand_in_end(&own);
    }
    if (!weft_task_ended(task)) {
        if (role == ROLE_HOLDER)
            weft__pool_lend(task->pool, 1);
        int error = wait_for_end(task, deadline);
        if (role == ROLE_HOLDER)
            weft__pool_lend(task->pool, -1);
        if (error != 0)
            return error;
    }
    if (result != NULL && atomic_u32_load_relaxed(&task->state) == TASK_ENDED)
        *result = task->result;
    return task->error;
}

int weft_task_wait(weft_task *task, void **result)
{
    return weft_task_wait_until(task, result, WEFT_NEVER);
}
