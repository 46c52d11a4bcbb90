/*
 * crash.c: abandons a fiber where it faulted, and has another go on in its place.
 *
 *     fiber in its task's code: fault
 *       |
 *     signal handler, on the alternate stack: report; is it one that can be left?  -- no --> the process dies
 *       |  the kernel is told to go on elsewhere: sigreturn puts mask and stacks right
 *     arrive, on the machine's own stack: enter the runtime, as the fiber would have
 *       |  switch, as if the fiber had asked for ACTION_CRASH
 *     weft__crash_retire: record and stack of the fiber are put away for ever, its replacement is ready
 *       |
 *     the replacement, an ordinary fiber with a stack of its own: does what is left to do (pool/crash.c)
 *
 * Nothing runs on the stack of the fiber any more, and nothing that is needed stands on it: a fault is often the
 * end of a write that ran over it to its top.
 *
 * When can a fiber be left? When it holds nothing of weft's, and has left nothing of weft's half done: not in a
 * call of weft. `armed` says that the task's own code was called; `inside` of the thread that it is in no call that
 * has entered the runtime. There are calls that take a latch without that: so also the instruction that failed must
 * not be weft's (own_code.h), nor that of a call of libc by weft: of the frames those of libc are passed over. A frame
 * further out may be weft's, of a call that calls back (weft_recover). If the frames are destroyed the first one is
 * what is known, and that is the task's or libc's. A spin lock of the user's would make others spin for ever: that
 * is not left either. What the fiber holds of the program's (mutexes, memory, libc's own locks) stays
 * as it is: see docs/pool.md for what that means.
 *
 * The processor. In its task's code the fiber's thread may lose its processor at any time, or have given it up
 * (handoff.c). So arriving is what runtime_enter does: `inside`, barrier, wait for who has a claim. If the
 * processor is gone the machine finds that out when no fiber is on it any more, as between two fibers, and before it
 * makes anybody ready: the replacement, and who waits for a compact one's stack, go through the inject queue then. The order: `inside` first, thread.fiber is cleared after it, since who
 * retakes a processor reads that twice.
 *
 * Counting. The fiber never ends: its replacement ends in its place, and was not counted as started. So the number of
 * fibers alive is right at every moment.
 *
 * The record stays as FIBER_CRASHED: a mutex that the fiber holds points at it, and must not take another fiber
 * for its owner.
 *
 * Rejected:
 *  - Landing in the worker's guard, as a panic does, and going on on the same stack. It needs the frames above the
 *    fault, which an overrun of a local array has destroyed.
 *  - siglongjmp out of the handler: the alternate stack would have to be left by hand, and it too needs a frame.
 *  - Retiring the fiber in the handler itself: it takes locks and wakes others, which a handler must not.
 *  - To enter the runtime for each latch, and to look at `inside` alone: simple, but a submit to a pool takes one
 *    latch and little else, and would be slower.
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

/* In the code of weft, or in libc on behalf of it. */
static bool in_own_code(const weft_panic_info *info)
{
    int i = 0;
    while (i + 1 < info->depth && weft__os_libc_code(info->backtrace[i]))
        i++;
    return weft__os_own_code(info->backtrace[i]);
}

/* False: weft was built by other means than its own, with flags that put code where no label is around it (own_code.h). */
static bool knows_own_code(void)
{
    return weft__os_own_code((const void *)(uintptr_t)weft__crash_of);
}

/* Why this fault of a fiber that may be abandoned has to be died of; or NULL. */
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

/* Where the signal returns to: on the machine's stack, below what it stands in (run, in machine.c). */
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
    if (!fiber->compact) /* else others go on there: only its own frames were on it */
        weft__stack_quarantine(fiber->stack);
    weft__ready(replacement, false);
}
