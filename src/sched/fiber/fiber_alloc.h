/*
 * fiber_alloc.h: allocates struct weft_fiber, and counts fibers: see fiber_alloc.c.
 */
#ifndef WEFT_SCHED_FIBER_FIBER_ALLOC_H
#define WEFT_SCHED_FIBER_FIBER_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "sched/fiber/fiber.h"

/* Free fibers, and identifiers for them; owned by a processor or a foreign thread. */
struct fiber_cache {
    struct weft_fiber *free;
    uint32_t count;
    uint64_t id_next, id_end;
    atomic_u64 started, ended; /* fibers; written by the owner of the cache only */
};

/* Allocates a fiber and gives it an id; no other field is set. NULL without memory. */
struct weft_fiber *weft__fiber_new(struct fiber_cache *cache);
/* Frees a fiber to the cache, and its extras. */
void weft__fiber_free(struct fiber_cache *cache, struct weft_fiber *fiber);
/* Frees a fiber on any thread, whether weft knows it or not. A calling fiber must have entered the
 * runtime. */
void weft__fiber_free_any(struct weft_fiber *fiber);
/* Returns the extras of the fiber; allocates them if need be. NULL without memory. Called by the
 * fiber itself, or before it starts. */
struct extra *weft__fiber_extra(struct weft_fiber *fiber);
/* Gives all free fibers of the cache to the depot. */
void weft__fiber_cache_flush(struct fiber_cache *cache);
/* Frees the memory of all fibers. Called when no fiber exists. */
void weft__fiber_stop(void);

/* Calls visit for each parked fiber, under the lock of the depot. */
void weft__fiber_each_parked(void (*visit)(struct weft_fiber *fiber, void *context), void *context);

/* Counts the fibers, free ones included, in each state, for reports. Takes no lock: a fiber that is
 * being made may count in any state. False: there are more than were counted. */
bool weft__fiber_count(uint64_t counts[FIBER_STATES]);
/* Returns how many fibers wait to begin, if no fiber has ever run; else 0. Takes no lock, as
 * weft__fiber_count. */
uint64_t weft__fiber_count_unbegun(void);

/* Returns the number of fibers spawned and not ended plus that of open timers. Never less than
 * there are at the moment of the call. */
uint64_t weft__fiber_alive(void);

#endif
