/*
 * fault.c: says which fiber overflowed its stack.
 *
 * Runs in a signal handler, on the machine's alternate stack, when the process is about to die. It
 * takes no lock of weft's and allocates nothing; the backtrace uses the loader's tables, so a fault
 * inside the loader itself may end in a hang instead of a report. After the report the process dies
 * of the signal as it would have without weft.
 */
#include <stdio.h>

#include "sched/sched.h"

static void say_where(const char *what, void *address)
{
    char text[64];
    int length = snprintf(text, sizeof text, "weft: %s ", what);
    weft__sys_write_stderr(text, (size_t)length);
    weft__sys_print_address(address);
}

static bool report_overflow(void *address)
{
    if (seeded())
        weft__sys_last_words_now();
    struct thread *thread = thread_self();
    struct weft_fiber *fiber = thread != NULL ? thread->fiber : NULL;
    if (fiber == NULL || fiber->stack == NULL || !weft__stack_in_guard(fiber->stack, address))
        return false;
    size_t size = (size_t)1 << (fiber->stack_class + STACK_LOG_MIN);
    weft__warn("stack overflow in fiber %llu \"%s\": all %zu bytes of its stack are used "
               "(give it more by weft_spawn_options.stack_size or WEFT_STACK_SIZE)",
               (unsigned long long)fiber->id, weft_fiber_name(fiber), size);
    say_where("the fiber was spawned at", fiber->spawn_site);
    say_where("and runs", (void *)(uintptr_t)fiber->function);
    weft__sys_print_backtrace();
    return true;
}

int weft__fault_start(void)
{
    return weft__sys_fault_install(report_overflow);
}

void weft__fault_stop(void)
{
    weft__sys_fault_remove();
}
