/*
 * queue.h: tasks that have not begun.
 *
 * A plain task, a function and an argument, is 16 bytes in a chunk. Any other task has a record of
 * its own, which stands in lists by its links, so that it can be taken out of any place in O(1).
 *
 * Each priority has a queue: a list of records and a list of chunks, both in the order of `order`,
 * which grows with each task that is put in. The slots of a chunk have consecutive orders. The next
 * task is the one with the lower order of the two heads. Plain tasks have normal priority, so only
 * that queue has chunks. A task that some other task of the pool waits for stands in the urgent
 * queue, before all others.
 *
 * Everything here is under the pool's latch, but for chunk_take on a chunk in an inbox (shard.c).
 */
#ifndef WEFT_POOL_QUEUE_H
#define WEFT_POOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <weft/pool.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/line.h"
#include "os/os.h"
#include "pool/tuning.h"

struct panic;
struct task;
struct weft_fiber;
struct awaited;

/* Indices of the queues, in the order in which they are served. */
enum { URGENT, HIGH, NORMAL, LOW, QUEUES };

static inline int queue_index(int priority)
{
    return NORMAL - priority;
}

/* What a pool does with a task that has a record, by its kind. */
struct task_kind {
    /* Calls the function, unless it had been cancelled when it was taken. A panic may leave it. */
    void (*run)(struct task *task);
    /* It will not run. Outside the latch. */
    void (*drop)(weft_pool *pool, struct task *task);
    /* It crashed, in a fiber that is gone. Takes the panic. */
    void (*crash)(weft_pool *pool, struct task *task, struct weft_fiber *gone, struct panic *panic);
    /* It has ended, in whatever way: the pool does not use the record any more. */
    void (*release)(struct task *task);
};

/* Where the record of a task stands. */
enum task_place { TASK_NOWHERE, TASK_READY, TASK_HELD };

struct task {
    struct link link; /* in a queue (TASK_READY), or in the line of its key (TASK_HELD); first */
    struct link age_link; /* in pool->ages, until it begins; then perhaps in pool->running */
    const struct task_kind *kind;
    void (*function)(void *);
    void *arg;
    uint64_t order; /* in its queue */
    uint64_t age;   /* its order when it was admitted; in pool->running, when it began */
    uint8_t place;  /* enum task_place */
    uint8_t queue;  /* the index of the queue it is in */
    int8_t priority;
    bool begun;
    bool in_caller; /* its submitter runs it */
    bool counted;   /* as ended, when its handle or group was told; the latch's */

    /* Tasks with a key: keys.c. */
    uint64_t key;
    struct task *key_next; /* in the chain of the hash table */
    struct line key_line;  /* of the first task of a key: those that are held back */
    int64_t key_wanted;    /* of the first task of a key: workers that wait for those held back */

    /* Tasks that others can wait for: lending.h. */
    struct awaited *awaited;  /* NULL: it has none */
    struct link awaited_link; /* in awaited->waiting, until it begins */
    weft_context *context;    /* of its own; NULL: it is bound to the pool's */
    int error;                /* of the context, when it began */
};

struct plain_task {
    void (*function)(void *);
    void *arg;
};

struct chunk {
    struct chunk *next;
    uint64_t order;      /* of the first slot */
    uint32_t room;       /* slots */
    uint32_t count;      /* tasks in it */
    atomic_u32 taken;    /* of those; may run past the end */
    uint32_t seen_taken; /* `taken` at the last look: failure.c */
    struct plain_task slots[];
};

/* Plain tasks that a chunk has room for. */
enum { CHUNK_PLAIN = (CHUNK_BYTES - sizeof(struct chunk)) / sizeof(struct plain_task) };

struct queue {
    struct line tasks;          /* records */
    struct chunk *first, *last; /* plain tasks */
    int64_t length;             /* of both */
    uint64_t next_order;
};

static inline struct task *task_of(struct link *link)
{
    return (struct task *)(void *)link; /* or NULL */
}

static inline uint32_t chunk_left(const struct chunk *chunk)
{
    uint32_t taken = atomic_u32_load_relaxed(&chunk->taken);
    return taken < chunk->count ? chunk->count - taken : 0;
}

/* The next task of a chunk; false if there is none left. */
static inline bool chunk_take(struct chunk *chunk, struct plain_task *task)
{
    /* seq_cst: the worker's half of its order with those who wait for tasks to end
     * (pool_internal.h). */
    uint32_t index = atomic_u32_add_seq_cst(&chunk->taken, 1);
    if (index >= chunk->count)
        return false;
    fetch_line(
        &chunk->slots[index + FETCH_READS]); /* the submitter wrote it, perhaps on another CPU */
    *task = chunk->slots[index];
    return true;
}

/* An empty chunk; NULL without memory. */
struct chunk *weft__chunk_new(bool small);
void weft__chunk_free(struct chunk *chunk);

/* Adds a plain task to the last chunk, if that has room and nothing came in between. */
static inline bool queue_push_quickly(struct queue *queue, void (*function)(void *), void *arg)
{
    struct chunk *last = queue->last;
    if (last == NULL || last->count == last->room || last->order + last->count != queue->next_order)
        return false;
    struct plain_task *slot = &last->slots[last->count++];
    *slot = (struct plain_task){function, arg};
    fetch_line_to_write(slot + FETCH_WRITES); /* the worker that ran what was there had it last */
    queue->next_order++;
    queue->length++;
    return true;
}

/* Adds a plain task; false without memory. */
bool weft__queue_push(struct queue *queue, void (*function)(void *), void *arg);
/* Adds plain tasks, in `spare` if they need a chunk; else that is freed. */
void weft__queue_append(struct queue *queue, const struct plain_task *tasks, uint32_t count,
                        struct chunk *spare);
/* Adds a record at the end, or at the head; takes it out, wherever it stands. */
void weft__queue_add(struct queue *queue, struct task *task);
void weft__queue_add_first(struct queue *queue, struct task *task);
void weft__queue_remove(struct queue *queue, struct task *task);
/* Takes the first: a record, which is returned; or a plain task, and NULL. The queue is not
 * empty. */
struct task *weft__queue_pop(struct queue *queue, struct plain_task *plain);
/* The order of the oldest plain task; UINT64_MAX if there is none. And: takes it. */
uint64_t weft__queue_plain_order(const struct queue *queue);
void weft__queue_pop_plain(struct queue *queue, struct plain_task *plain);
/* Takes the first chunk out if it is next, or puts one back; what is empty is freed. */
struct chunk *weft__queue_take_chunk(struct queue *queue);
void weft__queue_put_back(struct queue *queue, struct chunk *chunk);

/* The queues of a pool, as one. */

/* Puts an admitted task in: records always find a place, a plain task may find no memory: then
 * false. */
bool weft__pool_put_plain(weft_pool *pool, void (*function)(void *), void *arg);
void weft__pool_put(weft_pool *pool, struct task *task);
/* Takes the next task by urgency, priority and order: true, with a record, or NULL and a plain
 * task. */
bool weft__pool_pop(weft_pool *pool, struct plain_task *plain, struct task **record);
/* A task of the pool waits for this one, which has not begun: it goes before all others, or what
 * its key runs before it does. */
void weft__pool_expedite(weft_pool *pool, struct task *task);
/* A worker that waited for the task has given up. */
void weft__pool_expedite_no_more(weft_pool *pool, struct task *task);
/* A task with a record begins, in a worker or its submitter. */
static inline void task_begin(struct task *task)
{
    task->begun = true;
    task->error = weft_context_error(task->context);
}
/* A task with a record has ended or will not run: the next of its key is ready. */
void weft__pool_task_gone(weft_pool *pool, struct task *task);
/* Takes out a record that has not begun. */
void weft__pool_remove(weft_pool *pool, struct task *task);
/* Takes, of the tasks of the lowest priority that have not begun and are older than `before` of
 * their queue (NULL: of any age), the oldest; as weft__pool_pop. */
bool weft__pool_pop_oldest(weft_pool *pool, const uint64_t *before, struct plain_task *plain,
                           struct task **record);

#endif
