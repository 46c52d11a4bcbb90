/*
 * alone.c: no worker can be made, and nobody is there: whoever comes by runs the tasks in its place (pool/settle.c), for as
 * long as that is so.
 */
#include <weft/task.h>

#include "lacking.h"
#include "pool/pool.h"

/* A function of a group, by a fiber that has no memory to be bound to its context: it is called none the less. */
static int member(void *arg)
{
    CHECK_PTR(weft_context_current(), NULL);
    atomic_u32_add_seq_cst(arg, 1);
    return -EDOM;
}

static void member_run_by_a_passer_by(void *arg)
{
    weft_group *group;
    weft_fiber *passer;
    (void)arg;
    weft_pool *pool = begin((weft_pool_options){.capacity = 1, .queue = 8});
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_group(&group, pool, NULL), 0);
    CHECK_EQ(weft_group_go(group, member, &ran), 0);
    CHECK_EQ(weft_spawn(&passer, resume, pool, NULL), 0);
    CHECK_EQ(weft_join(passer), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
    CHECK_EQ(weft_group_close(group), -EDOM);
    pool_close(pool);
}

/* Of what one runs in the place of a worker the first pauses the pool: the others stay. */
static void pause_own(void *pool)
{
    CHECK_EQ(weft_pool_pause(pool), 0);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void paused_alone(void *arg)
{
    (void)arg;
    weft_pool *pool = begin((weft_pool_options){.capacity = 1, .queue = 8});
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, pause_own, pool), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    resume(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
    CHECK_EQ(pool_stats(pool).queued, 1);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 2);
}

/* There is a worker when it has ended: that does the rest. Or the worker's time is over just then, which it does not
 * know yet. */
static struct {
    weft_pool *pool;
    bool ends;
    struct waiter *ended;
} beside;

static void end_rest(void)
{
    bool fiber = enter_if_fiber();
    latch_acquire(&beside.pool->latch);
    beside.ended = &worker_of(beside.pool->idle.first)->fiber->waiter;
    CHECK(waiter_claim(beside.ended, -ETIMEDOUT)); /* as the clock does */
    latch_release(&beside.pool->latch);
    leave_if_fiber(fiber);
}

static void make_one(void *arg)
{
    (void)arg;
    lack(false);
    CHECK_EQ(weft_pool_tune(beside.pool, 2), 0);
    CHECK_EQ(weft_pool_submit(beside.pool, count_task, &ran), 0);
    await_count(&ran, 1);
    AWAIT_FIGURE(beside.pool, idle, 1);
    CHECK_EQ(weft_pool_tune(beside.pool, 1), 0); /* this is the one */
    CHECK_EQ(weft_pool_submit(beside.pool, count_task, &ran), 0);
    CHECK_EQ(pool_stats(beside.pool).queued, 1);
    if (beside.ends)
        end_rest();
}

static void made_meanwhile(void *arg)
{
    (void)arg;
    for (int ends = 0; ends < 2; ends++) {
        weft_pool *pool = begin((weft_pool_options){.capacity = 1, .queue = 8, .keep = 1});
        beside.pool = pool;
        beside.ends = ends;
        CHECK_EQ(weft_pool_pause(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, make_one, NULL), 0);
        resume(pool);
        if (ends)
            wake_ended(beside.ended);
        await_count(&ran, 2);
        pool_close(pool); /* which waits for all that are counted as workers */
    }
}

/* The only worker there is waits for a task that stands behind it, in the hand of its processor: who comes by takes it there.
 * Two may be: a pool that runs one task at a time has no such hands. */
static weft_task *behind;

static int wait_a_little(void *arg, void **result)
{
    (void)arg, (void)result;
    lack(true);
    return weft_sleep(WEFT_US);
}

static void wait_for_behind(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_task_wait(behind, NULL), 0);
}

static int64_t lent(weft_pool *pool)
{
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    int64_t places = pool->lent;
    latch_release(&pool->latch);
    leave_if_fiber(fiber);
    return places;
}

static void taken_out_of_a_hand(void *arg)
{
    (void)arg;
    weft_pool *pool = begin((weft_pool_options){.capacity = 2, .queue = 20});
    weft_task *first; /* and so there is one chunk for all of them */
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_task_start(&first, pool, wait_a_little, NULL, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_behind, NULL), 0);
    CHECK_EQ(weft_task_start(&behind, pool, handle_task, &ran, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    while (lent(pool) == 0)
        weft_yield();
    CHECK_EQ(pool_stats(pool).stolen, 0);
    CHECK_EQ(weft_pool_tune(pool, 2), 0);
    CHECK(pool_stats(pool).stolen > 0);
    lack(false);
    pool_close(pool);
    weft_task_release(first);
    weft_task_release(behind);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 5);
}

static void those_who_come_by(void)
{
    on_machines(1, taken_out_of_a_hand);
    for (int processors = 1; processors <= 2; processors++) {
        on_machines(processors, member_run_by_a_passer_by);
        on_machines(processors, paused_alone);
        on_machines(processors, made_meanwhile);
    }
}

int main(void)
{
    RUN(those_who_come_by);
    return 0;
}
