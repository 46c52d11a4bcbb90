/*
 * failure.c: lets a test fail the nth allocation, mapping, thread, ... See weft__sys_fail in sys.h.
 *
 * The counts are always kept, but for calls on hot paths: those of sockets are counted only while a
 * failure is planned.
 */
#include "base/seam.h"

static struct plan {
    atomic_u32 calls; /* since the plan was made */
    atomic_u32 nth;   /* 0: none fails */
    atomic_u32 persistent;
} plans[SYS_CALLS];

void weft__sys_fail(enum weft__sys_call call, uint32_t nth, bool persistent)
{
    struct plan *plan = &plans[call];
    atomic_u32_store_relaxed(&plan->nth, 0);
    atomic_u32_store_relaxed(&plan->calls, 0);
    atomic_u32_store_relaxed(&plan->persistent, persistent);
    atomic_u32_store_release(&plan->nth, nth); /* pairs with the acquire in weft__failure_due */
}

uint32_t weft__sys_calls(enum weft__sys_call call)
{
    return atomic_u32_load_relaxed(&plans[call].calls);
}

bool weft__failure_planned(enum weft__sys_call call)
{
    return atomic_u32_load_relaxed(&plans[call].nth) != 0;
}

bool weft__failure_due(enum weft__sys_call call)
{
    struct plan *plan = &plans[call];
    uint32_t number = atomic_u32_add_relaxed(&plan->calls, 1) + 1;
    uint32_t nth = atomic_u32_load_acquire(&plan->nth);
    if (nth == 0 || number < nth)
        return false;
    return number == nth || atomic_u32_load_relaxed(&plan->persistent);
}
