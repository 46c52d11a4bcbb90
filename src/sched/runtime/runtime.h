/*
 * runtime.h: start, shut-down and fork of the runtime: see runtime.c.
 */
#ifndef WEFT_SCHED_RUNTIME_RUNTIME_H
#define WEFT_SCHED_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

/* Starts the runtime unless it runs. Returns 0, or why it cannot start. */
int weft__runtime_start(void);
extern atomic_u32 weft__runtime_running;
static inline int runtime_ensure(void)
{
    /* Pairs with the release in weft__runtime_start. */
    return likely(atomic_u32_load_acquire(&weft__runtime_running)) ? 0 : weft__runtime_start();
}
/* Starts the runtime for a test run. Returns as weft__runtime_start; -EBUSY if it runs already. */
int weft__runtime_start_seeded(uint64_t seed, bool chaos);
/* True in the forked child of a process that ran weft: there weft does not work. */
extern atomic_u32 weft__forked;
static inline bool weft__runtime_forked(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__forked) != 0);
}
/* Has the function called each time the runtime stops, when no fiber runs and all machines have
 * left. Registered once by a floor above, at any time. */
void weft__runtime_at_stop(void (*function)(void));
/* A function that a floor above may set at any time: called when a weft_shutdown begins to wait. */
extern atomic_ptr weft__runtime_on_drain;
/* Has a weft_shutdown that waits count the fibers again. */
void weft__runtime_quiet(void);
/* Counts the calling machine as departed and waits until the runtime has stopped. Called by a
 * machine that ends because of a shut-down, when it no longer uses its struct machine. */
void weft__runtime_depart(void);

/* Steps of a fork. The locks that the child will need are taken before it, so that the only thread
 * of the child holds them. */
enum fork_step { FORK_BEFORE, FORK_PARENT, FORK_CHILD };

#endif
