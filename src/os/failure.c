/*
 * failure.c: makes the nth allocation, mapping, thread, ... fail, and counts what is held:
 * os/failure.h.
 */
#include "os/failure.h"

_Alignas(CACHE_LINE) atomic_u32 weft__watched;

static _Alignas(CACHE_LINE) struct plan {
    atomic_u32 calls; /* since weft__os_fail */
    atomic_u32 nth;   /* 0: none fails */
    atomic_u32 persistent;
} plans[OS_CALLS];

void weft__os_fail(enum weft__os_call call, uint32_t nth, bool persistent)
{
    struct plan *plan = &plans[call];
    atomic_u32_store_relaxed(&weft__watched, 1);
    atomic_u32_store_relaxed(&plan->nth, 0);
    atomic_u32_store_relaxed(&plan->calls, 0);
    atomic_u32_store_relaxed(&plan->persistent, persistent);
    atomic_u32_store_release(&plan->nth, nth); /* pairs with the acquire in weft__failure_count */
}

uint32_t weft__os_calls(enum weft__os_call call)
{
    return atomic_u32_load_relaxed(&plans[call].calls);
}

bool weft__failure_count(enum weft__os_call call)
{
    struct plan *plan = &plans[call];
    uint32_t number = atomic_u32_add_relaxed(&plan->calls, 1) + 1;
    uint32_t nth = atomic_u32_load_acquire(&plan->nth);
    if (nth == 0 || number < nth)
        return false;
    return number == nth || atomic_u32_load_relaxed(&plan->persistent);
}

/* What is held. */

static _Alignas(CACHE_LINE) atomic_u32 counts_held;
static atomic_i64 live[LIVE_KINDS];

void weft__os_live_count(void)
{
    atomic_u32_store_relaxed(&counts_held, 1);
    atomic_u32_store_relaxed(&weft__watched, 1);
}

int64_t weft__os_live(enum weft__os_live what)
{
    return atomic_i64_load_relaxed(&live[what]);
}

void weft__live_change(enum weft__os_live what, int64_t change)
{
    if (atomic_u32_load_relaxed(&counts_held))
        atomic_i64_add_relaxed(&live[what], change);
}
