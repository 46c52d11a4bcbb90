/*
 * last_words.c: what is said if the process dies meanwhile: once, by whatever it dies; and the signals are those of
 * the program again after it.
 */
#include <signal.h>

#include "base/compiler.h"
#include "dying.h"
#include "faults.h" /* sanitizers leave the signals alone */
#include "kernel.h"
#include "os/os.h"

static const char words[] = "the last words\n";

/* A sanitizer ends the process by itself, and calls this before. */
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
    weft__os_crash_output(words, sizeof words - 1);
}

static int times_said(void)
{
    int times = 0;
    for (const char *at = output; (at = strstr(at, words)) != NULL; at++)
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
    begin(); /* once more: it is still said once */
    exit(3);
}

static void said_before(void)
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

static void whatever_it_dies_of(void)
{
    check_dies(by_abort, SIGABRT);
    CHECK_EQ(times_said(), 1);
    check_dies(by_weft, SIGABRT);
    CHECK_EQ(times_said(), 1);
    check_dies(by_signal, SIGFPE);
    CHECK_EQ(times_said(), 1);
    CHECK_EQ(WEXITSTATUS(run_case(by_exit)), 3);
    CHECK_EQ(times_said(), 1);
    check_dies(said_before, SIGABRT);
    CHECK_EQ(times_said(), 1);
    check_dies(nothing_left, SIGABRT);
    CHECK_EQ(times_said(), 0);
}

/* A forked child has nothing to say. */
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

static void a_forked_child_has_nothing_to_say(void)
{
    CHECK_EQ(WEXITSTATUS(run_case(in_a_child)), 0);
    CHECK_EQ(times_said(), 0);
}

static void others(int number)
{
    (void)number;
}

/* Actions that the program set meanwhile stay; the rest is as before. */
static void signals_are_given_back(void)
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
    KERNEL_SAYS(sigaction, EPERM, 1); /* whose it is cannot be asked: it is left alone */
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

static void a_sanitizer_has_them_said(void)
{
    check_dies(by_sanitizer, SIGABRT);
    CHECK_EQ(times_said(), 1);
}
#endif

int main(void)
{
    RUN(whatever_it_dies_of);
    RUN(a_forked_child_has_nothing_to_say);
    RUN(signals_are_given_back);
#if !WEFT_ASAN && !WEFT_TSAN
    RUN(a_sanitizer_has_them_said);
#endif
    return 0;
}
