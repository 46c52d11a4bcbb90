/*
 * failure.c: lets a test fail the nth allocation, mapping, thread, ... See weft__sys_fail in sys.h. And
 * counts what is held, if a test asks for that.
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

/* What is held. */

atomic_u32 weft__live_counted;
static atomic_i64 live[LIVE_KINDS];

void weft__sys_live_count(void)
{
    atomic_u32_store_relaxed(&weft__live_counted, 1);
}

int64_t weft__sys_live(enum weft__sys_live what)
{
    return atomic_i64_load_relaxed(&live[what]);
}

void weft__live_change(enum weft__sys_live what, int64_t change)
{
    atomic_i64_add_relaxed(&live[what], change);
}
