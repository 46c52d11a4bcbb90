/*
 * keys.c: serial order by key.
 *
 * Problem. Tasks of one key run one at a time, in the order of their admission, and there may be
 * hundreds of thousands of keys. Admission of a task with a key must not fail after its submitter
 * has waited.
 *
 * Pattern. The first task of each key is ready or runs; the others are held back in its key_line.
 * When it has ended the next one becomes the first, inherits the line, and goes to the end of its
 * queue: so a busy key does not crowd out others. The first tasks stand in a hash table, chained by
 * key_next. So a key costs no memory of its own. The table doubles when there are as many keys as
 * slots; without memory for that the chains get longer.
 */
#include "pool/keys.h"

#include "base/assert.h"
#include "pool/lending.h"

static struct task **slot_of(const weft_pool *pool, uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    return &pool->keys[(hash >> 32) & (pool->key_slots - 1)];
}

/* The link that points to the first task of the key; to NULL if there is none. */
static struct task **find(const weft_pool *pool, uint64_t key)
{
    struct task **link = slot_of(pool, key);
    while (*link != NULL && (*link)->key != key)
        link = &(*link)->key_next;
    return link;
}

static void grow(weft_pool *pool)
{
    uint32_t before = pool->key_slots;
    struct task **old = pool->keys;
    uint32_t slots = 2 * before;
    struct task **table =
        slots > before ? weft__os_alloc_zeroed(slots * sizeof(struct task *)) : NULL;
    if (table == NULL)
        return;
    pool->keys = table;
    pool->key_slots = slots;
    for (uint32_t i = 0; i < before; i++)
        for (struct task *task = old[i], *next; task != NULL; task = next) {
            next = task->key_next;
            struct task **slot = slot_of(pool, task->key);
            task->key_next = *slot;
            *slot = task;
        }
    weft__os_free(old);
}

bool weft__keys_put(weft_pool *pool, struct task *task)
{
    struct task **link = find(pool, task->key);
    if (*link != NULL) {
        line_add(&(*link)->key_line, &task->link);
        task->place = TASK_HELD;
        pool->held++;
        return false;
    }
    task->key_next = NULL;
    task->key_line = (struct line){.first = NULL};
    task->key_wanted = 0;
    *link = task;
    if (++pool->key_count > pool->key_slots)
        grow(pool);
    return true;
}

static void leave_line(weft_pool *pool, struct task *first, struct task *task)
{
    line_leave(&first->key_line, &task->link);
    task->place = TASK_NOWHERE;
    pool->held--;
    first->key_wanted -= task_lenders(task);
}

struct task *weft__keys_next(weft_pool *pool, struct task *task)
{
    struct task **link = find(pool, task->key);
    must(*link == task);
    struct task *next = task_of(task->key_line.first);
    if (next == NULL) {
        *link = task->key_next;
        pool->key_count--;
        return NULL;
    }
    leave_line(pool, task, next);
    next->key_line = task->key_line;
    next->key_wanted = task->key_wanted;
    next->key_next = task->key_next;
    *link = next;
    return next;
}

void weft__keys_remove(weft_pool *pool, struct task *task)
{
    leave_line(pool, weft__keys_first(pool, task), task);
}

struct task *weft__keys_first(weft_pool *pool, const struct task *task)
{
    struct task *first = *find(pool, task->key);
    must(first != NULL);
    return first;
}

void weft__keys_free(weft_pool *pool)
{
    should(pool->key_count == 0);
    weft__os_free(pool->keys);
}
