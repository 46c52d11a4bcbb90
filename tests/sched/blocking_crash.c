/*
 * blocking_crash.c: misuse of weft_blocking_enter and weft_blocking_exit is reported; a deadlock is
 * reported although machines were stuck before it, and not while one is stuck.
 */
#include "deadlock.h"

static void run_in_fiber(void *function)
{
    run_fiber((void (*)(void *))(uintptr_t)function, NULL);
}

static void exit_only(void *arg)
{
    weft_blocking_exit();
}

static void exit_twice(void *arg)
{
    weft_blocking_enter();
    weft_blocking_exit();
    weft_blocking_exit();
}

static void end_without_exit(void *arg)
{
    weft_blocking_enter();
}

static void enter_with_spin(void *arg)
{
    static weft_spin spin = WEFT_SPIN_INIT;
    weft_spin_lock(&spin);
    weft_blocking_enter();
}

static void no_function(void *arg)
{
    (void)weft_blocking(NULL, arg);
}

static void misuse(void)
{
    static const struct {
        void (*function)(void *);
        const char *text;
    } cases[] = {
        {exit_only, "weft_blocking_exit without weft_blocking_enter"},
        {exit_twice, "weft_blocking_exit without weft_blocking_enter"},
        {end_without_exit, "ended between weft_blocking_enter and weft_blocking_exit"},
        {enter_with_spin, "a weft_spin is held by a fiber that is about to block"},
        {no_function, "weft_blocking was given no function"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ(test_dies(run_in_fiber, (void *)(uintptr_t)cases[i].function, cases[i].text),
                 SIGABRT);
}

static weft_wg never;

static void begin_never(void)
{
    configure(2);
    CHECK_EQ(weft_wg_init(&never, 1), 0);
}

/* Fibers that were stuck have come back, and then all wait for ever. */

static void block_then_wait(void *arg)
{
    if ((uintptr_t)arg % 2 == 0)
        weft_blocking_enter();
    nap(3000);
    if ((uintptr_t)arg % 2 == 0)
        weft_blocking_exit();
    wait_for_group(&never);
}

static void all_wait_after_blocking(void *arg)
{
    begin_never();
    for (uintptr_t i = 0; i < 16; i++)
        CHECK_EQ(weft_go(block_then_wait, (void *)i), 0);
    wait_for_group(&never);
}

static void a_deadlock_after_blocking_is_reported(void)
{
    check_reported(all_wait_after_blocking, NULL);
}

/* A fiber in C code will wake the others, after twice the time of the first checks for a
 * deadlock. */

static void block_then_wake(void *marked)
{
    if (marked != NULL)
        weft_blocking_enter();
    nap(300000);
    if (marked != NULL)
        weft_blocking_exit();
    weft_wg_done(&never);
}

static void a_blocked_fiber_wakes_all(void *marked)
{
    begin_never();
    go_many(16, wait_for_group, &never);
    CHECK_EQ(weft_go(block_then_wake, marked), 0);
    wait_for_group(&never);
    shut_down();
}

static void a_fiber_in_c_code_is_no_deadlock(void)
{
    check_lives(a_blocked_fiber_wakes_all, NULL);
    check_lives(a_blocked_fiber_wakes_all, &never);
}

int main(void)
{
    RUN(misuse);
    if (reports_come())
        RUN_ALL(a_deadlock_after_blocking_is_reported, a_fiber_in_c_code_is_no_deadlock);
    return 0;
}
