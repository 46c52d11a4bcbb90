/*
 * pools.c: several pools of one kind, and the choice among them.
 *
 * The pools are a family: a task of one is an own task of all, so it never waits in a plain submit
 * to another, and may submit while they stop. They stop together: all refuse other callers from the
 * beginning, and none is stopped before one pass finds all of them quiet and nothing was submitted
 * since the pass before.
 *
 * Each pool keeps a word that says whether it has room, all in one array: a choice that finds a
 * full pool reads that array, 16 to a cache line, not the pools. The word is a hint; the pool
 * itself decides. Without it each choice takes latches: of 4,000 full pools 41 µs instead of 5.6.
 */
#include <errno.h>
#include <weft/pools.h>

#include "base/assert.h"
#include "base/prng.h"
#include "pool/admission.h"
#include "pool/pool.h"
#include "pool/shard.h"
#include "pool/subpools.h"

struct weft_pools {
    int count, strategy;
    atomic_u32 turn;
    atomic_u32 *room; /* for each pool: not 0 if it has room */
    weft_pool *pools[];
};

/* The end. */

/* Outside the latch: how many tasks were ever admitted. */
static int64_t submitted(weft_pool *pool)
{
    latch_acquire(pool->latch);
    weft__outboxes_close(pool);
    int64_t count = pool->stats.submitted;
    latch_release(pool->latch);
    return count;
}

static void wait_for_all(weft_pools *pools)
{
    int64_t before = -1, now = 0;
    while (now != before) {
        before = now;
        now = 0;
        for (int i = 0; i < pools->count; i++)
            weft__pool_wait_firmly(pools->pools[i]);
        for (int i = 0; i < pools->count; i++)
            now += submitted(pools->pools[i]);
    }
}

static void free_all(weft_pools *pools)
{
    weft__os_free(pools->room);
    weft__os_free(pools);
}

int weft_pools_close(weft_pools *pools)
{
    int error = call_error(pools != NULL);
    if (error == 0 && pools->count > 0 && weft__pool_is_own(pools->pools[0]))
        error = -EDEADLK;
    if (error != 0)
        return error;
    for (int i = 0; i < pools->count; i++)
        if (weft__tree_has_children(pools->pools[i]))
            return -EBUSY;
    for (int i = 0; i < pools->count && !weft__runtime_forked(); i++)
        weft__pool_begin_stop(pools->pools[i], true);
    if (weft__runtime_forked())
        return -ECHILD; /* on_drop has forked */
    wait_for_all(pools);
    for (int i = 0; i < pools->count; i++)
        weft__pool_begin_stop(pools->pools[i], false);
    for (int i = 0; i < pools->count; i++)
        must(weft_pool_close(pools->pools[i]) == 0);
    free_all(pools);
    return 0;
}

/* Opening. */

/* The pool may have workers already. */
static void join(weft_pools *pools, weft_pool *pool)
{
    atomic_ptr_store_release(&pool->family, pools); /* pairs with is_related */
    latch_acquire(pool->latch);
    pool->room = &pools->room[pools->count];
    latch_release(pool->latch);
}

int weft_pools_open(weft_pools **out, int count, int strategy, const weft_pool_options *options)
{
    if (out == NULL || count < 1 || count > WEFT_POOLS_MAX || strategy < WEFT_ROUND_ROBIN ||
        strategy > WEFT_LEAST_BUSY)
        return -EINVAL;
    weft_pools *pools = weft__os_alloc_zeroed(sizeof *pools + (size_t)count * sizeof(void *));
    if (pools == NULL)
        return -ENOMEM;
    pools->strategy = strategy;
    pools->room = weft__os_alloc_zeroed((size_t)count * sizeof(atomic_u32));
    int error = pools->room != NULL ? 0 : -ENOMEM;
    while (pools->count < count && error == 0) {
        weft_pool *pool;
        error = weft_pool_open(&pool, options);
        if (error != 0)
            break;
        atomic_u32_store_relaxed(&pools->room[pools->count], 1);
        join(pools, pool);
        pools->pools[pools->count++] = pool;
    }
    if (error != 0)
        (void)weft_pools_close(pools);
    else
        *out = pools;
    return error;
}

/* Choosing. */

/* How many tasks are in flight; a guess, as soon as the latch is released. */
static int64_t load_of(weft_pool *pool)
{
    latch_acquire(pool->latch);
    weft__shards_collect(pool);
    weft__pool_update_room(pool);
    int64_t in_flight = pool->in_flight;
    latch_release(pool->latch);
    return in_flight;
}

static uint32_t choose(weft_pools *pools)
{
    uint32_t count = (uint32_t)pools->count, turn = atomic_u32_add_relaxed(&pools->turn, 1);
    if (pools->strategy == WEFT_ROUND_ROBIN || count == 1)
        return turn % count;
    struct prng prng;
    prng_seed(&prng, turn);
    uint32_t one = prng_next(&prng) % count, other = prng_next(&prng) % (count - 1);
    other += other >= one;
    return load_of(pools->pools[one]) <= load_of(pools->pools[other]) ? one : other;
}

weft_pool *weft_pools_pick(weft_pools *pools)
{
    if (pools == NULL)
        return NULL;
    uint32_t chosen = weft__runtime_forked() ? 0 : choose(pools);
    for (uint32_t i = 0; i < (uint32_t)pools->count; i++) {
        uint32_t index = (chosen + i) % (uint32_t)pools->count;
        if (atomic_u32_load_relaxed(&pools->room[index]))
            return pools->pools[index];
    }
    return pools->pools[chosen];
}

int weft_pools_count(const weft_pools *pools)
{
    return pools != NULL ? pools->count : 0;
}

weft_pool *weft_pools_get(const weft_pools *pools, int index)
{
    return pools != NULL && index >= 0 && index < pools->count ? pools->pools[index] : NULL;
}

int weft_pools_stats(const weft_pools *pools, weft_pool_stats *stats)
{
    int error = call_error(pools != NULL && stats != NULL);
    if (error != 0)
        return error;
    weft_pool_stats sum = {.capacity = 0};
    for (int i = 0; i < pools->count; i++) {
        weft_pool_stats one;
        (void)weft_pool_stats_get(pools->pools[i], &one);
        /* All figures are int64_t, one after the other, up to the reserved ones. */
        for (size_t at = 0; at < offsetof(weft_pool_stats, reserved) / sizeof(int64_t); at++) {
            int64_t *to = (int64_t *)(void *)&sum + at;
            const int64_t *from = (const int64_t *)(const void *)&one + at;
            if (__builtin_add_overflow(*to, *from, to))
                *to = WEFT_UNLIMITED;
        }
    }
    *stats = sum;
    return 0;
}
