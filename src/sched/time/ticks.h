/*
 * ticks.h: times measured by the CPU's counter, which is cheaper to read than the clock: "is it
 * time to look at the clock?" See ticks.c.
 */
#ifndef WEFT_SCHED_TIME_TICKS_H
#define WEFT_SCHED_TIME_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

/* The times that the scheduler measures by the counter, in nanoseconds. */
#define TIME_LOOK ((int64_t)1500)        /* between two looks at the clock for timers */
#define TIME_POLL ((int64_t)25 * 1000)   /* between two looks of a busy machine at the poller */
#define TIME_DEFER ((int64_t)400 * 1000) /* for which deferrable fibers wait behind runnext */

/* These times in ticks of weft__os_ticks; based on a guess at first. */
extern struct ticks {
    atomic_u64 look, poll, defer;
    atomic_u32 known; /* the rate has been learned */
} weft__ticks;

/* Called when the runtime starts: reads counter and clock for the first time. */
void weft__ticks_start(void);
/* Learns the rate if enough time has passed since the start. */
void weft__ticks_learn(void);
static inline void ticks_learn(void)
{
    if (unlikely(atomic_u32_load_relaxed(&weft__ticks.known) == 0))
        weft__ticks_learn();
}

/* Sets the rate, in ticks a second. For tests. */
void weft__ticks_set(uint64_t rate);
/* Forgets what was learned and goes back to the guess. For tests. */
void weft__ticks_forget(void);

#endif
