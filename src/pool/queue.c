/*
 * queue.c: see queue.h.
 */
#include "pool/queue.h"

#include <string.h>

#include "base/assert.h"
#include "stack/slab.h"

/* What the task needs; it may have more. */
static uint32_t slot_size(const struct task *task)
{
    bool plain = task->handle == NULL && task->serial == NULL && !task->copied &&
                 task->priority == WEFT_NORMAL;
    return plain ? sizeof(struct plain_task) : sizeof(struct task);
}

static void *slot_at(struct chunk *chunk, uint32_t index)
{
    return chunk->slots + (size_t)index * chunk->slot;
}

static void slot_write(const struct chunk *chunk, void *slot, const struct task *task)
{
    if (chunk->slot == sizeof(struct plain_task))
        *(struct plain_task *)slot = (struct plain_task){task->function, task->arg};
    else
        *(struct task *)slot = *task;
}

static void slot_read(const struct chunk *chunk, const void *slot, struct task *task)
{
    if (likely(chunk->slot == sizeof(struct plain_task))) {
        const struct plain_task *plain = slot;
        *task = (struct task){.function = plain->function, .arg = plain->arg};
    } else {
        *task = *(const struct task *)slot;
    }
}

static uint32_t chunk_room(const struct chunk *chunk)
{
    return (uint32_t)(CHUNK_SIZE - sizeof *chunk) / chunk->slot;
}

/* From the slabs: what a queue gives back is for workers next, and the memory of a flood does not stay with its queue. Where a tool
 * looks for errors in the use of memory, from the allocator, which it knows. */
static void *chunk_memory(void)
{
#if WEFT_ASAN || WEFT_TSAN
    return weft__sys_alloc(CHUNK_SIZE);
#else
    size_t room;
    return weft__sys_alloc_fails() ? NULL : weft__slab_get(CHUNK_SIZE, &room);
#endif
}

void weft__chunk_free(struct chunk *chunk)
{
#if WEFT_ASAN || WEFT_TSAN
    weft__sys_free(chunk);
#else
    if (chunk != NULL)
        weft__slab_put(chunk, CHUNK_SIZE);
#endif
}

static struct chunk *chunk_new(uint32_t slot)
{
    struct chunk *chunk = chunk_memory();
    if (chunk == NULL)
        return NULL;
    for (size_t at = 0; at < FETCH_WRITES * sizeof(struct plain_task); at += FETCH_LINE)
        fetch_line_to_write((const char *)chunk + at);
    *chunk = (struct chunk){.slot = slot};
    return chunk;
}

bool weft__chunk_take(struct chunk *chunk, struct task *task)
{
    /* seq_cst: the worker's half of its order with those who wait for tasks to end (pool.c). */
    uint32_t index = atomic_u32_add_seq_cst(&chunk->taken, 1);
    if (index >= chunk->count)
        return false;
    fetch_line(slot_at(chunk, index + FETCH_READS)); /* who submits wrote it elsewhere */
    slot_read(chunk, slot_at(chunk, index), task);
    return true;
}

struct chunk *weft__chunk_split(struct chunk *chunk)
{
    struct chunk *rest = chunk_left(chunk) > 0 ? chunk_new(chunk->slot) : NULL;
    if (rest == NULL)
        return NULL;
    uint32_t taken = atomic_u32_exchange_acq_rel(&chunk->taken, chunk->count);
    if (taken >= chunk->count) {
        weft__chunk_free(rest);
        return NULL;
    }
    rest->count = chunk->count - taken;
    rest->priority = chunk->priority;
    memcpy(rest->slots, slot_at(chunk, taken), (size_t)rest->count * chunk->slot);
    return rest;
}

static void link_last(struct queue *queue, struct chunk *chunk)
{
    if (queue->last != NULL)
        queue->last->next = chunk;
    else
        queue->first = chunk;
    queue->last = chunk;
}

struct chunk *weft__chunk_plain(void)
{
    return chunk_new(sizeof(struct plain_task));
}

void weft__queue_append(struct queue *queue, const struct plain_task *tasks, uint32_t count,
                        struct chunk *spare)
{
    struct chunk *last = queue->last;
    if (count == 0 ||
        (last != NULL && last->slot == sizeof *tasks && last->count + count <= CHUNK_PLAIN)) {
        weft__chunk_free(spare);
    } else {
        link_last(queue, spare);
        last = spare;
    }
    if (count == 0)
        return;
    memcpy(slot_at(last, last->count), tasks, count * sizeof *tasks);
    last->count += count;
    queue->length += count;
}

bool weft__queue_push(struct queue *queue, const struct task *task)
{
    struct chunk *last = queue->last;
    uint32_t slot = slot_size(task);
    if (last == NULL || last->slot < slot || last->count == chunk_room(last)) {
        last = chunk_new(slot);
        if (last == NULL)
            return false;
        link_last(queue, last);
    }
    slot_write(last, slot_at(last, last->count++), task);
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

bool weft__queue_pop(struct queue *queue, struct task *task)
{
    if (queue->length == 0)
        return false;
    must(weft__chunk_take(queue->first, task));
    queue->length--;
    if (chunk_left(queue->first) == 0)
        weft__chunk_free(unlink_first(queue));
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
        weft__chunk_free(chunk);
        return;
    }
    chunk->next = queue->first;
    queue->first = chunk;
    if (queue->last == NULL)
        queue->last = chunk;
    queue->length += left;
}
