/*
 * fork_on_panic.c: on_panic forks for a task with a handle or of a group: the child ends with exit
 * code 0, and in the parent the task ends with its error.
 */
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/pool.h>
#include <weft/task.h>

#include "faults.h"
#include "system.h"

static int status;

static void fork_on_panic(const weft_panic_info *info, void (*function)(void *), void *arg,
                          void *data)
{
    (void)info, (void)function, (void)arg, (void)data;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a child that hangs goes with the test */
    else
        CHECK_EQ(waitpid(child, &status, 0), child);
}

static int panic_handle(void *arg)
{
    (void)arg;
    weft_panic("on_panic forks");
}

static int fault_handle(void *arg)
{
    (void)arg;
    fault_null_write();
    return 0;
}

/* Runs it once with a handle and once in a group; both get the error. */
static void run_both(weft_pool_options options, int (*function)(void *), int error)
{
    weft_pool *pool;
    weft_task *task;
    weft_group *group;
    int result = 0;
    options.on_panic = fork_on_panic;
    CHECK_EQ(weft_pool_open(&pool, &options), 0);
    status = -1;
    CHECK_EQ(weft_task_start(&task, pool, function, NULL, NULL), 0);
    CHECK_EQ(weft_task_wait(task, &result), 0);
    CHECK_EQ(result, error);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    weft_task_release(task);
    status = -1;
    CHECK_EQ(weft_pool_group(&group, pool, NULL), 0);
    CHECK_EQ(weft_group_go(group, function, NULL), 0);
    CHECK_EQ(weft_group_close(group), error);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(weft_pool_close(pool), 0);
}

static void children_of_panics(void)
{
    run_both((weft_pool_options){.capacity = 1}, panic_handle, -EOWNERDEAD);
}

static void children_of_crashes(void)
{
    if (test_emulated() || WEFT_ASAN || WEFT_TSAN) /* their own handlers, or none */
        return;
    run_both((weft_pool_options){.capacity = 1, .isolate_crashes = 1}, fault_handle, -EFAULT);
}

int main(void)
{
    RUN_PLAIN(children_of_panics, "it forks");
    RUN_PLAIN(children_of_crashes, "it forks");
    return 0;
}
