/*
 * weft/pools.h: several pools behind one door.
 *
 * One pool does not contend in the first place; several are for work that is to be kept apart by size but
 * not by name: a task goes to the next pool in turn, or to the one with the fewest tasks inside.
 *
 *     weft_pools *pools;
 *     weft_pool_options each = { .capacity = 100 };
 *     if (weft_pools_open(&pools, 4, WEFT_LEAST_BUSY, &each) != 0)
 *         return 1;
 *     error = weft_pools_submit(pools, task, arg);
 *     weft_pools_close(pools);
 */
#ifndef WEFT_POOLS_H
#define WEFT_POOLS_H

#include <weft/base.h>
#include <weft/pool.h>

WEFT_BEGIN

typedef struct weft_pools weft_pools;

/* How the pool is chosen. */
enum {
    WEFT_ROUND_ROBIN = 0, /* one after the other */
    WEFT_LEAST_BUSY,      /* the one with the fewest tasks inside */
};

/* At most this many. */
#define WEFT_POOLS_MAX 4096

/* Opens `count` pools with the same options (NULL: all defaults).
 * Returns 0; -EINVAL if pools is NULL, count is not 1 to WEFT_POOLS_MAX, or the strategy unknown; or as
 * weft_pool_open. On an error none is open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pools_open(weft_pools **pools, int count, int strategy,
                                           const weft_pool_options *options);

/* Submits to one of them, as weft_pool_submit does. If the chosen one is full, the others are tried, in turn,
 * before its own way of dealing with that is taken.
 * Returns and contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_pools_submit(weft_pools *pools, void (*function)(void *),
                                             void *arg);
WEFT_API WEFT_MUST_USE int weft_pools_submit_until(weft_pools *pools, void (*function)(void *),
                                                   void *arg, int64_t deadline);

/* How many there are, and one of them, to be tuned, paused or asked; it belongs to the whole. 0 and NULL if
 * there is no such.
 * Contexts: fiber, thread. */
WEFT_API int weft_pools_count(const weft_pools *pools);
WEFT_API weft_pool *weft_pools_get(const weft_pools *pools, int index);

/* The figures of all, added up.
 * Returns 0, or -EINVAL.
 * Contexts: fiber, thread. */
WEFT_API int weft_pools_stats(const weft_pools *pools, weft_pool_stats *stats);

/* Closes all, as weft_pool_close does, and frees them.
 * Returns and contexts: as weft_pool_close. */
WEFT_API int weft_pools_close(weft_pools *pools);

WEFT_END

#endif
