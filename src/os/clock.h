/*
 * clock.h: the monotonic clock, sleeping, and a tick counter. Rules of all calls: os/os.h.
 */
#ifndef WEFT_OS_CLOCK_H
#define WEFT_OS_CLOCK_H

#include <stdint.h>

#include "base/atomic.h"

/* Nanoseconds since some moment in the past, the same for all threads: never negative, never steps
 * back. Works in signal handlers. */
int64_t weft__os_now(void);

/* weft__os_now some milliseconds ago, for less than half the price. */
int64_t weft__os_now_coarse(void);

/* Blocks the thread until the deadline, as exactly as the system can; at once if that has
 * passed. */
void weft__os_sleep_until(int64_t deadline);

#ifdef WEFT_DEBUG
/* For tests of debug builds: the rate, in ticks a second, at which weft__os_ticks then counts
 * instead of as the CPU does; 0 for the CPU's. */
extern atomic_u64 weft__os_ticks_given;
uint64_t weft__os_ticks_at(uint64_t rate);
#endif

/* A counter that costs a few nanoseconds to read and grows with time, by a few ticks a nanosecond
 * at most. Counters of two CPUs may differ, and the rate is not known exactly. So it may decide how
 * often the clock is read, and nothing else. */
static inline uint64_t weft__os_ticks(void)
{
#ifdef WEFT_DEBUG
    uint64_t given = atomic_u64_load_relaxed(&weft__os_ticks_given);
    if (given != 0)
        return weft__os_ticks_at(given);
#endif
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

/* A guess at the rate of weft__os_ticks, in ticks a second. */
uint64_t weft__os_tick_rate(void);

#endif
