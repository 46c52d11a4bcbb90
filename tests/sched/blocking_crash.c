/*
 * blocking.c: misuse of weft_blocking_enter and exit is reported; a deadlock is reported although machines
 * were stuck before it, and not while one is.
 */
#include <signal.h>
#include <time.h>

#include "base/compiler.h"
#include "system.h"
#include "test.h"
#include <weft/weft.h>

const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

static void run_fiber(void *arg)
{
    void (*function)(void *) = (void (*)(void *))(uintptr_t)arg;
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void exit_only(void *arg)
{
    weft_blocking_exit();
    (void)arg;
}

static void exit_twice(void *arg)
{
    weft_blocking_enter();
    weft_blocking_exit();
    weft_blocking_exit();
    (void)arg;
}

static void end_without_exit(void *arg)
{
    weft_blocking_enter();
    (void)arg;
}

static void enter_with_spin(void *arg)
{
    static weft_spin spin = WEFT_SPIN_INIT;
    weft_spin_lock(&spin);
    weft_blocking_enter();
    (void)arg;
}

static void no_function(void *arg)
{
    (void)weft_blocking(NULL, arg);
}

static void check_dies(void (*function)(void *), const char *expected)
{
    CHECK_EQ(test_dies(run_fiber, (void *)(uintptr_t)function, expected), SIGABRT);
}

static void misuse(void)
{
    check_dies(exit_only, "weft_blocking_exit without weft_blocking_enter");
    check_dies(exit_twice, "weft_blocking_exit without weft_blocking_enter");
    check_dies(end_without_exit, "ended between weft_blocking_enter and weft_blocking_exit");
    check_dies(enter_with_spin, "a weft_spin is held by a fiber that is about to block");
    check_dies(no_function, "weft_blocking was given no function");
}

/* Many were stuck, came back, and then all wait for ever. */

static weft_wg never;

static void nap(long microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static void block_then_wait(void *arg)
{
    if ((uintptr_t)arg % 2 == 0)
        weft_blocking_enter();
    nap(3000);
    if ((uintptr_t)arg % 2 == 0)
        weft_blocking_exit();
    CHECK_EQ(weft_wg_wait(&never), 0);
}

static void all_wait_after_blocking(void *arg)
{
    weft_config config = {.processors = 2};
    CHECK_EQ(weft_configure(&config), 0);
    CHECK_EQ(weft_wg_init(&never, 1), 0);
    for (uintptr_t i = 0; i < 16; i++)
        CHECK_EQ(weft_go(block_then_wait, (void *)i), 0);
    CHECK_EQ(weft_wg_wait(&never), 0);
    (void)arg;
}

static void a_deadlock_after_blocking_is_reported(void)
{
    CHECK_EQ(test_dies(all_wait_after_blocking, NULL, "weft: deadlock:"), SIGABRT);
}

/* One is in C code, and will wake the others: twice as long as the first looks of the check take. */

static void block_then_wake(void *arg)
{
    if (arg != NULL)
        weft_blocking_enter();
    nap(300000);
    if (arg != NULL)
        weft_blocking_exit();
    weft_wg_done(&never);
}

static void wait_never(void *arg)
{
    CHECK_EQ(weft_wg_wait(&never), 0);
    (void)arg;
}

static void one_comes_back(void *arg)
{
    weft_config config = {.processors = 2};
    CHECK_EQ(weft_configure(&config), 0);
    CHECK_EQ(weft_wg_init(&never, 1), 0);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(weft_go(wait_never, NULL), 0);
    CHECK_EQ(weft_go(block_then_wake, arg), 0);
    CHECK_EQ(weft_wg_wait(&never), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void who_is_in_c_code_counts(void)
{
    for (int said = 0; said < 2; said++) {
        const char *written;
        int status = test_in_child(one_comes_back, said ? &never : NULL, &written);
        CHECK(strstr(written, "deadlock") == NULL);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    RUN(misuse);
    if (!WEFT_TSAN &&
        !test_emulated()) /* they have a thread of their own, which might wake somebody */
        RUN(a_deadlock_after_blocking_is_reported);
    RUN(who_is_in_c_code_counts);
    return 0;
}
