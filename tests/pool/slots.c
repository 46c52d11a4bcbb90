/*
 * slots.c: tasks of all kinds in one queue: each comes out as it went in, and stands in the smallest place that does not
 * cost a chunk of its own.
 */
#include "pool/queue.h"

#include "base/sys.h"
#include "test.h"

static void function(void *arg)
{
    (void)arg;
}

static int chunks(const struct queue *queue)
{
    int count = 0;
    for (const struct chunk *chunk = queue->first; chunk != NULL; chunk = chunk->next)
        count++;
    return count;
}

enum kind { PLAIN, HANDLE, SERIAL, LOW, COPIED, KINDS };

static struct task task_of(enum kind kind, uintptr_t number)
{
    struct task task = {.function = function, .arg = (void *)number};
    if (kind == HANDLE)
        task.handle = (struct weft_task *)(number + 1);
    if (kind == SERIAL)
        task.serial = (struct serial *)(number + 2);
    if (kind == LOW)
        task.priority = WEFT_LOW;
    if (kind == COPIED)
        task.copied = true;
    return task;
}

static void push(struct queue *queue, enum kind kind, uintptr_t number)
{
    struct task task = task_of(kind, number);
    if (kind != PLAIN || !queue_push_plain(queue, task.function, task.arg))
        CHECK(weft__queue_push(queue, &task));
}

static void pop(struct queue *queue, enum kind kind, uintptr_t number)
{
    struct task popped, task = task_of(kind, number);
    memset(&popped, 0xff, sizeof popped); /* of the one before */
    CHECK(weft__queue_pop(queue, &popped));
    CHECK(popped.function == function);
    CHECK_PTR(popped.arg, (void *)number);
    CHECK_PTR(popped.handle, task.handle);
    CHECK_PTR(popped.serial, task.serial);
    CHECK_EQ(popped.priority, task.priority);
    CHECK_EQ(popped.copied, task.copied);
}

static void each_comes_out_as_it_went_in(void)
{
    enum { TASKS = 500 };
    struct queue queue = {NULL, NULL, 0};
    for (uint64_t pattern = 1; pattern < 200; pattern++) {
        for (uintptr_t i = 0; i < TASKS; i++)
            push(&queue, (enum kind)(i * pattern / 7 % KINDS), i);
        CHECK_EQ(queue.length, TASKS);
        for (uintptr_t i = 0; i < TASKS; i++)
            pop(&queue, (enum kind)(i * pattern / 7 % KINDS), i);
        CHECK_PTR(queue.first, NULL);
    }
}

static int chunks_of(enum kind one, enum kind other, int tasks)
{
    struct queue queue = {NULL, NULL, 0};
    for (int i = 0; i < tasks; i++)
        push(&queue, i % 2 == 0 ? one : other, (uintptr_t)i);
    int count = chunks(&queue);
    for (int i = 0; i < tasks; i++)
        pop(&queue, i % 2 == 0 ? one : other, (uintptr_t)i);
    return count;
}

static void kinds_in_turn_share_chunks(void)
{
    CHECK_EQ(chunks_of(PLAIN, PLAIN, CHUNK_PLAIN), 1);
    CHECK_EQ(chunks_of(PLAIN, PLAIN, CHUNK_PLAIN + 1), 2);
    int whole = chunks_of(HANDLE, HANDLE, 400);
    CHECK(chunks_of(PLAIN, HANDLE, 400) <= 2 * whole);
    CHECK(chunks_of(PLAIN, COPIED, 400) <= 2 * whole);
    CHECK(chunks_of(HANDLE, SERIAL, 400) == whole);
    CHECK(chunks_of(HANDLE, COPIED, 400) == whole);
}

int main(void)
{
    RUN_PLAIN(each_comes_out_as_it_went_in, "no fibers");
    RUN_PLAIN(kinds_in_turn_share_chunks, "no fibers");
    return 0;
}
