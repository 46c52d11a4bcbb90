/*
 * queue.h: tasks that have not begun.
 *
 * A plain task, a function and an argument, is 16 bytes in a chunk. Any other task has a record,
 * which stands in lists by its links, so it can be taken out of any place in O(1).
 *
 * Each priority has a queue: a list of records and a list of chunks, both in the order of `order`,
 * which grows with each task that is put in. The slots of a chunk have consecutive orders. The next
 * task is the one with the lower order of the two heads. Plain tasks have normal priority, so only
 * that queue has chunks. A task that another task of the pool waits for stands in the urgent queue,
 * before all others.
 *
 * Everything here is under the pool's latch, except chunk_take on a chunk in an inbox (shard.c).
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

/* What a pool does with a task that has a record, by the kind of task. */
struct task_kind {
    /* Calls the function, unless the task was cancelled before it was taken. A panic may leave it.
     * */
    void (*run)(struct task *task);
    /* The task will not run. Outside the latch. NULL: on_drop is called. */
    void (*drop)(weft_pool *pool, struct task *task);
    /* The task crashed, in a fiber that is abandoned. Takes the panic. NULL: a crash is handled as
     * a panic of a plain task. */
    void (*crash)(weft_pool *pool, struct task *task, struct weft_fiber *gone, struct panic *panic);
    /* The task has ended or was dropped: the pool does not use the record any more. */
    void (*release)(struct task *task);
};

/* Where the record of a task stands. */
enum task_place { TASK_NOWHERE, TASK_READY, TASK_HELD };

struct task {
    struct link link; /* first; in a queue (TASK_READY), or in the line of its key (TASK_HELD) */
    struct link age_link; /* in pool->ages until it begins; then in pool->running, if it is there */
    const struct task_kind *kind;
    void (*function)(void *);
    void *arg;
    uint64_t order; /* in its queue */
    uint64_t age;   /* its order at its admission; in pool->running, its number there */
    uint8_t place;  /* enum task_place */
    uint8_t queue;  /* the index of the queue that it is in */
    int8_t priority;
    bool begun;
    bool in_caller; /* its submitter runs it */
    bool counted;   /* as ended, by weft__task_count_end */

    /* Tasks with a key: keys.c. */
    uint64_t key;
    struct task *key_next; /* in the chain of the hash table */
    struct line key_line;  /* of the first task of a key: the tasks that are held back */
    int64_t key_wanted;    /* of the first task of a key: workers that wait for tasks held back */

    /* Tasks that workers can wait for: lending.h. */
    struct awaited *awaited;  /* NULL: no worker can wait for the task */
    struct link awaited_link; /* in awaited->waiting, until the task begins */
    weft_context *context;    /* its own; NULL: it is bound to the pool's */
    int error;                /* of `context` when the task began */
};

struct plain_task {
    void (*function)(void *);
    void *arg;
};

struct chunk {
    struct chunk *next;
    uint64_t order;      /* of the first slot */
    uint32_t room;       /* slots */
    uint32_t count;      /* tasks put in */
    atomic_u32 taken;    /* tasks taken out; may run past `count` */
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

/* Takes the next task of a chunk; false: none is left. */
static inline bool chunk_take(struct chunk *chunk, struct plain_task *task)
{
    /* seq_cst: the worker's half of its order with submitters that wait for tasks to end
     * (pool_internal.h). */
    uint32_t index = atomic_u32_add_seq_cst(&chunk->taken, 1);
    if (index >= chunk->count)
        return false;
    /* The submitter wrote it, perhaps on another CPU. */
    fetch_line(&chunk->slots[index + FETCH_READS]);
    *task = chunk->slots[index];
    return true;
}

/* An empty chunk; NULL without memory. */
struct chunk *weft__chunk_new(bool small);
void weft__chunk_free(struct chunk *chunk);

/* Adds a plain task to the last chunk; false: that is full, or a record was put in since. */
static inline bool queue_push_quickly(struct queue *queue, void (*function)(void *), void *arg)
{
    struct chunk *last = queue->last;
    if (last == NULL || last->count == last->room || last->order + last->count != queue->next_order)
        return false;
    struct plain_task *slot = &last->slots[last->count++];
    *slot = (struct plain_task){function, arg};
    fetch_line_to_write(slot + FETCH_WRITES); /* the worker that read it had the line last */
    queue->next_order++;
    queue->length++;
    return true;
}

/* Adds a plain task; false without memory. */
bool weft__queue_push(struct queue *queue, void (*function)(void *), void *arg);
/* Adds plain tasks: to the last chunk if they fit, and frees `spare`; else in `spare`. */
void weft__queue_append(struct queue *queue, const struct plain_task *tasks, uint32_t count,
                        struct chunk *spare);
/* Adds a record at the end, or at the head; removes it from wherever it stands. */
void weft__queue_add(struct queue *queue, struct task *task);
void weft__queue_add_first(struct queue *queue, struct task *task);
void weft__queue_remove(struct queue *queue, struct task *task);
/* Takes the first task of a queue that is not empty. Returns its record; NULL: it is a plain
 * task. */
struct task *weft__queue_pop(struct queue *queue, struct plain_task *plain);
/* The order of the oldest plain task, UINT64_MAX if there is none; takes that task. */
uint64_t weft__queue_plain_order(const struct queue *queue);
void weft__queue_pop_plain(struct queue *queue, struct plain_task *plain);
/* Takes the first chunk if its tasks are next, else NULL; puts a chunk back, or frees it if it is
 * empty. */
struct chunk *weft__queue_take_chunk(struct queue *queue);
void weft__queue_put_back(struct queue *queue, struct chunk *chunk);

/* All queues of a pool. */

/* Puts an admitted task into its queue. A plain task may lack memory: false. A record never does.
 * */
bool weft__pool_put_plain(weft_pool *pool, void (*function)(void *), void *arg);
void weft__pool_put(weft_pool *pool, struct task *task);
/* Takes the next task by urgency, priority and order; false: there is none. *record is NULL for a
 * plain task. */
bool weft__pool_pop(weft_pool *pool, struct plain_task *plain, struct task **record);
/* A worker waits for this task, which has not begun: the task goes before all others; or, if its
 * key holds it back, the first task of the key does. */
void weft__pool_expedite(weft_pool *pool, struct task *task);
/* A worker that waited for the task has given up: the reverse, for a task that is held back. */
void weft__pool_expedite_no_more(weft_pool *pool, struct task *task);
/* A task with a record begins, in a worker or in its submitter. */
static inline void task_begin(struct task *task)
{
    task->begun = true;
    task->error = weft_context_error(task->context);
}
/* A task with a record has ended or will not run: the next one of its key is ready. */
void weft__pool_task_gone(weft_pool *pool, struct task *task);
/* Removes a record that has not begun. */
void weft__pool_remove(weft_pool *pool, struct task *task);
/* Takes the oldest task of the lowest priority, as weft__pool_pop, of those that have not begun and
 * are older than `before` of their queue (NULL: of any age). */
bool weft__pool_pop_oldest(weft_pool *pool, const uint64_t *before, struct plain_task *plain,
                           struct task **record);

#endif
