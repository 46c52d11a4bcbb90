/*
 * mission.c: what users of other pools know from there, one test for each, as they would try it first.
 */
#include <weft/weft.h>

#include "seeds.h"
#include "sync/lines.h"
#include "tasks.h"

/* A worker pool with a checked capacity. */

static void capacity_is_checked(void)
{
    weft_pool *pool = POOL_POISON;
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = -1}), -EINVAL);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = INT64_MIN}), -EINVAL);
    CHECK_PTR(pool, POOL_POISON);
    pool = pool_open((weft_pool_options){.capacity = 0});
    CHECK_EQ(pool_stats(pool).capacity, 10000); /* the default */
    CHECK_EQ(weft_pool_tune(pool, 0), -EINVAL);
    CHECK_EQ(weft_pool_tune(pool, -5), -EINVAL);
    CHECK_EQ(pool_stats(pool).capacity, 10000);
    pool_close(pool);
    pool = pool_open((weft_pool_options){.capacity = WEFT_UNLIMITED});
    CHECK_EQ(pool_stats(pool).capacity, WEFT_UNLIMITED);
    pool_close(pool);
}

/* When all are busy a submit waits, or says that no worker is idle. */
static void schedule_waits_or_says_so(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct gate gate;
        weft_pool *pool = pool_open((weft_pool_options){.capacity = 2});
        gate_shut_and_fill(&gate, pool, 2);
        CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), -EAGAIN);
        CHECK_EQ(weft_pool_submit_until(pool, gate_task, &gate, weft_after(WEFT_MS)), -ETIMEDOUT);
        struct submission submitter;
        submission_start(&submitter, pool, gate_task, &gate, thread);
        AWAIT_FIGURE(pool, blocked, 1);
        gate_open(&gate);
        CHECK_EQ(submission_end(&submitter), 0);
        pool_close(pool);
        CHECK_EQ(gauge_total(&gate.gauge), 3);
        CHECK_EQ(gauge_most(&gate.gauge), 2);
    }
}

/* After the pool is freed a submit gets an error, also one that was waiting already. */
static void after_free_there_is_an_error(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct gate gate;
        weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
        gate_shut_and_fill(&gate, pool, 1);
        struct submission submitter;
        submission_start(&submitter, pool, gate_task, &gate, thread);
        AWAIT_FIGURE(pool, blocked, 1);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT); /* one still runs */
        CHECK_EQ(submission_end(&submitter), -ESHUTDOWN);     /* does not wait for that one */
        CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), -ESHUTDOWN);
        gate_open(&gate);
        pool_close(pool); /* waits for the workers */
        CHECK_EQ(gauge_total(&gate.gauge), 1);
    }
}

/* A pool of workers made by need, reused and tuned. */

static void overload_is_an_error(void)
{
    enum { MOST = 3 };
    struct gate gate;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .max_blocked = MOST});
    gate_shut_and_fill(&gate, pool, 1);
    struct submission submitters[MOST];
    for (int i = 0; i < MOST; i++)
        submission_start(&submitters[i], pool, gate_task, &gate, i == 0);
    AWAIT_FIGURE(pool, blocked, MOST);
    CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), -EAGAIN); /* so many wait already */
    CHECK_EQ(pool_stats(pool).rejected, 1);
    gate_open(&gate);
    for (int i = 0; i < MOST; i++)
        CHECK_EQ(submission_end(&submitters[i]), 0);
    pool_close(pool);
}

static void running_free_waiting_and_capacity(void *arg)
{
    struct gate gate;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 5, .expiry = WEFT_NEVER});
    gate_shut_and_fill(&gate, pool, 3);
    CHECK_FIGURES(pool_stats(pool), FIGURE(capacity, 5), FIGURE(running, 3), FIGURE(blocked, 0),
                  FIGURE(queued, 0));
    gate_open(&gate);
    AWAIT_FIGURE(pool, completed, 3);
    AWAIT_FIGURE(pool, running, 0); /* an idle worker does not run */
    CHECK(pool_stats(pool).workers >= 3);
    pool_close(pool);
}

static struct gate crowd;
static struct gauge single;

/* Runs when all of the crowd have gone, and with no other. */
static void run_alone(void *arg)
{
    gauge_enter(&single);
    CHECK_EQ(count_of(&crowd.gauge.now), 0);
    weft_yield();
    CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    gauge_leave(&single);
}

static void tuned_up_and_down(void *arg)
{
    gate_shut(&crowd);
    memset(&single, 0, sizeof single);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = 100});
    submit_many(pool, gate_task, &crowd, 10);
    await_at_gate(&crowd, 2);
    CHECK_EQ(weft_pool_tune(pool, 10), 0); /* those who wait go on at once */
    await_at_gate(&crowd, 10);
    CHECK_EQ(weft_pool_tune(pool, 1), 0);
    submit_many(pool, run_alone, NULL, 20);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.running, 10); /* what runs, runs on */
    CHECK_EQ(stats.queued, 20);
    gate_open(&crowd);
    AWAIT_FIGURE(pool, completed, 30);
    struct gate second;
    gate_shut(&second);
    submit_many(pool, gate_task, &second, 5);
    await_at_gate(&second, 1);
    CHECK_EQ(pool_stats(pool).running, 1); /* though ten workers are idle */
    gate_open(&second);
    pool_close(pool);
    CHECK_EQ(gauge_most(&single), 1);
    CHECK_EQ(gauge_most(&second.gauge), 1);
}

static void release_with_a_deadline_and_reboot(void *arg)
{
    struct gate gate;
    atomic_u32 ran = {0};
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .prestart = 2});
    gate_shut_and_fill(&gate, pool, 1);
    int64_t deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_pool_stop(pool, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_pool_reopen(pool), -EBUSY);
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -ESHUTDOWN);
    CHECK_EQ(pool_stats(pool).workers, 0);
    CHECK_EQ(weft_pool_reopen(pool), 0);
    CHECK_EQ(weft_pool_reopen(pool), -EBUSY);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_close_until(pool, weft_after(LONG)), 0);
    CHECK_EQ(count_of(&ran), 1);
}

struct stopper {
    weft_pool *pool;
    weft_context *context;
    atomic_u32 begun;
    int result;
};

static void stop_in_context(void *arg)
{
    struct stopper *stopper = arg;
    CHECK_EQ(weft_context_bind(stopper->context, NULL), 0);
    atomic_u32_add_seq_cst(&stopper->begun, 1);
    stopper->result = weft_pool_stop(stopper->pool, WEFT_NEVER);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void release_with_a_context(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct gate gate;
        gate_shut(&gate);
        struct stopper stopper = {.pool = pool_open((weft_pool_options){.capacity = 1})};
        stopper.context = new_context();
        gate_fill(&gate, stopper.pool, 1);
        struct body body = {.function = stop_in_context, .arg = &stopper, .thread = thread};
        body_start(&body);
        await_count(&stopper.begun, 1);
        weft_context_cancel(stopper.context);
        body_join(&body);
        CHECK_EQ(stopper.result, -ECANCELED);
        gate_open(&gate);
        pool_close(stopper.pool);
        weft_context_close(stopper.context);
    }
}

static void a_default_pool_is_ready(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = weft_pool_default();
    CHECK(pool != NULL);
    CHECK_PTR(weft_pool_default(), pool);
    submit_counts(pool, &ran, 100);
    await_count(&ran, 100);
}

/* Unlimited, with tasks that sleep: all at once. */
static void unlimited(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    uint32_t count = (uint32_t)test_scale(2000);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = WEFT_UNLIMITED});
    submit_many(pool, gate_task, &gate, count);
    await_at_gate(&gate, count);
    CHECK_EQ(gauge_most(&gate.gauge), count);
    gate_open(&gate);
    pool_close(pool);
}

/* A pool with a function: tasks are arguments. */

static void add(void *counter)
{
    count_task(counter);
}

static void tasks_are_arguments(void *arg)
{
    atomic_u32 counters[10];
    void *args[10];
    memset(counters, 0, sizeof counters);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 4, .function = add});
    for (int i = 0; i < 10; i++) {
        args[i] = &counters[i];
        CHECK_EQ(weft_pool_invoke(pool, &counters[i]), 0);
        CHECK_EQ(weft_pool_invoke_until(pool, &counters[i], weft_after(LONG)), 0);
        int tried = weft_pool_try_invoke(pool, &counters[i]);
        CHECK(tried == 0 || tried == -EAGAIN);
        if (tried != 0)
            CHECK_EQ(weft_pool_submit(pool, add, &counters[i]), 0); /* any other works too */
    }
    CHECK_EQ(weft_pool_submit_batch(pool, NULL, args, 10, WEFT_NEVER), 10);
    pool_close(pool);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(count_of(&counters[i]), 4);
    pool = pool_open((weft_pool_options){.capacity = 4});
    CHECK_EQ(weft_pool_invoke(pool, args), -EINVAL); /* it has no function */
    CHECK_EQ(weft_pool_invoke_until(pool, args, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_try_invoke(pool, args), -EINVAL);
    CHECK_EQ(weft_pool_submit(pool, NULL, args), -EINVAL); /* and no worker dies of it */
    pool_close(pool);
}

/* Several pools: the same work, shared out. */
static void several_pools(void *arg)
{
    static const int strategies[] = {WEFT_ROUND_ROBIN, WEFT_LEAST_BUSY};
    for (int s = 0; s < 2; s++) {
        atomic_u32 ran = {0};
        weft_pools *pools;
        weft_pool_options each = {.capacity = 10, .queue = WEFT_UNLIMITED};
        CHECK_EQ(weft_pools_open(&pools, 10, strategies[s], &each), 0);
        for (int i = 0; i < 1000; i++)
            CHECK_EQ(weft_pool_submit(weft_pools_pick(pools), count_task, &ran), 0);
        weft_pool_stats stats;
        CHECK_EQ(weft_pools_stats(pools, &stats), 0);
        CHECK_FIGURES(stats, FIGURE(submitted, 1000), FIGURE(capacity, 100));
        for (int i = 0; strategies[s] == WEFT_ROUND_ROBIN && i < 10; i++)
            CHECK_EQ(pool_stats(weft_pools_get(pools, i)).submitted, 100);
        CHECK_EQ(weft_pools_close(pools), 0);
        CHECK_EQ(count_of(&ran), 1000);
    }
}

/* A queue in front of a fixed number of consumers. */

static struct journal dropped;

static void note_dropped(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == gate_task || function == count_task);
    CHECK_PTR(data, &dropped);
    journal_add(&dropped, arg != NULL);
}

static void a_fixed_pool_that_drops(void *arg)
{
    enum { WORKERS = 3 };
    static const int policies[] = {WEFT_DROP_NEWEST, WEFT_DROP_OLDEST};
    for (int i = 0; i < 2; i++) {
        struct gate gate;
        atomic_u32 ran = {0};
        memset(&dropped, 0, sizeof dropped);
        weft_pool_options options = weft_pool_fixed(WORKERS);
        options.when_full = policies[i];
        options.on_drop = note_dropped;
        options.data = &dropped;
        weft_pool *pool = pool_open(options);
        gate_shut_and_fill(&gate, pool, WORKERS);
        submit_counts(pool, &ran, 10); /* nobody waits, and nobody gets an error */
        CHECK_FIGURES(pool_stats(pool), FIGURE(queued, WORKERS), FIGURE(dropped, 10 - WORKERS));
        CHECK_EQ(count_of(&dropped.length), 10 - WORKERS);
        gate_open(&gate);
        pool_close(pool); /* what was admitted is drained */
        CHECK_EQ(count_of(&ran), WORKERS);
    }
}

/* A long queue: in order, by one consumer, and all of it before the end. */

static struct journal journal;

static void note(void *number)
{
    journal_add(&journal, (int)(uintptr_t)number);
}

static void a_job_queue_is_drained_in_order(void *arg)
{
    enum { JOBS = 2000 };
    memset(&journal, 0, sizeof journal);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = WEFT_UNLIMITED});
    for (uintptr_t i = 0; i < JOBS; i++)
        CHECK_EQ(weft_pool_try_submit(pool, note, (void *)i), 0); /* a queue without a bound */
    pool_close(pool);
    CHECK_EQ(count_of(&journal.length), JOBS);
    for (int i = 0; i < JOBS; i++)
        CHECK_EQ(journal.entries[i], i);
}

/* Tasks that compute, without ever waiting; on two processors. */

static atomic_u32 spun, go_on;

static void spin(void *arg)
{
    atomic_u32_add_seq_cst(&spun, 1);
    while (!count_of(&go_on))
        cpu_relax();
}

static void compute_alone(void *arg)
{
    gauge_enter(&single);
    for (int i = 0; i < 1000; i++)
        cpu_relax();
    gauge_leave(&single);
}

static void tuned_down_while_all_compute(void *arg)
{
    int64_t count = test_scale(500);
    memset(&single, 0, sizeof single);
    atomic_u32_store_release(&spun, 0);
    atomic_u32_store_release(&go_on, 0);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = WEFT_UNLIMITED});
    submit_many(pool, spin, NULL, 2);
    await_count(&spun, 2);
    submit_many(pool, compute_alone, NULL, count);
    CHECK_EQ(weft_pool_tune(pool, 1), 0);
    atomic_u32_store_release(&go_on, 1);
    pool_close(pool);
    CHECK_EQ(gauge_total(&single), count);
    CHECK_EQ(gauge_most(&single), 1);
}

/* The one that waits longest is dropped, also behind a consumer that computes. */
static void drop_oldest_behind_a_busy_consumer(void *arg)
{
    enum { QUEUE = 10 };
    memset(&journal, 0, sizeof journal);
    atomic_u32_store_release(&spun, 0);
    atomic_u32_store_release(&go_on, 0);
    weft_pool *pool = pool_open(
        (weft_pool_options){.capacity = 1, .queue = QUEUE, .when_full = WEFT_DROP_OLDEST});
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, spin, NULL), 0);
    for (uintptr_t i = 0; i < QUEUE; i++)
        CHECK_EQ(weft_pool_submit(pool, note, (void *)i), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_count(&spun, 1);
    for (uintptr_t i = QUEUE; i < QUEUE + 4; i++)
        CHECK_EQ(weft_pool_submit(pool, note, (void *)i), 0);
    CHECK_EQ(pool_stats(pool).dropped, 4);
    atomic_u32_store_release(&go_on, 1);
    pool_close(pool);
    CHECK_EQ(count_of(&journal.length), QUEUE);
    for (int i = 0; i < QUEUE; i++)
        CHECK_EQ(journal.entries[i], i + 4);
}

int main(void)
{
    RUN_PLAIN(capacity_is_checked, "nothing waits");
    RUN_BOTH(schedule_waits_or_says_so);
    RUN_BOTH(after_free_there_is_an_error);
    RUN_BOTH(overload_is_an_error);
    RUN_EVERYWHERE(running_free_waiting_and_capacity);
    RUN_EVERYWHERE(tuned_up_and_down);
    RUN_EVERYWHERE(release_with_a_deadline_and_reboot);
    RUN_BOTH(release_with_a_context);
    RUN_EVERYWHERE(a_default_pool_is_ready);
    RUN_EVERYWHERE(unlimited);
    RUN_EVERYWHERE(tasks_are_arguments);
    RUN_EVERYWHERE(several_pools);
    RUN_EVERYWHERE(a_fixed_pool_that_drops);
    RUN_EVERYWHERE(a_job_queue_is_drained_in_order);
    with_processors(2, tuned_down_while_all_compute, NULL);
    with_processors(2, drop_oldest_behind_a_busy_consumer, NULL);
    return 0;
}
