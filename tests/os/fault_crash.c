/*
 * fault_crash.c: the handler of faults: which signals are faults, what a handler installed over it
 * may do, and what happens to code that faults while it is tried.
 */
#include <signal.h>
#include <sys/syscall.h>

#include "dying.h"
#include "faults.h"
#include "fibers.h"
#include "kernel.h"
#include "os/failure.h"
#include "os/fault.h"
#include "os/os.h"
#include "system.h"

#if !WEFT_TSAN && !WEFT_ASAN
FAKE(int, sigaction, (int number, const struct sigaction *action, struct sigaction *before),
     (number, action, before))
#endif
FAKE(int, sigaltstack, (const stack_t *stack, stack_t *before), (stack, before))
FAKE_RETURNS(int, clock_nanosleep,
             (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
             (clock, flags, time, left))

/* Sends a signal to this thread as if the kernel had raised it. */
static void send(int number, int code)
{
    siginfo_t info = {.si_signo = number, .si_code = code};
    CHECK_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, &info), 0);
}

static void for_a_new_reason(void)
{
    run_fiber(nothing, NULL);
    send(SIGFPE, 77);
    weft__os_abort(); /* no instruction faults again */
}

static void memory_is_damaged_elsewhere(void)
{
    run_fiber(nothing, NULL);
    send(SIGBUS, BUS_MCEERR_AO);
    weft__os_abort();
}

static void what_is_a_fault(void)
{
    check_dies(for_a_new_reason, SIGABRT);
    CHECK(said("SIGFPE") && said("for another reason"));
    check_dies(memory_is_damaged_elsewhere, SIGBUS); /* no thread may need that memory: no report */
    CHECK(!said("weft:"));
}

/* A handler that calls the one that was there before it. */

static struct sigaction below;

static void above(int number, siginfo_t *info, void *context)
{
    static const char text[] = "above\n";
    CHECK_EQ(write(STDERR_FILENO, text, sizeof text - 1), sizeof text - 1);
    below.sa_sigaction(number, info, context);
}

static void fault_after_the_end(void)
{
    run_fiber(nothing, NULL);
    struct sigaction action = {.sa_sigaction = above, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(SIGSEGV, &action, &below), 0);
    shut_down();
    run_fiber(nothing, NULL); /* it is not installed again over its own caller */
    shut_down();
    fault_null_write();
}

static void a_handler_over_it_may_call_it_at_any_time(void)
{
    check_dies(fault_after_the_end, SIGSEGV);
    CHECK(said("above\n") && !said("weft:"));
}

static atomic_u32 in_try, enough;

static void fault_there(void *arg)
{
    fault_null_write();
}

static void try_inside(void *result)
{
    *(int *)result = weft__os_try(nothing, NULL);
}

static void stay(void *arg)
{
    atomic_u32_store_release(&in_try, 1);
    spin_until(&enough, 1);
}

static void *try_to_stay(void *arg)
{
    CHECK(weft__os_try(stay, arg));
    return NULL;
}

static void code_that_faults_is_left(void)
{
    pthread_t thread;
    int inside = 7;
    run_fiber(nothing, NULL);
    CHECK(weft__os_try(nothing, NULL));
    CHECK(!weft__os_try(fault_there, NULL));
    CHECK(weft__os_try(try_inside, &inside));
    CHECK_EQ(inside, 0); /* a try inside a try is refused */

    /* Another thread stays in its try: the wait for it is bounded. */
    thread = thread_start(try_to_stay, NULL);
    spin_until(&in_try, 1);
    KERNEL_SAYS(clock_nanosleep, 0, KERNEL_ALWAYS); /* sleeps return at once */
    CHECK(!weft__os_try(nothing, NULL));
    KERNEL_SAYS(clock_nanosleep, 0, 0);
    atomic_u32_store_release(&enough, 1);
    thread_join(thread);
    CHECK(weft__os_try(nothing, NULL));
    shut_down();
}

static enum weft__os_verdict unknown(struct weft__os_fault *fault)
{
    return FAULT_UNKNOWN;
}

static void refusals_are_passed_on(void)
{
    void *stack = &stack;
    KERNEL_SAYS(sigaltstack, ENOMEM, 1);
    CHECK_EQ(weft__os_fault_stack_enter(&stack), -ENOMEM);
    CHECK_PTR(stack, &stack);
    weft__os_fail(OS_ALLOC, 1, false);
    CHECK_EQ(weft__os_fault_stack_enter(&stack), -ENOMEM);
    CHECK_EQ(weft__os_fault_stack_enter(&stack), 0);
    weft__os_fault_stack_leave(stack);
#if !WEFT_TSAN && !WEFT_ASAN
    KERNEL_SAYS_AFTER(sigaction, 2, EPERM, 1);
    CHECK_EQ(weft__os_fault_install(unknown), -EPERM);
    CHECK(weft__os_fault_handles(SIGSEGV));
    KERNEL_SAYS(sigaction, EPERM, 1); /* the action cannot be read */
    CHECK(!weft__os_fault_handles(SIGSEGV));
#else
    CHECK_EQ(weft__os_fault_install(unknown), 0);
#endif
    weft__os_fault_remove();
    CHECK(!weft__os_fault_handles(SIGSEGV));
}

#if !WEFT_TSAN && !WEFT_ASAN
/* The runtime works where no handler can be installed, and installs one at the next start. */
static void a_runtime_without_reports(void)
{
    KERNEL_SAYS(sigaction, EPERM, 1);
    run_fiber(nothing, NULL);
    KERNEL_SAID(sigaction);
    CHECK(!weft__os_fault_handles(SIGSEGV));
    shut_down();
    run_fiber(nothing, NULL);
    CHECK(weft__os_fault_handles(SIGSEGV));
    shut_down();
    CHECK(!weft__os_fault_handles(SIGSEGV));
}
#endif

int main(void)
{
    if (test_emulated())
        printf("what_is_a_fault left out: an emulator sends no signals in the kernel's name\n");
    else
        RUN_ALL(what_is_a_fault, a_handler_over_it_may_call_it_at_any_time);
#if !WEFT_TSAN && !WEFT_ASAN
    RUN(a_runtime_without_reports);
#endif
    RUN_ALL(refusals_are_passed_on, code_that_faults_is_left);
    return 0;
}
