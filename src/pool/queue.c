/*
 * queue.c: see queue.h.
 */
#include "pool/queue.h"

#include <string.h>

#include "base/assert.h"
#include "base/sys.h"

static uint32_t slot_size(bool copied)
{
    return (uint32_t)(sizeof(struct task) + (copied ? WEFT_COPY_MAX : 0));
}

static struct task *task_at(struct chunk *chunk, uint32_t index)
{
    return (struct task *)(void *)(chunk->slots + (size_t)index * chunk->slot);
}

static uint32_t chunk_room(const struct chunk *chunk)
{
    return (uint32_t)(CHUNK_SIZE - sizeof *chunk) / chunk->slot;
}

static struct chunk *chunk_new(uint32_t slot)
{
    struct chunk *chunk = weft__sys_alloc(CHUNK_SIZE);
    if (chunk != NULL)
        *chunk = (struct chunk){.slot = slot};
    return chunk;
}

bool weft__chunk_take(struct chunk *chunk, struct carried *carried)
{
    /* seq_cst: the worker's half of its order with those who wait for tasks to end (pool.c). */
    uint32_t index = atomic_u32_add_seq_cst(&chunk->taken, 1);
    if (index >= chunk->count)
        return false;
    const struct task *task = task_at(chunk, index);
    carried->task = *task;
    if (task->copied != 0) {
        memcpy(carried->copy, task + 1, task->copied);
        carried->task.arg = carried->copy;
    }
    return true;
}

struct chunk *weft__chunk_split(struct chunk *chunk)
{
    struct chunk *rest = chunk_left(chunk) > 0 ? chunk_new(chunk->slot) : NULL;
    if (rest == NULL)
        return NULL;
    uint32_t taken = atomic_u32_exchange_acq_rel(&chunk->taken, chunk->count);
    if (taken >= chunk->count) {
        weft__sys_free(rest);
        return NULL;
    }
    rest->count = chunk->count - taken;
    rest->priority = chunk->priority;
    memcpy(rest->slots, task_at(chunk, taken), (size_t)rest->count * chunk->slot);
    return rest;
}

bool weft__queue_push(struct queue *queue, const struct task *task, const void *copy)
{
    struct chunk *last = queue->last;
    uint32_t slot = slot_size(task->copied != 0);
    if (last == NULL || last->slot != slot || last->count == chunk_room(last)) {
        last = chunk_new(slot);
        if (last == NULL)
            return false;
        if (queue->last != NULL)
            queue->last->next = last;
        else
            queue->first = last;
        queue->last = last;
    }
    struct task *place = task_at(last, last->count);
    *place = *task;
    if (task->copied != 0)
        memcpy(place + 1, copy, task->copied);
    last->count++;
    queue->length++;
    return true;
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

bool weft__queue_pop(struct queue *queue, struct carried *carried)
{
    if (queue->length == 0)
        return false;
    must(weft__chunk_take(queue->first, carried));
    queue->length--;
    if (chunk_left(queue->first) == 0)
        weft__sys_free(unlink_first(queue));
    return true;
}

struct chunk *weft__queue_take_chunk(struct queue *queue)
{
    must(queue->length > 0);
    struct chunk *chunk = unlink_first(queue);
    queue->length -= chunk_left(chunk);
    return chunk;
}

void weft__queue_put_back(struct queue *queue, struct chunk *chunk)
{
    uint32_t left = chunk_left(chunk);
    if (left == 0) {
        weft__sys_free(chunk);
        return;
    }
    chunk->next = queue->first;
    queue->first = chunk;
    if (queue->last == NULL)
        queue->last = chunk;
    queue->length += left;
}
