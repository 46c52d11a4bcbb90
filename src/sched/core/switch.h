/*
 * switch.h: the context switch with what goes with it: errno, and what AddressSanitizer and
 * ThreadSanitizer must be told. Without them each function is the bare switch.
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

/* Exceptions of C++ that the fiber has caught, or that are on their way in it, belong to the thread as C++ sees it:
 * a fiber that parks in a catch block, or in a destructor that an exception runs, takes them along. */
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

/* Who leaves where its stack is not may have a frame that has stepped over the guard. The stack itself is looked at only if the
 * fiber has gone deeper since it left last by more than the smallest guard: where it was then was right. */
enum { DEEPER_MOST = 4096 };
static inline void check_depth(const struct weft_fiber *fiber)
{
    if (unlikely((char *)fiber->context.sp - context_sp() > DEEPER_MOST))
        weft__depth_check(fiber);
}

/* From the machine's stack to a fiber, and back. */
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

/* Called by a fiber that has just been resumed: the thread may be another one now. The fiber is read from there: so it need not
 * be remembered on the stack, which a compact fiber has moved. */
static inline void switch_arrive(void)
{
    struct machine *machine = (struct machine *)thread_self();
    struct weft_fiber *fiber = machine->thread.fiber;
    ASAN_ONLY(__sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL));
    *machine->thread.errno_address = fiber->saved_errno;
    switch_finish_parked(machine, fiber);
}

/* The same for one that runs for the first time. */
static inline void switch_arrive_first(struct weft_fiber *fiber)
{
    ASAN_ONLY(__sanitizer_finish_switch_fiber(NULL, NULL, NULL));
    struct machine *machine = (struct machine *)thread_self();
    *machine->thread.errno_address = 0;
    switch_finish_parked(machine, fiber);
}

/* From a fiber that has no exceptions of C++ to its machine; returns when it is resumed, never if it has ended. */
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

/* The same for any. */
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

/* From a fiber straight to another one that has run before. */
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

/* A fiber got its stack; a fiber gave it back. */
static inline void switch_fiber_made(struct weft_fiber *fiber)
{
    TSAN_ONLY(fiber->tsan_fiber = __tsan_create_fiber(0));
    (void)fiber;
}

static inline void switch_fiber_gone(struct weft_fiber *fiber)
{
    TSAN_ONLY(__tsan_destroy_fiber(fiber->tsan_fiber));
    (void)fiber;
}

/* Called once by the machine, on its own stack. */
static inline void switch_machine_made(struct machine *machine)
{
    TSAN_ONLY(machine->tsan_fiber = __tsan_get_current_fiber());
    ASAN_ONLY(weft__os_thread_stack(&machine->stack_low, &machine->stack_size));
    (void)machine;
}

#endif
