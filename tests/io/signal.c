/*
 * signal.c: signals as channels: each arrival reaches each handle, and the former action returns.
 */
#include <signal.h>

#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "seeds.h"

static const int usr1[] = {SIGUSR1}, usr2[] = {SIGUSR2}, both[] = {SIGUSR1, SIGUSR2};

static atomic_u32 handled;

static void own_handler(int number)
{
    atomic_u32_add_seq_cst(&handled, 1);
}

static int receive(weft_signal *signal)
{
    int number = 0;
    CHECK_EQ(weft_chan_receive(weft_signal_chan(signal), &number), 0);
    return number;
}

static bool is_empty(weft_signal *signal)
{
    return weft_chan_length(weft_signal_chan(signal)) == 0;
}

static void arrivals(void *arg)
{
    weft_signal *one, *two;
    CHECK_EQ(weft_signal_open(&one, usr1, 1, 10), 0);
    CHECK_EQ(weft_signal_open(&two, both, 2, 10), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(receive(one), SIGUSR1);
    CHECK_EQ(receive(two), SIGUSR1);
    CHECK_EQ(raise(SIGUSR2), 0);
    CHECK_EQ(receive(two), SIGUSR2);
    CHECK(is_empty(one) && is_empty(two));
    CHECK_EQ(weft_signal_close(two), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(receive(one), SIGUSR1);
    CHECK_EQ(weft_signal_close(one), 0);
}

static void each_gets_each_arrival(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* the first opens without a runtime */
    arrivals(NULL);
    everywhere(arrivals);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* no forwarder is left */
}

static void the_former_action_comes_back(void)
{
    weft_signal *one, *two;
    struct sigaction action = {.sa_handler = own_handler}, before, now;
    CHECK_EQ(sigaction(SIGUSR1, &action, &before), 0);
    CHECK_EQ(weft_signal_open(&one, usr1, 1, 1), 0);
    CHECK_EQ(weft_signal_open(&two, usr1, 1, 1), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(receive(one), SIGUSR1);
    CHECK_EQ(receive(two), SIGUSR1);
    CHECK_EQ(weft_signal_close(one), 0);
    CHECK_EQ(raise(SIGUSR1), 0); /* the other handle has it open */
    CHECK_EQ(receive(two), SIGUSR1);
    CHECK_EQ(atomic_u32_load_relaxed(&handled), 0);
    CHECK_EQ(weft_signal_close(two), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&handled), 1);
    /* A handler that the program has installed meanwhile stays. */
    CHECK_EQ(weft_signal_open(&one, usr1, 1, 1), 0);
    CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
    CHECK_EQ(weft_signal_close(one), 0);
    CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_handler == before.sa_handler);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void arrivals_without_room_are_dropped(void)
{
    weft_signal *small, *large;
    CHECK_EQ(weft_signal_open(&small, usr1, 1, 0), 0);
    CHECK_EQ(weft_signal_open(&large, both, 2, 100), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(raise(SIGUSR1), 0);
        CHECK_EQ(receive(large), SIGUSR1);
    }
    CHECK_EQ(weft_chan_length(weft_signal_chan(small)), 1);
    CHECK_EQ(receive(small), SIGUSR1);
    CHECK(is_empty(small));
    CHECK_EQ(weft_signal_close(small), 0);
    CHECK_EQ(weft_signal_close(large), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void some_signals_are_refused(void)
{
    weft_signal *none = NULL;
    CHECK_EQ(weft_signal_open(&none, (int[]){SIGKILL, SIGUSR1}, 2, 1), -EINVAL);
    CHECK_PTR(none, NULL);
    static const int never[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                SIGTRAP, SIGSYS,  0,       -1,     65,     32};
    weft_signal *poison = (weft_signal *)&poison, *signal = poison;
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        int two[] = {SIGUSR1, never[i]};
        struct sigaction now;
        CHECK_EQ(weft_signal_open(&signal, two, 2, 1), -EINVAL);
        CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
        CHECK(now.sa_handler == SIG_DFL);
    }
    CHECK_EQ(weft_signal_open(NULL, usr1, 1, 1), -EINVAL);
    CHECK_EQ(weft_signal_open(&signal, NULL, 1, 1), -EINVAL);
    CHECK_EQ(weft_signal_open(&signal, usr1, 0, 1), -EINVAL);
    CHECK_EQ(weft_signal_close(NULL), -EINVAL);
    CHECK_PTR(weft_signal_chan(NULL), NULL);
    CHECK_PTR(signal, poison);
}

/* The kernel queues real-time signals: of many, in any thread, none is lost. */

enum { MANY = 2000 };

static void *send_many(void *arg)
{
    for (int i = 0; i < MANY; i++) {
        union sigval value = {.sival_int = i};
        while (sigqueue(getpid(), SIGRTMIN + 1, value) != 0)
            sched_yield(); /* the queue of the kernel is full */
    }
    return arg;
}

static void no_queued_signal_is_lost(void)
{
    int number = SIGRTMIN + 1;
    weft_signal *signal;
    pthread_t threads[2];
    CHECK_EQ(weft_signal_open(&signal, &number, 1, 2 * MANY), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, send_many, NULL), 0);
    for (int i = 0; i < 2 * MANY; i++)
        CHECK_EQ(receive(signal), number);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK(is_empty(signal));
    CHECK_EQ(weft_signal_close(signal), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Opens and closes while the signal arrives all the time. */

static atomic_u32 over;

static void *storm(void *arg)
{
    while (!atomic_u32_load_acquire(&over))
        CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    return arg;
}

static void open_and_close(void *arg)
{
    for (int i = 0; i < (int)test_scale(300); i++) {
        weft_signal *one;
        CHECK_EQ(weft_signal_open(&one, both, 2, 1), 0);
        CHECK_EQ(receive(one), SIGUSR1);
        CHECK_EQ(weft_signal_close(one), 0);
    }
}

static void closing_races_with_arrivals(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = own_handler, .sa_flags = SA_RESTART}, before;
    CHECK_EQ(sigaction(SIGUSR1, &action, &before), 0);
    CHECK_EQ(pthread_create(&thread, NULL, storm, NULL), 0);
    everywhere(open_and_close);
    atomic_u32_store_release(&over, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
}

/* In a forked child the signal has its former action: here, it ends the child. */
static void a_forked_child_has_the_former_action(void)
{
    weft_signal *signal;
    int status;
    CHECK_EQ(weft_signal_open(&signal, usr2, 1, 10), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        raise(SIGUSR2);
        _exit(3);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGUSR2);
    CHECK_EQ(raise(SIGUSR2), 0); /* only this one arrives here */
    CHECK_EQ(receive(signal), SIGUSR2);
    CHECK(is_empty(signal));
    CHECK_EQ(weft_signal_close(signal), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static weft_signal *opened;

static void in_child(void)
{
    weft_signal *signal = (weft_signal *)(uintptr_t)0xdead;
    CHECK_EQ(raise(SIGUSR1), 0); /* calls the handler of the program, which returns */
    CHECK_EQ(atomic_u32_load_acquire(&handled), 1);
    CHECK_EQ(weft_signal_open(&signal, usr2, 1, 10), -ECHILD);
    CHECK_PTR(signal, (weft_signal *)(uintptr_t)0xdead);
    CHECK_EQ(weft_signal_close(opened), -ECHILD);
}

static void a_forked_child_has_the_former_handler(void)
{
    struct sigaction action = {.sa_handler = own_handler}, before;
    CHECK_EQ(sigaction(SIGUSR1, &action, &before), 0);
    atomic_u32_store_relaxed(&handled, 0);
    CHECK_EQ(weft_signal_open(&opened, usr1, 1, 10), 0);
    in_fork(in_child);
    CHECK_EQ(atomic_u32_load_acquire(&handled), 0);
    CHECK_EQ(weft_signal_close(opened), 0);
    CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* weft's child processes do not need SIGCHLD: the program may have it. */
static void sigchld_beside_processes(void)
{
    static const int child[] = {SIGCHLD};
    weft_signal *signal;
    weft_process *process;
    weft_process_status status;
    CHECK_EQ(weft_signal_open(&signal, child, 1, 1), 0);
    weft_process_options options = {.argv = (const char *const[]){"true", NULL}};
    CHECK_EQ(weft_process_spawn(&process, &options), 0);
    CHECK_EQ(receive(signal), SIGCHLD);
    CHECK_EQ(weft_process_wait(process, &status, WEFT_NEVER), 0);
    CHECK(status.exited && status.code == 0);
    weft_process_close(process);
    CHECK_EQ(weft_signal_close(signal), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void attempt(void)
{
    weft_signal *signal;
    int result = weft_signal_open(&signal, both, 2, 4);
    failing_off();
    failing_check(result, failing_start);
    if (result == 0) {
        CHECK_EQ(raise(SIGUSR1), 0);
        CHECK_EQ(receive(signal), SIGUSR1);
        CHECK_EQ(weft_signal_close(signal), 0);
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    struct sigaction now;
    CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
}

static void faults_change_nothing(void)
{
    CHECK(failing_each(attempt, 12) > 5);
}

/* ThreadSanitizer calls a handler only when its thread makes a call that it knows, which a thread
 * that sleeps in weft does not. There the signals have to go to the thread that raises them. */
static void run_for_any_thread(void)
{
#if !WEFT_TSAN
    RUN_PLAIN(no_queued_signal_is_lost, "signals of the process");
    RUN_PLAIN(closing_races_with_arrivals, "signals of the process");
    RUN_PLAIN(sigchld_beside_processes, "signals of the process");
    RUN_PLAIN(a_forked_child_has_the_former_action, "forks");
    RUN_PLAIN(a_forked_child_has_the_former_handler, "forks");
#else
    (void)no_queued_signal_is_lost, (void)closing_races_with_arrivals,
        (void)sigchld_beside_processes;
    (void)a_forked_child_has_the_former_action, (void)a_forked_child_has_the_former_handler;
#endif
}

/* Handles open and close while signals are forwarded: no caller may be kept from going on by one
 * that waits. */
static void open_often(void *arg)
{
    for (int i = 0; i < 5; i++) {
        weft_signal *signal;
        CHECK_EQ(weft_signal_open(&signal, both, 2, 4), 0);
        CHECK_EQ(raise(SIGUSR1), 0);
        CHECK_EQ(receive(signal), SIGUSR1);
        CHECK_EQ(weft_signal_close(signal), 0);
    }
}

static void handles_open_while_signals_arrive(void)
{
    weft_wg wg = WEFT_WG_INIT;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_wg_go(&wg, open_often, NULL), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

int main(void)
{
    RUN_PLAIN(each_gets_each_arrival, "signals of the process");
    RUN_PLAIN(the_former_action_comes_back, "signals of the process");
    RUN_PLAIN(arrivals_without_room_are_dropped, "signals of the process");
    RUN_PLAIN(some_signals_are_refused, "signals of the process");
    run_for_any_thread();
    RUN_PLAIN(faults_change_nothing, "signals of the process");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    RUN_SEEDS(handles_open_while_signals_arrive);
    return 0;
}
