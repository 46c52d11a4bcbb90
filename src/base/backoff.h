/*
 * backoff.h: bounded exponential back-off in pauses of the CPU, for a spin loop.
 *
 * The rounds of one wait are 1, 2, 4, 8 pauses, then BACKOFF_CAP each. Eight rounds take about 2
 * us, twelve about 4 us (at 25 ns a pause, measured on an EPYC): longer than any section under a
 * lock or latch of weft that is not preempted. A caller that still waits after that has to give up
 * its CPU, since the holder must have lost its own. How it does that is its own policy; this header
 * makes no system call:
 *
 *     os/lock.c          sleeps in a futex
 *     os/latch.c         sleeps for some microseconds at a time
 *     sync/spin_wait.h   yields the CPU some times, then sleeps
 *
 * The cap keeps the rounds short enough to see a release soon: 16 pauses are 0.4 us.
 */
#ifndef WEFT_BASE_BACKOFF_H
#define WEFT_BASE_BACKOFF_H

#include <stdint.h>

#include "base/atomic.h"

enum { BACKOFF_CAP_SHIFT = 4, BACKOFF_CAP = 1 << BACKOFF_CAP_SHIFT, BACKOFF_ROUNDS = 12 };

/* Zero-initialised: no round yet. */
struct backoff {
    uint32_t round;
};

/* Does the pauses of the next round. */
static inline void backoff_pause(struct backoff *backoff)
{
    uint32_t shift = backoff->round < BACKOFF_CAP_SHIFT ? backoff->round : BACKOFF_CAP_SHIFT;
    backoff->round++;
    for (uint32_t i = 0; i < 1u << shift; i++)
        cpu_relax();
}

#endif
