/*
 * maintenance.h: planned maintenance of the runtime, and retries of fibers and floors that starve:
 * see maintenance.c.
 */
#ifndef WEFT_SCHED_RUNTIME_MAINTENANCE_H
#define WEFT_SCHED_RUNTIME_MAINTENANCE_H

#include <stdint.h>
#include <weft/time.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/membarrier.h"
#include "sched/core/scheduler.h"

#define STARVED_RETRY (10 * WEFT_MS)

/* Bits of weft__sched.starving: what is tried again later. */
enum starving {
    STARVING_FIBERS = 1,  /* fibers in weft__sched.starved, for a stack */
    STARVING_OTHERS = 2,  /* a floor above, for the memory of a fiber */
    STARVING_LIMITED = 4, /* a floor above, for a fiber to end: max_fibers is reached */
    STARVING_TIMED = STARVING_FIBERS | STARVING_OTHERS, /* tried again every STARVED_RETRY */
};

/* Does the maintenance whose time has come, a bounded amount: gives stacks back, reaps threads that
 * have ended, retries what starves. */
void weft__maintenance_run(int64_t now);
/* Plans maintenance for `time`, unless it is planned for earlier. */
void weft__maintenance_by(int64_t time);
/* Plans maintenance in STARVED_RETRY, and makes sure that a machine is awake then. */
void weft__retry_soon(void);
/* Plans maintenance if stacks are to be given back and none is planned. */
void weft__maintenance_plan(void);
/* Makes up to `most` fibers that wait for a stack ready, to try again. If the caller has a
 * processor, it also lets the floor above try again. */
void weft__unstarve(uint32_t most);
/* Called when a fiber has ended or got a stack: there may be one for another. */
static inline void unstarve_one(void)
{
    barrier_light(); /* pairs with weft__starve_outside */
    if (unlikely(atomic_u32_load_relaxed(&weft__sched.starving)))
        weft__unstarve(1);
}
/* Says that a floor above could not make a fiber. Its hook (weft__idle_set_hooks) is called when a
 * fiber has ended, and every STARVED_RETRY if memory was lacking. */
void weft__starve_outside(void);

#endif
