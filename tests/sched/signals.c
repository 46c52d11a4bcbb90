/*
 * signals.c: signals and fibers: what a fiber starts can be terminated, machines have the mask of
 * the thread that started the runtime, and a handler of the program that chains to weft's does not
 * go round in circles after a restart.
 */
#include <pthread.h>
#include <signal.h>

#include "base/compiler.h"
#include "test.h"

#include <weft/weft.h>

static void run_in_fiber(void (*function)(void *), void *arg)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void terminate_a_shell(void *arg)
{
    (void)arg;
    int status = system("kill -TERM $$; exit 7"); /* NOLINT(cert-env33-c): that is what is tested */
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGTERM);
}

static void what_a_fiber_starts_can_be_terminated(void)
{
    run_in_fiber(terminate_a_shell, NULL);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Machines are started by whoever needs one: their mask must not depend on it. */

static void see_mask(void *arg)
{
    sigset_t mask;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    CHECK_EQ(sigismember(&mask, SIGUSR1), 1);
    CHECK_EQ(sigismember(&mask, SIGUSR2), 0);
    CHECK_EQ(sigismember(&mask, SIGTERM), 0);
    weft_wg_done(arg);
}

/* Keeps its processor busy, so that all of them must be used. */
static void see_mask_and_hold(void *arg)
{
    weft_wg *wg = arg;
    see_mask(wg);
    while (weft_wg_count(wg) > 0)
        continue;
}

static void *spawn_with_all_blocked(void *arg)
{
    sigset_t all;
    sigfillset(&all);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_go(see_mask_and_hold, arg), 0);
    return NULL;
}

static void machines_have_the_mask_of_the_first_caller(void)
{
    weft_wg wg = WEFT_WG_INIT;
    pthread_t thread;
    sigset_t one, before;
    CHECK_EQ(weft_configure(&(weft_config){.processors = 3}), 0);
    CHECK_EQ(weft_wg_init(&wg, 4), 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    run_in_fiber(see_mask, &wg);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, spawn_with_all_blocked, &wg), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

/* A handler over weft's that passes on what is not its own. */

static struct sigaction below;
static int depth;

static void pass_on(int signal, siginfo_t *info, void *context)
{
    if (++depth > 5)
        _exit(1); /* in circles */
    CHECK(below.sa_flags & SA_SIGINFO);
    below.sa_sigaction(signal, info, context);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void fault_under_a_chain(void *arg)
{
    (void)arg;
    struct sigaction over = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    run_in_fiber(nothing, NULL);
    CHECK_EQ(sigaction(SIGSEGV, &over, &below), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    run_in_fiber(nothing, NULL);
    fputs("about to fault\n", stderr);
    raise(SIGSEGV);
}

static void a_chain_of_handlers_ends(void)
{
    test_dies(fault_under_a_chain, NULL, "about to fault");
}

int main(void)
{
    RUN_PLAIN(what_a_fiber_starts_can_be_terminated, "signals of the process");
    RUN_PLAIN(machines_have_the_mask_of_the_first_caller, "signals of the process");
    if (!WEFT_ASAN && !WEFT_TSAN) /* they have handlers of their own, and report */
        RUN_PLAIN(a_chain_of_handlers_ends, "signals of the process");
    return 0;
}
