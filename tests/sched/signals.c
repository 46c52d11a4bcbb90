/*
 * signals.c: a child that a fiber starts can be terminated; machines have the signal mask of the
 * thread that started the runtime; a handler of the program that calls weft's does not call itself
 * after a restart.
 */
#include <signal.h>

#include "base/compiler.h"
#include "fibers.h"

static void terminate_a_shell(void *arg)
{
    int status = system("kill -TERM $$; exit 7"); /* NOLINT(cert-env33-c): on purpose */
    test_killed(status, SIGTERM);
}

static void a_child_of_a_fiber_can_be_terminated(void)
{
    run_fiber(terminate_a_shell, NULL);
    shut_down();
}

/* Any thread may start a machine: the mask of the machine does not depend on it. */

static void see_mask(void *arg)
{
    sigset_t mask;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    CHECK_EQ(sigismember(&mask, SIGUSR1), 1);
    CHECK_EQ(sigismember(&mask, SIGUSR2), 0);
    CHECK_EQ(sigismember(&mask, SIGTERM), 0);
    weft_wg_done(arg);
}

/* Keeps its processor busy, so that all processors are used. */
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
    go_many(3, see_mask_and_hold, arg);
    return NULL;
}

static void machines_have_the_mask_of_the_first_caller(void)
{
    weft_wg wg = WEFT_WG_INIT;
    sigset_t one, before;
    configure(3);
    CHECK_EQ(weft_wg_init(&wg, 4), 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    run_fiber(see_mask, &wg);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    pthread_t thread = thread_start(spawn_with_all_blocked, &wg);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    thread_join(thread);
    reset_runtime();
}

/* A handler of the program, installed over weft's, which it calls. */

static struct sigaction below;
static int depth;

static void pass_on(int signal, siginfo_t *info, void *context)
{
    if (++depth > 5)
        _exit(1); /* an endless recursion */
    CHECK(below.sa_flags & SA_SIGINFO);
    below.sa_sigaction(signal, info, context);
}

static void fault_under_a_chain(void *arg)
{
    struct sigaction over = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    run_fiber(nothing, NULL);
    CHECK_EQ(sigaction(SIGSEGV, &over, &below), 0);
    shut_down();
    run_fiber(nothing, NULL);
    fputs("about to fault\n", stderr);
    raise(SIGSEGV);
}

static void a_chain_of_handlers_ends(void)
{
    test_dies(fault_under_a_chain, NULL, "about to fault");
}

int main(void)
{
    RUN_ALL_PLAIN("signals of the process", a_child_of_a_fiber_can_be_terminated,
                  machines_have_the_mask_of_the_first_caller);
    if (!WEFT_ASAN && !WEFT_TSAN) /* they have handlers of their own, which report */
        RUN_PLAIN(a_chain_of_handlers_ends, "signals of the process");
    return 0;
}
