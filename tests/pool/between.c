/*
 * between.c: tasks of one pool that use another: they wait there like anybody else, and their own pool goes on
 * meanwhile.
 */
#include <weft/task.h>

#include "seeds.h"
#include "tasks.h"

static struct {
    weft_pool *own, *other;
    struct gate gate;
    weft_task *task;
    weft_group *group;
    atomic_u32 ran;
} two;

static void two_open(int64_t capacity)
{
    two.own = pool_open((weft_pool_options){.capacity = 2, .queue = 10});
    two.other = pool_open((weft_pool_options){.capacity = capacity});
    atomic_u32_store_relaxed(&two.ran, 0);
    gate_shut(&two.gate);
}

static void two_close(void)
{
    pool_close(two.own);
    pool_close(two.other);
}

static void open_gate(void *arg)
{
    gate_open(arg);
}

/* Waits for a place in the other pool, which only the next task of its own pool makes free. */
static void submit_there(void *arg)
{
    CHECK_EQ(weft_pool_submit(two.other, count_task, &two.ran), 0);
    atomic_u32_add_seq_cst(&two.ran, 1);
}

static void wait_for_a_place(void *arg)
{
    two_open(1);
    gate_fill(&two.gate, two.other, 1);
    CHECK_EQ(weft_pool_submit(two.own, submit_there, NULL), 0);
    CHECK_EQ(weft_pool_submit(two.own, open_gate, &two.gate), 0);
    two_close();
    CHECK_EQ(count_of(&two.ran), 2);
}

static void a_full_pool_is_waited_for(void)
{
    on_processors(1, wait_for_a_place, NULL);
    on_processors(2, wait_for_a_place, NULL);
}

/* The same the other way round at the same time: each waits for a place that the other's next task makes free. */
static void submit_back(void *arg)
{
    CHECK_EQ(weft_pool_submit(two.own, count_task, &two.ran), 0);
    atomic_u32_add_seq_cst(&two.ran, 1);
}

static void both_ways(void)
{
    two_open(2);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_pool_submit(two.own, submit_there, NULL), 0);
        CHECK_EQ(weft_pool_submit(two.other, submit_back, NULL), 0);
        await_count(&two.ran, (uint32_t)(i + 1) * 4);
    }
    two_close();
}

/* Waiting for a task, or a group, of the other pool lends no place of its own. */
static int wait_at_gate(void *arg)
{
    CHECK_PTR(arg, &two);
    CHECK_EQ(weft_wg_wait(&two.gate.shut), 0);
    return 5;
}

static void wait_for_task(void *arg)
{
    two.task = start_task(two.other, wait_at_gate, &two);
    CHECK_EQ(end_task(two.task), 5);
    atomic_u32_add_seq_cst(&two.ran, 1);
}

static void a_task_of_another_pool_is_waited_for(void)
{
    two_open(1);
    CHECK_EQ(weft_pool_submit(two.own, wait_for_task, NULL), 0);
    CHECK_EQ(weft_pool_submit(two.own, open_gate, &two.gate), 0);
    two_close();
    CHECK_EQ(count_of(&two.ran), 1);
}

static int member(void *arg)
{
    CHECK_EQ(weft_wg_wait(&two.gate.shut), 0);
    atomic_u32_add_seq_cst(arg, 1);
    return 0;
}

static void wait_for_group(void *arg)
{
    CHECK_EQ(weft_pool_group(&two.group, two.other, NULL), 0);
    CHECK_EQ(weft_group_go(two.group, member, &two.ran), 0);
    CHECK_EQ(group_error(two.group), 0);
    CHECK_EQ(weft_group_close(two.group), 0);
}

static void a_group_of_another_pool_is_waited_for(void)
{
    two_open(1);
    CHECK_EQ(weft_pool_submit(two.own, wait_for_group, NULL), 0);
    CHECK_EQ(weft_pool_submit(two.own, open_gate, &two.gate), 0);
    two_close();
    CHECK_EQ(count_of(&two.ran), 1);
}

/* A context ends the wait for a place, of a group's too: with the context's error, not with that of one who tries. */
static void contexts_end_the_wait(void)
{
    weft_context *context, *before;
    weft_context_options limit = {.timeout = WEFT_MS};
    two_open(1);
    gate_fill(&two.gate, two.other, 1);
    CHECK_EQ(weft_pool_group(&two.group, two.other, NULL), 0);
    CHECK_EQ(weft_context_open(&context, NULL, &limit), 0);
    CHECK_EQ(weft_context_bind(context, &before), 0);
    CHECK_EQ(weft_group_go(two.group, member, &two.ran), -ETIMEDOUT);
    CHECK_EQ(weft_context_bind(before, NULL), 0);
    CHECK_EQ(weft_group_try_go(two.group, member, &two.ran), -EAGAIN);
    gate_open(&two.gate);
    CHECK_EQ(group_error(two.group), 0);
    CHECK_EQ(weft_group_close(two.group), 0);
    weft_context_close(context);
    two_close();
    CHECK_EQ(count_of(&two.ran), 0);
}

int main(void)
{
    RUN_BOTH(a_full_pool_is_waited_for);
    RUN_BOTH(both_ways);
    RUN_BOTH(a_task_of_another_pool_is_waited_for);
    RUN_BOTH(a_group_of_another_pool_is_waited_for);
    RUN_BOTH(contexts_end_the_wait);
    return 0;
}
