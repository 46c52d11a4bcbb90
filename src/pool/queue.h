/*
 * queue.h: tasks that wait, in chunks.
 *
 * A chunk is written by those who submit and read by those who run. While it stands in a queue it is
 * under the pool's latch. A worker may take a whole chunk in hand and run it task by task without the
 * latch: `taken` is then the only word that it shares, with a thief who holds the latch. Nothing is added
 * to a chunk in hand.
 */
#ifndef WEFT_POOL_QUEUE_H
#define WEFT_POOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <weft/pool.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/sys.h"

struct serial;
struct weft_task;

struct task {
    void (*function)(void *);
    void *arg;
    struct weft_task *handle; /* NULL: none */
    struct serial *serial;    /* NULL: none */
    bool copied;              /* `arg` is a block that the task owns: task_free_copy */
    int8_t priority;
};

/* Most tasks are no more than this, and stand so in a queue: three times as many in a chunk, and in a line that goes
 * from the CPU of who submits to the one of who runs them. */
struct plain_task {
    void (*function)(void *);
    void *arg;
};

/* So many slots ahead are fetched: a turn lies between two reads, some nanoseconds between two writes. */
enum { CHUNK_SIZE = 1024, FETCH_READS = 8, FETCH_WRITES = 28 };

struct chunk {
    struct chunk *next;
    uint32_t slot;    /* bytes from one task to the next: plain, or whole */
    uint32_t count;   /* tasks in it */
    atomic_u32 taken; /* of those; may run past the end */
    uint32_t watched; /* `taken` at the last look: rescue.c */
    uint8_t priority; /* the index of the queue that it came from */
    _Alignas(max_align_t) unsigned char slots[];
};

/* Plain tasks that a chunk has room for. */
enum { CHUNK_PLAIN = (CHUNK_SIZE - sizeof(struct chunk)) / sizeof(struct plain_task) };

struct queue {
    struct chunk *first, *last;
    int64_t length;
};

static inline uint32_t chunk_left(const struct chunk *chunk)
{
    uint32_t taken = atomic_u32_load_relaxed(&chunk->taken);
    return taken < chunk->count ? chunk->count - taken : 0;
}

/* Of one that is empty, or NULL. */
void weft__chunk_free(struct chunk *chunk);

/* The next task of a chunk in hand; false if there is none left. */
bool weft__chunk_take(struct chunk *chunk, struct task *task);

/* What is left of a chunk in the hand of somebody else, as a chunk of its own; NULL if there is nothing, or
 * no memory. Each task goes to one of them. */
struct chunk *weft__chunk_split(struct chunk *chunk);

/* Adds a plain task at the end, if the last chunk has room for it. */
static inline bool queue_push_plain(struct queue *queue, void (*function)(void *), void *arg)
{
    struct chunk *last = queue->last;
    if (last == NULL || last->slot != sizeof(struct plain_task) || last->count == CHUNK_PLAIN)
        return false;
    struct plain_task *slot = (struct plain_task *)(void *)last->slots + last->count++;
    *slot = (struct plain_task){function, arg};
    fetch_line_to_write(slot + FETCH_WRITES); /* who ran what was there had it last */
    queue->length++;
    return true;
}

/* An empty chunk for plain tasks; NULL without memory. And: adds so many at the end, in it if need be; else it is freed. */
struct chunk *weft__chunk_plain(void);
void weft__queue_append(struct queue *queue, const struct plain_task *tasks, uint32_t count,
                        struct chunk *spare);

/* Adds at the end, or takes the first; false without memory, or if there is none. */
bool weft__queue_push(struct queue *queue, const struct task *task);
bool weft__queue_pop(struct queue *queue, struct task *task);
/* Takes the first chunk in hand, or puts it back; what is empty is freed. */
struct chunk *weft__queue_take_chunk(struct queue *queue);
void weft__queue_put_back(struct queue *queue, struct chunk *chunk);

#endif
