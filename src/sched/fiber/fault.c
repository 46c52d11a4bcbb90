/*
 * fault.c: says which fiber overflowed its stack or touched memory that is not there.
 *
 * Runs in a signal handler, on the machine's alternate stack. It takes no lock of weft and
 * allocates nothing. The backtrace uses the tables of the loader, so a fault inside the loader
 * itself may end in a hang instead of a report. The data that it reads may be destroyed: each part
 * is tried (weft__os_try), and left out if it faults. The report leaves in one write. Then the
 * process dies of the signal, as it would have without weft. The exception is a worker of a pool
 * that isolates crashes, in its task's own code: that fiber is abandoned (crash.c).
 *
 * A handler that the program installed before weft started may repair the fault (memory protected
 * to learn of accesses). Such a fault is left to that handler, and nothing is reported. A stack
 * overflow is reported even then: no handler can repair it.
 */
#include "sched/fiber/fault.h"

#include <stdio.h>
#include <string.h>

#include "arch/stack_switch.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"
#include "os/text.h"
#include "sched/check/state.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/fiber/crash.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "stack/stack.h"

enum { REPORT_SIZE = 10 * 1024 };

struct report {
    struct weft__os_fault *fault;
    struct thread *thread;    /* NULL: weft does not know the thread */
    struct weft_fiber *fiber; /* NULL: none ran on the thread */
    bool overflow;
    struct crash *crash;     /* the fiber can be abandoned; or NULL */
    const char *not_because; /* why it cannot, although its pool isolates crashes; or NULL */
    weft_panic_info info;    /* message and backtrace */
    struct text text;
};

static void say_what(struct report *report)
{
    struct weft__os_fault *fault = report->fault;
    struct text message = {report->info.message, sizeof report->info.message, 0};
    if (report->overflow)
        weft__text_add(&message, "stack overflow");
    else if (fault->has_address)
        weft__text_add(&message, "fault: %s at 0x%llx (%s)", fault->name,
                       (unsigned long long)(uintptr_t)fault->address, fault->reason);
    else
        weft__text_add(&message, "fault: %s (%s)", fault->name, fault->reason);
}

/* An access at most this far below a stack is taken for one of a frame of its fiber. */
#define FAR_BELOW ((ptrdiff_t)64 << 20)

static bool is_below(const struct weft_fiber *fiber, const void *address, ptrdiff_t most)
{
    const char *low = weft__stack_low(fiber->stack), *byte = address;
    return byte < low && low - byte <= most;
}

static size_t stack_size(const struct weft_fiber *fiber)
{
    return (size_t)1 << (fiber->stack_class + STACK_LOG_MIN);
}

#define RAISE "raise stack_size (weft_spawn_options, weft_pool_options, or WEFT_STACK_SIZE)"

/* How many bytes beyond its stack the fiber has used, at least. */
static size_t overflow_by(const struct weft_fiber *fiber, const struct weft__os_fault *fault)
{
    const char *low = weft__stack_low(fiber->stack), *lowest = fault->sp;
    if (fault->has_address && is_below(fiber, fault->address, FAR_BELOW) &&
        (const char *)fault->address < lowest)
        lowest = fault->address;
    return lowest < low ? (size_t)(low - lowest) : 0;
}

static void add_stack_use(struct report *report)
{
    const struct weft_fiber *fiber = report->fiber;
    size_t size = stack_size(fiber);
    const char *top = weft__stack_start_at(fiber->stack), *sp = report->fault->sp;
    if (report->overflow)
        weft__text_add(&report->text,
                       "weft: all %zu bytes of its stack are used, and at least %zu more: " RAISE
                       "\n",
                       size, overflow_by(fiber, report->fault));
    else if (sp >= weft__stack_low(fiber->stack) && sp <= top)
        weft__text_add(&report->text, "weft: it uses %zu of the %zu bytes of its stack\n",
                       (size_t)(top - sp), size);
    else
        weft__text_add(&report->text, "weft: its stack pointer %p is not in its stack\n",
                       report->fault->sp);
}

/* Tried on its own: the name of a pool's worker is found through data above its frames, which the
 * fiber may have overwritten. */
static void find_name(void *arg)
{
    struct report *report = arg;
    const char *name = weft_fiber_name(report->fiber);
    memcpy(report->info.fiber_name, name, strnlen(name, sizeof report->info.fiber_name - 1));
}

static void add_fiber(void *arg)
{
    struct report *report = arg;
    const struct weft_fiber *fiber = report->fiber;
    report->info.fiber_id = fiber->id;
    report->info.spawn_site = fiber->spawn_site;
    weft__text_add(&report->text, "weft: %s in fiber %llu \"%s\"%s\n", report->info.message,
                   (unsigned long long)fiber->id, report->info.fiber_name,
                   atomic_u32_load_relaxed(&report->thread->inside) ? ", inside weft" : "");
    add_stack_use(report);
    weft__text_add_code(&report->text, "weft: the fiber was spawned at ", fiber->spawn_site);
    weft__text_add_code(&report->text, "weft: and runs ", (void *)(uintptr_t)fiber->function);
}

static void add_thread(void *arg)
{
    struct report *report = arg;
    const struct thread *thread = report->thread;
    if (thread == NULL || thread->errno_address == NULL) /* not NULL on machines */
        weft__text_add(&report->text, "weft: %s on a thread that is not weft's\n",
                       report->info.message);
    else if (thread->processor != NULL)
        weft__text_add(&report->text, "weft: %s in weft's own code, with processor %u\n",
                       report->info.message, thread->processor->index);
    else
        weft__text_add(&report->text, "weft: %s in weft's own code, without a processor\n",
                       report->info.message);
}

static void find_frames(void *arg)
{
    struct report *report = arg;
    report->info.depth =
        weft__os_fault_backtrace(report->fault, report->info.backtrace, WEFT_PANIC_FRAMES);
}

static void add_frames(void *arg)
{
    struct report *report = arg;
    char number[32];
    for (int i = 0; i < report->info.depth; i++) {
        snprintf(number, sizeof number, "weft:   %2d: ", i);
        weft__text_add_code(&report->text, number, report->info.backtrace[i]);
    }
}

static void write_report(struct report *report)
{
    char bytes[REPORT_SIZE];
    report->text = (struct text){bytes, sizeof bytes, 0};
    say_what(report);
    if (report->fiber != NULL)
        (void)weft__os_try(find_name, report); /* if it faults: no name */
    if (!weft__os_try(report->fiber != NULL ? add_fiber : add_thread, report))
        weft__text_add(&report->text, "weft: %s, and what weft knows of it is destroyed\n",
                       report->info.message);
    if (!weft__os_try(add_frames, report))
        weft__text_add(&report->text, "weft: what calls it is unknown\n");
    if (report->not_because != NULL)
        weft__text_add(&report->text, "weft: its pool isolates crashes, but not this one: %s\n",
                       report->not_because);
    else if (report->crash != NULL)
        weft__text_add(&report->text, "weft: the task is abandoned, and its pool goes on\n");
    weft__text_write(&report->text);
}

static void find_crash(void *arg)
{
    struct report *report = arg;
    report->crash =
        weft__crash_of(report->thread, report->fault, &report->info, &report->not_because);
}

/* Whether the fault is a stack overflow: in the guard, or beyond it by a frame larger than the
 * guard. Beyond it the stack pointer is in another stack of weft, or in memory that cannot be read;
 * else the program has switched to a stack of its own, which is not this fiber's overflow. */
static bool is_overflow(const struct weft_fiber *fiber, const struct weft__os_fault *fault)
{
    if (fiber == NULL || fiber->stack == NULL)
        return false;
    if (weft__stack_in_guard(fiber->stack, fault->address))
        return true;
    if (!is_below(fiber, fault->sp, FAR_BELOW) || weft__stack_in_guard(fiber->stack, fault->sp))
        return false;
    return weft__stack_anywhere(fault->sp) ||
           (is_below(fiber, fault->address, FAR_BELOW) && !weft__os_readable(fault->sp));
}

noinline void weft__depth_check(const struct weft_fiber *fiber)
{
    const char *sp = context_sp();
    if (!is_below(fiber, sp, FAR_BELOW) || !weft__stack_anywhere(sp))
        return;
    fatal(
        "stack overflow in fiber %llu \"%s\": it waits or yields %zu bytes below its stack, which "
        "has %zu: " RAISE,
        (unsigned long long)fiber->id, weft_fiber_name(fiber),
        (size_t)(weft__stack_low(fiber->stack) - sp), stack_size(fiber));
}

static enum weft__os_verdict on_fault(struct weft__os_fault *fault)
{
    struct thread *thread = thread_self();
    struct weft_fiber *fiber = thread != NULL ? thread->fiber : NULL;
    struct report report = {.fault = fault, .thread = thread, .fiber = fiber};
    report.overflow = is_overflow(fiber, fault);
    if (fault->others && !report.overflow)
        return FAULT_UNKNOWN;
    if (!weft__os_try(find_frames, &report)) {
        report.info.backtrace[0] = fault->pc;
        report.info.depth = 1;
    }
    if (!weft__os_try(find_crash, &report) || report.crash == NULL)
        weft__os_crash_output_write();
    write_report(&report);
    if (report.crash != NULL) {
        weft__crash_abandon(report.crash, &report.info, (struct machine *)thread, fault);
        return FAULT_GOES_ON;
    }
    if (fiber == NULL && thread != NULL && thread->errno_address != NULL)
        weft__state_show();
    return FAULT_REPORTED;
}

int weft__fault_start(void)
{
    return weft__os_fault_install(on_fault);
}

void weft__fault_stop(void)
{
    weft__os_fault_remove();
}
