/*
 * crash.c: abandons a fiber where it faulted, and lets a replacement go on in its place.
 *
 *     fiber in its task's code: fault
 *       |
 *     signal handler, on the alternate stack: report; can the fiber be left?  -- no --> death
 *       |  the kernel is told to go on elsewhere: sigreturn restores the mask and the stacks
 *     arrive, on the machine's own stack: enter the runtime, as the fiber would have
 *       |  switch, as if the fiber had asked for ACTION_CRASH
 *     weft__crash_retire: the fiber and its stack are put aside for ever, the replacement is ready
 *       |
 *     replacement, an ordinary fiber with a stack of its own: does the rest (pool/failure.c)
 *
 * After the fault no code runs on the stack of the fiber, and nothing that is needed later is
 * stored on it: a fault is often the end of a write that ran over the stack up to its top.
 *
 * When can a fiber be left? If it holds no resource of weft and no operation of weft is half done:
 * it must not be inside a call of weft. Three checks establish that:
 *  - `armed`: the task's own code was called.
 *  - `inside` of the thread: the fiber is in no call that has entered the runtime.
 *  - The faulting instruction is neither weft's own (own_code.h) nor libc's in a call by weft,
 *    since some calls take a latch without entering the runtime. Frames of libc are skipped to find
 *    the caller. A frame further out may be weft's, if that call calls back (weft_recover). If the
 *    frames are destroyed, only the first is known, and it is the task's or libc's.
 * A fiber that holds a weft_spin is not left either: other fibers would spin for ever. What the
 * fiber holds of the program's own (mutexes, memory, the locks of libc) stays as it is;
 * docs/pool.md says what that means.
 *
 * The processor. A fiber in its task's code may lose its processor at any time, or may have given
 * it up (handoff.c). So `arrive` does what runtime_enter does: set `inside`, barrier, wait for the
 * end of a claim. If the processor is gone, the machine finds that out when it has no fiber any
 * more (weft__crash_attend), and before it makes any fiber ready: the replacement, and a fiber in
 * the line of a compact fiber's hot stack, go through the inject queue then. `inside` is set before
 * thread.fiber is cleared: weft__retake reads thread.fiber twice and must find the same fiber.
 *
 * Counting. The fiber never ends; its replacement ends in its place, and was not counted as
 * started. So the number of live fibers is right at every moment.
 *
 * The struct weft_fiber stays, as FIBER_CRASHED, and is never reused: a mutex that the fiber holds
 * points at it, and must not take another fiber for its owner.
 *
 * Rejected:
 *  - Landing in the worker's guard, as a panic does, and going on on the same stack. That needs the
 *    frames above the fault, which an overrun of a local array has destroyed.
 *  - siglongjmp out of the handler: the alternate stack would have to be left by hand, and it too
 *    needs an intact frame.
 *  - Retiring the fiber in the handler itself: that takes locks and wakes fibers, which a handler
 *    must not do.
 *  - Entering the runtime for each latch, and checking only `inside`: simple, but a submit to a
 *    pool takes one latch and does little else, and would be slower.
 */
#include "sched/fiber/crash.h"

#include "arch/stack_switch.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "os/os.h"
#include "sched/core/handoff.h"
#include "sched/core/machine.h"
#include "sched/core/steal.h"
#include "sched/fiber/cxx.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "stack/stack.h"

static bool on_own_stack(const struct weft_fiber *fiber, const struct weft__os_fault *fault)
{
    const char *sp = fault->sp;
    return (sp >= weft__stack_low(fiber->stack) && sp <= weft__stack_top(fiber->stack)) ||
           weft__stack_in_guard(fiber->stack, sp);
}

/* Whether the fault is in the code of weft, or in libc on behalf of it. */
static bool in_own_code(const weft_panic_info *info)
{
    int i = 0;
    while (i + 1 < info->depth && weft__os_libc_code(info->backtrace[i]))
        i++;
    return weft__os_own_code(info->backtrace[i]);
}

/* False if weft was built with flags of another build system that move its code out of the range
 * that own_code.h marks. */
static bool knows_own_code(void)
{
    return weft__os_own_code((const void *)(uintptr_t)weft__crash_of);
}

/* Why the process has to die of this fault, although the fiber may be abandoned; NULL: it need
 * not. */
static const char *reason_against(const struct thread *thread, struct crash *crash,
                                  const struct weft__os_fault *fault, const weft_panic_info *info)
{
    if (!CRASH_POSSIBLE)
        return "weft is built with a sanitizer";
    if (fault->others)
        return "the program has a handler for the signal";
    if (!knows_own_code())
        return "weft was built so that it cannot tell its own code (-ffunction-sections, -flto)";
    if (atomic_u32_load_relaxed(&thread->inside) != 0 || in_own_code(info))
        return "it is in weft's code";
    if (!*crash->armed)
        return "it is not in the code of a task of that pool";
    if (thread->spins != 0)
        return "a weft_spin is held";
    if (!on_own_stack(thread->fiber, fault))
        return "it runs on a stack that is not the fiber's";
    if (atomic_i64_add_relaxed(crash->left, -1) <= 0)
        return "there have been as many as there may be";
    return NULL;
}

struct crash *weft__crash_of(struct thread *thread, const struct weft__os_fault *fault,
                             const weft_panic_info *info, const char **why)
{
    struct extra *extra =
        thread != NULL && thread->fiber != NULL ? fiber_extra(thread->fiber) : NULL;
    struct crash *crash = extra != NULL ? extra->crash : NULL;
    if (crash == NULL)
        return NULL;
    *why = reason_against(thread, crash, fault, info);
    return *why == NULL ? crash : NULL;
}

/* Where the signal handler returns to: on the machine's stack, below the frames that wait there for
 * the fiber to switch back (run, in machine.c). */
static void arrive(void)
{
    struct context gone;
    struct machine *machine = (struct machine *)thread_self();
    struct cxx_state *cxx = machine->thread.cxx;
#if defined(__x86_64__)
    __asm__ volatile("fninit"); /* the task may have left its registers as those of MMX */
#endif
    if (cxx->caught != NULL || cxx->uncaught != 0)
        *cxx = (struct cxx_state){NULL, 0};
    weft__enter_crashed(&machine->thread);
    machine->action = ACTION_CRASH;
    context_switch(&gone, &machine->context);
    must(!"the way out of a crash was entered twice");
}

void weft__crash_abandon(struct crash *crash, const weft_panic_info *info, struct machine *machine,
                         struct weft__os_fault *fault)
{
    crash->panic->info = *info;
    crash->panic->crash = true;
    *crash->armed = false;
    crash->fiber = machine->thread.fiber;
    weft__os_fault_go(fault, machine->context.sp, arrive);
}

void weft__crash_attend(struct machine *machine)
{
    if (atomic_u32_load_acquire(&machine->thread.requests) != 0)
        (void)weft__handle_requests(&machine->thread);
}

void weft__crash_retire(struct weft_fiber *fiber)
{
    struct extra *extra = fiber_extra(fiber);
    struct weft_fiber *replacement = extra->crash->replacement;
    weft__lost_no_more(fiber);
    fiber->state = FIBER_CRASHED;
    extra->crash->replacement = NULL;
    extra->crash = NULL;
    fiber_set_client(fiber, NULL);
    if (!fiber->compact) /* a hot stack is used on: only this fiber's frames were on it */
        weft__stack_quarantine(fiber->stack);
    weft__ready(replacement, false);
}
