/*
 * panic.c: panics, recover points and deferred calls in plain C, in fibers and on threads.
 */
#include <fenv.h>

#include "everywhere.h"
#include "failing.h"
#include "panics.h"
#include "seeds.h"

static void a_panic_ends_at_the_recover_point(void *arg)
{
    weft_panic_info info;
    memset(&info, 0x55, sizeof info);
    CHECK_EQ(weft_recover(nothing, NULL, &info), 0);
    CHECK_EQ(info.depth, 0x55555555); /* untouched */
    CHECK_EQ(weft_recover(NULL, NULL, &info), -EINVAL);
    CHECK_EQ(weft_recover(panic_with, TEXT("bad"), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "bad");
    CHECK_EQ(info.fiber_id, weft_fiber_id(weft_self()));
    CHECK(info.depth > 0);
    CHECK((char *)info.backtrace[0] > (char *)(uintptr_t)panic_with);
    CHECK((char *)info.backtrace[0] < (char *)(uintptr_t)panic_with + 200);
    CHECK_EQ(weft_recover(panic_with, TEXT("again"), NULL), -EOWNERDEAD);
    CHECK_EQ(weft_panicking(), 0);
}

static void cut_message(void)
{
    char text[2 * WEFT_PANIC_MESSAGE];
    weft_panic_info info;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    CHECK_EQ(weft_recover(panic_with, text, &info), -EOWNERDEAD);
    CHECK_EQ(strlen(info.message), WEFT_PANIC_MESSAGE - 1);
}

static void recover_inner(void *arg)
{
    weft_panic_info info;
    CHECK_EQ(weft_recover(panic_with, TEXT("inner"), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "inner");
    if (arg != NULL)
        weft_panic("outer");
}

static void recover_points_nest(void *arg)
{
    weft_panic_info info;
    CHECK_EQ(weft_recover(recover_inner, NULL, &info), 0);
    CHECK_EQ(weft_recover(recover_inner, TEXT(""), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "outer");
}

/* Registers that a call preserves are preserved by a call that a panic ends. */

static void spoil_rounding(void *arg)
{
    fesetround(FE_TOWARDZERO);
    weft_panic("rounding");
}

static void registers_are_kept(void *arg)
{
    volatile uint64_t seed = 12345;
    uint64_t a = seed, b = a * 3, c = b ^ 77, d = c + a, e = d * 5, f = e ^ b, g = f + c;
    double x = (double)seed / 7, y = x * 3;
    CHECK_EQ(weft_recover(spoil_rounding, NULL, NULL), -EOWNERDEAD);
    CHECK_EQ(a + b + c + d + e + f + g, seed + b + c + d + e + f + g);
    CHECK_EQ(b, seed * 3);
    CHECK_EQ(g, ((((((seed * 3) ^ 77) + seed) * 5) ^ (seed * 3)) + ((seed * 3) ^ 77)));
    CHECK(y == (double)seed / 7 * 3);
    CHECK_EQ(fegetround(), FE_TONEAREST);
}

static void defer_three(void *arg)
{
    WEFT_DEFER(note, TEXT("1"));
    WEFT_DEFER(note, TEXT("2"));
    {
        WEFT_DEFER(note, TEXT("3"));
        note(TEXT("("));
    }
    note(TEXT(")"));
    if (arg != NULL)
        weft_panic("four");
}

static void middle(void *arg)
{
    WEFT_DEFER(note, TEXT("m"));
    defer_three(arg);
    note(TEXT("-"));
}

static void deferred_runs_when_the_block_is_left(void *arg)
{
    noted();
    middle(NULL);
    CHECK_STR(noted(), "(3)21-m");
    CHECK_EQ(weft_recover(middle, TEXT(""), NULL), -EOWNERDEAD);
    CHECK_STR(noted(), "(3)21m");
}

static weft_deferred records[3];

static void defer_records(void *arg)
{
    weft_defer(&records[0], note, TEXT("a"));
    weft_defer(&records[1], note, TEXT("b"));
    weft_defer(&records[2], note, TEXT("c"));
    if (strcmp(arg, "drop") == 0) {
        weft_deferred_drop(&records[1]);
        weft_deferred_drop(&records[1]);
    }
    if (strcmp(arg, "run") == 0) {
        weft_deferred_run(&records[1]);
        weft_deferred_run(&records[1]);
        note(TEXT("|"));
    }
    if (strcmp(arg, "panic") == 0)
        weft_panic("panic");
}

static void defer_by_record(void *arg)
{
    noted();
    CHECK_EQ(weft_recover(defer_records, TEXT("return"), NULL), 0);
    CHECK_STR(noted(), "cba");
    CHECK_EQ(weft_recover(defer_records, TEXT("panic"), NULL), -EOWNERDEAD);
    CHECK_STR(noted(), "cba");
    CHECK_EQ(weft_recover(defer_records, TEXT("drop"), NULL), 0);
    CHECK_STR(noted(), "ca");
    CHECK_EQ(weft_recover(defer_records, TEXT("run"), NULL), 0);
    CHECK_STR(noted(), "cb|a");
}

static void records_run_when_the_recover_point_ends(void)
{
    everywhere(defer_by_record);
    run_fiber(defer_records, TEXT("return"));
    CHECK_STR(noted(), "cba"); /* at the end of the fiber */
}

static void a_clean_up_may_wait(void *arg)
{
    noted();
    CHECK_EQ(weft_recover(panic_and_wait, TEXT("slow"), NULL), -EOWNERDEAD);
    CHECK_STR(noted(), "wx");
}

static void panic_twice(void *arg)
{
    WEFT_DEFER(note, TEXT("last"));
    WEFT_DEFER(panic_with, TEXT("third"));
    WEFT_DEFER(note, TEXT("first "));
    WEFT_DEFER(panic_with, TEXT("second"));
    weft_panic("first");
}

static void recover_in_cleanup(void *arg)
{
    CHECK_EQ(weft_panicking(), 1);
    recover_inner(NULL);
    CHECK_EQ(weft_panicking(), 1);
}

static void panic_with_calm_cleanup(void *arg)
{
    WEFT_DEFER(recover_in_cleanup, NULL);
    panic_with(arg);
}

static void double_panic(void *arg)
{
    weft_panic_info info;
    noted();
    CHECK_EQ(weft_recover(panic_twice, NULL, &info), -EOWNERDEAD);
    CHECK_STR(noted(), "first last");
    CHECK_STR(info.message,
              "third (while another panic was under way: second) (while another panic was "
              "under way: first)");
    CHECK_EQ(weft_recover(panic_with_calm_cleanup, TEXT("goes on"), &info), -EOWNERDEAD);
    CHECK_STR(info.message, "goes on");
}

static void panic_at_the_end(void *arg)
{
    static weft_deferred record;
    weft_defer(&record, panic_with, TEXT("too late"));
}

static void a_panic_in_a_clean_up_has_both_messages(void)
{
    everywhere(double_panic);
    weft_panic_info info;
    CHECK_EQ(weft_recover(panic_at_the_end, NULL, &info), -EOWNERDEAD);
    CHECK_STR(info.message, "too late");
}

/* Without memory a panic still arrives. */

static void panic_without_memory(void *arg)
{
    weft_panic_info info;
    failing_on(OS_ALLOC, 1, true);
    int error = weft_recover(panic_twice, NULL, &info);
    int again = weft_recover(panic_with, TEXT("again"), NULL);
    failing_off();
    CHECK_EQ(error, -EOWNERDEAD);
    CHECK_EQ(again, -EOWNERDEAD);
    CHECK(strstr(info.message, "no memory") != NULL);
    CHECK_EQ(weft_panicking(), 0);
}

static void in_fiber_without_memory(void)
{
    noted();
    on_processors(2, panic_without_memory, NULL);
    CHECK_STR(noted(), "first last");
}

static void a_panic_needs_no_memory(void)
{
    const char *text = test_stderr_of(in_fiber_without_memory);
    CHECK(strstr(text, "without memory to keep record of it: first\n") != NULL);
    CHECK(strstr(text, "without memory to keep record of it: third\n") != NULL);
}

/* Misuse that ends the process; before the runtime runs. */

static void defer_nothing(void *arg)
{
    weft_defer(arg, NULL, NULL);
}

static weft_spin spin = WEFT_SPIN_INIT;

static void lock_and_panic(void *arg)
{
    weft_spin_lock(&spin);
    panic_with(arg);
}

static void recover_spin(void *arg)
{
    CHECK_EQ(weft_recover(lock_and_panic, arg, NULL), -EOWNERDEAD);
}

static void unlock(void *arg)
{
    weft_spin_unlock(arg);
}

static void lock_and_clean_up(void *arg)
{
    WEFT_DEFER(unlock, &spin);
    lock_and_panic(arg);
}

static void misuse_aborts(void)
{
    test_dies(panic_with, TEXT("on main"), "weft: panic: on main\n");
    test_dies(panic_with, TEXT("on main"), "weft: aborting: the panic is on a thread");
    test_dies(recover_spin, TEXT("spinning"), "a panic left a weft_spin locked");
    test_dies(defer_nothing, NULL, "weft_defer was given no record");
}

static void a_clean_up_unlocks(void)
{
    CHECK_EQ(weft_recover(lock_and_clean_up, TEXT("spin"), NULL), -EOWNERDEAD);
    CHECK_EQ(weft_spin_try_lock(&spin), 0);
    weft_spin_unlock(&spin);
}

/* The child of a fork in a fiber leaves its blocks as any code does. */

static void fork_in_block(void *arg)
{
    int status;
    WEFT_DEFER(note, TEXT("outer"));
    {
        WEFT_DEFER(note, TEXT("inner "));
        *(pid_t *)arg = fork();
    }
    if (*(pid_t *)arg == 0) {
        {
            WEFT_DEFER(note, TEXT("new "));
        }
        _exit(strcmp(noted(), "inner new ") == 0 ? 0 : 1);
    }
    CHECK_EQ(waitpid(*(pid_t *)arg, &status, 0), *(pid_t *)arg);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_forked_child_cleans_up(void)
{
    pid_t child;
    noted();
    run_fiber(fork_in_block, &child);
    CHECK_STR(noted(), "inner outer");
}

int main(void)
{
    RUN_PLAIN(misuse_aborts, "a child process that must die");
    RUN_EVERYWHERE(a_panic_ends_at_the_recover_point);
    RUN_BOTH(cut_message);
    RUN_EVERYWHERE(recover_points_nest);
    RUN_EVERYWHERE(registers_are_kept);
    RUN_EVERYWHERE(deferred_runs_when_the_block_is_left);
    RUN_BOTH(records_run_when_the_recover_point_ends);
    RUN_EVERYWHERE(a_clean_up_may_wait);
    RUN_ALL_BOTH(a_panic_in_a_clean_up_has_both_messages, a_clean_up_unlocks,
                 a_panic_needs_no_memory);
    RUN_PLAIN(a_forked_child_cleans_up, "forks");
    shut_down();
    return 0;
}
