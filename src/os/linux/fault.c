/*
 * fault.c: faults of the running code (SIGSEGV, SIGBUS, SIGFPE, SIGILL): os/fault.h.
 *
 * The signal handler runs on the fault stack of its thread and asks the installed function
 * (sched/fiber/fault.c) for a verdict. Three ends:
 *
 *   the program dies    The action that was there before is put back, and the faulting instruction
 *                       runs again into it. So a core dump shows the real place.
 *   another handler     of the program or of a sanitizer, installed before ours, gets the signal if
 *                       the verdict is that weft knows nothing.
 *   the thread goes on  at a place that the verdict names: the signal returns there
 *                       (weft__os_fault_go), and the kernel restores mask, stack and fault stack as
 *                       after each signal.
 *
 * A signal that was sent (kill, raise) is no fault: no verdict is asked for.
 *
 * Trying. A report reads what the fault may have destroyed. weft__os_try calls a function that may
 * fault itself and returns all the same (siglongjmp out of the handler); one thread at a time.
 */
#include "os/fault.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/clock.h"
#include "os/crash_output.h"
#include "os/linux/frames.h"
#include "os/linux/seam.h"
#include "os/memory.h"
#include "os/process.h"

enum { FAULT_STACK_SIZE = 64 * 1024 };

/* How long weft__os_try waits for another thread: TRY_MOST pauses, a second. */
enum { TRY_MOST = 1000 };
#define TRY_PAUSE ((int64_t)1000 * 1000)

/* The signals; the action that was there before; and whether weft__os_fault_remove has left ours
 * installed, since another was installed after it. */
static struct {
    int signal;
    const char *name;
    struct sigaction before;
    bool left;
} handled[] = {{.signal = SIGSEGV, .name = "SIGSEGV"},
               {.signal = SIGBUS, .name = "SIGBUS"},
               {.signal = SIGFPE, .name = "SIGFPE"},
               {.signal = SIGILL, .name = "SIGILL"}};
enum { HANDLED = sizeof handled / sizeof handled[0] };

static atomic_ptr report;  /* weft__os_fault_handler */
static atomic_u32 trying;  /* the number of the thread in weft__os_try; 0: none */
static sigjmp_buf way_out; /* of that thread */

static int index_of(int signal)
{
    int i = 0;
    for (; handled[i].signal != signal; i++)
        should(i + 1 < HANDLED);
    return i;
}

static const char *reason(const siginfo_t *info)
{
    static const struct {
        int signal, code;
        const char *text;
    } reasons[] = {{SIGSEGV, SEGV_MAPERR, "nothing is there"},
                   {SIGSEGV, SEGV_ACCERR, "it may not be accessed so"},
                   {SIGSEGV, SI_KERNEL, "of an address that cannot be"},
                   {SIGBUS, BUS_ADRALN, "it is not aligned"},
                   {SIGBUS, BUS_ADRERR, "there is no memory behind it"},
                   {SIGBUS, BUS_OBJERR, "the device failed"},
                   {SIGBUS, BUS_MCEERR_AR, "the memory is damaged"},
                   {SIGFPE, FPE_INTDIV, "division of an integer by zero"},
                   {SIGFPE, FPE_INTOVF, "overflow of an integer"},
                   {SIGFPE, FPE_FLTDIV, "division by zero"},
                   {SIGFPE, FPE_FLTINV, "invalid operation"},
                   {SIGILL, ILL_ILLOPC, "illegal instruction"},
                   {SIGILL, ILL_ILLOPN, "illegal operand"},
                   {SIGILL, ILL_PRVOPC, "privileged instruction"}};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].signal == info->si_signo && reasons[i].code == info->si_code)
            return reasons[i].text;
    return "for another reason";
}

/* Registers. */

static void read_registers(struct weft__os_fault *fault)
{
    ucontext_t *context = fault->context;
#if defined(__x86_64__)
    fault->pc = (void *)context->uc_mcontext.gregs[REG_RIP];
    fault->sp = (void *)context->uc_mcontext.gregs[REG_RSP];
#else
    fault->pc = (void *)context->uc_mcontext.pc;
    fault->sp = (void *)context->uc_mcontext.sp;
#endif
}

/* Sets pc and sp to what they were when the code faulted. */
static void write_registers(const struct weft__os_fault *fault)
{
    ucontext_t *context = fault->context;
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)fault->pc;
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)fault->sp;
#else
    context->uc_mcontext.pc = (uintptr_t)fault->pc;
    context->uc_mcontext.sp = (uintptr_t)fault->sp;
#endif
}

/* After a call of an address that is no code: sets pc and sp as if the call had returned at
 * once. */
static void step_back(struct weft__os_fault *fault)
{
    ucontext_t *context = fault->context;
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RIP] = *(greg_t *)fault->sp;
    context->uc_mcontext.gregs[REG_RSP] += 8;
#else
    context->uc_mcontext.pc = context->uc_mcontext.regs[30];
#endif
}

void weft__os_fault_go(struct weft__os_fault *fault, void *stack, void (*function)(void))
{
    ucontext_t *context = fault->context;
#if defined(__x86_64__)
    enum { RED_ZONE = 128, TRAP = 0x100, DIRECTION = 0x400, ALIGNMENT = 0x40000 };
    uintptr_t sp = (((uintptr_t)stack - RED_ZONE) & ~(uintptr_t)15) - 8; /* as after a call */
    *(uintptr_t *)sp = 0;
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
    context->uc_mcontext.gregs[REG_RBP] = 0;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)function;
    context->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)(TRAP | DIRECTION | ALIGNMENT);
#else
    enum { STEP = 1 << 21, BRANCH_TYPE = 3 << 10 };
    context->uc_mcontext.sp = (uintptr_t)stack & ~(uintptr_t)15;
    context->uc_mcontext.regs[29] = 0;
    context->uc_mcontext.regs[30] = 0;
    context->uc_mcontext.pc = (uintptr_t)function;
    context->uc_mcontext.pstate &= ~(uint64_t)(STEP | BRANCH_TYPE);
#endif
    context->uc_sigmask = *weft__os_machine_mask();
}

/* The handler. */

static bool is_default(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) &&
           (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

static enum weft__os_verdict ask(int index, siginfo_t *info, void *context)
{
    weft__os_fault_handler handler =
        (weft__os_fault_handler)(uintptr_t)atomic_ptr_load_acquire(&report);
    struct weft__os_fault fault = {.name = handled[index].name,
                                   .reason = reason(info),
                                   .address = info->si_addr,
                                   .has_address = info->si_code != SI_KERNEL,
                                   .others = !is_default(&handled[index].before),
                                   .context = context};
    if (handler == NULL)
        return FAULT_UNKNOWN;
    read_registers(&fault);
    enum weft__os_verdict verdict = handler(&fault);
    if (verdict != FAULT_GOES_ON)
        write_registers(&fault); /* a backtrace that faulted itself has left them changed */
    return verdict;
}

/* True if the program dies of it after the handler has returned. */
static bool handle(int signal, siginfo_t *info, void *context)
{
    KEEP_ERRNO;
    int index = index_of(signal);
    struct sigaction *before = &handled[index].before;
    bool fault = info->si_code > 0 && !(signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
    if (fault && atomic_u32_load_relaxed(&trying) == (uint32_t)gettid())
        siglongjmp(way_out, 1);
    enum weft__os_verdict verdict = fault ? ask(index, info, context) : FAULT_UNKNOWN;
    if (verdict == FAULT_GOES_ON)
        return false;
    weft__os_crash_output_write();
    if (verdict == FAULT_UNKNOWN && !is_default(before)) {
        if (before->sa_flags & SA_SIGINFO)
            before->sa_sigaction(signal, info, context);
        else
            before->sa_handler(signal);
        return false;
    }
    sigaction(signal, before, NULL);
    /* A fault happens again at once; a signal that was sent does not, so it is raised again. */
    if (!fault)
        raise(signal);
    return true;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    if (handle(signal, info, context))
        weft__os_save_coverage();
}

bool weft__os_fault_handles(int signal)
{
    struct sigaction now;
    return sigaction(signal, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == on_fault;
}

int weft__os_fault_install(weft__os_fault_handler handler)
{
    KEEP_ERRNO;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    atomic_ptr_store_release(&report, (void *)(uintptr_t)handler);
    /* The first backtrace() of a process loads libgcc, which allocates: not in a signal handler. */
    void *frame;
    backtrace(&frame, 1);
    for (int i = 0; i < HANDLED; i++)
        if (!handled[i].left && sigaction(handled[i].signal, &action, &handled[i].before) != 0)
            return weft__os_error();
    return 0;
}

void weft__os_fault_remove(void)
{
    KEEP_ERRNO;
    for (int i = 0; i < HANDLED; i++) {
        /* A handler installed over ours may call ours: both stay. */
        handled[i].left = !weft__os_fault_handles(handled[i].signal);
        if (!handled[i].left)
            sigaction(handled[i].signal, &handled[i].before, NULL);
    }
    atomic_ptr_store_release(&report, NULL);
}

int weft__os_fault_stack_enter(void **stack)
{
    void *memory = weft__os_alloc(FAULT_STACK_SIZE);
    if (memory == NULL)
        return -ENOMEM;
    stack_t alternate = {.ss_sp = memory, .ss_size = FAULT_STACK_SIZE};
    if (sigaltstack(&alternate, NULL) != 0) {
        int error = weft__os_error();
        weft__os_free(memory);
        return error;
    }
    *stack = memory;
    return 0;
}

void weft__os_fault_stack_leave(void *stack)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    weft__os_free(stack);
}

/* Trying. */

/* False if another thread does not end its try, or this one is in a try. */
static bool begin_try(void)
{
    for (int i = 0; i < TRY_MOST; i++) {
        uint32_t none = 0, self = (uint32_t)gettid();
        if (atomic_u32_cas_acq_rel(&trying, &none, self))
            return true;
        if (none == self)
            return false;
        weft__os_sleep_until(weft__os_now() + TRY_PAUSE);
    }
    return false;
}

bool weft__os_try(void (*function)(void *), void *arg)
{
    KEEP_ERRNO;
    sigset_t faults, before;
    sigemptyset(&faults);
    for (int i = 0; i < HANDLED; i++)
        sigaddset(&faults, handled[i].signal);
    if (!begin_try())
        return false;
    bool done = sigsetjmp(way_out, 1) == 0;
    if (done) {
        pthread_sigmask(SIG_UNBLOCK, &faults, &before); /* in a handler its signal is blocked */
        function(arg);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    atomic_u32_store_release(&trying, 0);
    return done;
}

/* Backtraces. */

/* Stores the frames from the one of `pc` on: how many. Those of the handler, which come first, are
 * left out. */
static int frames_from(const void *pc, void **frames, int most)
{
    enum { OWN_MOST = 16, MOST = 64 };
    void *all[MOST + OWN_MOST];
    int count = backtrace(all, MOST + OWN_MOST), first = 0;
    while (first < count && all[first] != pc)
        first++;
    count = count - first < most ? count - first : most;
    memcpy(frames, all + first, (size_t)count * sizeof *frames);
    return count;
}

int weft__os_fault_backtrace(struct weft__os_fault *fault, void **frames, int most)
{
    int count = frames_from(fault->pc, frames, most);
    if (count > 1)
        return count;
    /* The unwinder cannot begin at an address that is no code: it begins at the caller. It reads
     * the registers where the kernel saved them, so they are changed there for the time being. */
    ucontext_t *context = fault->context, kept = *context;
    frames[0] = fault->pc;
    step_back(fault);
    struct weft__os_fault caller = *fault;
    read_registers(&caller);
    count = 1 + frames_from(caller.pc, frames + 1, most - 1);
    context->uc_mcontext = kept.uc_mcontext;
    return count;
}
