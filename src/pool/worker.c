/*
 * worker.c: the life of a worker, a fiber that runs tasks one after the other.
 *
 * Problem. A worker runs short tasks at a cost of a few nanoseconds each, and gives way when a task
 * parks, when other fibers have waited for its processor, or when nothing is to be done. A task
 * must leave nothing behind in the worker, however the task ends.
 *
 * Pattern. One loop, run_tasks:
 *
 *     weft__worker_begin                  on_worker_start (start.c)
 *     loop
 *         next_task, choose               under the latch, what is next:
 *             take_duty                       becomes active if there is a place; stays blocked
 *                                             if its last task has parked
 *             turn_is_over                    NEXT_YIELD: serves the line, yields, looks again
 *             take_from_inbox                 NEXT_TASK: fills the inbox if need be (shard.c)
 *             choose_single                   serves the line; NEXT_TASK: one task, from the queue
 *                                             or any inbox; else, by choose_rest:
 *                                                 NEXT_TOKEN  a task lacks a token (rate.c)
 *                                                 NEXT_AGAIN  there are wakes to be done first
 *                                                 NEXT_END    the pool stops, nothing is left
 *                                                 NEXT_REST   parks in `rest`
 *         do
 *             call_own_task                   runs the task
 *         while after_task                counts the end, and takes the next task from the inbox
 *                                         without the latch
 *     weft__worker_finish                 on_worker_exit (start.c)
 *
 * The states of a worker are in pool_internal.h; which worker is started, and the duty of active
 * workers to look for tasks, are in dispatch.c. A worker whose task parks gives the duty up: it is
 * blocked. It stays blocked as long as its tasks park, since it would become active only to give
 * the duty up again.
 *
 *   clean        weft__worker_clean ends what a task has deferred and its fiber-locals, binds the
 *                context that every task begins with, and undoes weft_blocking_enter; errno is 0
 *                when a task begins. That context is the pool's of the moment (context.c), or the
 *                one that on_worker_start has bound.
 *   panics       A panic in a task unwinds to the first frame of the fiber, and from there comes to
 *                weft__worker_continue: no guard is set up for each task.
 *   forks        In a child that a task forks the pool does not exist. The child ends where user
 *                code comes back into the worker (worker_end_forked_child).
 *   stack        When a task on a compact stack parks, the frames of its callers are copied with
 *                its own. So the frames of weft__worker_run and rest are small, and everything else
 *                is in functions that have returned when the task runs.
 */
#include "pool/worker.h"

#include <errno.h>

#include "base/assert.h"
#include "pool/admission.h"
#include "pool/context.h"
#include "pool/dispatch.h"
#include "pool/failure.h"
#include "pool/pool.h"
#include "pool/rate.h"
#include "pool/shard.h"
#include "pool/subpools.h"
#include "sched/fiber/compact.h"
#include "sync/context.h"

static WAIT_KIND(wait_idle, .text = "rests as a worker of a pool");

/* User code. */

struct worker *weft__worker_self(void)
{
    weft_fiber *fiber = weft_self();
    struct worker *worker = fiber != NULL ? fiber_worker(fiber) : NULL;
    return worker != NULL && worker->in_task ? worker : NULL;
}

void weft__worker_enter_user(struct worker *worker)
{
    struct weft_fiber *fiber = worker->fiber;
    worker->in_task = true;
    fiber->object = worker;
    fiber->notify_park = true;
}

static void enter_task(struct worker *worker)
{
    weft__worker_enter_user(worker);
    worker->parked = false;
}

void weft__worker_leave_user(struct worker *worker)
{
    worker->in_task = false;
    worker->fiber->notify_park = false;
}

void weft__worker_can_bind(void)
{
    weft_fiber *fiber = weft_self();
    if (fiber == NULL || fiber_worker(fiber) == NULL)
        return;
    while (weft__fiber_extra(fiber) == NULL)
        (void)weft__stash_wait(WEFT_NEVER);
}

/* The end of a task. */

static void end_locals(void *extra)
{
    weft__locals_end(&((struct extra *)extra)->locals);
}

static void clean_extra(struct worker *worker, struct extra *extra)
{
    if (extra->locals != NULL)
        while (weft__pool_call_option(worker->pool, end_locals, extra))
            continue; /* a destructor panicked: the others follow */
    if (weft_context_current() != worker->context)
        (void)weft_context_bind(worker->context, NULL); /* it has been bound: there is memory */
}

static noinline void clean(struct worker *worker)
{
    struct weft_fiber *fiber = worker->fiber;
    if (fiber->defers)
        weft__deferred_run_all(fiber_scope(fiber));
    fiber->defers = false;
    weft__blocking_unwind(0);
    if (fiber_extra(fiber) != NULL)
        clean_extra(worker, fiber_extra(fiber));
    worker_end_forked_child();
}

/* A task may have left something behind. A worker that is bound to a context has extras. */
static bool may_be_unclean(const struct worker *worker)
{
    const weft_fiber *fiber = worker->fiber;
    return fiber->defers || atomic_u32_load_relaxed(&fiber->outside) != 0 ||
           fiber_extra(fiber) != NULL;
}

void weft__worker_clean(struct worker *worker)
{
    if (unlikely(may_be_unclean(worker)))
        clean(worker);
}

struct task *weft__task_self(void)
{
    const struct caller_run *run = weft__caller_run();
    const struct worker *worker = weft__worker_self();
    return run != NULL ? run->record : worker != NULL ? worker->record : NULL;
}

void weft__task_clean(void)
{
    struct worker *worker = weft__caller_run() == NULL ? weft__worker_self() : NULL;
    if (worker != NULL)
        weft__worker_clean(worker);
}

/* Counts the end of a task by the processor's counter, without the latch; false: there is none. */
static bool count_by_shard(weft_pool *pool)
{
    (void)runtime_enter(thread_self());
    struct shard *shard = shard_here(pool);
    if (likely(shard != NULL))
        shard_count_end(shard);
    runtime_leave(thread_self());
    return shard != NULL;
}

void weft__task_count_end(weft_pool *pool, struct task *task, bool ran, bool failed)
{
    should(!task->counted);
    task->counted = true;
    if (likely(ran && !failed) && !task->in_caller && !has_own_context(pool, task) &&
        count_by_shard(pool))
        return;
    latch_acquire(pool->latch);
    running_leave(pool, task);
    pool->in_flight--;
    pool->caller_runs -= task->in_caller;
    pool->stats.completed += ran;
    pool->stats.cancelled += !ran;
    pool->stats.failed += failed;
    if (pool_has_rate(pool) && !ran)
        weft__rate_unused(pool);
    latch_release(pool->latch);
}

/* Ends the record of a task that has ended. True: weft__task_count_end has counted it. */
static bool end_record(weft_pool *pool, struct task *record)
{
    bool counted = record->counted;
    if (record->key != 0) {
        struct deferred_wakes wakes = NO_WAKES(wakes);
        bool fiber = enter_if_fiber();
        latch_acquire(pool->latch);
        weft__pool_task_gone(pool, record);
        weft__pool_finish(pool, &wakes, fiber);
    }
    record->kind->release(record);
    return counted;
}

struct call {
    const struct plain_task *plain;
    struct task *record;
};

static void call(void *arg)
{
    struct call *call = arg;
    if (call->record != NULL)
        call->record->kind->run(call->record);
    else
        call->plain->function(call->plain->arg);
}

bool weft__pool_call_task(weft_pool *pool, const struct plain_task *plain, struct task *record)
{
    struct guard guard;
    struct call own = {plain, record};
    struct worker *armed = weft__worker_disarm();
    if (unlikely(weft__guarded(&guard, call, &own)))
        weft__pool_panicked(pool, plain, guard.panic);
    bool counted = record != NULL && !weft__runtime_forked() && end_record(pool, record);
    weft__worker_rearm(armed);
    return counted;
}

/* Counts the end of a task on a processor that is newer than the pool. */
static noinline void count_end_latched(weft_pool *pool)
{
    latch_acquire(pool->latch);
    pool->in_flight--;
    pool->stats.completed++;
    latch_release(pool->latch);
}

/* Ends the record of the worker's task; what end_record returns. */
static bool end_own_record(struct worker *worker)
{
    struct task *record = worker->record;
    worker->record = NULL;
    return record != NULL && end_record(worker->pool, record);
}

/* Counts the end of a task that was not counted yet. True: the next one is taken from the inbox. */
static bool count_and_take(struct worker *worker, bool counted)
{
    weft_pool *pool = worker->pool;
    struct shard *shard = shard_here(pool);
    if (unlikely(shard == NULL)) {
        if (!counted)
            count_end_latched(pool);
        return false;
    }
    if (likely(!counted))
        shard_count_end(shard);
    return (worker->kind != WORKER_COMPACT || likely(!weft__compact_is_remote(worker))) &&
           shard_take(shard, &worker->now);
}

/* Ends a task. True: the next one is to be called. */
static bool end_task(struct worker *worker)
{
    worker->armed = false;
    bool counted = unlikely(worker->record != NULL) && end_own_record(worker);
    (void)runtime_enter(thread_self());
    bool more = count_and_take(worker, counted);
    runtime_leave(thread_self());
    if (likely(more)) {
        if (worker->parked) /* else nothing has changed since enter_task */
            enter_task(worker);
        return true;
    }
    weft__worker_leave_user(worker);
    return false;
}

static noinline bool after_task(struct worker *worker)
{
    worker_end_forked_child();
    if (likely(!may_be_unclean(worker)))
        return end_task(worker);
    clean(worker);
    bool more = end_task(worker);
    if (more)
        weft__worker_bind(worker);
    return more;
}

/* Looking for the next task. */

void weft__worker_unlist(weft_pool *pool, struct worker *worker)
{
    if (worker->state == WORKER_STARTING) {
        pool_drop_starting(pool);
    } else if (worker->state != WORKER_UNLISTED) {
        if (worker->state == WORKER_BLOCKED)
            pool->blocked--;
        else
            line_leave(&pool->active, &worker->link);
        pool_take_places(pool, -1);
    }
    worker->state = WORKER_UNLISTED;
}

/* Under the latch: a worker whose last task parked stays blocked; any other becomes active if there
 * is a place for it, or else is unlisted. */
static void take_duty(weft_pool *pool, struct worker *worker)
{
    if (unlikely(pool->in_tree) && weft__tree_passes_on(pool, worker))
        return;
    if (worker->state == WORKER_ACTIVE || (worker->state == WORKER_BLOCKED && worker->parked))
        return;
    weft__worker_unlist(pool, worker);
    if (pool_has_place(pool)) {
        pool_take_places(pool, 1);
        line_add(&pool->active, &worker->link);
        worker->state = WORKER_ACTIVE;
    }
}

/* Under the latch: the worker holds a place, and may begin a task. */
static bool may_begin(const weft_pool *pool, const struct worker *worker)
{
    return worker->state != WORKER_UNLISTED && pool_may_begin(pool);
}

/* Under the latch: takes a task from the inbox, which is filled if need be. */
static bool take_from_inbox(weft_pool *pool, struct worker *worker, struct shard *shard)
{
    worker->record = NULL;
    return shard != NULL && may_begin(pool, worker) &&
           (shard_take(shard, &worker->now) || weft__inbox_fill(pool, shard, &worker->now));
}

/* Under the latch: takes one task, from the queue or from any inbox. */
static bool take_single(weft_pool *pool, struct worker *worker)
{
    if (!may_begin(pool, worker) || (pool_has_rate(pool) && !weft__rate_take(pool)))
        return false;
    if (!weft__pool_pop(pool, &worker->now, &worker->record))
        return weft__inboxes_steal(pool, &worker->now);
    if (worker->record != NULL)
        worker->now = (struct plain_task){worker->record->function, worker->record->arg};
    return true;
}

/* Inside the runtime: active workers have had the processor for a turn, and other fibers wait for
 * it. */
static bool turn_is_over(const struct worker *worker, struct shard *shard)
{
    if (worker->state != WORKER_ACTIVE || shard == NULL || !has_fibers(thread_self()->processor))
        return false;
    int64_t now = weft__now(), began = shard->turn_began;
    bool over = began != 0 && now - began > TURN;
    if (began == 0)
        shard->turn_began = now;
    else if (over)
        shard->turn_began = 0; /* the next turn begins when the others have had theirs */
    return over;
}

enum next { NEXT_TASK, NEXT_YIELD, NEXT_AGAIN, NEXT_TOKEN, NEXT_REST, NEXT_END };

/* Under the latch: what a worker does that has found no task. */
static enum next choose_rest(weft_pool *pool, struct worker *worker, struct deferred_wakes *wakes)
{
    bool awaits = pool_has_rate(pool) && weft__rate_claim(pool);
    weft__worker_unlist(pool, worker);
    weft__shards_collect(pool);
    weft__pool_dispatch(pool, wakes);
    if (awaits)
        return NEXT_TOKEN;
    if (wakes_any(wakes))
        return NEXT_AGAIN;
    if ((pool->state != POOL_OPEN && pool->in_flight == 0) ||
        (pool->is_default && atomic_u32_load_relaxed(&weft__sched.draining)))
        return NEXT_END;
    return NEXT_REST;
}

/* Under the latch, if the inbox is empty and cannot be filled: serves the line, then takes one
 * task. */
static enum next choose_single(weft_pool *pool, struct worker *worker, struct deferred_wakes *wakes)
{
    weft__line_serve(pool, wakes);
    if (!take_single(pool, worker))
        return choose_rest(pool, worker, wakes);
    weft__pool_start_wanted(pool, wakes, false);
    return NEXT_TASK;
}

/* What the worker does next. Inside the runtime; the latch is still held after NEXT_REST. */
static noinline enum next choose(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    struct shard *shard = shard_here(pool);
    enum next next = NEXT_TASK;
    latch_acquire(pool->latch);
    if (shard != NULL) {
        weft__shard_collect(pool, shard);
        weft__inbox_clear(pool, shard);
    }
    if (atomic_i64_load_relaxed(&pool->ready) == 0)
        weft__outboxes_close(pool);
    take_duty(pool, worker);
    if (turn_is_over(worker, shard))
        next = NEXT_YIELD;
    else if (take_from_inbox(pool, worker, shard))
        weft__pool_start_wanted(pool, &wakes, false);
    else
        next = choose_single(pool, worker, &wakes);
    weft__pool_update_room(pool);
    if (next == NEXT_REST)
        return next;
    if (next == NEXT_YIELD)
        weft__line_serve(pool, &wakes);
    weft__pool_unlatch(pool, &wakes);
    return next;
}

/* Looks until there is a task, or nothing to be done: NEXT_TASK; NEXT_END; or NEXT_REST, for which
 * the worker is inside the runtime and holds the latch. */
static noinline enum next next_task(struct worker *worker)
{
    for (;;) {
        (void)runtime_enter(thread_self());
        if (worker->kind == WORKER_COMPACT && unlikely(weft__compact_is_remote(worker))) {
            worker->moves = true;
            weft__compact_move(); /* to weft__worker_run */
        }
        enum next next = choose(worker);
        if (next == NEXT_REST)
            return next;
        if (next == NEXT_TOKEN)
            weft__rate_await(worker->pool);
        runtime_leave(thread_self());
        if (next == NEXT_YIELD)
            weft_yield(); /* to all that is ready on this processor */
        if (next == NEXT_TASK) {
            enter_task(worker);
            weft__worker_bind(worker);
        }
        if (next == NEXT_TASK || next == NEXT_END)
            return next;
    }
}

/* Resting. */

/* Under the latch: a worker has expired, and `surplus` more are idle than are kept. True: it ends.
 * With the option `shrink` the first worker that expires in a period ends the others of its
 * share. */
static bool give_back(weft_pool *pool, int64_t surplus, struct deferred_wakes *wakes)
{
    int64_t now = weft__now();
    if (pool->options.shrink == 0)
        return true;
    if (now < pool->next_share)
        return false;
    pool->next_share = now + pool->options.expiry;
    for (int64_t share = surplus / pool->options.shrink; share > 1; share--)
        (void)weft__pool_end_oldest(pool, wakes);
    return true;
}

/* The worker has rested for its time. True: it is kept all the same. */
static noinline bool stays_expired(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    latch_acquire(pool->latch);
    /* If it is not in the list any more, claim_idle has found it expired, and taken another. */
    if (worker->state == WORKER_IDLE)
        line_leave(&pool->idle, &worker->link);
    worker->state = WORKER_UNLISTED;
    int64_t surplus = pool->idle.length + 1 - pool->options.keep;
    bool stays = surplus <= 0 || !give_back(pool, surplus, &wakes);
    weft__pool_unlatch(pool, &wakes);
    return stays;
}

/* Under the latch: puts the worker on the list of idle ones. Returns until when it rests. */
static noinline int64_t become_idle(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    bool kept = pool->idle.length < pool->options.keep;
    worker->state = WORKER_IDLE;
    line_add(&pool->idle, &worker->link);
    return kept ? WEFT_NEVER : weft_after(pool->options.expiry);
}

/* After the rest; leaves the runtime. False: the worker ends. */
static noinline bool end_rest(struct worker *worker, int result)
{
    bool goes_on = wait_gave_up(result) ? stays_expired(worker) : result == WORKER_WORK;
    runtime_leave(thread_self());
    return goes_on;
}

/* Rests, after NEXT_REST. False: the worker ends. */
static noinline bool rest(struct worker *worker)
{
    int64_t deadline = become_idle(worker);
    return end_rest(worker, weft__park(&worker->fiber->waiter,
                                       wait_id(&wait_idle) | WAIT_FIRM | WAIT_NOTIFIED, pool_unlock,
                                       worker->pool, deadline));
}

/* Running. */

/* The calls are jumps: nothing of this function is below the task on its stack. */
static noinline void call_own_task(struct worker *worker)
{
    *thread_self()->errno_address = 0;
    worker->armed = true;
    if (likely(worker->record == NULL))
        worker->now.function(worker->now.arg);
    else
        worker->record->kind->run(worker->record);
}

static always_inline void run_tasks(struct worker *worker)
{
    for (;;) {
        enum next next = next_task(worker);
        if (next == NEXT_END || (next == NEXT_REST && !rest(worker)))
            return;
        if (next == NEXT_REST)
            continue;
        do
            call_own_task(worker);
        while (after_task(worker));
    }
}

static void end_panicked(struct worker *worker, struct panic *panic)
{
    must(worker->in_task);
    worker->armed = false;
    weft__pool_panicked(worker->pool, &worker->now, panic);
    worker_end_forked_child(); /* of on_panic */
    weft__worker_end_failed(worker);
}

#if WEFT_TSAN
static void run_guarded(void *worker)
{
    run_tasks(worker);
}

/* ThreadSanitizer's shadow of the stack grows with each call that a panic cuts off, unless a
 * guard's longjmp undoes it. That does not matter for a fiber that ends, but for a worker, which
 * goes on. */
static void work(struct worker *worker)
{
    struct guard guard;
    while (weft__guarded(&guard, run_guarded, worker))
        end_panicked(worker, guard.panic);
}
#else
static always_inline void work(struct worker *worker)
{
    run_tasks(worker);
}
#endif

/* The whole life. */

void weft__worker_run(struct worker *worker)
{
    if (!worker->moves && !weft__worker_begin(worker)) {
        weft__worker_finish(worker, false);
        return;
    }
    worker->moves = false;
    work(worker);
    weft__worker_finish(worker, true);
}

void weft__worker_end_failed(struct worker *worker)
{
    weft__worker_clean(worker);
    bool counted = end_own_record(worker);
    weft__worker_leave_user(worker);
    if (!counted && !count_by_shard(worker->pool))
        count_end_latched(worker->pool);
}

void weft__worker_continue(struct worker *worker, struct panic *panic)
{
    end_panicked(worker, panic);
    work(worker);
    weft__worker_finish(worker, true);
}
