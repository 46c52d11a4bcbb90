/*
 * weft/pools.h: several pools with the same options, and a choice among them.
 *
 * Submitters contend little for one pool. Several pools are for tasks of one kind that are to be
 * divided among limits of their own. weft_pools_pick chooses one of them, and every call of
 * weft/pool.h works with that:
 *
 *     weft_pools *pools;
 *     weft_pool_options each = { .capacity = 100 };
 *     if (weft_pools_open(&pools, 4, WEFT_LEAST_BUSY, &each) != 0)
 *         return 1;
 *     error = weft_pool_submit(weft_pools_pick(pools), task, arg);
 *     weft_pools_close(pools);
 *
 * A task of one of the pools is an own task of all: its plain submits to any of them never wait
 * (weft/pool.h, "Admission"), and are admitted while the pools close.
 */
#ifndef WEFT_POOLS_H
#define WEFT_POOLS_H

#include <weft/base.h>
#include <weft/pool.h>

WEFT_BEGIN

typedef struct weft_pools weft_pools;

/* The strategies by which a pool is chosen. */
enum {
    /* One after the other. */
    WEFT_ROUND_ROBIN = 0,
    /* Of two picked at random, the one with fewer tasks in flight: O(1), and close to the least. */
    WEFT_LEAST_BUSY,
};

/* The most pools that weft_pools_open opens. */
#define WEFT_POOLS_MAX 4096

/* Opens `count` pools with the same options (NULL: all defaults).
 * Returns 0; -EINVAL if pools is NULL, count is not 1 to WEFT_POOLS_MAX, or the strategy is
 * unknown; or as weft_pool_open. On an error none is open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pools_open(weft_pools **pools, int count, int strategy,
                                           const weft_pool_options *options);

/* Chooses one of the pools by the strategy; if that is full, the next one that has room, if any
 * has. The pool must not be stopped or closed by itself.
 * Returns the pool; NULL if pools is NULL.
 * Contexts: fiber, thread, the pools' own tasks. */
WEFT_API weft_pool *weft_pools_pick(weft_pools *pools);

/* weft_pools_count returns the number of pools, 0 if pools is NULL; weft_pools_get one of them, to
 * be tuned, paused or asked, NULL if there is no such pool. It must not be stopped or closed by
 * itself.
 * Contexts: fiber, thread. */
WEFT_API int weft_pools_count(const weft_pools *pools);
WEFT_API weft_pool *weft_pools_get(const weft_pools *pools, int index);

/* Gets the figures of all pools, added up; each pool's are of one moment.
 * Returns 0; -EINVAL if an argument is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_pools_stats(const weft_pools *pools, weft_pool_stats *stats);

/* Closes all pools, as weft_pool_close does, and frees them. What their tasks submit to any of them
 * meanwhile still runs.
 * Returns 0; -EDEADLK from a task of one of the pools; -EBUSY while one of them has sub-pools:
 * nothing has happened then; -EINVAL if pools is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread.
 * Undefined: any use during or after it, except by the pools' tasks. */
WEFT_API int weft_pools_close(weft_pools *pools);

WEFT_END

#endif
