/*
 * crash_output_crash.c: the text is written once, whatever the process dies of, and the signals
 * have the actions of the program again afterwards.
 */
#include <signal.h>

#include "base/compiler.h"
#include "dying.h"
#include "faults.h" /* sanitizers leave the signals alone */
#include "kernel.h"
#include "os/os.h"

static const char text[] = "the output of the crash\n";

/* A sanitizer ends the process by itself, and calls this function before. */
#if !WEFT_ASAN && !WEFT_TSAN
FAKE(int, sigaction, (int number, const struct sigaction *action, struct sigaction *before),
     (number, action, before))

static void (*on_death)(void);
void __sanitizer_set_death_callback(void (*callback)(void));
void __sanitizer_set_death_callback(void (*callback)(void))
{
    on_death = callback;
}
#endif

static void begin(void)
{
    weft__os_crash_output(text, sizeof text - 1);
}

static int times_written(void)
{
    int times = 0;
    for (const char *at = output; (at = strstr(at, text)) != NULL; at++)
        times++;
    return times;
}

static void by_abort(void)
{
    begin();
    abort();
}

static void by_weft(void)
{
    begin();
    weft__os_abort();
}

static void by_signal(void)
{
    begin();
    raise(SIGFPE);
}

static void by_exit(void)
{
    begin();
    weft__os_crash_output(NULL, 0);
    begin(); /* set again: it is written once all the same */
    exit(3);
}

static void written_before(void)
{
    begin();
    weft__os_crash_output_write();
    abort();
}

static void nothing_left(void)
{
    begin();
    weft__os_crash_output(NULL, 0);
    abort();
}

static void each_kind_of_death(void)
{
    check_dies(by_abort, SIGABRT);
    CHECK_EQ(times_written(), 1);
    check_dies(by_weft, SIGABRT);
    CHECK_EQ(times_written(), 1);
    check_dies(by_signal, SIGFPE);
    CHECK_EQ(times_written(), 1);
    CHECK_EQ(WEXITSTATUS(run_case(by_exit)), 3);
    CHECK_EQ(times_written(), 1);
    check_dies(written_before, SIGABRT);
    CHECK_EQ(times_written(), 1);
    check_dies(nothing_left, SIGABRT);
    CHECK_EQ(times_written(), 0);
}

/* The text belongs to the process that set it. */
static void in_a_child(void)
{
    begin();
    pid_t child = fork();
    if (child == 0)
        abort();
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    weft__os_crash_output(NULL, 0);
}

static void a_forked_child_writes_nothing(void)
{
    CHECK_EQ(WEXITSTATUS(run_case(in_a_child)), 0);
    CHECK_EQ(times_written(), 0);
}

static void others(int number)
{
}

/* Actions that the program has set meanwhile stay; the others are restored. */
static void actions_are_restored(void)
{
    struct sigaction now;
    begin();
    CHECK(signal(SIGILL, others) != SIG_ERR);
    weft__os_crash_output(NULL, 0);
    CHECK_EQ(sigaction(SIGILL, NULL, &now), 0);
    CHECK(now.sa_handler == others);
#if !WEFT_ASAN && !WEFT_TSAN
    CHECK_EQ(sigaction(SIGABRT, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
#endif
    CHECK(signal(SIGILL, SIG_DFL) != SIG_ERR);
#if !WEFT_ASAN && !WEFT_TSAN
    begin();
    KERNEL_SAYS(sigaction, EPERM, 1); /* the action cannot be read: it is left alone */
    weft__os_crash_output(NULL, 0);
    CHECK_EQ(sigaction(SIGABRT, NULL, &now), 0);
    CHECK(now.sa_handler != SIG_DFL);
    CHECK(signal(SIGABRT, SIG_DFL) != SIG_ERR);
#endif
}

#if !WEFT_ASAN && !WEFT_TSAN
static void by_sanitizer(void)
{
    begin();
    on_death();
    weft__os_crash_output(NULL, 0);
    if (on_death == NULL)
        weft__os_abort();
}

static void a_sanitizer_writes_it(void)
{
    check_dies(by_sanitizer, SIGABRT);
    CHECK_EQ(times_written(), 1);
}
#endif

int main(void)
{
    RUN_ALL(each_kind_of_death, a_forked_child_writes_nothing, actions_are_restored);
#if !WEFT_ASAN && !WEFT_TSAN
    RUN(a_sanitizer_writes_it);
#endif
    return 0;
}
