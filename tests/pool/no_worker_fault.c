/*
 * no_worker_fault.c: tasks of all kinds are admitted and no worker can be made for them, wherever
 * they wait: they run as soon as a worker can be made, or an existing one is free.
 * Without any worker the submit fails.
 */
#include <weft/task.h>

#include "faults.h"
#include "pool/lacking.h"
#include "pool/pool_internal.h"
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

/* Tasks of every kind wait for a worker, which cannot be made yet. */

/* A function of a group. */
static int member(void *arg)
{
    CHECK(weft_context_current() != NULL);
    atomic_u32_add_seq_cst(arg, 1);
    return -EDOM;
}

static void member_later(void *arg)
{
    weft_pool *pool = begin_paused((weft_pool_options){.capacity = 1, .queue = 8});
    weft_group *group = group_over(pool, NULL);
    CHECK_EQ(weft_group_go(group, member, &ran), 0);
    resume_lacking(pool, 0);
    CHECK_EQ(weft_group_close(group), -EDOM);
    CHECK_EQ(count_of(&ran), 1);
    pool_close(pool);
}

/* Paused again before a worker could be made: none is missed when it is resumed. */
static void paused_again(void *arg)
{
    weft_pool *pool = begin_paused((weft_pool_options){.capacity = 1, .queue = 8});
    submit_counts(pool, &ran, 2);
    AWAIT_FIGURE(pool, workers, 0);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    lack(false);
    CHECK_EQ(weft_sleep(2 * WEFT_MS), 0);
    CHECK_EQ(count_of(&ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await_count(&ran, 2);
    pool_close(pool);
}

/* A stop ends after all admitted tasks have run. */
static void stopped(void *arg)
{
    weft_pool *pool = begin_paused((weft_pool_options){.capacity = 1, .queue = 8});
    submit_counts(pool, &ran, 3);
    AWAIT_FIGURE(pool, workers, 0);
    lack(true);
    CHECK_EQ(weft_pool_stop(pool, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -ESHUTDOWN);
    lack(false);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 3);
    pool_close(pool);
}

/* The only worker is idle and its expiry has fired, but it has not noticed that yet when a task is
 * submitted. It stays, or it ends. */
static void ends_just_then(void *arg)
{
    for (int64_t keep = 0; keep < 2; keep++) {
        weft_pool *pool = begin((weft_pool_options){.capacity = 1, .queue = 8, .prestart = 1});
        AWAIT_FIGURE(pool, idle, 1);
        pool->options.keep = keep;
        bool fiber = enter_if_fiber();
        latch_acquire(pool->latch);
        struct waiter *waiter = &worker_of(pool->idle.first)->fiber->waiter;
        CHECK(waiter_claim(waiter, -ETIMEDOUT)); /* as the clock does */
        latch_release(pool->latch);
        leave_if_fiber(fiber);
        /* The queue has its memory; the worker has not. */
        weft__os_fail(OS_ALLOC, 2, true);
        int error = weft_pool_submit(pool, count_task, &ran);
        fiber = enter_if_fiber();
        weft__wake(waiter);
        leave_if_fiber(fiber);
        if (keep > 0 && error == 0)
            await_count(&ran, 1); /* without memory */
        (void)weft_sleep(WEFT_MS);
        lack(false);
        CHECK(error == 0 ||
              error == -ENOMEM); /* if another allocation took the memory of the queue */
        pool_close(pool);
        CHECK_EQ(count_of(&ran), error == 0);
    }
}

/* The only worker waits for a task of its own pool: that runs when there is memory. */

static weft_task *awaited;

static void wait_for_awaited(void *arg)
{
    lack(true);
    CHECK_EQ(weft_task_wait(awaited, NULL), 0);
}

static void awaited_later(void *arg)
{
    for (int64_t capacity = 1; capacity <= 2; capacity++) {
        weft_pool *pool = begin((weft_pool_options){.capacity = capacity, .queue = 20});
        CHECK_EQ(weft_pool_pause(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, wait_for_awaited, NULL), 0);
        submit_counts(pool, &ran, 4);
        awaited = start_task(pool, count_handle, &ran);
        CHECK_EQ(weft_pool_resume(pool), 0);
        for (int times = 0; pool_stats(pool).lending == 0 && !weft_task_ended(awaited);)
            look_again(&times); /* unless there was another worker already */
        lack(false);
        await_count(&ran, 5);
        weft_task_release(awaited);
        pool_close(pool);
    }
}

/* The only worker waits while tasks are in the inbox of its processor. They run when another worker
 * can be made, or, without memory, when the worker goes on. */

static void wait_at_gate(void *arg)
{
    lack(true);
    gate_task(&gate);
}

static void behind_in_an_inbox(void *arg)
{
    enum { BEHIND = 10 };
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        weft_pool *pool = begin((weft_pool_options){.capacity = 2, .queue = 20});
        CHECK_EQ(weft_pool_pause(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, wait_at_gate, NULL), 0);
        submit_counts(pool, &ran, BEHIND);
        CHECK_EQ(weft_pool_resume(pool), 0);
        await_at_gate(&gate, 1);
        if (goes_on)
            gate_open(&gate);
        else
            lack(false);
        await_count(&ran, BEHIND);
        lack(false);
        if (!goes_on)
            gate_open(&gate);
        pool_close(pool);
    }
}

static void what_was_admitted_runs(void)
{
    on_machines(1, behind_in_an_inbox);
    for (int processors = 1; processors <= 2; processors++) {
        on_machines(processors, member_later);
        on_machines(processors, paused_again);
        on_machines(processors, stopped);
        on_machines(processors, ends_just_then);
        on_machines(processors, awaited_later);
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
    RUN(what_was_admitted_runs);
    RUN(without_any);
    RUN(beside_a_worker_that_was_made);
    RUN(pauses_without_memory);
    return 0;
}
