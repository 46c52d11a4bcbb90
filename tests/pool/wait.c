/*
 * wait.c: weft_pool_wait returns when all admitted tasks have ended, and the pool goes on.
 */
#include "tasks.h"

enum { CHAIN = 20, WATCHERS = 4 };

static atomic_u32 ran;
static struct gate gate;

static void sleep_and_count(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    count_task(arg);
}

static void waits_for_all(void *arg)
{
    /* No worker ends, so none finds later, when it ends, that all tasks have ended. */
    weft_pool *pool = POOL_OPEN(.capacity = 3, .queue = 10, .expiry = WEFT_NEVER);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NOW), 0); /* there was none yet */
    atomic_u32_store_relaxed(&ran, 0);
    for (uint32_t round = 1; round <= 3; round++) {
        for (int i = 0; i < 20; i++) /* some have to wait for a place */
            CHECK_EQ(weft_pool_submit(pool, i % 2 ? count_task : sleep_and_count, &ran), 0);
        CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
        CHECK_EQ(count_of(&ran), round * 20);
        CHECK_EQ(weft_pool_wait(pool, WEFT_NOW), 0);
        CHECK_EQ(pool_stats(pool).running, 0);
    }
    pool_close(pool);
}

/* A task that submits the next one is not the last. */
static void submit_next(void *arg)
{
    weft_pool *pool = arg;
    if (atomic_u32_add_seq_cst(&ran, 1) + 1 < CHAIN)
        CHECK_EQ(weft_pool_submit(pool, submit_next, pool), 0);
    weft_yield();
}

static void waits_for_what_tasks_submit(void)
{
    atomic_u32_store_relaxed(&ran, 0);
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 2);
    CHECK_EQ(weft_pool_submit(pool, submit_next, pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), CHAIN);
    pool_close(pool);
}

/* A submitter in line will have a task. */
static void submit_three(void *pool)
{
    submit_many(pool, sleep_and_count, &ran, 3);
}

static void waits_for_those_in_line(void)
{
    weft_fiber *submitter;
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    atomic_u32_store_relaxed(&ran, 0);
    gate_shut_and_fill(&gate, pool, 1);
    CHECK_EQ(weft_spawn(&submitter, submit_three, pool, NULL), 0);
    AWAIT_FIGURE(pool, blocked, 1);
    gate_open(&gate);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK(count_of(&ran) >= 1);
    CHECK_EQ(weft_join(submitter), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 3);
    pool_close(pool);
}

static void watch(void *pool)
{
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&gate.gauge.now), 0);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void all_waits_end(void)
{
    weft_wg done = WEFT_WG_INIT;
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    atomic_u32_store_relaxed(&ran, 0);
    gate_shut_and_fill(&gate, pool, 2);
    for (int i = 0; i < WATCHERS; i++)
        CHECK_EQ(weft_wg_go(&done, watch, pool), 0);
    CHECK_EQ(weft_pool_wait(pool, weft_after(3 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(count_of(&ran), 0);
    gate_open(&gate);
    CHECK_EQ(weft_wg_wait(&done), 0);
    CHECK_EQ(count_of(&ran), WATCHERS);
    pool_close(pool);
}

/* A dropped task has ended when on_drop has returned; a stop ends the waits too. */
static atomic_u32 dropped;

static void drop_slowly(void (*function)(void *), void *arg, void *data)
{
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    atomic_u32_add_seq_cst(&dropped, 1);
}

static void watch_drops(void *pool)
{
    watch(pool);
    CHECK(count_of(&dropped) % 5 == 0);
}

static void told_of_other_ends(void)
{
    for (int variant = 0; variant < 2; variant++) {
        weft_wg done = WEFT_WG_INIT;
        weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10, .on_drop = drop_slowly);
        atomic_u32_store_relaxed(&ran, 0);
        gate_shut(&gate);
        CHECK_EQ(weft_pool_pause(pool), 0);
        submit_many(pool, sleep_and_count, &ran, 5);
        CHECK_EQ(weft_wg_go(&done, watch_drops, pool), 0);
        CHECK_EQ(weft_pool_wait(pool, weft_after(2 * WEFT_MS)), -ETIMEDOUT);
        if (variant == 0)
            CHECK_EQ(weft_pool_abort(pool), 5);
        else
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0); /* which resumes it */
        CHECK_EQ(weft_wg_wait(&done), 0);
        CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
        CHECK_EQ(count_of(&ran), variant == 0 ? 1 : 6);
        pool_close(pool);
    }
}

static void wait_cancelled(void *pool)
{
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), -ECANCELED);
}

static void wait_for_own(void *pool)
{
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), -EDEADLK);
    count_task(&ran);
}

static void refused_and_cancelled(void)
{
    weft_fiber *fiber;
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_own, pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 1);
    gate_shut_and_fill(&gate, pool, 1);
    weft_context *context = new_context();
    CHECK_EQ(weft_spawn(&fiber, wait_cancelled, pool, &(weft_spawn_options){.context = context}),
             0);
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_join(fiber), 0);
    weft_context_close(context);
    gate_open_and_close(&gate, pool);
}

int main(void)
{
    RUN_EVERYWHERE(waits_for_all);
    RUN_BOTH(waits_for_what_tasks_submit);
    RUN_BOTH(waits_for_those_in_line);
    RUN_BOTH(all_waits_end);
    RUN_BOTH(told_of_other_ends);
    RUN_BOTH(refused_and_cancelled);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
