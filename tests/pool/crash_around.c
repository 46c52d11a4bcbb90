/*
 * crash_around.c: the surroundings of a crashed task go on: other tasks, submitters, the
 * replacement of its worker, the thread and the processor. Locks that it held stay locked.
 */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>

#include "isolates.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"

/* Many crashes among other tasks. */

static void the_others_go_on(void *arg)
{
    int64_t count = test_scale(600), crashes = 0;
    atomic_u32 ran = {0};
    weft_pool *pool =
        POOL_OPEN(ISOLATES, .capacity = 3, .queue = 20, .max_crashes = WEFT_UNLIMITED);
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
    CHECK_FIGURES(pool, IS(completed, count), IS(crashed, crashes));
    CHECK_EQ(count_of(&ran), count - crashes);
    pool_close(pool);
}

/* All workers crash while submitters wait for them. */

static void waits_and_crashes(void *arg)
{
    CHECK_EQ(weft_wg_wait(arg), 0);
    fault_null_write();
}

static void submitters_are_served(void *arg)
{
    weft_wg wg = WEFT_WG_INIT;
    atomic_u32 ran = {0};
    struct submission bodies[4];
    CHECK_EQ(weft_wg_add(&wg, 1), 0);
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 2);
    submit_many(pool, waits_and_crashes, &wg, 2);
    for (int i = 0; i < 4; i++) {
        memset(&bodies[i], 0, sizeof bodies[i]);
        bodies[i].pool = pool;
        bodies[i].function = count_task;
        bodies[i].arg = &ran;
        bodies[i].deadline = WEFT_NEVER;
        CHECK_EQ(weft_go(submission_main, &bodies[i]), 0);
    }
    AWAIT_FIGURE(pool, blocked, 4);
    weft_wg_done(&wg);
    await_at_least(&ran, 4);
    for (int i = 0; i < 4; i++) {
        await_at_least(&bodies[i].returned, 1);
        CHECK_EQ(bodies[i].result, 0);
    }
    pool_close(pool);
}

/* In a section that blocks, with and without a processor. */

static void crash_blocking(void *arg)
{
    atomic_u32 *ran = arg;
    weft_blocking_enter();
    while (count_of(ran) == 0) /* another has the processor */
        sched_yield();
    fault_null_write();
    weft_blocking_exit();
}

/* Computes until another task has run: its processor is taken away. */
static void crash_stuck(void *arg)
{
    atomic_u32 *ran = arg;
    while (count_of(ran) == 0)
        sched_yield();
    fault_null_write();
}

static void code_that_blocks_is_isolated(void *arg)
{
    void (*const tasks[])(void *) = {crash_blocking, crash_stuck};
    for (int i = 0; i < 2; i++) {
        atomic_u32 ran = {0};
        weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 2, .queue = 5);
        CHECK_EQ(weft_pool_submit(pool, tasks[i], &ran), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(pool_stats(pool).crashed, 1);
        CHECK_EQ(count_of(&weft__sched.lost), 0);
        pool_close(pool);
    }
}

/* A worker crashes while compact fibers wait in the line of its hot stack. */

static struct {
    weft_wg gate, at_gate, ended;
} neighbours;

static void pass_by(void *arg)
{
    weft_wg_done(&neighbours.at_gate);
    CHECK_EQ(weft_wg_wait(&neighbours.gate), 0);
    weft_wg_done(&neighbours.ended);
}

static void crash_in_front(void *arg)
{
    uint64_t waited = weft__compact_figures().waited;
    weft_wg_done(&neighbours.gate);
    while (weft__compact_figures().waited == waited) /* another has the processor */
        sched_yield();
    fault_null_write();
}

static void in_front_body(void *arg)
{
    enum { MANY = 3 * HOT_STACKS };
    weft_pool *pool = POOL_OPEN(ISOLATES);
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

/* Workers with a state of their own. */

static struct {
    atomic_u32 started, exited;
} states;

static int start_state(void **state, void *data)
{
    *state = &states;
    atomic_u32_add_seq_cst(&states.started, 1);
    return 0;
}

static void exit_state(void *state, void *data)
{
    CHECK_PTR(state, &states);
    atomic_u32_add_seq_cst(&states.exited, 1);
}

static void check_state(void *ran)
{
    CHECK_PTR(weft_pool_worker_state(), &states);
    count_task(ran);
}

static void workers_have_a_new_state(void *arg)
{
    atomic_u32 ran = {0};
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
    CHECK_EQ(count_of(&ran), 3);
    CHECK_EQ(count_of(&states.started), 4);
    CHECK_EQ(count_of(&states.exited), 1);
    pool_close(pool);
}

/* Locks of the crashed task stay locked, and its worker's replacement does not own them. */

static void try_lock(void *mutex)
{
    CHECK_EQ(weft_mutex_lock_until(mutex, weft_after(WEFT_MS)), -ETIMEDOUT);
}

static void locks_stay_locked(void *arg)
{
    static weft_mutex mutex;
    memset(&mutex, 0, sizeof mutex);
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1, .queue = 10);
    CHECK_EQ(weft_pool_submit(pool, lock_and_crash, &mutex), 0);
    CHECK_EQ(weft_pool_submit(pool, try_lock, &mutex), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_FIGURES(pool, IS(crashed, 1), IS(panicked, 0));
    pool_close(pool);
}

/* The thread is as it was: its signal mask, and its rounding. */

static void change_thread_and_crash(void *arg)
{
    sigset_t all;
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

static void threads_are_put_right(void *arg)
{
    atomic_u32 ran = {0};
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1, .queue = 10);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(pool, change_thread_and_crash, NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, check_thread, &ran), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 3);
    pool_close(pool);
}

/* A task that waits for another of its pool, which crashes: it goes on. */

static int wait_for_crash(void *arg)
{
    weft_task *inner = start_task(arg, crash_with_handle, fault_arg(fault_null_write));
    CHECK_EQ(end_task(inner), -EFAULT);
    return 5;
}

static void a_waiting_task_goes_on(void *arg)
{
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1, .queue = 10);
    weft_task *task = start_task(pool, wait_for_crash, pool);
    CHECK_EQ(end_task(task), 5);
    CHECK_EQ(pool_stats(pool).crashed, 1);
    pool_close(pool);
}

/* The replacement of a worker is bound to the pool's context, and a crashed task with a handle does
 * not run again. */

static atomic_u32 begun, ended;

static void wait_for_cancel(void *arg)
{
    CHECK(weft_context_current() != NULL);
    atomic_u32_add_seq_cst(&begun, 1);
    CHECK_EQ(weft_sleep(LONG), -ECANCELED);
    atomic_u32_add_seq_cst(&ended, 1);
}

static void successors_have_the_pools_context(void *arg)
{
    weft_task *task;
    weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 1, .queue = 10, .cancellable = 1);
    for (uint32_t i = 1; i <= 5; i++) {
        atomic_u32_store_relaxed(&begun, 0);
        atomic_u32_store_relaxed(&ended, 0);
        CHECK_EQ(weft_pool_submit(pool, park_and_crash, fault_arg(fault_null_write)), 0);
        CHECK_EQ(weft_task_start(&task, pool, crash_with_handle, fault_arg(fault_overflow), NULL),
                 0);
        CHECK_EQ(weft_pool_submit(pool, wait_for_cancel, NULL), 0);
        CHECK_EQ(end_task(task), -EFAULT);
        await(&begun, 1);
        CHECK_EQ(weft_pool_cancel(pool), 0);
        await(&ended, 1);
    }
    pool_close(pool);
}

/* The runtime can be stopped and started; stacks and records stay. */

static void shutdown_after_crashes(void)
{
    uint64_t before = weft__stack_figures().quarantined;
    for (int i = 0; i < 3; i++) {
        weft_pool *pool = POOL_OPEN(ISOLATES, .capacity = 2, .queue = 10);
        for (int task = 0; task < 5; task++)
            CHECK_EQ(weft_pool_submit(pool, crash_task, fault_arg(fault_smash)), 0);
        pool_close(pool);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    CHECK_EQ(weft__stack_figures().quarantined, before + 15);
}

/* A crash in a sub-pool gives the place back that it had in the parent. */

static void a_sub_pool_crashes(void)
{
    atomic_u32 ran = {0};
    weft_pool *parent = POOL_OPEN(.capacity = 1, .queue = 99);
    weft_pool *sub = POOL_OPEN(ISOLATES, .parent = parent, .queue = 99);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_submit(sub, park_and_crash, fault_arg(fault_null_write)), 0);
        submit_counts(parent, &ran, 2);
        submit_counts(sub, &ran, 2);
    }
    CHECK_EQ(weft_pool_wait(sub, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_wait(parent, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 12);
    CHECK_EQ(pool_stats(sub).crashed, 3);
    CHECK_EQ(weft_pool_stop(sub, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(parent).below, 0);
    pool_close(sub);
    pool_close(parent);
}

int main(void)
{
    isolates_or_skip();
    for (compact = 0; compact < 2; compact++) {
        PLAIN_AT(the_others_go_on, "a crash fails a test run", EVERYWHERE, 1, 2);
        PLAIN_AT(submitters_are_served, "a crash fails a test run", EVERYWHERE);
        PLAIN_AT(code_that_blocks_is_isolated, "a crash fails a test run", 1, 2);
        RUN_PLAIN(those_in_line_go_on, "a crash fails a test run");
        PLAIN_AT(workers_have_a_new_state, "a crash fails a test run", EVERYWHERE);
        PLAIN_AT(locks_stay_locked, "a crash fails a test run", EVERYWHERE);
        PLAIN_AT(threads_are_put_right, "a crash fails a test run", 1);
        PLAIN_AT(a_waiting_task_goes_on, "a crash fails a test run", EVERYWHERE);
        RUN_PLAIN(a_sub_pool_crashes, "a crash fails a test run");
        PLAIN_AT(successors_have_the_pools_context, "a crash fails a test run", EVERYWHERE);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    }
    compact = 0;
    RUN_PLAIN(shutdown_after_crashes, "a crash fails a test run");
    return 0;
}
