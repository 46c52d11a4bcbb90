/*
 * runtime.h: start, shut-down and fork of the runtime: see runtime.c.
 */
#ifndef WEFT_SCHED_RUNTIME_RUNTIME_H
#define WEFT_SCHED_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

/* 0 once the runtime runs; starts it if need be. */
int weft__runtime_start(void);
extern atomic_u32 weft__runtime_running;
static inline int runtime_ensure(void)
{
    /* Pairs with the release at the end of the start. */
    return likely(atomic_u32_load_acquire(&weft__runtime_running)) ? 0 : weft__runtime_start();
}
/* The same for a test run; -EBUSY if the runtime runs already. */
int weft__runtime_start_seeded(uint64_t seed, bool chaos);
/* True in a forked child, where nothing of weft works. */
extern atomic_u32 weft__forked;
static inline bool weft__runtime_forked(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__forked) != 0);
}
/* Calls the function each time the runtime stops, when no fiber and no machine is left.
 * Registered once, by a floor above, at any time; few may be. */
void weft__runtime_at_stop(void (*function)(void));
/* Called when a weft_shutdown begins to wait; set by a floor above, at any time. */
extern atomic_ptr weft__runtime_drains;
/* Tells a weft_shutdown that waits to look again. */
void weft__runtime_quiet(void);
/* In a machine that ends because the runtime stops, and has no more use for its record: returns
 * when the runtime has stopped. */
void weft__runtime_depart(void);

/* Around a fork: the locks that the child will need are held by the one thread it will have. */
enum fork_step { FORK_BEFORE, FORK_PARENT, FORK_CHILD };

#endif
