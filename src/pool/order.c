/*
 * order.c: which task is next: priorities and keys. All of it is under the latch of the pool.
 *
 * Priorities. Each has a queue. The next task is of the highest, but of nine taken at least one is not high and of
 * ninety at least one is low, if any wait.
 *
 * Keys. Of the tasks of one key one is in the pool's queue or runs, and stands for all; the others wait in
 * the key's own queue, in the order of their admission. When that one has ended the next one goes to the
 * end of the pool's queue: so keys share the pool fairly. They are all inside.
 */
#include "base/assert.h"
#include "pool/pool.h"

enum { HIGH_MOST = 8, NORMAL_MOST = 9 };

/* A chunk in hand of a lower priority goes back: the new task is before it. */
static void go_before(weft_pool *pool, int priority)
{
    pool->mixed |= priority != WEFT_NORMAL;
    if (likely(!pool->mixed))
        return;
    weft__pool_empty_hands(pool, queue_of(priority));
}

static bool put_ready(weft_pool *pool, const struct task *task)
{
    go_before(pool, task->priority);
    if (!weft__queue_push(&pool->queues[queue_of(task->priority)], task))
        return false;
    change_ready(pool, 1);
    return true;
}

static struct serial **find_serial(weft_pool *pool, uint64_t key)
{
    struct serial **link = &pool->serials[key * 0x9e3779b97f4a7c15u >> 58];
    while (*link != NULL && (*link)->key != key)
        link = &(*link)->next;
    return link;
}

bool weft__pool_put(weft_pool *pool, const struct task *task, uint64_t key)
{
    if (key == 0)
        return put_ready(pool, task);
    struct task keyed = *task;
    struct serial **link = find_serial(pool, key);
    keyed.serial = *link;
    if (*link != NULL) {
        if (!weft__queue_push(&keyed.serial->queue, &keyed))
            return false;
        pool->held_back++;
        return true;
    }
    keyed.serial = weft__sys_alloc_zeroed(sizeof *keyed.serial);
    if (keyed.serial == NULL)
        return false;
    keyed.serial->key = key;
    if (!put_ready(pool, &keyed)) {
        weft__sys_free(keyed.serial);
        return false;
    }
    *link = keyed.serial;
    return true;
}

bool weft__pool_serial_next(weft_pool *pool, struct serial *serial, struct task *task)
{
    if (!weft__queue_pop(&serial->queue, task)) {
        *find_serial(pool, serial->key) = serial->next;
        weft__sys_free(serial);
        return false;
    }
    pool->held_back--;
    if (!put_ready(pool, task))
        return true;
    task->copied = false; /* the one in the queue owns it */
    return false;
}

bool weft__pool_pop(weft_pool *pool, struct task *task)
{
    struct queue *high = &pool->queues[0], *normal = &pool->queues[1], *low = &pool->queues[2];
    struct queue *queue = high;
    bool others = normal->length > 0 || low->length > 0;
    if (high->length == 0 || (others && pool->since_high >= HIGH_MOST)) {
        queue = normal->length == 0 || (low->length > 0 && pool->since_normal >= NORMAL_MOST)
                    ? low
                    : normal;
        pool->since_high = 0;
        pool->since_normal = queue == low ? 0 : (uint8_t)(pool->since_normal + (low->length > 0));
    } else if (others) {
        pool->since_high++;
    }
    if (!weft__queue_pop(queue, task))
        return false;
    change_ready(pool, -1);
    return true;
}

/* A task that waits for another of its key. */
static bool pop_held_back(weft_pool *pool, struct task *task)
{
    if (pool->held_back == 0)
        return false;
    for (int i = 0;; i++) {
        must(i < SERIAL_BUCKETS); /* one of them has it */
        for (struct serial *serial = pool->serials[i]; serial != NULL; serial = serial->next)
            if (weft__queue_pop(&serial->queue, task)) {
                pool->held_back--;
                return true;
            }
    }
}

bool weft__pool_forget(weft_pool *pool, struct task *task, struct task *next, bool *calls)
{
    bool found = false;
    *calls = false;
    weft__pool_empty_hands(pool, -1); /* what is in hand has not begun either */
    for (int i = PRIORITIES; i-- > 0 && !found;)
        found = weft__queue_pop(&pool->queues[i], task);
    if (found) {
        change_ready(pool, -1);
        if (task->serial != NULL)
            *calls = weft__pool_serial_next(pool, task->serial, next);
    } else {
        found = pop_held_back(pool, task);
    }
    if (found) {
        pool->inside--;
        pool->stats.dropped++;
    }
    return found;
}
