/*
 * alone_fault.c: tasks of every kind are admitted and no worker can be made for them. They run as
 * soon as a worker can be made, or an existing one is free.
 */
#include <weft/task.h>

#include "pool/lacking.h"
#include "pool/pool_internal.h"

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

int main(void)
{
    RUN(what_was_admitted_runs);
    return 0;
}
