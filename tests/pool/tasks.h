/*
 * tasks.h: for tests of the pool: pools, gates that tasks wait at, and counts that tasks keep themselves.
 */
#ifndef WEFT_TEST_TASKS_H
#define WEFT_TEST_TASKS_H

#include <limits.h>
#include <sched.h>

#include "bodies.h"
#include "everywhere.h"
#include <weft/weft.h>

#define POOL_POISON ((weft_pool *)(uintptr_t)0xdead)
#define LONG (3600 * WEFT_S) /* does not pass in a test */

static inline weft_pool *pool_open(weft_pool_options options)
{
    weft_pool *pool = POOL_POISON;
    CHECK_EQ(weft_pool_open(&pool, &options), 0);
    CHECK(pool != NULL && pool != POOL_POISON);
    return pool;
}

static inline void pool_close(weft_pool *pool)
{
    CHECK_EQ(weft_pool_close(pool), 0);
}

/* The figures, which must agree with each other. */
static inline weft_pool_stats pool_stats(weft_pool *pool)
{
    weft_pool_stats stats;
    memset(&stats, 0x55, sizeof stats);
    CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    CHECK(stats.capacity > 0);
    CHECK(stats.running >= 0 && stats.starting >= 0 && stats.queued >= 0 && stats.blocked >= 0);
    CHECK(stats.lending >= 0 && stats.lending <= stats.running);
    CHECK(stats.beyond >= 0 && stats.beyond <= stats.submitted);
    CHECK(stats.failed >= 0 && stats.failed <= stats.completed);
    CHECK(stats.completed >= 0 && stats.rejected >= 0 && stats.dropped >= 0);
    CHECK(stats.cancelled >= 0 && stats.stolen >= 0 && stats.handlers_panicked >= 0);
    CHECK(stats.panicked >= 0 && stats.panicked <= stats.submitted);
    CHECK(stats.idle >= 0 && stats.idle <= stats.workers && stats.workers <= stats.most_workers);
    CHECK_EQ(stats.submitted, stats.completed + stats.running + stats.starting + stats.queued +
                                  stats.dropped + stats.cancelled);
    return stats;
}

/* Tasks that were admitted and have not begun. */
static inline int64_t pool_waiting(weft_pool *pool)
{
    weft_pool_stats stats = pool_stats(pool);
    return stats.starting + stats.queued;
}

static inline weft_task *start_task(weft_pool *pool, int (*function)(void *), void *arg)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_task_start(&task, pool, function, arg, NULL), 0);
    CHECK(task != NULL);
    return task;
}

/* Waits for the task; its result. */
static inline int task_result(weft_task *task)
{
    int result = INT_MIN;
    CHECK_EQ(weft_task_wait(task, &result), 0);
    CHECK(result != INT_MIN);
    return result;
}

/* The same, and gives the handle back. */
static inline int end_task(weft_task *task)
{
    int result = task_result(task);
    weft_task_release(task);
    return result;
}

static inline weft_group *group_over(weft_pool *pool, const weft_group_options *options)
{
    weft_group *group = NULL;
    CHECK_EQ(weft_pool_group(&group, pool, options), 0);
    return group;
}

static inline void await_blocked(weft_pool *pool, int64_t count)
{
    while (pool_stats(pool).blocked != count)
        weft_yield();
}

static inline void await_running(weft_pool *pool, int64_t count)
{
    while (pool_stats(pool).running != count)
        weft_yield();
}

static inline void await_completed(weft_pool *pool, int64_t count)
{
    while (pool_stats(pool).completed != count)
        weft_yield();
}

static inline void await_at_least(const atomic_u32 *word, uint32_t value)
{
    while (atomic_u32_load_acquire(word) < value)
        weft_yield();
}

/* How many are inside at once, counted by those who are. */
struct gauge {
    atomic_u32 now, most, total;
};

static inline void gauge_enter(struct gauge *gauge)
{
    uint32_t now = atomic_u32_add_seq_cst(&gauge->now, 1) + 1;
    uint32_t most = atomic_u32_load_relaxed(&gauge->most);
    while (now > most && !atomic_u32_cas_acq_rel(&gauge->most, &most, now))
        continue;
    atomic_u32_add_seq_cst(&gauge->total, 1);
}

static inline void gauge_leave(struct gauge *gauge)
{
    atomic_u32_sub_seq_cst(&gauge->now, 1);
}

static inline uint32_t gauge_most(const struct gauge *gauge)
{
    return atomic_u32_load_acquire(&gauge->most);
}

static inline uint32_t gauge_total(const struct gauge *gauge)
{
    return atomic_u32_load_acquire(&gauge->total);
}

/* Tasks that wait until they may go. */
struct gate {
    weft_wg shut;
    struct gauge gauge;
};

static inline void gate_shut(struct gate *gate)
{
    memset(&gate->gauge, 0, sizeof gate->gauge);
    CHECK_EQ(weft_wg_init(&gate->shut, 1), 0);
}

static inline void gate_open(struct gate *gate)
{
    weft_wg_done(&gate->shut);
}

static inline void gate_task(void *arg)
{
    struct gate *gate = arg;
    gauge_enter(&gate->gauge);
    CHECK_EQ(weft_wg_wait(&gate->shut), 0);
    gauge_leave(&gate->gauge);
}

/* The same, whatever happens to the pool's context. */
static inline void firm_gate_task(void *gate)
{
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    gate_task(gate);
}

static inline void gate_fill_firmly(struct gate *gate, weft_pool *pool, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit(pool, firm_gate_task, gate), 0);
    await(&gate->gauge.now, count);
}

/* Fills the pool with so many tasks that wait at the gate, and waits until they do. */
static inline void gate_fill(struct gate *gate, weft_pool *pool, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit(pool, gate_task, gate), 0);
    await(&gate->gauge.now, count);
}

static inline void count_task(void *arg)
{
    atomic_u32_add_seq_cst(arg, 1);
}

/* Submits so many tasks that count themselves. */
static inline void submit_counts(weft_pool *pool, atomic_u32 *ran, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit(pool, count_task, ran), 0);
}

/* A submitter, to be run as a body. */
struct submitter_body {
    weft_pool *pool;
    void (*function)(void *);
    void *arg;
    int64_t deadline;
    weft_context *context;
    int result;
    atomic_u32 returned;
};

static inline void submitter_main(void *arg)
{
    struct submitter_body *own = arg;
    if (own->context != NULL)
        CHECK_EQ(weft_context_bind(own->context, NULL), 0);
    own->result = weft_pool_submit_until(own->pool, own->function, own->arg, own->deadline);
    if (own->context != NULL)
        CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    atomic_u32_store_release(&own->returned, 1);
}

/* A task that keeps its processor from `begun` until it is `over`. */

static struct {
    atomic_u32 begun, over;
} holder __attribute__((unused));

static inline void hold_processor(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&holder.begun, 1);
    while (!atomic_u32_load_acquire(&holder.over))
        sched_yield();
}

#endif
