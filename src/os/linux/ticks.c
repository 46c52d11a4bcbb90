/*
 * ticks.c: how fast the counter of weft__os_ticks runs, as far as the CPU says it.
 */
#include "os/os.h"

uint64_t weft__os_tick_rate(void)
{
#if defined(__x86_64__)
    return (uint64_t)2500 * 1000 *
           1000; /* few say it; that of most CPUs is within a factor of two */
#else
    uint64_t rate;
    __asm__("mrs %0, cntfrq_el0" : "=r"(rate)); /* what the firmware has put there */
    return rate & UINT32_MAX;
#endif
}

#ifdef WEFT_DEBUG
atomic_u64 weft__os_ticks_given;

uint64_t weft__os_ticks_at(uint64_t rate)
{
    uint64_t now = (uint64_t)weft__os_now(), second = (uint64_t)1000 * 1000 * 1000;
    return now / second * rate + now % second * rate / second;
}
#endif
