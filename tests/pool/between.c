/*
 * between.c: tasks of one pool that submit to another one, or wait for its tasks: they wait as any
 * fiber does, and their own pool goes on.
 */
#include <weft/task.h>

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
    two.own = POOL_OPEN(.capacity = 2, .queue = 10);
    two.other = POOL_OPEN(.capacity = capacity);
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

/* Waits for a place in the other pool; only the next task of its own pool frees one. */
static void submit_there(void *arg)
{
    CHECK_EQ(weft_pool_submit(two.other, count_task, &two.ran), 0);
    atomic_u32_add_seq_cst(&two.ran, 1);
}

static void a_full_pool_is_waited_for(void *arg)
{
    two_open(1);
    gate_fill(&two.gate, two.other, 1);
    CHECK_EQ(weft_pool_submit(two.own, submit_there, NULL), 0);
    CHECK_EQ(weft_pool_submit(two.own, open_gate, &two.gate), 0);
    two_close();
    CHECK_EQ(count_of(&two.ran), 2);
}

/* Both directions at once: each submit waits for a place that the other pool's next task frees. */
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

/* A wait for a task or a group of another pool lends no place. */
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

static void tasks_of_another_pool_are_waited_for(void)
{
    static void (*const waits[])(void *) = {wait_for_task, wait_for_group};
    for (int i = 0; i < 2; i++) {
        two_open(1);
        CHECK_EQ(weft_pool_submit(two.own, waits[i], NULL), 0);
        CHECK_EQ(weft_pool_submit(two.own, open_gate, &two.gate), 0);
        two_close();
        CHECK_EQ(count_of(&two.ran), 1);
    }
}

/* A context ends a group's wait for a place with the context's error; a try has its own. */
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
    RUN_AT(a_full_pool_is_waited_for, 1, 2);
    RUN_BOTH(both_ways);
    RUN_BOTH(tasks_of_another_pool_are_waited_for);
    RUN_BOTH(contexts_end_the_wait);
    return 0;
}
