/*
 * crash.c: pools that isolate crashes: a task that faults ends, whatever the fault, and its
 * handle, group and on_panic are told.
 */
#include <pthread.h>

#include "isolates.h"
#include <weft/test.h>

static void (*const kinds[])(void) = {
    fault_null_write, fault_wild_read, fault_null_call, fault_illegal,
    fault_bus,        fault_smash,     fault_overflow,
#if defined(__x86_64__)
    fault_divide,
#endif
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void every_fault_is_isolated(void *arg)
{
    for (int i = 0; i < KINDS; i++) {
        atomic_u32 ran = {0};
        weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1, .queue = 10);
        CHECK_EQ(weft_pool_submit(pool, crash_task, fault_arg(kinds[i])), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        CHECK_EQ(weft_pool_submit(pool, park_and_crash, fault_arg(kinds[i])), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        weft_pool_stats stats = pool_stats(pool);
        CHECK_EQ(count_of(&ran), 2);
        CHECK_STATS(stats, IS(submitted, 4), IS(completed, 4), IS(crashed, 2), IS(panicked, 0),
                    IS(most_workers, 1), IS(workers, 0));
        pool_close(pool);
    }
}

/* on_panic is told, and may wait. */

static struct {
    atomic_u32 count;
    weft_panic_info info;
    void (*function)(void *);
    void *arg;
} told;

static void note_crash(const weft_panic_info *info, void (*function)(void *), void *arg, void *data)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    CHECK_PTR(data, &told);
    told.info = *info;
    told.function = function;
    told.arg = arg;
    atomic_u32_add_seq_cst(&told.count, 1);
}

static void the_handler_is_told(void *arg)
{
    enum { FUNCTION_MOST = 2048 };
    memset(&told, 0, sizeof told);
    weft_pool *pool = POOL_OPEN(ISOLATES, .on_panic = note_crash, .data = &told);
    CHECK_EQ(weft_pool_submit(pool, crash_task, fault_arg(fault_null_write)), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&told.count), 1);
    CHECK_STR(told.info.message, "fault: SIGSEGV at 0x0 (nothing is there)");
    CHECK_STR(told.info.fiber_name, "isolates");
    CHECK(told.info.fiber_id != 0 && told.info.depth >= 1);
    uintptr_t place = (uintptr_t)told.info.backtrace[0], function = (uintptr_t)fault_null_write;
    CHECK(place >= function && place < function + FUNCTION_MOST);
    CHECK(told.function == crash_task && told.arg == fault_arg(fault_null_write));
    pool_close(pool);
}

/* Handles, groups, keys, priorities. */

static int crash_function(void *fault)
{
    crash_task(fault);
    return 0;
}

static void handle_body(void *arg)
{
    weft_panic_info info;
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 2, .queue = 10);
    weft_task *task = start_task(pool, crash_with_handle, fault_arg(fault_overflow));
    CHECK_EQ(task_result(task), -EFAULT);
    CHECK_EQ(weft_task_panic(task, &info), 0);
    CHECK_STR(info.message, "stack overflow");
    CHECK_EQ(weft_task_cancel(task), 2);
    weft_task_release(task);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    pool_close(pool);
}

static void group_body(void *arg)
{
    weft_panic_info info;
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 2, .queue = 100);
    weft_group_options options = {.keep_going = 1, .collect = 1};
    weft_group *group = group_over(pool, &options);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_group_go(group, i == 4 ? crash_function : count_handle,
                               i == 4 ? fault_arg(fault_smash) : &ran),
                 0);
    CHECK_EQ(group_error(group), -EFAULT);
    CHECK_EQ(count_of(&ran), 9);
    for (int i = 0; i < 10; i++) {
        int error = 77;
        CHECK_EQ(weft_group_result(group, i, &error, NULL), 0);
        CHECK_EQ(error, i == 4 ? -EFAULT : 0);
    }
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK_STR(info.message, "fault: SIGSEGV at 0x0 (nothing is there)");
    CHECK_EQ(weft_group_close(group), -EFAULT);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    pool_close(pool);
}

static atomic_u32 next_in_order;

static void in_order(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    CHECK_EQ(atomic_u32_add_seq_cst(&next_in_order, 1), number);
    if (number % 3 == 1)
        fault_null_write();
    if (number % 3 == 2)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
}

static void keys_body(void *arg)
{
    enum { TASKS = 30 };
    atomic_u32_store_relaxed(&next_in_order, 0);
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 4, .queue = 100);
    for (uintptr_t i = 0; i < TASKS; i++)
        SUBMIT_WITH(pool, in_order, (void *)i, .key = 7, .priority = (int)(i % 3) - 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&next_in_order), TASKS);
    CHECK_EQ(pool_stats(pool).crashed, TASKS / 3);
    pool_close(pool);
}

static void priorities_body(void *arg)
{
    atomic_u32 ran = {0};
    struct gate gate;
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1, .queue = 100);
    gate_shut_and_fill(&gate, pool, 1);
    for (int i = 0; i < 30; i++)
        SUBMIT_WITH(pool, i % 2 == 0 ? crash_task : count_task,
                    i % 2 == 0 ? fault_arg(fault_null_write) : &ran, .priority = i % 3 - 1);
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 15);
    CHECK_FIGURES(pool, IS(crashed, 15), IS(completed, 31));
    pool_close(pool);
}

/* The copied bytes are the task's until it ends; they are freed after a crash too. */
static void crash_with_copy(void *arg)
{
    void (*fault)(void);
    memcpy(&fault, arg, sizeof fault);
    memset(arg, 0x55, WEFT_COPY_MAX);
    fault();
}

static void copies_body(void *arg)
{
    char copy[WEFT_COPY_MAX] = {0};
    void (*fault)(void) = fault_null_write;
    memcpy(copy, &fault, sizeof fault);
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1, .queue = 100);
    for (int i = 0; i < 5; i++)
        SUBMIT_WITH(pool, crash_with_copy, copy, .copy = sizeof copy);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).crashed, 5);
    pool_close(pool);
}

static void those_who_wait_are_told(void)
{
    everywhere(handle_body);
    everywhere(group_body);
    everywhere(keys_body);
    everywhere(priorities_body);
    everywhere(copies_body);
}

/* A crashed task that was bound to a context does not keep it. */
static int wait_in_context(void *arg)
{
    return weft_sleep(LONG);
}

static void contexts_are_left(void *arg)
{
    weft_task *task;
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_task_start(&task, pool, crash_with_handle, fault_arg(fault_null_write), NULL),
                 0);
        CHECK_EQ(task_result(task), -EFAULT);
        weft_task_release(task); /* with its context */
        task = start_task(pool, wait_in_context, NULL);
        AWAIT_FIGURE(pool, running, 1);
        CHECK(weft_task_cancel(task) <= 1);
        CHECK_EQ(end_task(task), -ECANCELED);
    }
    pool_close(pool);
}

static void several_pools_count_them(void *arg)
{
    weft_pools *pools;
    weft_pool_stats stats;
    CHECK_EQ(weft_pools_open(&pools, 2, WEFT_ROUND_ROBIN, &(weft_pool_options){ISOLATES}), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_pool_submit(weft_pools_pick(pools), crash_task, fault_arg(fault_null_write)),
                 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_stop(weft_pools_get(pools, i), WEFT_NEVER), 0);
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_STATS(stats, IS(completed, 3), IS(crashed, 3));
    CHECK_EQ(weft_pools_close(pools), 0);
}

/* During a panic. */

static void crash_in_cleanup(void *arg)
{
    fault_null_write();
}

static void panic_and_crash(void *arg)
{
    WEFT_DEFER(crash_in_cleanup, NULL);
    weft_panic("and then it crashes");
}

static void a_panic_may_crash(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1, .queue = 10);
    CHECK_EQ(weft_pool_submit(pool, panic_and_crash, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_FIGURES(pool, IS(crashed, 1), IS(panicked, 0));
    CHECK_EQ(count_of(&ran), 1);
    pool_close(pool);
}

static void seeded_body(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 3, .queue = 10);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(weft_pool_submit(pool, i % 3 == 0 ? park_and_crash : count_task,
                                  i % 3 == 0 ? fault_arg(i == 3 ? fault_illegal : fault_null_write)
                                             : (void *)&ran),
                 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 6);
}

static void test_runs_fail(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    for (uint64_t seed = 1; seed <= 5; seed++)
        CHECK_EQ(weft_test_run(seed, seeded_body, NULL), -EOWNERDEAD); /* as a panic would */
}

int main(void)
{
    isolates_or_skip();
    for (compact = 0; compact < 2; compact++) {
        PLAIN_AT(every_fault_is_isolated, "a crash fails a test run", EVERYWHERE, 1);
        PLAIN_AT(the_handler_is_told, "a crash fails a test run", EVERYWHERE);
        RUN_PLAIN(those_who_wait_are_told, "a crash fails a test run");
        PLAIN_AT(contexts_are_left, "a crash fails a test run", EVERYWHERE);
        PLAIN_AT(several_pools_count_them, "a crash fails a test run", EVERYWHERE);
        PLAIN_AT(a_panic_may_crash, "a crash fails a test run", EVERYWHERE);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    compact = 0;
    RUN_PLAIN(test_runs_fail, "a crash fails a test run");
    return 0;
}
