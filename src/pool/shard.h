/*
 * shard.h: the part of a pool that belongs to a processor: tasks to run, tasks submitted, a
 * counter.
 */
#ifndef WEFT_POOL_SHARD_H
#define WEFT_POOL_SHARD_H

#include "pool/pool_internal.h"

bool weft__shards_open(weft_pool *pool);
void weft__shards_close(weft_pool *pool);

/* The shard of the caller's processor, inside the runtime; NULL: there are more processors than
 * when the pool was opened. */
static inline struct shard *shard_here(const weft_pool *pool)
{
    uint32_t index = thread_self()->processor->index;
    return likely(index < pool->shard_count) ? &pool->shards[index] : NULL;
}

/* On the processor, inside the runtime. */

/* A task has ended. */
static inline void shard_count_end(struct shard *shard)
{
    /* Release: who collects it sees what the task did. */
    atomic_u64_store_release(&shard->ended, atomic_u64_load_relaxed(&shard->ended) + 1);
}

/* Takes the next task of the inbox. */
static inline bool shard_take(struct shard *shard, struct plain_task *task)
{
    return shard->inbox != NULL && chunk_take(shard->inbox, task);
}

/* Puts a plain task into the outbox; false: it is full, or not open. */
bool weft__outbox_put(weft_pool *pool, void (*function)(void *), void *arg);
/* Under the latch: closes the outbox of the processor, and opens it anew; false: it may not be. */
bool weft__outbox_renew(weft_pool *pool);
/* Under the latch: a chunk for the inbox, of which the first task is taken; false: there is none
 * to be had. */
bool weft__inbox_fill(weft_pool *pool, struct shard *shard, struct plain_task *task);
/* Under the latch: forgets an inbox that is empty. */
void weft__inbox_clear(weft_pool *pool, struct shard *shard);

/* From anywhere, under the latch. */

/* Takes from `inside` what has ended in the shard, or in all, since the last time. */
void weft__shard_collect(weft_pool *pool, struct shard *shard);
void weft__shards_collect(weft_pool *pool);
/* Closes the outboxes: what is in them is in the queue. */
void weft__outboxes_close(weft_pool *pool);
/* Closes the outbox of one shard. */
void weft__outbox_close(weft_pool *pool, struct shard *shard);
/* Closes the inboxes: none of the tasks in them begins, they are in the queue. */
void weft__shards_close_inboxes(weft_pool *pool);
void weft__inbox_close(weft_pool *pool, struct shard *shard);
/* Closes every inbox from which nothing was taken, and every outbox that was open, since the
 * last call. */
void weft__shards_close_still(weft_pool *pool);
/* Tasks in inboxes. */
int64_t weft__inboxes_length(const weft_pool *pool);
/* A task out of any inbox. */
bool weft__inboxes_steal(weft_pool *pool, struct plain_task *task);

#endif
