/*
 * ticks.h: times by a cheap counter, for "has enough time passed to look at the clock". See ticks.c.
 */
#ifndef WEFT_SCHED_TIME_TICKS_H
#define WEFT_SCHED_TIME_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

/* What the scheduler measures so, in nanoseconds. */
#define TIME_LOOK ((int64_t)1500)           /* between two looks at the clock for timers */
#define TIME_POLL ((int64_t)25 * 1000)      /* between two looks of a busy machine at the poller */
#define TIME_DEFER ((int64_t)400 * 1000) /* of fibers that can wait, behind runnext */

/* The same in ticks of weft__os_ticks: a guess at first. */
extern struct ticks {
    atomic_u64 look, poll, defer;
    atomic_u32 known; /* they are no guess any more */
} weft__ticks;

/* The runtime starts: the time from here on tells how fast the counter runs. */
void weft__ticks_start(void);
/* Looks whether that can be told by now. */
void weft__ticks_learn(void);
static inline void ticks_learn(void)
{
    if (unlikely(atomic_u32_load_relaxed(&weft__ticks.known) == 0))
        weft__ticks_learn();
}

/* The counter runs so often a second; and: that is not known. For tests, too. */
void weft__ticks_set(uint64_t rate);
void weft__ticks_forget(void);

#endif
