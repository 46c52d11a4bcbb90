/*
 * seeded_crash.c: whatever ends the process during a test run, the output has the seed; after the
 * run it has not.
 */
#include <signal.h>
#include <weft/test.h>

#include "base/compiler.h"
#include "fibers.h"
#include "system.h"

enum { SEED = 4711 };

int *volatile nowhere;

static const char with_seed[] = "seed 4711 of a test run";

const char *__asan_default_options(void);
const char *__tsan_default_options(void);

/* Sanitizers leave the faults to weft, and no child sleeps at its end. */
const char *__asan_default_options(void)
{
    return "handle_segv=0:handle_sigfpe=0:abort_on_error=1";
}

const char *__tsan_default_options(void)
{
    return "handle_segv=0:handle_sigfpe=0:atexit_sleep_ms=0";
}

static void run(void *arg)
{
    void (*function)(void *) = *(void (**)(void *))arg;
    (void)!weft_test_run(SEED, function, NULL);
}

static int dies(void (*function)(void *), const char *expected)
{
    return test_dies(run, &function, expected);
}

static void waits_for_ever(void *arg)
{
    char letter;
    weft_chan *chan = make_chan(1, 0);
    CHECK_EQ(weft_chan_receive(chan, &letter), 0);
}

static void locks_forever(void *arg)
{
    weft_mutex_lock(arg);
    weft_mutex_unlock(arg);
}

static void leaves_one_waiting(void *arg)
{
    static weft_mutex mutex = WEFT_MUTEX_INIT;
    static weft_wg wg = WEFT_WG_INIT;
    weft_mutex_lock(&mutex);
    CHECK_EQ(weft_wg_go(&wg, locks_forever, &mutex), 0);
    CHECK_EQ(weft_sleep(WEFT_S), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

static void leaves_a_timer(void *arg)
{
    (void)open_timer(nothing, NULL);
}

static void aborts(void *arg)
{
    weft_yield();
    abort();
}

__attribute__((no_sanitize("undefined"))) static noinline void faults(void *arg)
{
    *nowhere = 1; /* NOLINT(clang-analyzer-core.NullDereference): on purpose */
}

static void ends_it(void *arg)
{
    exit(3); /* NOLINT(concurrency-mt-unsafe): on purpose */
}

static void own_handler(int signal)
{
    static const char text[] = "the handler from before\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
}

static void run_with_handler(void *arg)
{
    CHECK(signal(SIGABRT, own_handler) != SIG_ERR);
    (void)!weft_test_run(SEED, aborts, NULL);
}

static void abort_after_run(void *arg)
{
    struct sigaction now;
    CHECK_EQ(weft_test_run(SEED, nothing, NULL), 0);
    CHECK(sigaction(SIGABRT, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    abort();
}

static void a_deadlock_is_reported_with_the_seed(void)
{
    CHECK_EQ(dies(waits_for_ever, "receives from a channel"), SIGABRT);
    CHECK_EQ(dies(waits_for_ever, with_seed), SIGABRT);
    CHECK_EQ(dies(leaves_one_waiting, "locks a mutex"), SIGABRT);
    CHECK_EQ(dies(leaves_a_timer, "a timer was left open"), SIGABRT);
    CHECK_EQ(dies(leaves_a_timer, with_seed), SIGABRT);
}

static void a_death_is_reported_with_the_seed(void)
{
    CHECK_EQ(dies(aborts, with_seed), SIGABRT);
    CHECK_EQ(dies(faults, with_seed), SIGSEGV);
    CHECK_EQ(test_dies(run_with_handler, NULL, "the handler from before"), SIGABRT);
    CHECK_EQ(test_dies(run_with_handler, NULL, with_seed), SIGABRT);
}

static void an_exit_is_reported_with_the_seed(void)
{
    const char *output;
    void (*function)(void *) = ends_it;
    int status = test_in_child(run, &function, &output);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CHECK(strstr(output, with_seed) != NULL);
}

static void after_the_run_there_is_no_seed(void)
{
    const char *output;
    int status = test_in_child(abort_after_run, NULL, &output);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (!test_emulated()) /* the emulator writes something */
        CHECK_STR(output, "");
}

int main(void)
{
    /* A fork under ThreadSanitizer, or under an emulator, gets a thread of its own after the run
     * has counted the threads. */
    if (!WEFT_TSAN && !test_emulated())
        RUN_ALL(a_deadlock_is_reported_with_the_seed, a_death_is_reported_with_the_seed,
                an_exit_is_reported_with_the_seed, after_the_run_there_is_no_seed);
    return 0;
}
