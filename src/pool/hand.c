/*
 * hand.c: tasks in hand: taken out of the queue by the chunk, and run without the latch.
 *
 * A taker has a hand of its own, and puts back what is in it before its task parks (worker.c). Where tasks wait that
 * would be for one task: there each processor has a hand for the pool. A worker whose task has waited, and has ended,
 * takes its next task out of the hand of the processor that it runs on; one that finds it empty fills it, under the
 * latch. Inside the runtime it is the only one on its processor, so this hand needs no lock either. What has ended is
 * counted in the hand as well, for those who collect (pool.h).
 *
 * Nobody is told when a worker parks that has left tasks in such a hand. That they are not forgotten:
 *  - tasks in these hands count as ready for who decides whether a taker is wanted, or whether a worker may rest;
 *  - who finds the queue empty takes them out, on whichever processor it is;
 *  - a hand from which nothing is taken for some time is emptied, and its tasks are the first of the queue again:
 *    every fourth worker that has the latch looks at one of them, and rescue.c at all now and then. So none of them is
 *    overtaken by more than some chunks.
 *
 * A pool that runs one task at a time runs them in the order in which they came, so it has no such hands: its worker, when
 * its task has waited, may be on another processor, and would leave what it has here behind.
 *
 * hand->chunk is changed under the latch by the owner of the processor: with either it may be read.
 */
#include "base/assert.h"
#include "pool/pool.h"

#include <string.h>

/* So many workers have the latch for each look at a hand: it takes lines from the CPU that writes them with each task. */
enum { LOOK_EVERY = 4 };

bool weft__hands_make(weft_pool *pool)
{
    size_t size = weft__sched.processor_count * sizeof(struct hand);
    pool->hands = weft__sys_alloc_aligned(CACHE_LINE, size);
    if (pool->hands == NULL)
        return false;
    memset(pool->hands, 0, size);
    pool->hand_count = weft__sched.processor_count;
    return true;
}

void weft__hands_free(weft_pool *pool)
{
    for (uint32_t i = 0; i < pool->hand_count; i++) {
        weft__chunk_free(pool->hands[i].chunk); /* empty */
        weft__tray_free(pool->hands[i].tray);
    }
    weft__sys_free(pool->hands);
}

bool weft__hand_take(struct worker *worker, struct task *task)
{
    struct hand *hand = hand_here(worker->pool);
    if (hand == NULL || hand->chunk == NULL)
        return false;
    uint32_t ended = atomic_u32_load_relaxed(&worker->ended);
    /* Release: who counts it sees what the tasks did. Before the take: pool.h. */
    atomic_u64_store_release(&hand->ended,
                             atomic_u64_load_relaxed(&hand->ended) + (ended - worker->counted));
    worker->counted = ended;
    return weft__chunk_take(hand->chunk, task);
}

void weft__helper_comes(struct worker *worker)
{
    struct hand *hand = hand_here(worker->pool);
    worker->state = WORKER_AWAY;
    if (hand != NULL)
        atomic_u64_store_relaxed(&hand->came, atomic_u64_load_relaxed(&hand->came) + 1);
}

/* Under the latch, in which all is. */

int64_t weft__helpers_coming(const weft_pool *pool)
{
    uint64_t came = 0;
    for (uint32_t i = 0; i < pool->hand_count; i++)
        came += atomic_u64_load_relaxed(&pool->hands[i].came);
    return (int64_t)(pool->helpers - came);
}

struct chunk *weft__pool_take_chunk(weft_pool *pool)
{
    for (int priority = 0; priority < PRIORITIES; priority++) {
        struct queue *queue = &pool->queues[priority];
        if (queue->length == 0)
            continue;
        /* All that is ready is of one priority, and there is a chunk for each processor. */
        if (queue->length != atomic_i64_load_relaxed(&pool->ready) ||
            queue->length < 2 * (int64_t)weft__sched.processor_count)
            return NULL;
        struct chunk *chunk = weft__queue_take_chunk(queue);
        chunk->priority = (uint8_t)priority;
        change_ready(pool, -(int64_t)chunk_left(chunk));
        return chunk;
    }
    return NULL;
}

bool weft__hand_fill(weft_pool *pool, struct task *task)
{
    struct hand *hand = hand_here(pool);
    if (hand == NULL || pool->capacity == 1)
        return false;
    must(hand->chunk == NULL); /* the caller found nothing in it, and has cleared it */
    hand->chunk = weft__pool_take_chunk(pool);
    if (hand->chunk == NULL)
        return false;
    pool->hands_used++;
    pool->hands_uncounted = true;
    must(weft__chunk_take(hand->chunk, task));
    return true;
}

void weft__hand_clear(weft_pool *pool)
{
    struct hand *hand = hand_here(pool);
    if (hand == NULL || hand->chunk == NULL || chunk_left(hand->chunk) > 0)
        return;
    weft__chunk_free(hand->chunk);
    hand->chunk = NULL;
    pool->hands_used--;
}

void weft__pool_return_chunk(weft_pool *pool, struct chunk *chunk)
{
    change_ready(pool, chunk_left(chunk));
    weft__queue_put_back(&pool->queues[chunk->priority], chunk);
}

void weft__hand_put_back(weft_pool *pool)
{
    struct hand *hand = hand_here(pool);
    if (hand == NULL || hand->chunk == NULL)
        return;
    weft__pool_return_chunk(pool, hand->chunk);
    hand->chunk = NULL;
    pool->hands_used--;
}

void weft__pool_empty_chunk(weft_pool *pool, struct chunk *chunk)
{
    struct chunk *rest = chunk != NULL ? weft__chunk_split(chunk) : NULL;
    if (rest != NULL)
        weft__pool_return_chunk(pool, rest);
}

void weft__pool_empty_hands(weft_pool *pool, int above)
{
    trays_close(pool);
    for (struct worker *worker = worker_of(pool->takers.first); worker != NULL;
         worker = worker_of(worker->link.next))
        if (worker->chunk != NULL && worker->chunk->priority > above)
            weft__pool_empty_chunk(pool, worker->chunk);
    for (uint32_t i = 0; pool->hands_used > 0 && i < pool->hand_count; i++)
        if (pool->hands[i].chunk != NULL && pool->hands[i].chunk->priority > above)
            weft__pool_empty_chunk(pool, pool->hands[i].chunk);
}

void weft__pool_empty_if_still(weft_pool *pool, struct chunk *chunk)
{
    if (chunk == NULL || chunk_left(chunk) == 0)
        return;
    uint32_t taken = atomic_u32_load_relaxed(&chunk->taken);
    if (taken == chunk->watched)
        weft__pool_empty_chunk(pool, chunk);
    chunk->watched = taken;
}

void weft__hands_look(weft_pool *pool, bool all)
{
    if (!all && pool->hand_visits++ % LOOK_EVERY != 0)
        return;
    for (uint32_t i = 0;
         (pool->hands_used > 0 || pool->trays_open > 0) && i < (all ? pool->hand_count : 1); i++) {
        struct hand *hand = &pool->hands[pool->hand_looked++ % pool->hand_count];
        weft__pool_empty_if_still(pool, hand->chunk);
        weft__tray_look(pool, hand);
    }
}

int64_t weft__hands_length(const weft_pool *pool)
{
    int64_t length = 0;
    for (uint32_t i = 0; pool->hands_used > 0 && i < pool->hand_count; i++)
        if (pool->hands[i].chunk != NULL)
            length += chunk_left(pool->hands[i].chunk);
    return length;
}

void weft__hands_count(weft_pool *pool)
{
    for (uint32_t i = 0; i < pool->hand_count; i++) {
        struct hand *hand = &pool->hands[i];
        uint64_t ended = atomic_u64_load_seq_cst(&hand->ended); /* pairs with chunk_take: pool.h */
        int64_t more = (int64_t)(ended - hand->counted);
        hand->counted = ended;
        pool->inside -= more;
        pool->stats.completed += more;
    }
    pool->hands_uncounted = pool->hands_used > 0;
}

static bool steal_from(weft_pool *pool, struct chunk *chunk, struct task *task)
{
    if (chunk == NULL || chunk_left(chunk) == 0 || !weft__chunk_take(chunk, task))
        return false;
    pool->stats.stolen++;
    return true;
}

bool weft__pool_steal(weft_pool *pool, struct task *task)
{
    for (uint32_t i = 0; pool->hands_used > 0 && i < pool->hand_count; i++)
        if (steal_from(pool, pool->hands[i].chunk, task))
            return true;
    for (struct worker *worker = worker_of(pool->takers.first); worker != NULL;
         worker = worker_of(worker->link.next))
        if (steal_from(pool, worker->chunk, task))
            return true;
    return false;
}
