/*
 * queue.c: chunks and queues of tasks that have not begun; queue.h has the structure.
 *
 * Memory. Chunks come from the slabs: what a queue gives back serves workers next, and the memory
 * of a flood does not stay with its queue. Under a sanitizer they come from the allocator that it
 * watches. A chunk that begins behind a record is small, so that a queue in which kinds alternate
 * does not take a large chunk for each plain task.
 *
 * Inboxes and outboxes (shard.c) hold plain tasks, which have normal priority. While tasks of other
 * priorities are ready, inboxes are closed; while low ones are, outboxes are too. So each task is
 * taken by the rule of weft__pool_pop.
 *
 * Rejected: keeping the last, empty chunk of a queue: its lines go from CPU to CPU with each task,
 * pool_sleep 0.45 s to 0.60 s.
 */
#include "pool/queue.h"

#include <string.h>

#include "base/assert.h"
#include "pool/context.h"
#include "pool/keys.h"
#include "pool/lending.h"
#include "pool/pool_internal.h"
#include "pool/shard.h"
#include "pool/subpools.h"
#include "stack/slab.h"

/* Of nine tasks taken at least one is not high, and of ninety at least one is low, if any wait. */
enum { HIGH_MOST = 8, NORMAL_MOST = 9 };

/* Chunks. */

struct chunk *weft__chunk_new(bool small)
{
    size_t size = small ? SMALL_CHUNK_BYTES : CHUNK_BYTES;
#if WEFT_ASAN || WEFT_TSAN
    struct chunk *chunk = weft__os_alloc(size);
#else
    size_t room;
    struct chunk *chunk = weft__os_alloc_fails() ? NULL : weft__slab_get(size, &room);
#endif
    if (chunk == NULL)
        return NULL;
    for (size_t at = 0; at < size && at < FETCH_WRITES * sizeof(struct plain_task);
         at += FETCH_LINE)
        fetch_line_to_write((const char *)chunk + at);
    *chunk = (struct chunk){.room = (uint32_t)((size - sizeof *chunk) / sizeof(struct plain_task))};
    return chunk;
}

void weft__chunk_free(struct chunk *chunk)
{
    if (chunk == NULL)
        return;
#if WEFT_ASAN || WEFT_TSAN
    weft__os_free(chunk);
#else
    weft__slab_put(chunk, chunk->room == CHUNK_PLAIN ? CHUNK_BYTES : SMALL_CHUNK_BYTES);
#endif
}

static void link_last(struct queue *queue, struct chunk *chunk)
{
    chunk->order = queue->next_order;
    if (queue->last != NULL)
        queue->last->next = chunk;
    else
        queue->first = chunk;
    queue->last = chunk;
}

static struct chunk *unlink_first(struct queue *queue)
{
    struct chunk *chunk = queue->first;
    queue->first = chunk->next;
    if (queue->first == NULL)
        queue->last = NULL;
    chunk->next = NULL;
    return chunk;
}

/* Plain tasks. */

bool weft__queue_push(struct queue *queue, void (*function)(void *), void *arg)
{
    if (queue_push_quickly(queue, function, arg))
        return true;
    struct chunk *chunk = weft__chunk_new(queue->tasks.length > 0);
    if (chunk == NULL)
        return false;
    link_last(queue, chunk);
    must(queue_push_quickly(queue, function, arg));
    return true;
}

void weft__queue_append(struct queue *queue, const struct plain_task *tasks, uint32_t count,
                        struct chunk *spare)
{
    struct chunk *last = queue->last;
    if (count == 0 || (last != NULL && last->count + count <= last->room &&
                       last->order + last->count == queue->next_order)) {
        weft__chunk_free(spare);
    } else {
        link_last(queue, spare);
        last = spare;
    }
    if (count == 0)
        return;
    memcpy(&last->slots[last->count], tasks, count * sizeof *tasks);
    last->count += count;
    queue->next_order += count;
    queue->length += count;
}

uint64_t weft__queue_plain_order(const struct queue *queue)
{
    const struct chunk *first = queue->first;
    return first != NULL ? first->order + atomic_u32_load_relaxed(&first->taken) : UINT64_MAX;
}

void weft__queue_pop_plain(struct queue *queue, struct plain_task *plain)
{
    struct chunk *first = queue->first;
    must(chunk_take(first, plain));
    queue->length--;
    if (chunk_left(first) > 0)
        return;
    weft__chunk_free(unlink_first(queue));
}

/* Records. */

static void enter_queue(struct task *task)
{
    should(task->place != TASK_READY);
    task->place = TASK_READY;
}

void weft__queue_add(struct queue *queue, struct task *task)
{
    enter_queue(task);
    task->order = queue->next_order++;
    line_add(&queue->tasks, &task->link);
    queue->length++;
}

void weft__queue_add_first(struct queue *queue, struct task *task)
{
    enter_queue(task);
    line_add_first(&queue->tasks, &task->link);
    queue->length++;
}

void weft__queue_remove(struct queue *queue, struct task *task)
{
    should(task->place == TASK_READY);
    line_leave(&queue->tasks, &task->link);
    queue->length--;
    task->place = TASK_NOWHERE;
}

struct task *weft__queue_pop(struct queue *queue, struct plain_task *plain)
{
    must(queue->length > 0);
    struct task *task = task_of(queue->tasks.first);
    if (task != NULL && task->order < weft__queue_plain_order(queue)) {
        weft__queue_remove(queue, task);
        return task;
    }
    weft__queue_pop_plain(queue, plain);
    return NULL;
}

/* Chunks as a whole. */

struct chunk *weft__queue_take_chunk(struct queue *queue)
{
    const struct task *task = task_of(queue->tasks.first);
    uint64_t order = weft__queue_plain_order(queue);
    if (order == UINT64_MAX || (task != NULL && task->order < order))
        return NULL;
    struct chunk *chunk = unlink_first(queue);
    queue->length -= chunk_left(chunk);
    return chunk;
}

void weft__queue_put_back(struct queue *queue, struct chunk *chunk)
{
    uint32_t left = chunk_left(chunk);
    if (left == 0) {
        weft__chunk_free(chunk);
        return;
    }
    struct chunk **place = &queue->first;
    while (*place != NULL && (*place)->order < chunk->order) /* chunks that were put back before */
        place = &(*place)->next;
    chunk->next = *place;
    *place = chunk;
    if (chunk->next == NULL)
        queue->last = chunk;
    queue->length += left;
}

/* The queues of a pool. */

bool weft__pool_put_plain(weft_pool *pool, void (*function)(void *), void *arg)
{
    if (!weft__queue_push(&pool->queues[NORMAL], function, arg))
        return false;
    pool_change_ready(pool, 1);
    return true;
}

static void put_ready(weft_pool *pool, struct task *task, bool urgent)
{
    task->queue = (uint8_t)(urgent ? URGENT : queue_index(task->priority));
    if (task->queue != NORMAL)
        weft__shards_close_inboxes(pool);
    if (task->queue == LOW)
        weft__outboxes_close(pool);
    if (urgent && unlikely(pool->in_tree))
        weft__tree_note_urgent(pool, task);
    if (urgent)
        weft__queue_add_first(&pool->queues[URGENT], task);
    else
        weft__queue_add(&pool->queues[task->queue], task);
    pool_change_ready(pool, 1);
}

static struct task *task_of_age(struct link *link)
{
    return link != NULL ? container_of(link, struct task, age_link) : NULL;
}

void weft__pool_put(weft_pool *pool, struct task *task)
{
    int index = queue_index(task->priority);
    task->age = pool->queues[index].next_order++;
    line_add(&pool->ages[index], &task->age_link);
    if (task->awaited != NULL)
        weft__awaited_put(task->awaited, task);
    if (task->key == 0 || weft__keys_put(pool, task))
        put_ready(pool, task, task_lenders(task) > 0);
}

/* A record leaves its queue for good. */
static void leave_lists(weft_pool *pool, struct task *task)
{
    line_leave(&pool->ages[queue_index(task->priority)], &task->age_link);
    if (task->awaited != NULL)
        weft__awaited_begin(task->awaited, task);
}

static void begin(weft_pool *pool, struct task *task)
{
    leave_lists(pool, task);
    running_add(pool, task);
    task_begin(task);
    if (task->awaited != NULL)
        weft__awaited_expedite(pool, task->awaited);
}

/* The index of the queue from which the next task is taken; QUEUES: all are empty. */
static int choose(weft_pool *pool)
{
    const struct queue *queues = pool->queues;
    if (queues[URGENT].length > 0)
        return URGENT;
    bool normal = queues[NORMAL].length > 0, low = queues[LOW].length > 0;
    if (queues[HIGH].length > 0 && !((normal || low) && pool->since_high >= HIGH_MOST)) {
        pool->since_high += normal || low;
        return HIGH;
    }
    if (!normal && !low)
        return QUEUES;
    pool->since_high = 0;
    if (!normal || (low && pool->since_normal >= NORMAL_MOST)) {
        pool->since_normal = 0;
        return LOW;
    }
    pool->since_normal = (uint8_t)(low ? pool->since_normal + 1 : 0);
    return NORMAL;
}

bool weft__pool_pop(weft_pool *pool, struct plain_task *plain, struct task **record)
{
    int index = choose(pool);
    if (index == QUEUES)
        return false;
    *record = weft__queue_pop(&pool->queues[index], plain);
    pool_change_ready(pool, -1);
    if (*record != NULL)
        begin(pool, *record);
    return true;
}

void weft__pool_remove(weft_pool *pool, struct task *task)
{
    should(!task->begun);
    bool held = task->place == TASK_HELD;
    if (held) {
        weft__keys_remove(pool, task);
    } else {
        weft__queue_remove(&pool->queues[task->queue], task);
        pool_change_ready(pool, -1);
    }
    leave_lists(pool, task);
    if (!held)
        weft__pool_task_gone(pool, task);
    if (task->awaited != NULL)
        weft__awaited_removed(task->awaited);
}

void weft__pool_task_gone(weft_pool *pool, struct task *task)
{
    struct task *next = task->key != 0 ? weft__keys_next(pool, task) : NULL;
    if (next != NULL)
        put_ready(pool, next, task_lenders(next) > 0 || next->key_wanted > 0);
}

void weft__pool_expedite(weft_pool *pool, struct task *task)
{
    if (task->place == TASK_HELD) {
        task = weft__keys_first(pool, task);
        task->key_wanted++;
    }
    if (task->place != TASK_READY || task->queue == URGENT)
        return;
    weft__queue_remove(&pool->queues[task->queue], task);
    pool_change_ready(pool, -1);
    put_ready(pool, task, true);
}

void weft__pool_expedite_no_more(weft_pool *pool, struct task *task)
{
    if (task->place == TASK_HELD)
        weft__keys_first(pool, task)->key_wanted--;
}

bool weft__pool_pop_oldest(weft_pool *pool, const uint64_t *before, struct plain_task *plain,
                           struct task **record)
{
    for (int index = LOW; index >= HIGH; index--) {
        uint64_t limit = before != NULL ? before[index] : UINT64_MAX;
        struct task *task = task_of_age(pool->ages[index].first);
        uint64_t age = task != NULL ? task->age : UINT64_MAX;
        uint64_t plain_order = weft__queue_plain_order(&pool->queues[index]);
        *record = NULL;
        if (age < plain_order && age < limit) {
            weft__pool_remove(pool, task);
            *record = task;
            return true;
        }
        if (plain_order < limit) {
            weft__queue_pop_plain(&pool->queues[index], plain);
            pool_change_ready(pool, -1);
            return true;
        }
    }
    return false;
}
