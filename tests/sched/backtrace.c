/*
 * backtrace.c: the call chain of a fiber can be unwound to its function and ends at its entry, also
 * after it has parked and moved to another thread.
 */
#include "arch/stack_switch.h"
#include "base/compiler.h"
#include "everywhere.h"
#include "fibers.h"
#include "os/linux/frames.h"

enum { FRAMES_MOST = 64, ENTRY_SIZE = 64 };

struct trace {
    void *frames[FRAMES_MOST];
    int count;
    void *in_middle, *in_function, *in_runtime; /* addresses that the calls return to */
};

static noinline void innermost(struct trace *trace)
{
    trace->count = backtrace(trace->frames, FRAMES_MOST);
    trace->in_middle = __builtin_return_address(0);
}

static noinline void middle(struct trace *trace)
{
    innermost(trace);
    trace->in_function = __builtin_return_address(0);
}

static bool has(const struct trace *trace, const void *address)
{
    for (int i = 0; i < trace->count; i++)
        if (trace->frames[i] == address)
            return true;
    return false;
}

static void check_trace(struct trace *trace)
{
    CHECK(trace->count >= 5 && trace->count < 20);
    CHECK(has(trace, trace->in_middle));
    CHECK(has(trace, trace->in_function));
    CHECK(has(trace, trace->in_runtime));
    uintptr_t last = (uintptr_t)trace->frames[trace->count - 1];
    uintptr_t entry = (uintptr_t)weft__context_entry;
    CHECK(last >= entry && last < entry + ENTRY_SIZE);
}

static void trace_self(void *arg)
{
    struct trace trace;
    trace.in_runtime = __builtin_return_address(0);
    middle(&trace);
    check_trace(&trace);
    weft_yield();
    middle(&trace);
    check_trace(&trace);
    CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    middle(&trace);
    check_trace(&trace);
    for (int i = 0; i < 10; i++) {
        test_hop();
        middle(&trace);
        check_trace(&trace);
    }
    (*(int *)arg)++;
}

static void a_fiber_can_be_unwound(void)
{
    int ran = 0;
    configure(3);
    for (int i = 1; i <= 5; i++) {
        run_fiber(trace_self, &ran);
        CHECK_EQ(ran, i);
    }
    shut_down();
}

int main(void)
{
    RUN_PLAIN(a_fiber_can_be_unwound, "stops or configures the runtime");
    return 0;
}
