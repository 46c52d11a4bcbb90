/*
 * stats.c: the figures of a pool, of one moment.
 *
 * Outboxes and inboxes are closed under the latch first. Then all tasks that have not begun are in
 * the queue, and all that have begun either run or are counted as ended.
 */
#include <errno.h>

#include "pool/admission.h"
#include "pool/shard.h"
#include "pool/worker.h"

int weft_pool_stats_get(weft_pool *pool, weft_pool_stats *stats)
{
    int error = call_error(pool != NULL && stats != NULL);
    if (error != 0)
        return error;
    latch_acquire(pool->latch);
    weft__shards_close_inboxes(pool);
    weft__shards_collect(pool);
    *stats = pool->stats;
    int64_t waiting = atomic_i64_load_relaxed(&pool->ready) + pool->held;
    stats->capacity = pool->capacity;
    stats->queue = pool->queue_size;
    stats->running = pool->in_flight - waiting;
    /* Free places: each running task holds one, unless the place is lent or the task runs in its
     * submitter. */
    int64_t places = pool->capacity - (stats->running - pool->lent - pool->caller_runs);
    stats->starting = places < 0 ? 0 : waiting < places ? waiting : places;
    stats->queued = waiting - stats->starting;
    stats->lending = pool->lent;
    stats->below = pool->below;
    stats->blocked = pool->line.length;
    stats->schedules = pool->schedules.length;
    stats->workers = pool->workers;
    stats->idle = pool->idle.length;
    latch_release(pool->latch);
    return 0;
}

void *weft_pool_worker_state(void)
{
    const struct worker *worker = weft__caller_run() == NULL ? weft__worker_self() : NULL;
    return worker != NULL ? worker->user_state : NULL;
}
