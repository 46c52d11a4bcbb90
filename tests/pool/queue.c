/*
 * queue.c: the queue of tasks (pool/queue.c): plain tasks in chunks and records in one order;
 * records that leave from anywhere; chunks that are taken and put back; the next task of a pool,
 * and the next to be dropped.
 */
#include "pool/queue.h"

#include "base/prng.h"
#include "pool/keys.h"
#include "pool/pool_internal.h"
#include "test.h"

enum { MANY = 500 };

static struct task records[MANY];

static void function(void *arg)
{
}

static void push(struct queue *queue, uintptr_t number)
{
    CHECK(weft__queue_push(queue, function, (void *)number));
}

static void add(struct queue *queue, uintptr_t number)
{
    records[number] = (struct task){.arg = (void *)number};
    weft__queue_add(queue, &records[number]);
}

/* The next task has that number, as a record or a plain task. */
static void pop(struct queue *queue, uintptr_t number, bool record)
{
    struct plain_task plain = {NULL, NULL};
    int64_t before = queue->length;
    struct task *task = weft__queue_pop(queue, &plain);
    CHECK_PTR(task, record ? &records[number] : NULL);
    if (record)
        CHECK_EQ(task->place, TASK_NOWHERE);
    CHECK(record || (plain.function == function && plain.arg == (void *)number));
    CHECK_EQ(queue->length, before - 1);
}

static void check_empty(const struct queue *queue)
{
    CHECK_EQ(queue->length, 0);
    CHECK_PTR(queue->first, NULL);
    CHECK_PTR(queue->last, NULL);
    CHECK_PTR(queue->tasks.first, NULL);
}

static int chunks(const struct queue *queue)
{
    int count = 0;
    for (const struct chunk *chunk = queue->first; chunk != NULL; chunk = chunk->next)
        count++;
    return count;
}

/* One order for both kinds, also while tasks leave. */
static void first_come_first_served(void)
{
    struct queue queue = {.first = NULL};
    for (uint32_t pattern = 1; pattern < 200; pattern++) {
        bool is_record[MANY];
        struct prng prng;
        prng_seed(&prng, pattern);
        uintptr_t next = 0;
        for (uintptr_t i = 0; i < MANY; i++) {
            is_record[i] = prng_below(&prng, 1 + pattern % 20) == 0;
            if (is_record[i])
                add(&queue, i);
            else
                push(&queue, i);
            if (pattern % 3 == 0 && prng_below(&prng, 2) == 0) {
                pop(&queue, next, is_record[next]);
                next++;
            }
        }
        CHECK_EQ(queue.length, (int64_t)(MANY - next));
        for (; next < MANY; next++)
            pop(&queue, next, is_record[next]);
        check_empty(&queue);
    }
}

/* Plain tasks fill chunks; where the kinds alternate, each plain task has a small chunk. */
static void chunks_are_filled(void)
{
    struct queue queue = {.first = NULL};
    for (uintptr_t i = 0; i < 3 * CHUNK_PLAIN; i++)
        push(&queue, i);
    CHECK_EQ(chunks(&queue), 3);
    push(&queue, 0);
    CHECK_EQ(chunks(&queue), 4);
    for (uintptr_t i = 0; i < 3 * CHUNK_PLAIN; i++)
        pop(&queue, i, false);
    pop(&queue, 0, false);
    check_empty(&queue);
    for (uintptr_t i = 0; i < 20; i++) {
        add(&queue, 2 * i);
        push(&queue, 2 * i + 1);
    }
    CHECK_EQ(chunks(&queue), 20);
    for (const struct chunk *chunk = queue.first; chunk != NULL; chunk = chunk->next)
        CHECK(chunk->room < CHUNK_PLAIN / 4);
    for (uintptr_t i = 0; i < 40; i++)
        pop(&queue, i, i % 2 == 0);
    check_empty(&queue);
}

static void records_leave_from_anywhere(void)
{
    struct queue queue = {.first = NULL};
    struct prng prng;
    prng_seed(&prng, 7);
    for (int round = 0; round < 50; round++) {
        bool gone[MANY] = {false};
        for (uintptr_t i = 0; i < MANY; i++)
            if (i % 5 == 0)
                push(&queue, i);
            else
                add(&queue, i);
        for (int i = 0; i < MANY; i++) {
            uint32_t number = prng_below(&prng, MANY);
            if (number % 5 == 0 || gone[number])
                continue;
            weft__queue_remove(&queue, &records[number]);
            gone[number] = true;
        }
        for (uintptr_t i = 0; i < MANY; i++)
            if (!gone[i])
                pop(&queue, i, i % 5 != 0);
        check_empty(&queue);
    }
}

/* Chunks, for inboxes. */

static struct chunk *take(struct queue *queue, uint32_t left)
{
    int64_t before = queue->length;
    struct chunk *chunk = weft__queue_take_chunk(queue);
    CHECK(chunk != NULL);
    CHECK_EQ(chunk_left(chunk), left);
    CHECK_EQ(queue->length, before - left);
    return chunk;
}

static void take_from(struct chunk *chunk, uintptr_t number)
{
    struct plain_task plain;
    CHECK(chunk_take(chunk, &plain));
    CHECK_PTR(plain.arg, (void *)number);
}

static void a_chunk_is_taken_only_if_it_is_next(void)
{
    struct queue queue = {.first = NULL};
    CHECK_PTR(weft__queue_take_chunk(&queue), NULL);
    add(&queue, 0);
    push(&queue, 1);
    push(&queue, 2);
    add(&queue, 3);
    CHECK_PTR(weft__queue_take_chunk(&queue), NULL);
    pop(&queue, 0, true);
    struct chunk *chunk = take(&queue, 2);
    CHECK_PTR(weft__queue_take_chunk(&queue), NULL);
    take_from(chunk, 1);
    take_from(chunk, 2);
    struct plain_task plain;
    CHECK(!chunk_take(chunk, &plain));
    CHECK_EQ(chunk_left(chunk), 0);
    weft__queue_put_back(&queue, chunk); /* which frees it */
    pop(&queue, 3, true);
    check_empty(&queue);
}

/* In either order: the tasks in them are again before later ones. */
static void chunks_are_put_back(void)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        struct queue queue = {.first = NULL};
        struct chunk *taken[2];
        uintptr_t count = 0;
        for (; count < 3 * CHUNK_PLAIN; count++)
            push(&queue, count);
        for (uint32_t i = 0; i < 2; i++) {
            taken[i] = take(&queue, CHUNK_PLAIN);
            for (uintptr_t k = 0; k < 5; k++)
                take_from(taken[i], i * CHUNK_PLAIN + k);
        }
        push(&queue, count++);
        for (int i = 0; i < 2; i++)
            weft__queue_put_back(&queue, taken[reversed ? 1 - i : i]);
        push(&queue, count++);
        CHECK_EQ(queue.length, (int64_t)count - 10);
        for (uintptr_t i = 0; i < count; i++)
            if (i >= 2 * CHUNK_PLAIN || i % CHUNK_PLAIN >= 5)
                pop(&queue, i, false);
        check_empty(&queue);
    }
}

/* The only chunk: later tasks are behind it. */
static void the_last_chunk_is_put_back(void)
{
    struct queue queue = {.first = NULL};
    for (uintptr_t i = 0; i < 3; i++)
        push(&queue, i);
    struct chunk *chunk = take(&queue, 3);
    take_from(chunk, 0);
    weft__queue_put_back(&queue, chunk);
    push(&queue, 3);
    add(&queue, 4);
    for (uintptr_t i = 1; i < 5; i++)
        pop(&queue, i, i == 4);
    check_empty(&queue);
}

/* From outboxes. */
static void tasks_are_appended(void)
{
    struct queue queue = {.first = NULL};
    struct plain_task tasks[CHUNK_PLAIN];
    uintptr_t count = 0, next = 0;
    for (uint32_t length = 0; length <= CHUNK_PLAIN; length += 7) {
        for (uint32_t i = 0; i < length; i++)
            tasks[i] = (struct plain_task){function, (void *)(count + i)};
        weft__queue_append(&queue, tasks, length, weft__chunk_new(false));
        count += length;
        push(&queue, count++);
        CHECK_EQ(queue.length, (int64_t)count);
    }
    CHECK(chunks(&queue) <= (int)(2 * count / CHUNK_PLAIN + 1));
    while (next < count)
        pop(&queue, next++, false);
    check_empty(&queue);
}

/* The queues of a pool. */

static weft_pool pool;
static const struct task_kind kind;

static void open_queues(void)
{
    static struct task *slots[4];
    memset(&pool, 0, sizeof pool);
    memset(slots, 0, sizeof slots);
    pool.keys = slots;
    pool.key_slots = 4;
}

static void close_queues(void)
{
    CHECK_EQ(atomic_i64_load_relaxed(&pool.ready), 0);
    CHECK_EQ(pool.held, 0);
    CHECK_EQ(pool.key_count, 0);
    for (int i = 0; i < QUEUES; i++) {
        check_empty(&pool.queues[i]);
        CHECK_PTR(pool.ages[i].first, NULL);
    }
}

static struct task *put(uintptr_t number, int priority, uint64_t key)
{
    records[number] = (struct task){
        .kind = &kind, .arg = (void *)number, .priority = (int8_t)priority, .key = key};
    weft__pool_put(&pool, &records[number]);
    return &records[number];
}

static void put_plain(uintptr_t number)
{
    CHECK(weft__pool_put_plain(&pool, function, (void *)number));
}

/* The number of the next one; -1: there is none. One with a key ends at once. */
static int next_number(void)
{
    struct plain_task plain;
    struct task *record = NULL;
    if (!weft__pool_pop(&pool, &plain, &record))
        return -1;
    if (record == NULL)
        return (int)(uintptr_t)plain.arg;
    CHECK(record->begun);
    weft__pool_task_gone(&pool, record);
    return (int)(uintptr_t)record->arg;
}

static void by_priority(void)
{
    open_queues();
    put(0, WEFT_LOW, 0);
    put_plain(1);
    put(2, WEFT_HIGH, 0);
    put(3, WEFT_NORMAL, 0);
    put(4, WEFT_HIGH, 0);
    static const int order[] = {2, 4, 1, 3, 0, -1};
    for (int i = 0; i < 6; i++)
        CHECK_EQ(next_number(), order[i]);
    close_queues();
}

/* An awaited task goes first, and so do earlier tasks of its key. */
static void what_is_awaited_goes_first(void)
{
    open_queues();
    put(0, WEFT_HIGH, 0);
    struct task *awaited = put(1, WEFT_LOW, 0), *first = put(2, WEFT_LOW, 9);
    struct task *held = put(3, WEFT_LOW, 9);
    CHECK_EQ(pool.held, 1);
    CHECK_EQ(held->place, TASK_HELD);
    weft__pool_expedite(&pool, awaited);
    weft__pool_expedite(&pool, held);
    CHECK_EQ(first->queue, URGENT);
    CHECK_EQ(next_number(), 2); /* the last awaited, and the one before it */
    CHECK_EQ(next_number(), 3);
    CHECK_EQ(next_number(), 1);
    CHECK_EQ(next_number(), 0);
    CHECK_EQ(next_number(), -1);
    close_queues();
    /* The waiter gives up: the next of the key has no precedence. */
    open_queues();
    put(0, WEFT_NORMAL, 0);
    put(1, WEFT_NORMAL, 9);
    held = put(2, WEFT_NORMAL, 9);
    put(3, WEFT_NORMAL, 0);
    weft__pool_expedite(&pool, held);
    weft__pool_expedite_no_more(&pool, held);
    CHECK_EQ(next_number(), 1);
    CHECK_EQ(next_number(), 0);
    CHECK_EQ(next_number(), 3);
    CHECK_EQ(next_number(), 2);
    close_queues();
}

static void taken_out(void)
{
    open_queues();
    struct task *one = put(0, WEFT_NORMAL, 0), *first = put(1, WEFT_HIGH, 5);
    struct task *second = put(2, WEFT_HIGH, 5), *third = put(3, WEFT_HIGH, 5);
    weft__pool_remove(&pool, second); /* held back */
    CHECK_EQ(pool.held, 1);
    weft__pool_remove(&pool, one);
    weft__pool_remove(&pool, first); /* the next of its key is ready */
    CHECK_EQ(third->place, TASK_READY);
    CHECK_EQ(next_number(), 3);
    CHECK_EQ(next_number(), -1);
    close_queues();
}

static int oldest_number(const uint64_t *before)
{
    struct plain_task plain;
    struct task *record = NULL;
    if (!weft__pool_pop_oldest(&pool, before, &plain, &record))
        return -1;
    return (int)(uintptr_t)(record != NULL ? record->arg : plain.arg);
}

/* Of the lowest priority, by admission: also tasks held back by a key, and urgent ones. */
static void the_oldest_of_the_lowest(void)
{
    open_queues();
    put(0, WEFT_HIGH, 0);
    put_plain(1);
    put(2, WEFT_NORMAL, 7);
    put(3, WEFT_NORMAL, 7);
    put_plain(4);
    put(5, WEFT_LOW, 0);
    weft__pool_expedite(&pool, put(6, WEFT_LOW, 0));
    static const int order[] = {5, 6, 1, 2, 3, 4, 0, -1};
    for (int i = 0; i < 8; i++)
        CHECK_EQ(oldest_number(NULL), order[i]);
    close_queues();
}

static void none_that_came_later(void)
{
    uint64_t before[QUEUES];
    open_queues();
    put_plain(0);
    put(1, WEFT_NORMAL, 0);
    put(2, WEFT_HIGH, 0);
    for (int i = 0; i < QUEUES; i++)
        before[i] = pool.queues[i].next_order;
    put_plain(3);
    put(4, WEFT_LOW, 0);
    put(5, WEFT_HIGH, 0);
    CHECK_EQ(oldest_number(before), 0);
    CHECK_EQ(oldest_number(before), 1);
    CHECK_EQ(oldest_number(before), 2);
    CHECK_EQ(oldest_number(before), -1);
    CHECK_EQ(next_number(), 5);
    CHECK_EQ(next_number(), 3);
    CHECK_EQ(next_number(), 4);
    close_queues();
}

int main(void)
{
    RUN_PLAIN(first_come_first_served, "no fibers");
    RUN_PLAIN(chunks_are_filled, "no fibers");
    RUN_PLAIN(records_leave_from_anywhere, "no fibers");
    RUN_PLAIN(a_chunk_is_taken_only_if_it_is_next, "no fibers");
    RUN_PLAIN(chunks_are_put_back, "no fibers");
    RUN_PLAIN(the_last_chunk_is_put_back, "no fibers");
    RUN_PLAIN(tasks_are_appended, "no fibers");
    RUN_PLAIN(by_priority, "no fibers");
    RUN_PLAIN(what_is_awaited_goes_first, "no fibers");
    RUN_PLAIN(taken_out, "no fibers");
    RUN_PLAIN(the_oldest_of_the_lowest, "no fibers");
    RUN_PLAIN(none_that_came_later, "no fibers");
    return 0;
}
