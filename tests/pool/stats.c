/*
 * stats.c: the figures of a pool: each by itself, and that they agree with each other at every
 * moment.
 *
 * Every call of pool_stats (tasks.h) checks that no figure is negative and that submitted is the
 * sum of the others.
 */
#include <weft/task.h>

#include "base/prng.h"
#include "sync/lines.h"
#include "tasks.h"

static atomic_u32 ran;

static void check_figures(weft_pool *pool, int64_t running, int64_t queued, int64_t submitted,
                          int64_t completed)
{
    CHECK_FIGURES(pool, IS(running, running), IS(starting, 0), IS(queued, queued),
                  IS(submitted, submitted), IS(completed, completed));
}

/* One by one. */

static void each_figure_counts_one_thing(void *arg)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 3, .queue = 4, .expiry = WEFT_NEVER);
    weft_pool_stats stats = pool_stats(pool), zero = {.capacity = 3, .queue = 4};
    CHECK_EQ(memcmp(&stats, &zero, sizeof stats), 0);

    gate_shut(&gate);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), 0);
        await(&gate.gauge.now, (uint32_t)i);
        check_figures(pool, i, 0, i, 0);
    }
    CHECK_FIGURES(pool, IS(workers, 3), IS(idle, 0));
    atomic_u32_store_relaxed(&ran, 0);
    for (int i = 1; i <= 4; i++) {
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        check_figures(pool, 3, i, 3 + i, 0);
    }
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -EAGAIN);
    CHECK_EQ(pool_stats(pool).rejected, 1);
    gate_open(&gate);
    AWAIT_FIGURE(pool, completed, 7);
    check_figures(pool, 0, 0, 7, 7);
    AWAIT_FIGURE(pool, idle, 3);
    stats = pool_stats(pool);
    CHECK_STATS(stats, IS(workers, 3), IS(most_workers, 3));
    CHECK_EQ(stats.dropped + stats.cancelled + stats.panicked + stats.blocked, 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    stats = pool_stats(pool);
    CHECK_STATS(stats, IS(workers, 0), IS(most_workers, 3), IS(completed, 7));
    pool_close(pool);
}

/* Each way in which a submit is refused. */
static void rejected_counts_refused_submits(void *arg)
{
    static struct gate gate;
    enum { WAIT = 3 };
    struct submission own[WAIT];
    weft_pool *pool = POOL_OPEN(.capacity = 1, .max_blocked = WAIT);
    weft_context *context = new_context();
    gate_shut_and_fill(&gate, pool, 1);
    for (int i = 0; i < WAIT; i++) {
        submission_start_in(&own[i], pool, count_task, &ran, i == 0 ? context : NULL, i == 1);
        AWAIT_FIGURE(pool, blocked, i + 1);
        CHECK_EQ(pool_stats(pool).rejected, 0);
    }
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -EAGAIN); /* too many wait */
    CHECK_EQ(pool_stats(pool).rejected, 1);
    weft_context_cancel(context);
    CHECK_EQ(submission_end(&own[0]), -ECANCELED);
    CHECK_FIGURES(pool, IS(rejected, 2), IS(blocked, 2));
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, weft_after(WEFT_US)), -ETIMEDOUT);
    CHECK_EQ(pool_stats(pool).rejected, 3);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT);
    for (int i = 1; i < WAIT; i++)
        CHECK_EQ(submission_end(&own[i]), -ESHUTDOWN);
    CHECK_EQ(pool_stats(pool).rejected, 5);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -ESHUTDOWN);
    CHECK_FIGURES(pool, IS(rejected, 6), IS(blocked, 0), IS(submitted, 1));
    gate_open_and_close(&gate, pool);
    weft_context_close(context);
}

static void what_will_not_run_is_counted(void *arg)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 3, .when_full = WEFT_DROP_OLDEST);
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    submit_counts(pool, &ran, 5);
    CHECK_EQ(pool_stats(pool).dropped, 2); /* by policy */
    check_figures(pool, 1, 3, 6, 0);
    CHECK_EQ(weft_pool_abort(pool), 3);
    CHECK_EQ(pool_stats(pool).dropped, 5);
    check_figures(pool, 1, 0, 6, 0);
    weft_task *task = start_task(pool, count_handle, &ran);
    check_figures(pool, 1, 1, 7, 0);
    CHECK_EQ(weft_task_cancel(task), 0);
    check_figures(pool, 1, 0, 7, 0); /* its place is free */
    CHECK_EQ(pool_stats(pool).cancelled, 1);
    weft_task_release(task);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_FIGURES(pool, IS(submitted, 8), IS(cancelled, 1), IS(completed, 2));
    CHECK_EQ(count_of(&ran), 1);
    pool_close(pool);
}

static void idle_workers_do_not_run(void *arg)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 8, .queue = 8, .prestart = 5, .expiry = WEFT_NEVER);
    AWAIT_FIGURE(pool, idle, 5);
    CHECK_FIGURES(pool, IS(running, 0), IS(workers, 5));
    gate_shut_and_fill(&gate, pool, 2);
    AWAIT_FIGURE(pool, idle, 3); /* one of them may still look for more */
    CHECK_FIGURES(pool, IS(running, 2), IS(workers, 5));
    submit_many(pool, gate_task, &gate, 6);
    await(&gate.gauge.now, 8);
    gate_open(&gate);
    AWAIT_FIGURE(pool, running, 0);
    AWAIT_FIGURE(pool, idle, 8);
    CHECK_FIGURES(pool, IS(running, 0), IS(workers, 8));
    pool_close(pool);
}

/* A task that a free worker is about to take is not queued. */
static void what_can_begin_is_not_queued(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 5, .queue = 2);
    for (int i = 0; i < 7; i++) {
        CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), 0);
        CHECK_FIGURES(pool, IS(starting, i < 5 ? i + 1 : 5), IS(queued, i < 5 ? 0 : i - 4));
    }
    CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), -EAGAIN);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_at_gate(&gate, 5);
    CHECK_FIGURES(pool, IS(starting, 0), IS(queued, 2));
    gate_open_and_close(&gate, pool);
}

enum { SUBMITTERS = 3 };

static struct {
    weft_pool *pool;
    int64_t each, capacity;
    atomic_u32 left, admitted, turned_away, panicked, cancelled;
} load;

static void work_a_little(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    if (number % 16 == 0)
        CHECK_EQ(weft_sleep(5 * WEFT_US), 0);
    else if (number % 16 == 1)
        weft_yield();
    for (uintptr_t i = 0; i < number % 64; i++)
        cpu_relax();
}

static int fail_after_a_yield(void *arg)
{
    weft_yield();
    return -EIO;
}

static void count_and_panic(void *arg)
{
    count_task(&load.panicked);
    weft_panic("on purpose");
}

/* A task that panics, and one with a handle that fails or is cancelled. */
static void submit_other_kinds(bool cancels)
{
    weft_task *task = NULL;
    int error = weft_pool_try_submit(load.pool, count_and_panic, NULL);
    atomic_u32_add_seq_cst(error == 0 ? &load.admitted : &load.turned_away, 1);
    error = weft_task_try_start(&task, load.pool, fail_after_a_yield, NULL, NULL);
    atomic_u32_add_seq_cst(error == 0 ? &load.admitted : &load.turned_away, 1);
    if (error != 0)
        return;
    if (cancels && weft_task_cancel(task) == 0)
        count_task(&load.cancelled);
    CHECK_EQ(weft_task_wait(task, NULL), 0);
    weft_task_release(task);
}

static void submit_load(void *arg)
{
    struct prng prng;
    prng_seed(&prng, (uintptr_t)arg);
    for (int64_t i = 0; i < load.each; i++) {
        uint32_t number = prng_next(&prng);
        int error =
            weft_pool_submit_until(load.pool, work_a_little, (void *)(uintptr_t)number,
                                   number % 5 == 0 ? weft_after(number % 7 * WEFT_US) : WEFT_NEVER);
        CHECK(error == 0 || error == -ETIMEDOUT || error == -EAGAIN);
        atomic_u32_add_seq_cst(error == 0 ? &load.admitted : &load.turned_away, 1);
        if (i % 4 == 0)
            submit_other_kinds(i % 3 == 0);
        if (i % 50 == 0)
            (void)weft_pool_abort(load.pool);
    }
    atomic_u32_sub_seq_cst(&load.left, 1);
}

/* Totals never go back. */
static void check_growth(const weft_pool_stats *before, const weft_pool_stats *now)
{
    static const size_t totals[] = {
        offsetof(weft_pool_stats, submitted), offsetof(weft_pool_stats, completed),
        offsetof(weft_pool_stats, rejected),  offsetof(weft_pool_stats, dropped),
        offsetof(weft_pool_stats, cancelled), offsetof(weft_pool_stats, failed),
        offsetof(weft_pool_stats, panicked),  offsetof(weft_pool_stats, stolen),
        offsetof(weft_pool_stats, beyond),    offsetof(weft_pool_stats, most_workers)};
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++)
        CHECK(figure_of(now, totals[i]) >= figure_of(before, totals[i]));
}

static void watch_load(void *arg)
{
    weft_pool_stats before = pool_stats(load.pool);
    while (count_of(&load.left) > 0) {
        weft_pool_stats now = pool_stats(load.pool);
        check_growth(&before, &now);
        CHECK(now.running <= load.capacity);
        CHECK(now.running + now.starting <= load.capacity);
        CHECK(now.queued <= now.queue);
        CHECK(now.blocked <= SUBMITTERS);
        before = now;
        weft_yield();
    }
}

static void run_load(weft_pool_options options)
{
    struct body bodies[SUBMITTERS + 2];
    memset(&load, 0, sizeof load);
    load.each = test_scale(1000);
    /* A task that its submitter calls is beyond the capacity. */
    load.capacity = options.when_full == WEFT_CALLER_RUNS ? WEFT_UNLIMITED : options.capacity;
    options.on_panic = ignore_panic;
    load.pool = pool_open(options);
    atomic_u32_store_relaxed(&load.left, SUBMITTERS);
    for (int i = 0; i < SUBMITTERS; i++)
        bodies[i] = (struct body){
            .function = submit_load, .arg = (void *)(uintptr_t)(i + 1), .thread = i % 2 == 0};
    for (int i = 0; i < 2; i++)
        bodies[SUBMITTERS + i] = (struct body){.function = watch_load, .thread = i == 0};
    bodies_run(bodies, SUBMITTERS + 2);
    CHECK_EQ(weft_pool_stop(load.pool, WEFT_NEVER), 0);
    weft_pool_stats stats = pool_stats(load.pool);
    CHECK_STATS(stats, IS(submitted, count_of(&load.admitted)),
                IS(rejected, count_of(&load.turned_away)), IS(panicked, count_of(&load.panicked)),
                IS(cancelled, count_of(&load.cancelled)), IS(beyond, 0));
    CHECK_EQ(stats.completed + stats.dropped + stats.cancelled, stats.submitted);
    CHECK_EQ(stats.running + stats.starting + stats.queued + stats.blocked + stats.workers +
                 stats.idle,
             0);
    pool_close(load.pool);
}

static void run_loads(void *arg)
{
    run_load((weft_pool_options){.capacity = 1});
    run_load((weft_pool_options){.capacity = 3, .queue = 10, .expiry = WEFT_US});
    run_load((weft_pool_options){.capacity = 10, .queue = WEFT_UNLIMITED, .reuse = WEFT_FIFO});
    run_load((weft_pool_options){.capacity = 2, .queue = 3, .when_full = WEFT_CALLER_RUNS});
    run_load((weft_pool_options){.capacity = 4, .queue = 30, .when_full = WEFT_REJECT});
    run_load((weft_pool_options){.capacity = 4, .queue = 30, .when_full = WEFT_DROP_OLDEST});
    run_load((weft_pool_options){.capacity = 4, .queue = 30, .when_full = WEFT_DROP_NEWEST});
}

static void figures_agree_at_every_moment(void)
{
    for (int processors = 1; processors <= 4; processors++)
        with_processors(processors, run_loads, NULL);
}

/* Tasks behind one that computes. */

static void what_waits_behind_another_is_queued(void *arg)
{
    memset(&holder, 0, sizeof holder);
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = WEFT_UNLIMITED);
    CHECK_EQ(weft_pool_submit(pool, hold_processor, NULL), 0);
    atomic_u32_store_relaxed(&ran, 0);
    submit_counts(pool, &ran, 50);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.starting, 1); /* a place is free */
    CHECK_EQ(stats.queued, 50);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await(&holder.begun, 1);
    check_figures(pool, 1, 50, 51, 0);
    atomic_u32_store_release(&holder.over, 1);
    AWAIT_FIGURE(pool, completed, 51);
    check_figures(pool, 0, 0, 51, 51);
    pool_close(pool);
}

/* Stolen tasks run on another processor than that of their inbox. */

static void steal_behind_a_holder(void *arg)
{
    memset(&holder, 0, sizeof holder);
    weft_pool *pool = POOL_OPEN_PAUSED(.queue = WEFT_UNLIMITED);
    CHECK_EQ(weft_pool_submit(pool, hold_processor, NULL), 0);
    atomic_u32_store_relaxed(&ran, 0);
    submit_counts(pool, &ran, 10);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await(&ran, 10); /* they do not wait for the holder */
    CHECK_EQ(count_of(&holder.over), 0);
    CHECK(pool_stats(pool).stolen <= 10);
    atomic_u32_store_release(&holder.over, 1);
    pool_close(pool);
}

static void nothing_waits_behind_a_task_that_computes(void)
{
    for (int64_t i = test_scale(10); i-- > 0;)
        with_processors(2 + (int)(i % 2), steal_behind_a_holder, NULL);
}

int main(void)
{
    RUN_EVERYWHERE(each_figure_counts_one_thing);
    RUN_EVERYWHERE(rejected_counts_refused_submits);
    RUN_EVERYWHERE(what_will_not_run_is_counted);
    RUN_EVERYWHERE(idle_workers_do_not_run);
    RUN_EVERYWHERE(what_can_begin_is_not_queued);
    RUN_BOTH(figures_agree_at_every_moment);
    PLAIN_AT(what_waits_behind_another_is_queued,
             "holds a processor while others run on another one", OUTSIDE(1), OUTSIDE(2));
    RUN_PLAIN(nothing_waits_behind_a_task_that_computes,
              "holds a processor while others run on another one");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
