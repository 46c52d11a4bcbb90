/*
 * sys_fault.c: SIGSEGV and SIGBUS, on an alternate stack.
 *
 * The handler asks whoever installed it (sched/fault.c) whether the address means something to it;
 * then the program dies the way it would have died without weft: the action that was there before
 * is put back, and the faulting instruction runs again into it. So a core dump shows the real
 * place, and a handler that the program or a sanitizer had installed still gets its turn.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/seam.h"

enum { FAULT_STACK_SIZE = 64 * 1024, FRAMES_MOST = 48 };

static atomic_ptr report; /* weft__sys_fault_handler */
static struct sigaction before_segv, before_bus;
static bool left_segv, left_bus; /* still below a handler that was installed over ours */

static void on_fault(int signal, siginfo_t *info, void *context)
{
    struct sigaction *before = signal == SIGSEGV ? &before_segv : &before_bus;
    weft__sys_fault_handler ask =
        (weft__sys_fault_handler)(uintptr_t)atomic_ptr_load_acquire(&report);
    bool ours = ask != NULL && ask(info->si_addr);
    bool was_default = !(before->sa_flags & SA_SIGINFO) && before->sa_handler == SIG_DFL;
    if (!ours && !was_default) {
        if (before->sa_flags & SA_SIGINFO) {
            before->sa_sigaction(signal, info, context);
            return;
        }
        if (before->sa_handler != SIG_IGN) {
            before->sa_handler(signal);
            return;
        }
    }
    sigaction(signal, before, NULL);
    /* A fault happens again at once; a signal sent by kill() does not, so send it again. */
    if (info->si_code <= 0)
        raise(signal);
}

int weft__sys_fault_install(weft__sys_fault_handler handler)
{
    KEEP_ERRNO;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    atomic_ptr_store_release(&report, (void *)(uintptr_t)handler);
    /* backtrace() loads libgcc the first time, which allocates: not from a signal handler. */
    void *frame;
    backtrace(&frame, 1);
    if (!left_segv && sigaction(SIGSEGV, &action, &before_segv) != 0)
        return weft__sys_error();
    if (!left_bus && sigaction(SIGBUS, &action, &before_bus) != 0)
        return weft__sys_error();
    return 0;
}

void weft__sys_fault_remove(void)
{
    KEEP_ERRNO;
    struct sigaction now;
    /* If somebody installed a handler over ours, theirs may call ours: leave both. */
    left_segv = sigaction(SIGSEGV, NULL, &now) != 0 || !(now.sa_flags & SA_SIGINFO) ||
                now.sa_sigaction != on_fault;
    if (!left_segv)
        sigaction(SIGSEGV, &before_segv, NULL);
    left_bus = sigaction(SIGBUS, NULL, &now) != 0 || !(now.sa_flags & SA_SIGINFO) ||
               now.sa_sigaction != on_fault;
    if (!left_bus)
        sigaction(SIGBUS, &before_bus, NULL);
    atomic_ptr_store_release(&report, NULL);
}

int weft__sys_fault_stack_enter(void **stack)
{
    void *memory = weft__sys_alloc(FAULT_STACK_SIZE);
    if (memory == NULL)
        return -ENOMEM;
    stack_t alternate = {.ss_sp = memory, .ss_size = FAULT_STACK_SIZE};
    if (sigaltstack(&alternate, NULL) != 0) {
        int error = weft__sys_error();
        weft__sys_free(memory);
        return error;
    }
    *stack = memory;
    return 0;
}

void weft__sys_fault_stack_leave(void *stack)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    weft__sys_free(stack);
}

void weft__sys_print_backtrace(void)
{
    void *frames[FRAMES_MOST];
    int count = backtrace(frames, FRAMES_MOST);
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

void weft__sys_print_address(void *address)
{
    backtrace_symbols_fd(&address, 1, STDERR_FILENO);
}

int weft__sys_backtrace(void **frames, int most)
{
    KEEP_ERRNO;
    return backtrace(frames, most);
}

size_t weft__sys_address_text(const void *address, char *text, size_t size)
{
    KEEP_ERRNO;
    Dl_info found = {.dli_fname = NULL};
    int length;
    if (dladdr(address, &found) == 0 || found.dli_fname == NULL)
        length = snprintf(text, size, "[%p]", address);
    else if (found.dli_sname != NULL)
        length = snprintf(text, size, "%s(%s+0x%zx)[%p]", found.dli_fname, found.dli_sname,
                          (size_t)((const char *)address - (const char *)found.dli_saddr), address);
    else
        length = snprintf(text, size, "%s(+0x%zx)[%p]", found.dli_fname,
                          (size_t)((const char *)address - (const char *)found.dli_fbase), address);
    if (length < 0)
        return 0;
    return (size_t)length < size ? (size_t)length : size - 1;
}
