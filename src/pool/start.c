/*
 * start.c: how a worker is made, starts and ends: its fiber, and its own state (on_worker_start,
 * on_worker_exit).
 *
 * A worker without its state is of no use: on_worker_start is called until it succeeds, after a
 * pause that doubles each time. Meanwhile the worker holds no place, and no other worker is made.
 */
#include <errno.h>
#include <stdio.h>

#include "base/assert.h"
#include "pool/context.h"
#include "pool/dispatch.h"
#include "pool/failure.h"
#include "pool/pool.h"
#include "pool/shard.h"
#include "pool/worker.h"
#include "sched/fiber/compact.h"
#include "sync/context.h"

/* Waits before on_worker_start is called again; false: the worker is not needed any more. */
static bool try_again_later(weft_pool *pool, struct worker *worker, int64_t pause)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    (void)runtime_enter(thread_self());
    latch_acquire(pool->latch);
    weft__worker_unlist(pool, worker);
    pool->failing++;
    weft__shards_collect(pool);
    bool needed = pool->state == POOL_OPEN || pool->in_flight > 0;
    weft__pool_dispatch(pool, &wakes); /* its place is free */
    weft__pool_unlatch(pool, &wakes);
    runtime_leave(thread_self());
    if (needed)
        (void)weft_sleep(pause);
    latch_acquire(pool->latch);
    pool->failing--;
    pool_add_starting(pool);
    worker->state = WORKER_STARTING;
    latch_release(pool->latch);
    return needed;
}

struct start {
    struct worker *worker;
    int error;
};

static void start(void *arg)
{
    struct start *start = arg;
    const weft_pool_options *options = &start->worker->pool->options;
    start->error = options->on_worker_start(&start->worker->user_state, options->data);
}

static int call_start(weft_pool *pool, struct worker *worker)
{
    struct start own = {worker, 0};
    worker->user_state = NULL;
    weft__worker_unbind(worker);
    weft__worker_enter_user(worker);
    if (weft__pool_call_option(pool, start, &own))
        own.error = -EOWNERDEAD;
    worker_end_forked_child();
    if (own.error == 0 && !pool_has_context(pool))
        worker->context = weft_context_current();
    weft__worker_clean(worker);
    weft__worker_leave_user(worker);
    return own.error;
}

static void call_exit(void *arg)
{
    struct worker *worker = arg;
    worker->pool->options.on_worker_exit(worker->user_state, worker->pool->options.data);
}

noinline bool weft__worker_begin(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    int64_t pause = START_RETRY_FIRST;
    int error;
    while (pool->options.on_worker_start != NULL && (error = call_start(pool, worker)) != 0) {
        char line[96];
        snprintf(line, sizeof line, "a worker could not start: %s", weft_strerror(error));
        weft__pool_log(pool, line);
        worker_end_forked_child();
        if (!try_again_later(pool, worker, pause))
            return false;
        if (pause < START_RETRY_MOST)
            pause *= 2;
    }
    return true;
}

void weft__worker_end(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    (void)runtime_enter(thread_self());
    latch_acquire(pool->latch);
    weft__worker_unlist(pool, worker);
    pool->workers--;
    weft__shards_collect(pool);
    weft__pool_dispatch(pool, &wakes);
    weft__pool_unlatch(pool, &wakes); /* the pool may be gone when a stop of it is woken */
    runtime_leave(thread_self());
}

void weft__worker_finish(struct worker *worker, bool started)
{
    weft_pool *pool = worker->pool;
    weft__worker_unbind(worker);
    if (started && pool->options.on_worker_exit != NULL) {
        worker->in_task = true; /* its calls are the pool's own */
        (void)weft__pool_call_option(pool, call_exit, worker);
        worker_end_forked_child();
        worker->in_task = false;
    }
    fiber_set_client(weft_self(), NULL);
    weft__worker_end(worker);
    if (worker->kind == WORKER_ISOLATED)
        weft__isolated_end(worker);
}

void weft__worker_start_anew(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    (void)runtime_enter(thread_self());
    latch_acquire(pool->latch);
    weft__worker_unlist(pool, worker);
    worker->state = WORKER_STARTING;
    pool_add_starting(pool);
    weft__shards_collect(pool);
    weft__pool_dispatch(pool, &wakes);
    weft__pool_unlatch(pool, &wakes);
    runtime_leave(thread_self());
}

/* Making workers. */

static void worker_main(void *arg)
{
    weft__worker_run(arg);
}

int weft__worker_fiber(weft_pool *pool, struct weft_fiber **out, void (*function)(void *),
                       void *arg)
{
    struct weft_fiber *fiber;
    int error = weft__fiber_make(&fiber, function, arg, pool->site);
    if (error == 0 && atomic_u32_load_relaxed(&pool->binds) && weft__fiber_extra(fiber) == NULL) {
        weft__fiber_discard(fiber);
        error = -ENOMEM;
    }
    if (error != 0)
        return error;
    if (pool->stack_class >= 0)
        fiber->stack_class = (uint8_t)pool->stack_class;
    *out = fiber;
    return 0;
}

int weft__worker_make(weft_pool *pool)
{
    struct weft_fiber *fiber;
    if (pool->options.isolate_crashes)
        return weft__isolated_make(pool);
    bool compact = pool->options.compact != 0 && weft__compact_works();
    int error = weft__worker_fiber(pool, &fiber, worker_main, NULL);
    if (error != 0)
        return error;
    struct worker *worker = compact ? weft__compact_front(fiber, sizeof *worker)
                                    : weft__machine_front(fiber, sizeof *worker);
    if (worker == NULL) {
        weft__fiber_discard(fiber);
        return -ENOMEM;
    }
    *worker = (struct worker){.pool = pool,
                              .fiber = fiber,
                              .state = WORKER_STARTING,
                              .kind = compact ? WORKER_COMPACT : WORKER_PRIVATE};
    fiber->arg = worker;
    fiber_set_client(fiber, worker);
    weft__fiber_start(fiber, true);
    return 0;
}
