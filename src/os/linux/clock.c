/*
 * clock.c: the clock, exact sleeps, and the tick counter: os/clock.h.
 */
#include "os/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/linux/seam.h"

int64_t weft__os_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t weft__os_now_coarse(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

long weft__os_exact_begin(void)
{
    long slack = syscall(SYS_prctl, PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    if (slack > 1)
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    return slack;
}

void weft__os_exact_end(long slack)
{
    if (slack > 1) /* 0 would set the default */
        prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0UL, 0UL, 0UL);
}

void weft__os_sleep_until(int64_t deadline)
{
    KEEP_ERRNO;
    struct timespec until = to_timespec(deadline < 0 ? 0 : deadline);
    long slack = weft__os_exact_begin();
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
    weft__os_exact_end(slack);
}

uint64_t weft__os_tick_rate(void)
{
#if defined(__x86_64__)
    /* Few CPUs tell their rate; that of most is within a factor of two of this. */
    return (uint64_t)2500 * 1000 * 1000;
#else
    uint64_t rate;
    __asm__("mrs %0, cntfrq_el0" : "=r"(rate)); /* set by the firmware */
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
