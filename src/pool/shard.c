/*
 * shard.c: inbox, outbox and counter of a processor.
 *
 * Problem. Under the latch each task costs the cache lines that it guards, which another CPU had
 * last: 100 to 280 ns each. An empty task takes 12 ns.
 *
 * Pattern. Each processor has a shard of the pool, whose lines stay with its CPU. Inside the
 * runtime a fiber is alone on its processor, so the owner needs no lock. Other threads reach a
 * shard under the pool's latch, each part by one exchange that closes it.
 *
 * Inbox. A worker that finds the inbox of its processor empty fills it with a chunk from the queue,
 * under the latch; all workers on that processor then take from it. `taken` of the chunk is the
 * only word shared:
 *
 *     worker, on the processor              closer, under the latch
 *     n = taken, + 1                        n = exchange of taken by count
 *     n < count? task n is its own          tasks n.. are copied to the spare chunk and are the
 *                                           first of the queue again
 *
 * The empty chunk stays with the shard until its owner forgets it, under the latch. An inbox has
 * its spare chunk from the moment at which it is filled, so closing it cannot fail. Inboxes are
 * closed when no task may begin (pause, capacity), when a task of another priority is ready, for
 * exact figures, and when nothing was taken for some time (failure.c). A worker that finds the
 * queue empty takes from any inbox, so a task in an inbox does not wait for its processor.
 *
 * A pool that runs one task at a time has no inboxes: it runs tasks in the order of their
 * admission, and its one worker may go on on another processor. Nor has a pool in which a task
 * needs more than a place to begin (`singly`).
 *
 * Outbox. Fibers that submit put plain tasks into the outbox of their processor; a whole outbox
 * goes into the queue under the latch. All places of an open outbox count as in flight. `used` is
 * the only word shared:
 *
 *     submitter, on the processor           closer, under the latch
 *     n = used; n < places?                 n = exchange of used by SHUT, which is above all places
 *     tasks[n] = the task                   the first n tasks go to the end of the queue
 *     used + 1: was it SHUT?                the other places are given back
 *     then it is not in the outbox
 *
 * So a task was put in before the exchange and is in the queue, or it comes too late and its
 * submitter takes the latch. The memory of an outbox stays with its processor, so a task that comes
 * too late is written to memory that no thread reads.
 *
 * No task is forgotten in an outbox:
 *
 *   opened     only while tasks are ready, and an active worker has its processor or one starts
 *   closed     when the task of an active worker parks, when a worker finds the queue empty, before
 *              it rests, or if it cannot be made or started; and at the second look of failure.c
 *              that finds it open
 *   full pool  a call that finds the pool full, waits for all tasks, or stops the pool closes all
 *              first, so their unused places are not missed
 *   order      none is open while submitters wait in line, which it would overtake, or while a task
 *              of low priority is ready, which would be taken first. Before a fiber offers a task
 *              of another kind the outbox of its processor is closed: its tasks keep their order
 */
#include "pool/shard.h"

#include <string.h>

#include "base/assert.h"
#include "pool/dispatch.h"

#define SHUT (UINT32_MAX / 2) /* leaves room for submitters that add to it */

struct outbox {
    _Alignas(CACHE_LINE) atomic_u32 used; /* tasks in it; SHUT and more: closed */
    uint32_t places;
    /* Under the latch. */
    bool open;
    bool seen;           /* it was open at the last look of failure.c */
    struct chunk *spare; /* of an open outbox: takes its tasks into the queue */
    struct plain_task tasks[CHUNK_PLAIN];
};

bool weft__shards_open(weft_pool *pool)
{
    uint32_t count = processor_count();
    size_t size = count * sizeof(struct shard);
    pool->shards = weft__os_alloc_aligned(CACHE_LINE, size);
    if (pool->shards == NULL)
        return false;
    memset(pool->shards, 0, size);
    pool->shard_count = count;
    return true;
}

void weft__shards_close(weft_pool *pool)
{
    for (uint32_t i = 0; i < pool->shard_count; i++) {
        struct shard *shard = &pool->shards[i];
        weft__chunk_free(shard->inbox); /* empty */
        weft__chunk_free(shard->spare);
        weft__os_free(shard->outbox);
    }
    weft__os_free(pool->shards);
}

/* Counters. */

void weft__shard_collect(weft_pool *pool, struct shard *shard)
{
    uint64_t ended = atomic_u64_load_seq_cst(&shard->ended); /* pairs with chunk_take */
    int64_t more = (int64_t)(ended - shard->counted);
    shard->counted = ended;
    pool->in_flight -= more;
    pool->stats.completed += more;
}

void weft__shards_collect(weft_pool *pool)
{
    weft__outboxes_close(pool);
    for (uint32_t i = 0; i < pool->shard_count; i++)
        weft__shard_collect(pool, &pool->shards[i]);
}

/* Inboxes. */

bool weft__inbox_fill(weft_pool *pool, struct shard *shard, struct plain_task *task)
{
    const struct queue *normal = &pool->queues[NORMAL];
    /* Inboxes only while all that is ready is plain tasks, at least two for each processor. */
    if (pool->singly || pool->capacity == 1 ||
        normal->length != atomic_i64_load_relaxed(&pool->ready) ||
        normal->length < 2 * (int64_t)processors_in_use())
        return false;
    should(shard->inbox == NULL);
    if (shard->spare == NULL && (shard->spare = weft__chunk_new(false)) == NULL)
        return false;
    shard->inbox = weft__queue_take_chunk(&pool->queues[NORMAL]);
    if (shard->inbox == NULL)
        return false;
    pool_change_ready(pool, -(int64_t)chunk_left(shard->inbox));
    pool->inboxes++;
    must(chunk_take(shard->inbox, task));
    return true;
}

void weft__inbox_clear(weft_pool *pool, struct shard *shard)
{
    if (shard->inbox == NULL || chunk_left(shard->inbox) > 0)
        return;
    weft__chunk_free(shard->inbox);
    shard->inbox = NULL;
    pool->inboxes--;
}

void weft__inbox_close(weft_pool *pool, struct shard *shard)
{
    struct chunk *inbox = shard->inbox, *spare = shard->spare;
    if (inbox == NULL || chunk_left(inbox) == 0)
        return;
    uint32_t taken = atomic_u32_exchange_acq_rel(&inbox->taken, inbox->count);
    if (taken >= inbox->count)
        return;
    spare->order = inbox->order + taken;
    spare->count = inbox->count - taken;
    memcpy(spare->slots, &inbox->slots[taken], spare->count * sizeof(struct plain_task));
    shard->spare = NULL;
    pool_change_ready(pool, spare->count);
    weft__queue_put_back(&pool->queues[NORMAL], spare);
}

void weft__shards_close_inboxes(weft_pool *pool)
{
    for (uint32_t i = 0; pool->inboxes > 0 && i < pool->shard_count; i++)
        weft__inbox_close(pool, &pool->shards[i]);
}

static void close_still(weft_pool *pool, struct shard *shard)
{
    struct chunk *inbox = shard->inbox;
    if (inbox == NULL || chunk_left(inbox) == 0)
        return;
    uint32_t taken = atomic_u32_load_relaxed(&inbox->taken);
    if (taken == inbox->seen_taken)
        weft__inbox_close(pool, shard);
    inbox->seen_taken = taken;
}

int64_t weft__inboxes_length(const weft_pool *pool)
{
    int64_t length = 0;
    for (uint32_t i = 0; pool->inboxes > 0 && i < pool->shard_count; i++)
        if (pool->shards[i].inbox != NULL)
            length += chunk_left(pool->shards[i].inbox);
    return length;
}

bool weft__inboxes_steal(weft_pool *pool, struct plain_task *task)
{
    for (uint32_t i = 0; pool->inboxes > 0 && i < pool->shard_count; i++) {
        struct chunk *inbox = pool->shards[i].inbox;
        if (inbox != NULL && chunk_left(inbox) > 0 && chunk_take(inbox, task)) {
            pool->stats.stolen++;
            return true;
        }
    }
    return false;
}

/* Outboxes. */

static void close_outbox(weft_pool *pool, struct outbox *outbox)
{
    /* Acquire: the tasks that were put in, and what their submitters wrote for them. */
    uint32_t count = atomic_u32_exchange_acq_rel(&outbox->used, SHUT);
    must(count <= outbox->places);
    outbox->open = false;
    pool->outboxes--;
    pool->in_flight -= outbox->places - count;
    pool->stats.submitted += count;
    weft__queue_append(&pool->queues[NORMAL], outbox->tasks, count, outbox->spare);
    pool_change_ready(pool, count);
}

void weft__outbox_close(weft_pool *pool, struct shard *shard)
{
    if (shard->outbox != NULL && shard->outbox->open)
        close_outbox(pool, shard->outbox);
}

void weft__outboxes_close(weft_pool *pool)
{
    for (uint32_t i = 0; pool->outboxes > 0 && i < pool->shard_count; i++)
        weft__outbox_close(pool, &pool->shards[i]);
}

void weft__shards_close_still(weft_pool *pool)
{
    for (uint32_t i = 0; i < pool->shard_count; i++) {
        struct shard *shard = &pool->shards[i];
        close_still(pool, shard);
        if (shard->outbox == NULL || !shard->outbox->open)
            continue;
        if (shard->outbox->seen)
            close_outbox(pool, shard->outbox);
        else
            shard->outbox->seen = true;
    }
}

/* Outboxes may be used, and the pool is so large that they pay. */
static bool outboxes_suit(const weft_pool *pool)
{
    return !pool->singly && !pool->paused && pool->state == POOL_OPEN && pool->capacity > 1 &&
           pool_limit(pool) >= OUTBOX_LIMIT &&
           pool_limit(pool) >= 4 * OUTBOX_LEAST * (int64_t)pool->shard_count;
}

static struct outbox *make_outbox(void)
{
    struct outbox *outbox = weft__os_alloc_aligned(CACHE_LINE, sizeof *outbox);
    if (outbox == NULL)
        return NULL;
    outbox->open = false;
    outbox->places = 0;
    atomic_u32_store_relaxed(&outbox->used, SHUT);
    return outbox;
}

static bool open_outbox(weft_pool *pool, struct shard *shard)
{
    int64_t room = (pool_limit(pool) - pool->in_flight) / (2 * (int64_t)pool->shard_count);
    if (room < OUTBOX_LEAST || atomic_i64_load_relaxed(&pool->ready) == 0 ||
        pool->line.length > 0 || pool->queues[LOW].length > 0 ||
        !weft__workers_suffice(pool, false))
        return false;
    if (shard->outbox == NULL && (shard->outbox = make_outbox()) == NULL)
        return false;
    struct outbox *outbox = shard->outbox;
    outbox->spare = weft__chunk_new(false);
    if (outbox->spare == NULL)
        return false;
    outbox->places = room < CHUNK_PLAIN ? (uint32_t)room : CHUNK_PLAIN;
    outbox->open = true;
    outbox->seen = false;
    atomic_u32_store_relaxed(&outbox->used, 0); /* closers read it under the latch */
    pool->in_flight += outbox->places;
    pool->outboxes++;
    return true;
}

bool weft__outbox_renew(weft_pool *pool)
{
    struct shard *shard = shard_here(pool);
    if (shard == NULL)
        return false;
    weft__outbox_close(pool, shard);
    return outboxes_suit(pool) && open_outbox(pool, shard);
}

bool weft__outbox_put(weft_pool *pool, void (*function)(void *), void *arg)
{
    struct shard *shard = shard_here(pool);
    struct outbox *outbox = likely(shard != NULL) ? shard->outbox : NULL;
    if (unlikely(outbox == NULL))
        return false;
    uint32_t count = atomic_u32_load_relaxed(&outbox->used);
    if (unlikely(count >= outbox->places))
        return false;
    outbox->tasks[count] = (struct plain_task){function, arg};
    return atomic_u32_add_acq_rel(&outbox->used, 1) < SHUT;
}
