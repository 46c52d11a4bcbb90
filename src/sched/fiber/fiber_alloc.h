/*
 * fiber_alloc.h: where the records of fibers come from: see fiber_alloc.c.
 */
#ifndef WEFT_SCHED_FIBER_FIBER_ALLOC_H
#define WEFT_SCHED_FIBER_FIBER_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "sched/fiber/fiber.h"

/* A stock of free records, and numbers to give them; owned by a processor or a foreign thread. */
struct fiber_cache {
    struct weft_fiber *free;
    uint32_t count;
    uint64_t id_next, id_end;
    atomic_u64 started, ended; /* written by the owner only */
};

/* A record, with id, and nothing else set; NULL without memory. */
struct weft_fiber *weft__fiber_new(struct fiber_cache *cache);
void weft__fiber_free(struct fiber_cache *cache, struct weft_fiber *fiber);
/* The same on any thread, known to weft or not; a fiber must have entered the runtime. */
void weft__fiber_free_any(struct weft_fiber *fiber);
/* Its extras, made if need be; NULL without memory. Only for the fiber itself, or one not started.
 */
struct extra *weft__fiber_extra(struct weft_fiber *fiber);
/* Gives the stock back, for others to use. */
void weft__fiber_cache_flush(struct fiber_cache *cache);
/* Frees all records. Called when no fiber exists. */
void weft__fiber_stop(void);

/* Calls visit for each fiber that is parked, under the depot's lock. */
void weft__fiber_each_parked(void (*visit)(struct weft_fiber *fiber, void *context), void *context);

/* How many records are in each state, for reports: without a lock, so that those which are made
 * at that moment may count as anything. False: there are more. */
bool weft__fiber_count(uint64_t counts[FIBER_STATES]);
/* How many fibers wait to begin, if no fiber has ever run; else 0. Without a lock, as
 * weft__fiber_count. */
uint64_t weft__fiber_count_unbegun(void);

/* Fibers spawned and not ended, and timers open; never less than there are. */
uint64_t weft__fiber_alive(void);

#endif
