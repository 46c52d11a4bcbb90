/*
 * pool_tasks.h: tasks, submitters and the stopper of the model of the pool (pool_model.c), and what
 * must hold at the end of each execution.
 */
#ifndef WEFT_MODEL_POOL_TASKS_H
#define WEFT_MODEL_POOL_TASKS_H

#include <weft/task.h>

#include "pool_stubs.h"

enum { TASKS = 4 };

/* A flag, and the condition of waits for it. */
#define FLAG(name, condition)   \
    static bool name;           \
    static bool condition(void) \
    {                           \
        return name;            \
    }

static weft_pool *pool, *sub; /* sub: a sub-pool of it, in some scenarios */
static int admitted[TASKS], ran[TASKS];
static atomic_u32 work;
static bool stopped;

/* ---- tasks ---- */

static int worker_index(void)
{
    return (int)(weft_self() - fibers);
}

/* A task has begun: at the latest here, at the earliest when its worker was made or ended the task
 * before. It must not have begun if since then all places were taken and none was given back. */
static void task_begins(void)
{
    int index = worker_index();
    MODEL_CHECK(!stopped);
    MODEL_CHECK(free_since[index].active < pool->capacity || active < pool->capacity ||
                free_since[index].became_inactive != became_inactive);
    MODEL_CHECK(!paused || !free_since[index].paused);
    active++;
}

static void task_ends(int number)
{
    active--;
    became_inactive++;
    ran[number]++;
    note_free(worker_index());
}

static bool may_go_on(void)
{
    return true;
}

static void pass_time(void)
{
    atomic_u32_add_acq_rel(&work, 1); /* a point at which the search may switch */
}

/* In a task: parks until the condition holds. */
static void park_until(bool (*until)(void))
{
    (void)runtime_enter(thread_self());
    weft__worker_notify_park();
    runtime_leave(thread_self());
    model_wait_until(until);
}

/* Unless a place is given back out of turn, no more tasks are active than there are places. */
static bool strict;

static void task(void *arg)
{
    task_begins();
    MODEL_CHECK(!strict || active <= pool->capacity);
    pass_time();
    task_ends((int)(intptr_t)arg);
}

static void *number(int index)
{
    return (void *)(intptr_t)index;
}

static void submit(int index)
{
    int error = weft_pool_submit_until(pool, task, number(index), WEFT_NEVER);
    MODEL_CHECK(error == 0 || error == -ESHUTDOWN);
    admitted[index] = error == 0;
}

static void must_submit(void (*function)(void *), int index)
{
    MODEL_CHECK(weft_pool_submit(pool, function, number(index)) == 0);
    admitted[index] = 1;
}

/* ---- submitters and the stopper ---- */

static void run_submitter(void *arg)
{
    submit((int)(intptr_t)arg);
}

static void submitting_fiber(const char *name, void (*function)(void *), int index)
{
    struct weft_fiber *fiber;
    MODEL_CHECK(weft__fiber_make(&fiber, function, number(index), NULL) == 0);
    start_fiber(fiber, name);
}

static void run_stopper(void *arg)
{
    if (sub != NULL)
        MODEL_CHECK(weft_pool_stop(sub, WEFT_NEVER) == 0);
    MODEL_CHECK(weft_pool_stop(pool, WEFT_NEVER) == 0);
    stopped = true;
}

static bool all_ran(void)
{
    for (int i = 0; i < TASKS; i++)
        if (ran[i] < admitted[i])
            return false;
    return true;
}

/* The stop comes when all admitted tasks have run, so only the workers can have seen to that. */
static bool (*may_stop)(void);

static bool stops_now(void)
{
    return may_stop() && all_ran();
}

static void run_last_stopper(void *arg)
{
    model_wait_until(stops_now);
    model_calm(true);
    run_stopper(arg);
}

static void stopper_after(bool (*until)(void))
{
    may_stop = until;
    model_thread("stopper", run_last_stopper, NULL, true);
}

static void stopper(void)
{
    model_thread("stopper", run_stopper, NULL, true);
}

static void have_processors(uint32_t count)
{
    weft__sched.processor_count.value = count;
    weft__sched.in_use.value = weft__sched.in_use_most.value = count;
}

/* With a shard for each fiber, and then one processor. */
static weft_pool *open_with(weft_pool_options options)
{
    weft_pool *opened;
    options.keep = FIBERS;
    have_processors(FIBERS);
    MODEL_CHECK(weft_pool_open(&opened, &options) == 0);
    have_processors(1);
    return opened;
}

static void open_pool(int64_t capacity, int64_t queue)
{
    weft__barrier.symmetric = false;
    weft__runtime_running.value = 1;
    pool = open_with((weft_pool_options){.capacity = capacity, .queue = queue});
    strict = true;
    model_name(pool->latch, "latch");
    model_name(&pool->drain_request, "drain_request");
    model_name(&pool->ready, "ready");
}

/* At the end of an execution. */
static void all_is_done(void)
{
    const weft_pool_stats *stats = &pool->stats;
    for (int i = 0; i < TASKS; i++)
        MODEL_CHECK(ran[i] == admitted[i]);
    MODEL_CHECK(active == 0 && pool->in_flight == 0 && pool->pins == 0);
    MODEL_CHECK(stopped && pool->workers == 0 && pool->line.length == 0 && pool->napping == 0);
    MODEL_CHECK(pool_busy(pool) == 0 && pool->lent == 0 && pool->starting == 0);
    MODEL_CHECK(pool->ready.value == 0 && pool->outboxes == 0);
    MODEL_CHECK(stats->submitted == stats->completed + stats->dropped + stats->cancelled);
}

/* ---- a sub-pool: one place for both pools ---- */

static void with_sub_pool(void)
{
    open_pool(1, 1);
    sub = open_with((weft_pool_options){.parent = pool, .capacity = 1, .queue = 1});
}

static void must_submit_below(void (*function)(void *), int index)
{
    MODEL_CHECK(weft_pool_submit(sub, function, number(index)) == 0);
    admitted[index] = 1;
}

static void tree_is_done(void)
{
    all_is_done();
    MODEL_CHECK(pool_busy(sub) == 0 && sub->in_flight == 0 && sub->workers == 0);
    MODEL_CHECK(pool->below == 0 && pool->granted == 0 && sub->granted == 0);
}

#endif
