/*
 * maintenance.h: clean-up work of the runtime, and fibers that wait for memory: see maintenance.c.
 */
#ifndef WEFT_SCHED_RUNTIME_MAINTENANCE_H
#define WEFT_SCHED_RUNTIME_MAINTENANCE_H

#include <stdint.h>
#include <weft/time.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/membarrier.h"
#include "sched/core/scheduler.h"

/* Who waits for something that may be there later. */
enum starving {
    STARVING_FIBERS = 1,  /* fibers: for a stack; in `starved` */
    STARVING_OTHERS = 2,  /* others: for memory */
    STARVING_LIMITED = 4, /* others: for a fiber to end, since there are as many as there may be */
    STARVING_TIMED = STARVING_FIBERS | STARVING_OTHERS, /* are tried again every STARVED_RETRY */
};

/* Bounded clean-up work (stacks, starved fibers, threads that ended) if its time has come. */
void weft__maintenance_run(int64_t now);
void weft__maintenance_by(int64_t time);
/* The same in STARVED_RETRY, and somebody will be awake. */
void weft__retry_soon(void);
/* Plans it if there is something to do. */
void weft__maintenance_plan(void);
/* Lets up to `most` fibers that wait for a stack try again; and others, if the caller has a
 * processor. */
#define STARVED_RETRY (10 * WEFT_MS)
void weft__unstarve(uint32_t most);
static inline void unstarve_one(void)
{
    barrier_light(); /* pairs with weft__starve_outside */
    if (unlikely(atomic_u32_load_relaxed(&weft__sched.starving)))
        weft__unstarve(1);
}
/* They could not make a fiber: `act` (weft__idle_set_hooks) is called when one has ended, and
 * every STARVED_RETRY if it was for want of memory. */
void weft__starve_outside(void);

#endif
