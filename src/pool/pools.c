/*
 * pools.c: several pools behind one door.
 */
#include <errno.h>
#include <weft/pools.h>

#include "base/assert.h"
#include "pool/pool.h"

struct weft_pools {
    int count, strategy;
    atomic_u32 turn;
    weft_pool *pools[];
};

/* All are stopped before any is freed: their tasks may submit to each other. */
int weft_pools_close(weft_pools *pools)
{
    if (pools == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    for (int i = 0; i < pools->count; i++)
        if (weft__pool_role(pools->pools[i]) != ROLE_STRANGER)
            return -EDEADLK;
    for (int i = 0; i < pools->count; i++)
        must(weft__pool_stop_firmly(pools->pools[i]) == 0);
    for (int i = 0; i < pools->count; i++)
        must(weft_pool_close(pools->pools[i]) == 0);
    weft__sys_free(pools);
    return 0;
}

int weft_pools_open(weft_pools **out, int count, int strategy, const weft_pool_options *options)
{
    if (out == NULL || count < 1 || count > WEFT_POOLS_MAX || strategy < WEFT_ROUND_ROBIN ||
        strategy > WEFT_LEAST_BUSY)
        return -EINVAL;
    weft_pools *pools = weft__sys_alloc_zeroed(sizeof *pools + (size_t)count * sizeof(void *));
    if (pools == NULL)
        return -ENOMEM;
    pools->strategy = strategy;
    int error = 0;
    while (pools->count < count && error == 0) {
        error = weft_pool_open(&pools->pools[pools->count], options);
        pools->count += error == 0;
    }
    if (error != 0)
        (void)weft_pools_close(pools);
    else
        *out = pools;
    return error;
}

/* Which one is offered a task first. What is inside a pool is read without its latch: a guess. */
static int choose(weft_pools *pools)
{
    uint32_t turn = atomic_u32_add_relaxed(&pools->turn, 1) % (uint32_t)pools->count;
    if (pools->strategy == WEFT_ROUND_ROBIN)
        return (int)turn;
    int best = (int)turn;
    for (int i = 1; i < pools->count; i++) {
        int other = (int)((turn + (uint32_t)i) % (uint32_t)pools->count);
        if (weft__pool_inside(pools->pools[other]) < weft__pool_inside(pools->pools[best]))
            best = other;
    }
    return best;
}

int weft_pools_submit_until(weft_pools *pools, void (*function)(void *), void *arg,
                            int64_t deadline)
{
    if (pools == NULL || function == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    int chosen = choose(pools);
    for (int i = 0; i < pools->count; i++) {
        weft_pool *pool = pools->pools[(chosen + i) % pools->count];
        if (weft__pool_has_room(pool))
            return weft_pool_submit_until(pool, function, arg, deadline);
    }
    return weft_pool_submit_until(pools->pools[chosen], function, arg, deadline);
}

int weft_pools_submit(weft_pools *pools, void (*function)(void *), void *arg)
{
    return weft_pools_submit_until(pools, function, arg, WEFT_NEVER);
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
    if (pools == NULL || stats == NULL)
        return -EINVAL;
    weft_pool_stats sum = {.capacity = 0};
    for (int i = 0; i < pools->count; i++) {
        weft_pool_stats one;
        (void)weft_pool_stats_get(pools->pools[i], &one);
        if (__builtin_add_overflow(sum.capacity, one.capacity, &sum.capacity))
            sum.capacity = WEFT_UNLIMITED;
        sum.running += one.running;
        sum.queued += one.queued;
        sum.blocked += one.blocked;
        sum.workers += one.workers;
        sum.idle += one.idle;
        sum.most_workers += one.most_workers;
        sum.submitted += one.submitted;
        sum.completed += one.completed;
        sum.panicked += one.panicked;
        sum.handlers_panicked += one.handlers_panicked;
        sum.crashed += one.crashed;
        sum.rejected += one.rejected;
        sum.dropped += one.dropped;
        sum.cancelled += one.cancelled;
        sum.stolen += one.stolen;
    }
    *stats = sum;
    return 0;
}
