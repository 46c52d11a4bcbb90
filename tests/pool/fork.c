/*
 * fork.c: a task forks, and its child returns into a pool that does not exist there: the child
 * ends with exit code 0, whatever ran the task, and the parent's pool goes on. And the pool's
 * calls in a child.
 */
#include <sys/prctl.h>
#include <weft/pools.h>
#include <weft/task.h>

#include "faults.h"
#include "os/os.h"
#include "system.h"
#include "tasks.h"

static pid_t parent;
static atomic_u32 forked;

static bool is_child(void)
{
    return getpid() != parent;
}

/* True in the child; the parent waits for it. */
static bool fork_off(void)
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a child that hangs goes with the test */
        return true;
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    atomic_u32_add_seq_cst(&forked, 1);
    return false;
}

static void fork_task(void *arg)
{
    (void)fork_off();
}

static void panic_task(void *arg)
{
    weft_panic("on_panic forks");
}

static int fork_handle(void *arg)
{
    (void)fork_off();
    return 3;
}

static void fork_deferring(void *arg)
{
    static weft_deferred record; /* one at a time: there is one worker */
    weft_defer(&record, fork_task, NULL);
}

static void begin(void)
{
    parent = getpid();
    atomic_u32_store_relaxed(&forked, 0);
}

static atomic_u32 ran;

/* Two of each, so that something waits behind the first. */
static void fork_twice(weft_pool *pool, void (*task)(void *), uint64_t key)
{
    weft_submit_options options = {.key = key};
    begin();
    atomic_u32_store_relaxed(&ran, 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_submit_with(pool, task, NULL, &options), 0);
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &options), 0);
    await_count(&ran, 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&forked), 2);
    pool_close(pool);
}

static void children_of_tasks(void)
{
    static const weft_pool_options kinds[] = {
        {.capacity = 1, .queue = 10},
        {.capacity = 1, .queue = 10, .compact = 1},
        {.capacity = 1, .queue = 10, .isolate_crashes = 1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (uint64_t key = 0; key < 2; key++) {
            fork_twice(pool_open(kinds[i]), fork_task, key);
            fork_twice(pool_open(kinds[i]), fork_deferring, key);
        }
}

static void in_parent_only(void *arg)
{
    CHECK(!is_child());
    count_task(arg);
}

/* A child runs none of the tasks behind its own. */
static void children_run_no_other_task(void)
{
    enum { OTHERS = 30 };
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 2 * OTHERS);
    begin();
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, fork_task, NULL), 0);
    submit_many(pool, in_parent_only, &ran, OTHERS);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), OTHERS);
    CHECK_EQ(count_of(&forked), 1);
}

static void children_of_tasks_with_a_handle(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 4);
    begin();
    weft_task *task = start_task(pool, fork_handle, NULL);
    CHECK_EQ(end_task(task), 3);
    CHECK_EQ(count_of(&forked), 1);
    pool_close(pool);
}

/* A caller that runs the task goes on in the child too, where the pool returns -ECHILD. */
static void children_of_callers_that_run_tasks(void *arg)
{
    struct gate gate;
    void *args[3] = {NULL, NULL, NULL};
    weft_pool *pool = POOL_OPEN(.capacity = 1, .when_full = WEFT_CALLER_RUNS);
    gate_shut_and_fill(&gate, pool, 1);
    begin();
    CHECK_EQ(weft_pool_submit(pool, fork_task, NULL), 0);
    if (is_child())
        _exit(weft_pool_submit(pool, fork_task, NULL) == -ECHILD ? 0 : 1);
    int64_t count = weft_pool_submit_batch(pool, fork_task, args, 3, WEFT_NEVER);
    if (is_child()) /* one was run; the rest is not for the child */
        _exit(count == (int64_t)count_of(&forked) ? 0 : 1);
    CHECK_EQ(count, 3);
    CHECK_EQ(count_of(&forked), 4);
    gate_open_and_close(&gate, pool);
}

/* A drop forks: its child comes back, and is told of nothing else that was dropped. */

static atomic_u32 dropped;

static void fork_on_drop(void (*function)(void *), void *arg, void *data)
{
    if (atomic_u32_add_seq_cst(&dropped, 1) == 0)
        (void)fork_off();
}

static weft_pool *open_dropping(weft_pool_options options)
{
    options.capacity = 1;
    options.on_drop = fork_on_drop;
    begin();
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&dropped, 0);
    return pool_open(options);
}

static void abort_with(uint64_t key)
{
    weft_submit_options options = {.key = key};
    weft_pool *pool = open_dropping((weft_pool_options){.queue = 8});
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_pool_submit_with(pool, in_parent_only, &ran, &options), 0);
    int64_t count = weft_pool_abort(pool);
    if (is_child())
        _exit(count_of(&dropped) == 1 ? 0 : 1);
    CHECK_EQ(count, 3);
    CHECK_EQ(count_of(&dropped), 3);
    CHECK_EQ(count_of(&forked), 1);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 0);
}

static void abort_both(void *arg)
{
    abort_with(0);
    abort_with(7);
}

static void drop_oldest(void *arg)
{
    struct gate gate;
    weft_submit_options keyed = {.key = 7};
    weft_pool *pool = open_dropping((weft_pool_options){.queue = 2, .when_full = WEFT_DROP_OLDEST});
    gate_shut_and_fill(&gate, pool, 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_submit_with(pool, in_parent_only, &ran, &keyed), 0);
    int error = weft_pool_submit(pool, in_parent_only, &ran);
    if (is_child())
        _exit(error == 0 && count_of(&dropped) == 1 ? 0 : 1);
    CHECK_EQ(error, 0);
    CHECK_EQ(count_of(&forked), 1);
    gate_open_and_close(&gate, pool);
    CHECK_EQ(count_of(&ran), 2);
}

static void children_of_drops(void)
{
    everywhere(abort_both);
    everywhere(drop_oldest);
}

/* The functions of the options. */

static int fork_at_start(void **state, void *data)
{
    (void)fork_off();
    return 0;
}

static int fail_at_start(void **state, void *data)
{
    return fork_off() ? -EIO : 0;
}

static atomic_u32 starts;

static int fail_first(void **state, void *data)
{
    return atomic_u32_add_seq_cst(&starts, 1) == 0 ? -EIO : 0;
}

static void fork_on_log(const char *line, void *data)
{
    (void)fork_off();
}

static void fork_at_exit(void *state, void *data)
{
    (void)fork_off();
}

static void fork_on_panic(const weft_panic_info *info, void (*function)(void *), void *arg,
                          void *data)
{
    (void)fork_off();
}

static void crash_task(void *arg)
{
    fault_null_write();
}

static void children_of_workers(void)
{
    weft_pool_options kinds[] = {
        {.on_worker_start = fork_at_start},
        {.on_worker_start = fail_at_start, .log = ignore_line},
        {.on_worker_exit = fork_at_exit},
        {.on_panic = fork_on_panic},
        {.on_worker_start = fail_first, .log = fork_on_log},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (int isolate = 0; isolate < 2; isolate++) {
            kinds[i].capacity = 1;
            kinds[i].queue = 4;
            kinds[i].isolate_crashes = isolate;
            weft_pool *pool = pool_open(kinds[i]);
            begin();
            atomic_u32_store_relaxed(&ran, 0);
            atomic_u32_store_relaxed(&starts, 0);
            CHECK_EQ(weft_pool_submit(pool, i == 3 ? panic_task : count_task, &ran), 0);
            CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
            pool_close(pool);
            CHECK_EQ(count_of(&ran), i == 3 ? 1 : 2);
            CHECK_EQ(count_of(&forked), 1);
        }
}

static void children_of_crashed_tasks(void)
{
    if (test_emulated() || WEFT_ASAN || WEFT_TSAN) /* their own handlers, or none */
        return;
    weft_pool *pool =
        POOL_OPEN(.capacity = 1, .queue = 4, .isolate_crashes = 1, .on_panic = fork_on_panic);
    begin();
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit(pool, crash_task, NULL), 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 1);
    CHECK_EQ(count_of(&forked), 1);
}

/* Calls in a child that was forked outside of a task. */

static struct {
    weft_pool *pool;
    weft_pools *pools;
    weft_task *task;
    struct gate gate;
} left;

static void call_pool(void)
{
    weft_pool *pool = left.pool, *other = POOL_POISON;
    void *args[] = {&ran};
    CHECK_EQ(weft_pool_open(&other, NULL), -ECHILD);
    CHECK_PTR(other, POOL_POISON);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -ECHILD);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -ECHILD);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, NULL), -ECHILD);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, args, 1, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_pool_tune(pool, 3), -ECHILD);
    CHECK_EQ(weft_pool_tune_queue(pool, 3), -ECHILD);
    CHECK_EQ(weft_pool_state(pool), -ECHILD);
    CHECK_EQ(weft_pool_pause(pool), -ECHILD);
    CHECK_EQ(weft_pool_resume(pool), -ECHILD);
    CHECK_EQ(weft_pool_abort(pool), -ECHILD);
    CHECK_EQ(weft_pool_reopen(pool), -ECHILD);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_pool_close_until(pool, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_pool_close(pool), -ECHILD);
}

static void a_forked_child_is_refused(void *arg)
{
    left.pool = POOL_OPEN(.capacity = 2, .queue = 5, .prestart = 1);
    atomic_u32_store_relaxed(&ran, 0);
    submit_counts(left.pool, &ran, 3);
    in_fork(call_pool);
    submit_counts(left.pool, &ran, 3); /* the parent's goes on */
    pool_close(left.pool);
    CHECK_EQ(count_of(&ran), 6);
}

static void call_all(void)
{
    weft_pools *pools = (weft_pools *)(uintptr_t)0xdead;
    weft_task *task = (weft_task *)(uintptr_t)0xdead;
    CHECK_EQ(weft_pools_open(&pools, 2, WEFT_ROUND_ROBIN, NULL), -ECHILD);
    CHECK_PTR(pools, (weft_pools *)(uintptr_t)0xdead);
    CHECK_EQ(weft_pool_submit(weft_pools_pick(left.pools), count_task, &ran), -ECHILD);
    CHECK_EQ(weft_pools_close(left.pools), -ECHILD);
    CHECK_EQ(weft_task_start(&task, left.pool, nothing, NULL, NULL), -ECHILD);
    CHECK_EQ(weft_task_try_start(&task, left.pool, nothing, NULL, NULL), -ECHILD);
    CHECK_PTR(task, (weft_task *)(uintptr_t)0xdead);
    weft_chan *done;
    CHECK_EQ(weft_task_done(left.task, &done), -ECHILD);
    CHECK_EQ(weft_task_wait(left.task, NULL), -ECHILD);
    CHECK_EQ(weft_task_cancel(left.task), -ECHILD);
    CHECK(!weft_task_ended(left.task));
    weft_task_release(left.task);
    CHECK_PTR(weft_pool_default(), NULL); /* it was not opened before */
}

static void the_rest_is_refused(void)
{
    weft_pool_options options = {.capacity = 1, .queue = 4};
    left.pool = pool_open(options);
    CHECK_EQ(weft_pools_open(&left.pools, 2, WEFT_ROUND_ROBIN, &options), 0);
    gate_shut_and_fill(&left.gate, left.pool, 1);
    left.task = start_task(left.pool, nothing, NULL);
    in_fork(call_all);
    gate_open(&left.gate);
    CHECK_EQ(end_task(left.task), 0);
    CHECK_EQ(weft_pools_close(left.pools), 0);
    pool_close(left.pool);
}

int main(void)
{
    RUN_PLAIN(the_rest_is_refused, "forks");
    PLAIN_AT(a_forked_child_is_refused, "forks", EVERYWHERE);
    RUN_PLAIN(children_of_tasks, "forks");
    RUN_PLAIN(children_run_no_other_task, "forks");
    RUN_PLAIN(children_of_tasks_with_a_handle, "forks");
    PLAIN_AT(children_of_callers_that_run_tasks, "forks", EVERYWHERE);
    RUN_PLAIN(children_of_drops, "forks");
    RUN_PLAIN(children_of_workers, "forks");
    RUN_PLAIN(children_of_crashed_tasks, "forks");
    return 0;
}
