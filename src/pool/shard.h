/*
 * shard.h: the part of a pool that belongs to a processor: tasks to run, tasks submitted, a
 * counter.
 */
#ifndef WEFT_POOL_SHARD_H
#define WEFT_POOL_SHARD_H

#include "pool/pool_internal.h"

bool weft__shards_open(weft_pool *pool);
void weft__shards_close(weft_pool *pool);

/* Inside the runtime: the shard of the caller's processor; NULL: the processor is newer than the
 * pool. */
static inline struct shard *shard_here(const weft_pool *pool)
{
    uint32_t index = thread_self()->processor->index;
    return likely(index < pool->shard_count) ? &pool->shards[index] : NULL;
}

/* On the shard's processor, inside the runtime. */

/* Counts the end of a task. */
static inline void shard_count_end(struct shard *shard)
{
    /* Release: the thread that collects it sees what the task did. */
    atomic_u64_store_release(&shard->ended, atomic_u64_load_relaxed(&shard->ended) + 1);
}

/* Takes the next task from the inbox; false: it is empty. */
static inline bool shard_take(struct shard *shard, struct plain_task *task)
{
    return shard->inbox != NULL && chunk_take(shard->inbox, task);
}

/* Puts a plain task into the outbox; false: the outbox is full, or not open. */
bool weft__outbox_put(weft_pool *pool, void (*function)(void *), void *arg);
/* Under the latch: closes the outbox of the processor and opens it again; false: it may not be
 * open. */
bool weft__outbox_renew(weft_pool *pool);
/* Under the latch: fills the inbox with a chunk, and takes its first task; false: no chunk may be
 * taken. */
bool weft__inbox_fill(weft_pool *pool, struct shard *shard, struct plain_task *task);
/* Under the latch: forgets the inbox if it is empty. */
void weft__inbox_clear(weft_pool *pool, struct shard *shard);

/* From anywhere, under the latch. */

/* Subtracts from in_flight what has ended in the shard, or in all shards, since the last time.
 * Collecting all closes the outboxes too. */
void weft__shard_collect(weft_pool *pool, struct shard *shard);
void weft__shards_collect(weft_pool *pool);
/* Closes all outboxes: their tasks go into the queue. */
void weft__outboxes_close(weft_pool *pool);
/* Closes the outbox of one shard. */
void weft__outbox_close(weft_pool *pool, struct shard *shard);
/* Closes all inboxes, or one: their tasks go back into the queue. */
void weft__shards_close_inboxes(weft_pool *pool);
void weft__inbox_close(weft_pool *pool, struct shard *shard);
/* Closes every inbox from which nothing was taken, and every outbox that was open, since the
 * last call. */
void weft__shards_close_still(weft_pool *pool);
/* The number of tasks in inboxes. */
int64_t weft__inboxes_length(const weft_pool *pool);
/* Takes a task from any inbox; false: all are empty. */
bool weft__inboxes_steal(weft_pool *pool, struct plain_task *task);

#endif
