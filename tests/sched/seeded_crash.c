/*
 * seeded.c: whatever ends the process during a test run says the seed; what comes after the run does not.
 */
#include <signal.h>
#include <weft/test.h>
#include <weft/weft.h>

#include "base/compiler.h"
#include "system.h"
#include "test.h"

enum { SEED = 4711 };

int *volatile nowhere;

static const char seed_said[] = "seed 4711 of a test run";

const char *__asan_default_options(void);
const char *__tsan_default_options(void);

/* The faults are to be weft's; and no child sleeps at its end. */
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

static void waits_for_nobody(void *arg)
{
    (void)arg;
    weft_chan *chan;
    char letter;
    CHECK_EQ(weft_chan_make(&chan, 1, 0), 0);
    CHECK_EQ(weft_chan_receive(chan, &letter), 0);
}

static void locks_forever(void *arg)
{
    weft_mutex_lock(arg);
    weft_mutex_unlock(arg);
}

static void leaves_one_waiting(void *arg)
{
    (void)arg;
    static weft_mutex mutex = WEFT_MUTEX_INIT;
    static weft_wg wg = WEFT_WG_INIT;
    weft_mutex_lock(&mutex);
    CHECK_EQ(weft_wg_go(&wg, locks_forever, &mutex), 0);
    CHECK_EQ(weft_sleep(WEFT_S), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void leaves_a_timer(void *arg)
{
    (void)arg;
    weft_timer *timer;
    CHECK_EQ(weft_timer_open(&timer, nothing, NULL), 0);
}

static void aborts(void *arg)
{
    (void)arg;
    weft_yield();
    abort();
}

__attribute__((no_sanitize("undefined"))) static noinline void faults(void *arg)
{
    (void)arg;
    *nowhere = 1; /* NOLINT(clang-analyzer-core.NullDereference): on purpose */
}

static void ends_it(void *arg)
{
    (void)arg;
    exit(3); /* NOLINT(concurrency-mt-unsafe): on purpose */
}

static void own_handler(int signal)
{
    static const char text[] = "the handler from before\n";
    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
}

static void run_with_handler(void *arg)
{
    (void)arg;
    CHECK(signal(SIGABRT, own_handler) != SIG_ERR);
    (void)!weft_test_run(SEED, aborts, NULL);
}

static void abort_after_run(void *arg)
{
    (void)arg;
    struct sigaction now;
    CHECK_EQ(weft_test_run(SEED, nothing, NULL), 0);
    CHECK(sigaction(SIGABRT, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    abort();
}

static void deadlock_says_the_seed(void)
{
    CHECK_EQ(dies(waits_for_nobody, "receives from a channel"), SIGABRT);
    CHECK_EQ(dies(waits_for_nobody, seed_said), SIGABRT);
    CHECK_EQ(dies(leaves_one_waiting, "locks a mutex"), SIGABRT);
    CHECK_EQ(dies(leaves_a_timer, "a timer was left open"), SIGABRT);
    CHECK_EQ(dies(leaves_a_timer, seed_said), SIGABRT);
}

static void death_says_the_seed(void)
{
    CHECK_EQ(dies(aborts, seed_said), SIGABRT);
    CHECK_EQ(dies(faults, seed_said), SIGSEGV);
    CHECK_EQ(test_dies(run_with_handler, NULL, "the handler from before"), SIGABRT);
    CHECK_EQ(test_dies(run_with_handler, NULL, seed_said), SIGABRT);
}

static void exit_says_the_seed(void)
{
    const char *output;
    void (*function)(void *) = ends_it;
    int status = test_in_child(run, &function, &output);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CHECK(strstr(output, seed_said) != NULL);
}

static void nothing_is_said_after_it(void)
{
    const char *output;
    int status = test_in_child(abort_after_run, NULL, &output);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (!test_emulated()) /* the emulator has something to say */
        CHECK_STR(output, "");
}

int main(void)
{
    /* A fork under ThreadSanitizer, or an emulator, gets a thread of its own after the run has counted them. */
    if (!WEFT_TSAN && !test_emulated())
        RUN(deadlock_says_the_seed);
    RUN(death_says_the_seed);
    RUN(exit_says_the_seed);
    RUN(nothing_is_said_after_it);
    return 0;
}
