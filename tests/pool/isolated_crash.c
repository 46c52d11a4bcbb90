/*
 * isolated_crash.c: faults in a pool that isolates crashes that are not in the task's own code, or
 * not on the stack of its fiber. tests/pool/crash*.c have the others.
 */
#include <pthread.h>
#include <signal.h>

#include "dying.h"
#include "faults.h"
#include <weft/weft.h>

static void run_task(void (*task)(void *))
{
    weft_pool *pool;
    weft_pool_stats stats;
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.isolate_crashes = 1, .capacity = 1}), 0);
    CHECK_EQ(weft_pool_submit(pool, task, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    CHECK_EQ(stats.crashed, 1);
    CHECK_EQ(weft_pool_close(pool), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* In libc, which the task itself has called. */

static const char *volatile no_text = (const char *)16;
static size_t (*volatile length_of)(const char *) = strlen;

static void measure_nothing(void *arg)
{
    faults_number = (int)length_of(no_text);
}

static void task_in_libc(void)
{
    run_task(measure_nothing);
}

static void panic_without_text(void *arg)
{
    weft_panic("%s", no_text);
}

static void weft_in_libc(void)
{
    run_task(panic_without_text);
}

static void a_fault_in_libc_is_its_callers(void)
{
    check_dies(weft_in_libc, SIGSEGV);
    CHECK(said("but not this one: it is in weft's code"));
    CHECK_EQ(run_case(task_in_libc), 0);
    CHECK(said("the task is abandoned"));
}

/* On a stack of the program, below or above those of the fibers. */

static void switch_below(void *arg)
{
    fault_on_stack(stack_below);
}

static void switch_above(void *arg)
{
    fault_on_stack(stack_above);
}

static void task_below(void)
{
    run_task(switch_below);
}

static void task_above(void)
{
    char stack[sizeof stack_below];
    stack_above = stack;
    run_task(switch_above);
}

static void another_stack_is_not_left(void)
{
    check_dies(task_below, SIGSEGV);
    CHECK(said("but not this one: it runs on a stack that is not the fiber's"));
    check_dies(task_above, SIGSEGV);
    CHECK(said("but not this one: it runs on a stack that is not the fiber's"));
}

/* An overflow, of which the program might know: its handler was there first. */

static void programs_handler(int signal)
{
    _exit(7);
}

static void overflow(void *arg)
{
    fault_overflow();
}

static void task_overflows(void)
{
    struct sigaction action = {.sa_handler = programs_handler, .sa_flags = SA_ONSTACK};
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    run_task(overflow);
}

static void an_overflow_with_a_handler_is_not_left(void)
{
    int status = run_case(task_overflows);
    CHECK(said("stack overflow"));
    CHECK(said("but not this one: the program has a handler for the signal"));
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 7);
}

/* On a thread that weft does not know. */

static void *fault_on_thread(void *arg)
{
    fault_null_write();
    return arg;
}

static void start_thread(void *arg)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fault_on_thread, arg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void task_with_thread(void)
{
    run_task(start_thread);
}

static void a_thread_of_the_task_is_not_left(void)
{
    check_dies(task_with_thread, SIGSEGV);
    CHECK(said("on a thread that is not weft's"));
    CHECK(!said("isolates crashes"));
}

int main(void)
{
    const char *without = getenv("WEFT_WITHOUT");
    if (WEFT_ASAN || WEFT_TSAN)
        test_skip("under a sanitizer nothing is isolated: its report is wanted");
    RUN(a_fault_in_libc_is_its_callers);
    RUN(another_stack_is_not_left);
    RUN(a_thread_of_the_task_is_not_left);
    if (without == NULL || strstr(without, "guard_pages") == NULL)
        RUN(an_overflow_with_a_handler_is_not_left);
    return 0;
}
