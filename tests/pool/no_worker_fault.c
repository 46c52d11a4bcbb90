/*
 * no_worker_fault.c: no worker can be made, and all existing ones wait for the next task: it runs
 * as soon as one can be made. Without any worker the submit fails.
 */
#include <weft/task.h>

#include "faults.h"
#include "pool/lacking.h"
#include "pool/queue.h"

/* With so many fibers at most, the test's own included if it is one. */
static void with_limit(int processors, int64_t limit, void (*test)(void))
{
    processors_begin(processors);
    CHECK_EQ(weft_configure(&(weft_config){.processors = processors, .max_fibers = limit}), 0);
    test();
    processors_end();
}

/* A task waits for the one behind it. */

static struct gate behind; /* that the first waits at, and the next opens */
static struct gate other;  /* that a fiber waits at which is none of the pool's */
static atomic_u32 waits;

static void wait_for_next(void *arg)
{
    atomic_u32_add_seq_cst(&waits, 1);
    gate_task(&behind);
    count_task(&ran);
}

static void open_for_first(void *arg)
{
    gate_open(&behind);
    count_task(arg);
}

static weft_pool *begin_with_one(bool isolates)
{
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&waits, 0);
    gate_shut(&behind);
    gate_shut(&other);
    weft_pool *pool =
        POOL_OPEN(.capacity = 4, .queue = 8, .prestart = 1, .isolate_crashes = isolates);
    AWAIT_FIGURE(pool, idle, 1);
    return pool;
}

static void end_of_both(weft_pool *pool)
{
    await_count(&ran, 2);
    pool_close(pool);
}

/* Another fiber holds the second of two records until the first task waits. */
static void limited_when_it_parks(void)
{
    weft_pool *pool = begin_with_one(false);
    CHECK_EQ(weft_go(gate_task, &other), 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_next, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, open_for_first, &ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_count(&waits, 1);
    await_idle_processor();
    gate_open(&other);
    end_of_both(pool);
}

static void limited_when_it_comes(void)
{
    weft_pool *pool = begin_with_one(false);
    CHECK_EQ(weft_go(gate_task, &other), 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_next, NULL), 0);
    await_count(&waits, 1);
    await_idle_processor();
    CHECK_EQ(weft_pool_submit(pool, open_for_first, &ran), 0);
    gate_open(&other);
    end_of_both(pool);
}

/* No fiber ends, so only a timer finds that there is memory again. */
static void lacks_memory_when_it_parks(void *arg)
{
    weft_pool *pool = begin_with_one(true);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_next, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, open_for_first, &ran), 0);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_count(&waits, 1);
    (void)weft_sleep(2 * WEFT_MS);
    lack(false);
    end_of_both(pool);
}

static void later(void)
{
    for (int processors = 1; processors <= 3; processors++) {
        with_limit(processors, 2, limited_when_it_parks);
        with_limit(processors, 2, limited_when_it_comes);
        on_machines(processors, lacks_memory_when_it_parks);
    }
}

/* There is no worker and none can be made: every kind of submit returns the error, and no task
 * runs. */

static weft_pool *pool;
static atomic_u32 dropped;

static void drop(void (*function)(void *), void *arg, void *data)
{
    count_task(&dropped);
}

static void refuse_each(int error)
{
    void *args[2] = {&ran, &ran};
    weft_submit_options copy = {.copy = sizeof ran}, key = {.key = 3}, low = {.priority = WEFT_LOW};
    weft_task *task = NULL;
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), error);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, weft_after(LONG)), error);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), error);
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &copy), error);
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &key), error);
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &low), error);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, args, 2, WEFT_NEVER), error);
    CHECK_EQ(weft_task_start(&task, pool, count_handle, &ran, NULL), error);
    CHECK_EQ(weft_task_try_start(&task, pool, count_handle, &ran, NULL), error);
    CHECK_PTR(task, NULL);
}

static void check_refused(int64_t rejected)
{
    weft_pool_stats stats = pool_stats(pool);
    CHECK_STATS(stats, IS(submitted, 0), IS(workers, 0), IS(blocked, 0));
    if (rejected >= 0)
        CHECK_EQ(stats.rejected, rejected);
    CHECK_EQ(count_of(&ran), 0);
    CHECK_EQ(count_of(&dropped), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NOW), 0); /* nothing is inside */
}

static void open_and_clear(weft_pool_options options)
{
    options.on_drop = drop;
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&dropped, 0);
    pool = pool_open(options);
}

/* It works again. */
static void submit_one(void)
{
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
}

/* The only fiber that there may be is not the pool's. */
static int policy;

static void refused_by_the_limit(void)
{
    weft_fiber *keeper;
    gate_shut(&other);
    open_and_clear((weft_pool_options){.capacity = 2, .queue = 2, .when_full = policy});
    weft_group *group = group_over(pool, NULL);
    CHECK_EQ(weft_spawn(&keeper, gate_task, &other, NULL), 0);
    refuse_each(-EAGAIN);
    CHECK_EQ(weft_group_go(group, count_handle, &ran), -EAGAIN);
    check_refused(10);
    gate_open(&other);
    CHECK_EQ(weft_join(keeper), 0);
    CHECK_EQ(weft_group_close(group), 0);
    submit_one();
}

static void refused_for_lack_of_memory(void *arg)
{
    open_and_clear(
        (weft_pool_options){.capacity = 2, .queue = 2, .when_full = policy, .isolate_crashes = 1});
    lack(true);
    refuse_each(-ENOMEM);
    lack(false);
    check_refused(-1);
    submit_one();
}

static void without_any(void)
{
    for (int processors = 1; processors <= 2; processors++)
        for (policy = WEFT_BLOCK; policy <= WEFT_DROP_OLDEST; policy++) {
            with_limit(processors, 1, refused_by_the_limit);
            on_machines(processors, refused_for_lack_of_memory);
        }
}

static void gate_task_and_count(void *arg)
{
    gate_task(&behind);
    count_task(arg);
}

/* A worker that was made and has not run yet will run. */
static void submits_behind_a_worker_that_was_made(void)
{
    atomic_u32_store_relaxed(&ran, 0);
    gate_shut(&behind);
    pool = POOL_OPEN(.capacity = 2, .queue = 4);
    CHECK_EQ(weft_pool_submit(pool, gate_task_and_count, &ran), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    gate_open(&behind);
    end_of_both(pool);
}

static void beside_a_worker_that_was_made(void)
{
    for (int64_t i = 0; i < test_scale(400); i++)
        with_limit(1 + (int)(i % 2), 1, submits_behind_a_worker_that_was_made);
}

/* A pause, while the inboxes of processors have tasks, needs no memory. */

enum { MANY = 40 * CHUNK_PLAIN };

static weft_pool *paused;
static atomic_u32 begun;

static void sleep_and_count(void *arg)
{
    atomic_u32_add_seq_cst(&begun, 1);
    (void)weft_sleep(WEFT_US);
    count_task(arg);
}

static void pauses(void *arg)
{
    paused = POOL_OPEN(.capacity = 8, .queue = MANY);
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&begun, 0);
    submit_many(paused, sleep_and_count, &ran, MANY);
    for (uint32_t round = 1; round < 20; round++) { /* some of them in the middle of a chunk */
        await_at_least(&begun, round * MANY / 25);
        lack(true);
        CHECK_EQ(weft_pool_pause(paused), 0);
        lack(false);
        uint32_t before = count_of(&begun);
        AWAIT_FIGURE(paused, running, 0);
        /* On each processor one may have been taken by then. */
        CHECK(count_of(&begun) - before <= processor_count());
        CHECK_EQ(weft_pool_resume(paused), 0);
    }
    pool_close(paused);
    CHECK_EQ(count_of(&ran), MANY);
}

static void pauses_without_memory(void)
{
    on_machines(1, pauses);
    on_machines(2, pauses);
}

int main(void)
{
    RUN(later);
    RUN(without_any);
    RUN(beside_a_worker_that_was_made);
    RUN(pauses_without_memory);
    return 0;
}
