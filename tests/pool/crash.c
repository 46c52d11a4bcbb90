/*
 * crash.c: a pool that isolates crashes: a task that faults ends, the others go on. And what is not isolated.
 */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>

#include "emulated.h"
#include "faults.h"
#include "sched/compact.h"
#include "sched/sched.h"
#include "tasks.h"
#include <weft/test.h>

/* Each with private and with compact stacks. */
static int compact;

#define ISOLATES .isolate_crashes = 1, .name = "isolates", .compact = compact

static void crash_task(void *fault)
{
    ((void (*)(void))(uintptr_t)fault)();
}

static void *fault_arg(void (*fault)(void))
{
    return (void *)(uintptr_t)fault;
}

static void park_and_crash(void *fault)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    crash_task(fault);
}

/* Every kind. */

static void (*const kinds[])(void) = {
    fault_null_write, fault_wild_read, fault_null_call, fault_illegal,
    fault_bus,        fault_smash,     fault_overflow,
#if defined(__x86_64__)
    fault_divide,
#endif
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void each_kind(void *arg)
{
    (void)arg;
    for (int i = 0; i < KINDS; i++) {
        atomic_u32 ran = {0};
        weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 1, .queue = 10});
        CHECK_EQ(weft_pool_submit(pool, crash_task, fault_arg(kinds[i])), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        CHECK_EQ(weft_pool_submit(pool, park_and_crash, fault_arg(kinds[i])), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        weft_pool_stats stats = pool_stats(pool);
        CHECK_EQ(atomic_u32_load_acquire(&ran), 2);
        CHECK_EQ(stats.submitted, 4);
        CHECK_EQ(stats.completed, 4);
        CHECK_EQ(stats.crashed, 2);
        CHECK_EQ(stats.panicked, 0);
        CHECK_EQ(stats.most_workers, 1);
        CHECK_EQ(stats.workers, 0);
        pool_close(pool);
    }
}

static void every_fault_is_isolated(void)
{
    everywhere(each_kind);
    on_processors(1, each_kind, NULL);
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

static void handler_body(void *arg)
{
    enum { FUNCTION_MOST = 2048 };
    (void)arg;
    memset(&told, 0, sizeof told);
    weft_pool *pool =
        pool_open((weft_pool_options){ISOLATES, .on_panic = note_crash, .data = &told});
    CHECK_EQ(weft_pool_submit(pool, crash_task, fault_arg(fault_null_write)), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&told.count), 1);
    CHECK_STR(told.info.message, "fault: SIGSEGV at 0x0 (nothing is there)");
    CHECK_STR(told.info.fiber_name, "isolates");
    CHECK(told.info.fiber_id != 0 && told.info.depth >= 1);
    uintptr_t place = (uintptr_t)told.info.backtrace[0], function = (uintptr_t)fault_null_write;
    CHECK(place >= function && place < function + FUNCTION_MOST);
    CHECK(told.function == crash_task && told.arg == fault_arg(fault_null_write));
    pool_close(pool);
}

static void the_handler_is_told(void)
{
    everywhere(handler_body);
}

/* Handles, groups, keys, priorities. */

static int crash_function(void *fault)
{
    crash_task(fault);
    return 0;
}

static int crash_with_result(void *fault, void **result)
{
    *result = fault;
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    crash_task(fault);
    return 0;
}

static void handle_body(void *arg)
{
    weft_task *task;
    weft_panic_info info;
    void *result = &info;
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 2, .queue = 10});
    CHECK_EQ(weft_task_start(&task, pool, crash_with_result, fault_arg(fault_overflow), NULL), 0);
    CHECK_EQ(weft_task_wait(task, &result), -EFAULT);
    CHECK_PTR(result, NULL);
    CHECK_EQ(weft_task_panic(task, &info), 0);
    CHECK_STR(info.message, "stack overflow");
    CHECK_EQ(weft_task_cancel(task), 2);
    weft_task_release(task);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    pool_close(pool);
}

static int count_function(void *ran)
{
    count_task(ran);
    return 0;
}

static void group_body(void *arg)
{
    weft_group *group;
    weft_panic_info info;
    atomic_u32 ran = {0};
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 2, .queue = 100});
    weft_group_options options = {.keep_going = 1};
    CHECK_EQ(weft_pool_group(&group, pool, &options), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_group_go(group, i == 4 ? crash_function : count_function,
                               i == 4 ? fault_arg(fault_smash) : &ran),
                 0);
    CHECK_EQ(weft_group_wait(group), -EFAULT);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 9);
    CHECK_EQ(weft_group_panic(group, &info), 0);
    CHECK_STR(info.message, "fault: SIGSEGV at 0x0 (nothing is there)");
    CHECK_EQ(weft_group_close(group), -EFAULT);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    pool_close(pool);
}

struct order {
    atomic_u32 next;
    int64_t number;
};

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
    (void)arg;
    atomic_u32_store_relaxed(&next_in_order, 0);
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 4, .queue = 100});
    for (uintptr_t i = 0; i < TASKS; i++)
        CHECK_EQ(
            weft_pool_submit_with(pool, in_order, (void *)i,
                                  &(weft_submit_options){.key = 7, .priority = (int)(i % 3) - 1}),
            0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&next_in_order), TASKS);
    CHECK_EQ(pool_stats(pool).crashed, TASKS / 3);
    pool_close(pool);
}

static void priorities_body(void *arg)
{
    atomic_u32 ran = {0};
    struct gate gate;
    (void)arg;
    gate_shut(&gate);
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 1, .queue = 100});
    gate_fill(&gate, pool, 1);
    for (int i = 0; i < 30; i++)
        CHECK_EQ(weft_pool_submit_with(pool, i % 2 == 0 ? crash_task : count_task,
                                       i % 2 == 0 ? fault_arg(fault_null_write) : &ran,
                                       &(weft_submit_options){.priority = i % 3 - 1}),
                 0);
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 15);
    CHECK_EQ(pool_stats(pool).crashed, 15);
    CHECK_EQ(pool_stats(pool).completed, 31);
    pool_close(pool);
}

/* The bytes that were copied are the task's until it ends, and one that has crashed is as one that ran. */
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
    (void)arg;
    memcpy(copy, &fault, sizeof fault);
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 1, .queue = 100});
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_pool_submit_with(pool, crash_with_copy, copy,
                                       &(weft_submit_options){.copy = sizeof copy}),
                 0);
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
static int wait_in_context(void *arg, void **result)
{
    (void)arg, (void)result;
    return weft_sleep(LONG);
}

static void context_body(void *arg)
{
    weft_task *task;
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 1});
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_task_start(&task, pool, crash_with_result, fault_arg(fault_null_write), NULL),
                 0);
        CHECK_EQ(weft_task_wait(task, NULL), -EFAULT);
        weft_task_release(task); /* with its context */
        CHECK_EQ(weft_task_start(&task, pool, wait_in_context, NULL, NULL), 0);
        await_running(pool, 1);
        CHECK(weft_task_cancel(task) <= 1);
        CHECK_EQ(weft_task_wait(task, NULL), -ECANCELED);
        weft_task_release(task);
    }
    pool_close(pool);
}

static void contexts_are_left(void)
{
    everywhere(context_body);
}

/* Many, among others; submitters that wait are served. */

static void many_body(void *arg)
{
    int64_t count = test_scale(600), crashes = 0;
    atomic_u32 ran = {0};
    (void)arg;
    weft_pool *pool = pool_open(
        (weft_pool_options){ISOLATES, .capacity = 3, .queue = 20, .max_crashes = WEFT_UNLIMITED});
    for (int64_t i = 0; i < count; i++) {
        bool crashes_now = i % 6 == 0;
        crashes += crashes_now;
        CHECK_EQ(weft_pool_submit(pool,
                                  !crashes_now  ? count_task
                                  : i % 12 == 0 ? crash_task
                                                : park_and_crash,
                                  crashes_now
                                      ? fault_arg(i % 4 == 0 ? fault_overflow : fault_null_write)
                                      : (void *)&ran),
                 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.completed, count);
    CHECK_EQ(stats.crashed, crashes);
    CHECK_EQ(atomic_u32_load_acquire(&ran), count - crashes);
    pool_close(pool);
}

static void the_others_go_on(void)
{
    everywhere(many_body);
    on_processors(1, many_body, NULL);
    on_processors(2, many_body, NULL);
}

/* All workers crash while submitters wait for them. */

static void waits_and_crashes(void *arg)
{
    CHECK_EQ(weft_wg_wait(arg), 0);
    fault_null_write();
}

static void blocked_body(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    atomic_u32 ran = {0};
    struct submitter_body bodies[4];
    (void)arg;
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 2});
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_submit(pool, waits_and_crashes, &wg), 0);
    for (int i = 0; i < 4; i++) {
        memset(&bodies[i], 0, sizeof bodies[i]);
        bodies[i].pool = pool;
        bodies[i].function = count_task;
        bodies[i].arg = &ran;
        bodies[i].deadline = WEFT_NEVER;
        CHECK_EQ(weft_go(submitter_main, &bodies[i]), 0);
    }
    await_blocked(pool, 4);
    weft_wg_done(&wg);
    await_at_least(&ran, 4);
    for (int i = 0; i < 4; i++) {
        await_at_least(&bodies[i].returned, 1);
        CHECK_EQ(bodies[i].result, 0);
    }
    pool_close(pool);
}

static void submitters_are_served(void)
{
    everywhere(blocked_body);
}

/* In a section that blocks, with and without a processor. */

static void crash_blocking(void *arg)
{
    atomic_u32 *ran = arg;
    weft_blocking_enter();
    while (atomic_u32_load_acquire(ran) == 0) /* another has the processor */
        sched_yield();
    fault_null_write();
    weft_blocking_exit();
}

/* Computes until another task has run: its processor is taken away. */
static void crash_stuck(void *arg)
{
    atomic_u32 *ran = arg;
    while (atomic_u32_load_acquire(ran) == 0)
        sched_yield();
    fault_null_write();
}

static void blocking_body(void *arg)
{
    void (*const tasks[])(void *) = {crash_blocking, crash_stuck};
    for (int i = 0; i < 2; i++) {
        atomic_u32 ran = {0};
        weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 2, .queue = 5});
        (void)arg;
        CHECK_EQ(weft_pool_submit(pool, tasks[i], &ran), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(pool_stats(pool).crashed, 1);
        CHECK_EQ(atomic_u32_load_relaxed(&weft__sched.lost), 0);
        pool_close(pool);
    }
}

static void pools_body(void *arg)
{
    weft_pools *pools;
    weft_pool_stats stats;
    (void)arg;
    CHECK_EQ(weft_pools_open(&pools, 2, WEFT_ROUND_ROBIN, &(weft_pool_options){ISOLATES}), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_pools_submit(pools, crash_task, fault_arg(fault_null_write)), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_stop(weft_pools_get(pools, i), WEFT_NEVER), 0);
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_EQ(stats.completed, 3);
    CHECK_EQ(stats.crashed, 3);
    CHECK_EQ(weft_pools_close(pools), 0);
}

static void several_pools_count_them(void)
{
    everywhere(pools_body);
}

/* The same, with others in the line of its hot stack. */

static struct {
    weft_wg gate, at_gate, ended;
} neighbours;

static void pass_by(void *arg)
{
    (void)arg;
    weft_wg_done(&neighbours.at_gate);
    CHECK_EQ(weft_wg_wait(&neighbours.gate), 0);
    weft_wg_done(&neighbours.ended);
}

static void crash_in_front(void *arg)
{
    uint64_t waited = weft__compact_figures().waited;
    (void)arg;
    weft_wg_done(&neighbours.gate);
    while (weft__compact_figures().waited == waited) /* another has the processor */
        sched_yield();
    fault_null_write();
}

static void in_front_body(void *arg)
{
    enum { MANY = 3 * HOTS };
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES});
    CHECK_EQ(weft_wg_init(&neighbours.gate, 1), 0);
    CHECK_EQ(weft_wg_init(&neighbours.at_gate, MANY), 0);
    CHECK_EQ(weft_wg_init(&neighbours.ended, MANY), 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(weft_spawn(NULL, pass_by, NULL, &(weft_spawn_options){.compact = 1}), 0);
    CHECK_EQ(weft_wg_wait(&neighbours.at_gate), 0);
    CHECK_EQ(weft_pool_submit(pool, crash_in_front, NULL), 0);
    CHECK_EQ(weft_wg_wait(&neighbours.ended), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    pool_close(pool);
}

static void those_in_line_go_on(void)
{
    if (compact && weft__compact_works())
        on_processors(1, in_front_body, NULL);
}

static void code_that_blocks_is_isolated(void)
{
    on_processors(1, blocking_body, NULL);
    on_processors(2, blocking_body, NULL);
}

/* Workers with a state of their own. */

static struct {
    atomic_u32 started, exited;
} states;

static int start_state(void **state, void *data)
{
    (void)data;
    *state = &states;
    atomic_u32_add_seq_cst(&states.started, 1);
    return 0;
}

static void exit_state(void *state, void *data)
{
    (void)data;
    CHECK_PTR(state, &states);
    atomic_u32_add_seq_cst(&states.exited, 1);
}

static void check_state(void *ran)
{
    CHECK_PTR(weft_pool_worker_state(), &states);
    count_task(ran);
}

static void state_body(void *arg)
{
    atomic_u32 ran = {0};
    (void)arg;
    memset(&states, 0, sizeof states);
    weft_pool_options options = weft_pool_fixed(1);
    options.isolate_crashes = 1;
    options.on_worker_start = start_state;
    options.on_worker_exit = exit_state;
    weft_pool *pool = pool_open(options);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(pool, crash_task, fault_arg(fault_null_write)), 0);
        CHECK_EQ(weft_pool_submit(pool, check_state, &ran), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 3);
    CHECK_EQ(atomic_u32_load_acquire(&states.started), 4);
    CHECK_EQ(atomic_u32_load_acquire(&states.exited), 1);
    pool_close(pool);
}

static void workers_have_a_new_state(void)
{
    everywhere(state_body);
}

/* What the crashed one held stays as it is, and nobody else is taken for it. */

static void lock_and_crash(void *mutex)
{
    weft_mutex_lock(mutex);
    fault_null_write();
}

static void try_lock(void *mutex)
{
    CHECK_EQ(weft_mutex_lock_until(mutex, weft_after(WEFT_MS)), -ETIMEDOUT);
}

static void held_body(void *arg)
{
    static weft_mutex mutex;
    (void)arg;
    memset(&mutex, 0, sizeof mutex);
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 1, .queue = 10});
    CHECK_EQ(weft_pool_submit(pool, lock_and_crash, &mutex), 0);
    CHECK_EQ(weft_pool_submit(pool, try_lock, &mutex), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    CHECK_EQ(pool_stats(pool).panicked, 0);
    pool_close(pool);
}

static void locks_stay_locked(void)
{
    everywhere(held_body);
}

/* The thread is as it was: its signal mask, and its rounding. */

static void change_thread_and_crash(void *arg)
{
    sigset_t all;
    (void)arg;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    fault_null_write();
}

static void check_thread(void *ran)
{
    sigset_t now;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    CHECK_EQ(sigismember(&now, SIGUSR1), 0);
    CHECK_EQ(sigismember(&now, SIGSEGV), 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    count_task(ran);
}

static void thread_body(void *arg)
{
    atomic_u32 ran = {0};
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 1, .queue = 10});
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(pool, change_thread_and_crash, NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, check_thread, &ran), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 3);
    pool_close(pool);
}

static void threads_are_put_right(void)
{
    on_processors(1, thread_body, NULL);
}

/* During a panic. */

static void crash_in_cleanup(void *arg)
{
    (void)arg;
    fault_null_write();
}

static void panic_and_crash(void *arg)
{
    (void)arg;
    WEFT_DEFER(crash_in_cleanup, NULL);
    weft_panic("and then it crashes");
}

static void panic_body(void *arg)
{
    atomic_u32 ran = {0};
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 1, .queue = 10});
    CHECK_EQ(weft_pool_submit(pool, panic_and_crash, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    CHECK_EQ(pool_stats(pool).panicked, 0);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
    pool_close(pool);
}

static void a_panic_may_crash(void)
{
    everywhere(panic_body);
}

/* A task that waits for another of its pool, which crashes: it goes on. */

static int wait_for_crash(void *arg, void **result)
{
    weft_task *inner;
    (void)result;
    CHECK_EQ(weft_task_start(&inner, arg, crash_with_result, fault_arg(fault_null_write), NULL), 0);
    CHECK_EQ(weft_task_wait(inner, NULL), -EFAULT);
    weft_task_release(inner);
    return 5;
}

static void waiting_body(void *arg)
{
    weft_task *task;
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 1, .queue = 10});
    CHECK_EQ(weft_task_start(&task, pool, wait_for_crash, pool, NULL), 0);
    CHECK_EQ(weft_task_wait(task, NULL), 5);
    weft_task_release(task);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    pool_close(pool);
}

static void who_waits_is_not_drawn_in(void)
{
    everywhere(waiting_body);
}

/* The runtime can be stopped and started; stacks and records stay. */

static void shutdown_after_crashes(void)
{
    uint64_t before = weft__stack_figures().quarantined;
    for (int i = 0; i < 3; i++) {
        weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 2, .queue = 10});
        for (int task = 0; task < 5; task++)
            CHECK_EQ(weft_pool_submit(pool, crash_task, fault_arg(fault_smash)), 0);
        pool_close(pool);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    CHECK_EQ(weft__stack_figures().quarantined, before + 15);
}

/* Test runs. */

static void seeded_body(void *arg)
{
    atomic_u32 ran = {0};
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES, .capacity = 3, .queue = 10});
    for (int i = 0; i < 9; i++)
        CHECK_EQ(weft_pool_submit(pool, i % 3 == 0 ? park_and_crash : count_task,
                                  i % 3 == 0 ? fault_arg(i == 3 ? fault_illegal : fault_null_write)
                                             : (void *)&ran),
                 0);
    pool_close(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 6);
}

static void test_runs_fail(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    for (uint64_t seed = 1; seed <= 5; seed++)
        CHECK_EQ(weft_test_run(seed, seeded_body, NULL), -EOWNERDEAD); /* as a panic would */
}

/* What is not isolated. */

static weft_pool *isolating;

static void submit_and_stop(void *function)
{
    weft_pool_options options = {ISOLATES, .max_crashes = 2, .capacity = 1};
    isolating = pool_open(options);
    CHECK_EQ(weft_pool_submit(isolating, (void (*)(void *))(uintptr_t)function, NULL), 0);
    CHECK_EQ(weft_pool_stop(isolating, WEFT_NEVER), 0);
}

static void send_nowhere(void *arg)
{
    weft_chan *chan;
    (void)arg;
    CHECK_EQ(weft_chan_make(&chan, sizeof(long), 1), 0);
    CHECK_EQ(weft_chan_send(chan, (void *)8), 0);
}

/* A call of weft that takes a latch without entering the runtime. */
static void figures_nowhere(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_pool_stats_get(isolating, (weft_pool_stats *)8), 0);
}

static void hold_spin(void *arg)
{
    static weft_spin spin;
    (void)arg;
    weft_spin_lock(&spin);
    fault_null_write();
}

static void abort_task(void *arg)
{
    (void)arg;
    abort();
}

static void raise_task(void *arg)
{
    (void)arg;
    raise(SIGSEGV);
}

static void null_task(void *arg)
{
    (void)arg;
    fault_null_write();
}

static void run_in_place(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_pool_submit(isolating, null_task, NULL), 0); /* its own pool, which is full */
}

static void crash_in_handler(const weft_panic_info *info, void (*function)(void *), void *arg,
                             void *data)
{
    (void)info, (void)function, (void)arg, (void)data;
    fault_null_write();
}

static void bad_handler(void *arg)
{
    (void)arg;
    weft_pool_options options = {ISOLATES, .on_panic = crash_in_handler};
    weft_pool *pool = pool_open(options);
    CHECK_EQ(weft_pool_submit(pool, null_task, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
}

static int panic_function(void *arg, void **result)
{
    (void)arg, (void)result;
    weft_panic("the handler will crash");
}

static void bad_handler_of_panic(void *arg)
{
    (void)arg;
    weft_task *task;
    weft_pool_options options = {ISOLATES, .on_panic = crash_in_handler};
    weft_pool *pool = pool_open(options);
    CHECK_EQ(weft_task_start(&task, pool, panic_function, NULL, NULL), 0);
    CHECK_EQ(weft_task_wait(task, NULL), -EOWNERDEAD);
}

/* What it held is never given back: that is a deadlock, and known as one. */
static void wait_for_crashed(void *arg)
{
    static weft_mutex mutex;
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){ISOLATES});
    CHECK_EQ(weft_pool_submit(pool, lock_and_crash, &mutex), 0);
    CHECK_EQ(weft_pool_close(pool), 0);
    weft_mutex_lock(&mutex);
}

static void too_many(void *arg)
{
    (void)arg;
    submit_and_stop((void *)(uintptr_t)null_task);
    CHECK_EQ(weft_pool_reopen(isolating), 0);
    CHECK_EQ(weft_pool_submit(isolating, null_task, NULL), 0);
    CHECK_EQ(weft_pool_stop(isolating, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(isolating).crashed, 2);
    CHECK_EQ(weft_pool_reopen(isolating), 0);
    CHECK_EQ(weft_pool_submit(isolating, null_task, NULL), 0);
    CHECK_EQ(weft_pool_stop(isolating, WEFT_NEVER), 0);
}

static void plain_pool(void *arg)
{
    (void)arg;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
    CHECK_EQ(weft_pool_submit(pool, null_task, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
}

static void user_handler(int signal)
{
    (void)signal;
    static const char text[] = "the program's handler\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    signal = SIGKILL;
    raise(signal);
}

static void with_handler(void *arg)
{
    (void)arg;
    signal(SIGSEGV, user_handler);
    submit_and_stop((void *)(uintptr_t)null_task);
}

static void what_it_held_is_a_deadlock(void)
{
    if (!test_emulated()) /* an emulator has threads that weft does not know of */
        CHECK_EQ(test_dies(wait_for_crashed, NULL, "deadlock: "), SIGABRT);
}

static void the_rest_is_not_isolated(void)
{
    static const struct {
        void (*function)(void *);
        void (*task)(void *);
        const char *text;
        int signal;
    } cases[] = {
        {submit_and_stop, send_nowhere, "not this one: it is in weft's code", SIGSEGV},
        {submit_and_stop, figures_nowhere, "not this one: it is in weft's code", SIGSEGV},
        {submit_and_stop, hold_spin, "not this one: a weft_spin is held", SIGSEGV},
        {submit_and_stop, abort_task, "", SIGABRT},
        {submit_and_stop, raise_task, "", SIGSEGV},
        {submit_and_stop, run_in_place, "not this one: it is not in the code of a task", SIGSEGV},
        {bad_handler, NULL, "SIGSEGV", SIGSEGV},
        {bad_handler_of_panic, NULL, "not this one: it is not in the code of a task", SIGSEGV},
        {too_many, NULL, "not this one: there have been as many", SIGSEGV},
        {plain_pool, NULL, "fault: SIGSEGV", SIGSEGV},
        {with_handler, NULL, "the program's handler", SIGKILL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ(test_dies(cases[i].function, (void *)(uintptr_t)cases[i].task, cases[i].text),
                 cases[i].signal);
}

/* Options. */

static void without_handlers(void *arg)
{
    weft_pool *pool = POOL_POISON;
    (void)arg;
    weft_config config = {.no_fault_report = 1};
    CHECK_EQ(weft_configure(&config), 0);
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){ISOLATES}), -ENOTSUP);
    CHECK_PTR(pool, POOL_POISON);
}

static void options_are_checked(void)
{
    const char *output;
    weft_pool *pool = POOL_POISON;
    weft_pool_options options = {ISOLATES, .max_crashes = -1};
    CHECK_EQ(weft_pool_open(&pool, &options), -EINVAL);
    CHECK_PTR(pool, POOL_POISON);
    CHECK_EQ(test_in_child(without_handlers, NULL, &output), 0);
}

int main(void)
{
    const char *without = getenv("WEFT_WITHOUT");
    if (WEFT_ASAN || WEFT_TSAN)
        test_skip("under a sanitizer nothing is isolated: its report is wanted");
    if (without != NULL && strstr(without, "guard_pages") != NULL)
        test_skip("without guards no overflow is noticed");
    for (compact = 0; compact < 2; compact++) {
        RUN_PLAIN(every_fault_is_isolated, "a crash fails a test run");
        RUN_PLAIN(the_handler_is_told, "a crash fails a test run");
        RUN_PLAIN(those_who_wait_are_told, "a crash fails a test run");
        RUN_PLAIN(contexts_are_left, "a crash fails a test run");
        RUN_PLAIN(the_others_go_on, "a crash fails a test run");
        RUN_PLAIN(submitters_are_served, "a crash fails a test run");
        RUN_PLAIN(code_that_blocks_is_isolated, "a crash fails a test run");
        RUN_PLAIN(several_pools_count_them, "a crash fails a test run");
        RUN_PLAIN(those_in_line_go_on, "a crash fails a test run");
        RUN_PLAIN(workers_have_a_new_state, "a crash fails a test run");
        RUN_PLAIN(locks_stay_locked, "a crash fails a test run");
        RUN_PLAIN(threads_are_put_right, "a crash fails a test run");
        RUN_PLAIN(a_panic_may_crash, "a crash fails a test run");
        RUN_PLAIN(who_waits_is_not_drawn_in, "a crash fails a test run");
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    compact = 0;
    RUN_PLAIN(shutdown_after_crashes, "a crash fails a test run");
    RUN_PLAIN(test_runs_fail, "a crash fails a test run");
    RUN_PLAIN(the_rest_is_not_isolated,
              "a crash fails a test run"); /* weft does not run: children are forked */
    RUN_PLAIN(what_it_held_is_a_deadlock, "a crash fails a test run");
    RUN_PLAIN(options_are_checked, "a crash fails a test run");
    return 0;
}
