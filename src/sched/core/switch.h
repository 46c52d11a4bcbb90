/*
 * switch.h: the context switch with what goes with it: errno, C++ exceptions in progress, and what
 * AddressSanitizer and ThreadSanitizer must be told. Without the sanitizers their part is empty.
 */
#ifndef WEFT_SCHED_CORE_SWITCH_H
#define WEFT_SCHED_CORE_SWITCH_H

#include "arch/stack_switch.h"
#include "base/compiler.h"
#include "os/os.h"
#include "sched/core/machine.h"
#include "sched/fiber/cxx.h"
#include "sched/fiber/fault.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "stack/stack.h"

#if WEFT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
static inline void asan_leave(void **fake_stack, const void *low, size_t size)
{
    __sanitizer_start_switch_fiber(fake_stack, low, size);
}
static inline void asan_leave_to_fiber(void **fake_stack, const struct weft_fiber *to)
{
    const char *low = weft__stack_low(to->stack);
    asan_leave(fake_stack, low, (size_t)(weft__stack_top(to->stack) - low));
}
#define ASAN_ONLY(statement) statement
#else
#define ASAN_ONLY(statement) ((void)0)
#endif

#if WEFT_TSAN
#include <sanitizer/tsan_interface.h>
#define TSAN_ONLY(statement) statement
#else
#define TSAN_ONLY(statement) ((void)0)
#endif

/* C++ keeps the exceptions that are caught or in flight by thread. A fiber that parks in a catch
 * block, or in a destructor that runs during unwinding, must take its exceptions along. */
static inline bool cxx_is_busy(const struct machine *machine)
{
    const struct cxx_state *cxx = machine->thread.cxx;
    return unlikely(cxx->caught != NULL || cxx->uncaught != 0);
}

static inline struct cxx_state cxx_leave(struct machine *machine)
{
    struct cxx_state kept = *machine->thread.cxx;
    *machine->thread.cxx = (struct cxx_state){NULL, 0};
    return kept;
}

/* A fiber that leaves with its stack pointer outside its stack has a frame that has stepped over
 * the guard. The full check (weft__depth_check) runs only if the fiber is deeper than when it left
 * last by more than the smallest guard: the stack pointer of that time was checked. */
enum { DEEPER_MOST = 4096 };
static inline void check_depth(const struct weft_fiber *fiber)
{
    if (unlikely((char *)fiber->context.sp - context_sp() > DEEPER_MOST))
        weft__depth_check(fiber);
}

/* Switches from the machine's stack to a fiber; returns when a fiber switches to the machine. */
static inline void switch_to_fiber(struct machine *machine, struct weft_fiber *fiber)
{
    TSAN_ONLY(__tsan_switch_to_fiber(fiber->tsan_fiber, 0));
    ASAN_ONLY(asan_leave_to_fiber(&machine->fake_stack, fiber));
    context_switch(&machine->context, &fiber->context);
    ASAN_ONLY(__sanitizer_finish_switch_fiber(machine->fake_stack, NULL, NULL));
}

/* Finishes the park of the fiber that went straight to this one. */
static inline void switch_finish_parked(struct machine *machine, struct weft_fiber *fiber)
{
    if (machine->parked != NULL)
        weft__finish_direct(machine, fiber);
}

/* Called by a fiber that has just been resumed, perhaps on another thread. The fiber is read from
 * the thread's record, so that it need not be kept on the stack, which is copied if the fiber is
 * compact. */
static inline void switch_arrive(void)
{
    struct machine *machine = (struct machine *)thread_self();
    struct weft_fiber *fiber = machine->thread.fiber;
    ASAN_ONLY(__sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL));
    *machine->thread.errno_address = fiber->saved_errno;
    switch_finish_parked(machine, fiber);
}

/* Called by a fiber that runs for the first time. */
static inline void switch_arrive_first(struct weft_fiber *fiber)
{
    ASAN_ONLY(__sanitizer_finish_switch_fiber(NULL, NULL, NULL));
    struct machine *machine = (struct machine *)thread_self();
    *machine->thread.errno_address = 0;
    switch_finish_parked(machine, fiber);
}

/* Switches from a fiber without C++ exceptions in progress to its machine; returns when the fiber
 * is resumed, never if it has ended. */
static inline void switch_to_machine_plain(struct machine *machine, struct weft_fiber *fiber,
                                           bool ended)
{
    check_depth(fiber);
    fiber->saved_errno = *machine->thread.errno_address;
    TSAN_ONLY(__tsan_switch_to_fiber(machine->tsan_fiber, 0));
    ASAN_ONLY(
        asan_leave(ended ? NULL : &fiber->fake_stack, machine->stack_low, machine->stack_size));
    (void)ended;
    context_switch(&fiber->context, &machine->context);
    switch_arrive();
}

/* Switches from any fiber to its machine. */
static inline void switch_to_machine(struct machine *machine, struct weft_fiber *fiber, bool ended)
{
    bool cxx_busy = cxx_is_busy(machine);
    struct cxx_state cxx;
    if (cxx_busy)
        cxx = cxx_leave(machine);
    switch_to_machine_plain(machine, fiber, ended);
    if (unlikely(cxx_busy))
        *thread_self()->cxx = cxx;
}

/* Switches from a fiber without C++ exceptions in progress straight to another that has a
 * context. */
static inline void switch_fibers_plain(struct machine *machine, struct weft_fiber *from,
                                       struct weft_fiber *to)
{
    check_depth(from);
    from->saved_errno = *machine->thread.errno_address;
    TSAN_ONLY(__tsan_switch_to_fiber(to->tsan_fiber, 0));
    ASAN_ONLY(asan_leave_to_fiber(&from->fake_stack, to));
    context_switch(&from->context, &to->context);
    switch_arrive();
}

/* Switches from any fiber straight to another that has a context. */
static inline void switch_fibers(struct machine *machine, struct weft_fiber *from,
                                 struct weft_fiber *to)
{
    bool cxx_busy = cxx_is_busy(machine);
    struct cxx_state cxx;
    if (cxx_busy)
        cxx = cxx_leave(machine);
    switch_fibers_plain(machine, from, to);
    if (unlikely(cxx_busy))
        *thread_self()->cxx = cxx;
}

/* Must follow when a fiber has got its stack. */
static inline void switch_fiber_made(struct weft_fiber *fiber)
{
    TSAN_ONLY(fiber->tsan_fiber = __tsan_create_fiber(0));
    (void)fiber;
}

/* Must precede when a fiber gives its stack back. */
static inline void switch_fiber_gone(struct weft_fiber *fiber)
{
    TSAN_ONLY(__tsan_destroy_fiber(fiber->tsan_fiber));
    (void)fiber;
}

/* Called once by each machine, on its own stack. */
static inline void switch_machine_made(struct machine *machine)
{
    TSAN_ONLY(machine->tsan_fiber = __tsan_get_current_fiber());
    ASAN_ONLY(weft__os_thread_stack(&machine->stack_low, &machine->stack_size));
    (void)machine;
}

#endif
