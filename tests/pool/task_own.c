/*
 * task_own.c: tasks that wait for tasks of their own pool: none hangs for lack of a worker.
 */
#include <weft/weft.h>

#include "figures.h"
#include "seeds.h"

static weft_task *start(weft_pool *pool, int (*function)(void *, void **), void *arg)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_task_start(&task, pool, function, arg, NULL), 0);
    CHECK(task != NULL);
    return task;
}

static int twice(void *arg, void **result)
{
    *result = (void *)((uintptr_t)arg * 2);
    return 0;
}

struct link {
    weft_pool *pool;
    struct link *next;
    weft_task *task;
    int number;
};

/* Waits for the next in the chain, which was submitted before it. */
static int follow_chain(void *arg, void **result)
{
    struct link *link = arg;
    void *below = NULL;
    if (link->next != NULL)
        CHECK_EQ(weft_task_wait(link->next->task, &below), 0);
    *result = (void *)((uintptr_t)below + 1);
    return 0;
}

/* Starts the next one itself, and waits for it. */
static int make_chain(void *arg, void **result)
{
    struct link *link = arg;
    void *below = NULL;
    if (link->number > 0) {
        struct link next = {.pool = link->pool, .number = link->number - 1};
        weft_task *task = start(link->pool, make_chain, &next);
        CHECK_EQ(weft_task_wait(task, &below), 0);
        weft_task_release(task);
    }
    *result = (void *)((uintptr_t)below + 1);
    return 0;
}

enum { CHAIN = 100 };

static void a_chain_of_waits(void *arg)
{
    static const int64_t capacities[] = {1, 2, 7};
    for (int i = 0; i < 3; i++)
        for (int backwards = 0; backwards < 2; backwards++) {
            weft_pool *pool = pool_open((weft_pool_options){
                .capacity = capacities[i], .queue = WEFT_UNLIMITED, .stack_size = 512 * 1024});
            struct link links[CHAIN];
            CHECK_EQ(weft_pool_pause(pool), 0);
            for (int k = 0; k < CHAIN; k++)
                links[k] = (struct link){.next = k + 1 < CHAIN ? &links[k + 1] : NULL};
            for (int k = 0; k < CHAIN; k++) {
                struct link *link = &links[backwards ? CHAIN - 1 - k : k];
                link->task = start(pool, follow_chain, link);
            }
            CHECK_EQ(weft_pool_resume(pool), 0);
            void *length = NULL;
            CHECK_EQ(weft_task_wait(links[0].task, &length), 0);
            CHECK_EQ((uintptr_t)length, CHAIN);
            for (int k = 0; k < CHAIN; k++)
                weft_task_release(links[k].task);
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
            weft_pool_stats stats = pool_stats(pool);
            CHECK_EQ(stats.completed, CHAIN); /* each once, whoever ran it */
            CHECK_EQ(stats.cancelled, 0);
            if (!backwards && capacities[i] == 1) /* who waits for one that has not begun runs it */
                CHECK(stats.most_workers <= CHAIN / 4);
            pool_close(pool);
        }
    (void)arg;
}

static void a_chain_that_is_made_on_the_way(void *arg)
{
    static const int64_t queues[] = {0, 1, WEFT_UNLIMITED};
    for (int i = 0; i < 3; i++) {
        weft_pool *pool = pool_open(
            (weft_pool_options){.capacity = 1, .queue = queues[i], .stack_size = 512 * 1024});
        struct link first = {.pool = pool, .number = CHAIN - 1};
        weft_task *task = start(pool, make_chain, &first);
        void *length = NULL;
        CHECK_EQ(weft_task_wait(task, &length), 0);
        CHECK_EQ((uintptr_t)length, CHAIN);
        weft_task_release(task);
        pool_close(pool);
    }
    (void)arg;
}

/* Two tasks wait for one that already runs, and it needs a place to go on. */

static struct {
    weft_pool *pool;
    weft_task *inner;
    struct gate gate;
} lending;

static int wait_for_inner(void *arg, void **result)
{
    (void)arg;
    return weft_task_wait(lending.inner, result);
}

static int start_after_the_gate(void *arg, void **result)
{
    gate_task(&lending.gate);
    weft_task *task = start(lending.pool, twice, arg);
    int error = weft_task_wait(task, result);
    weft_task_release(task);
    return error;
}

static void who_waits_lends_its_place(void)
{
    gate_shut(&lending.gate);
    lending.pool = pool_open((weft_pool_options){.capacity = 2, .queue = WEFT_UNLIMITED});
    lending.inner = start(lending.pool, start_after_the_gate, &lending);
    await_at_gate(&lending.gate, 1);
    weft_task *outer = start(lending.pool, wait_for_inner, NULL);
    atomic_u32 ran = {0};
    CHECK_EQ(weft_pool_submit(lending.pool, count_task, &ran), 0);
    await_count(&ran, 1); /* in the place of the one that waits */
    CHECK_EQ(weft_task_ended(outer), 0);
    gate_open(&lending.gate);
    void *result = NULL;
    CHECK_EQ(weft_task_wait(outer, &result), 0);
    CHECK_EQ((uintptr_t)result, 2 * (uintptr_t)&lending);
    weft_task_release(outer);
    weft_task_release(lending.inner);
    /* and has it back afterwards: two run again, and no more */
    struct gate gate;
    gate_shut(&gate);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(weft_pool_submit(lending.pool, gate_task, &gate), 0);
    await_at_gate(&gate, 2);
    CHECK_EQ(pool_stats(lending.pool).queued, 2);
    gate_open(&gate);
    CHECK_EQ(gauge_most(&gate.gauge), 2);
    pool_close(lending.pool);
}

static int wait_for_itself(void *arg, void **result)
{
    weft_task **own = arg;
    CHECK_EQ(weft_task_wait(*own, result), -EDEADLK);
    CHECK_EQ(weft_task_wait_until(*own, result, WEFT_NOW), -EDEADLK);
    return 0;
}

static void none_waits_for_itself(void)
{
    weft_task *task;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = 1});
    CHECK_EQ(weft_pool_pause(pool), 0);
    task = start(pool, wait_for_itself, &task);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_task_wait(task, NULL), 0);
    weft_task_release(task);
    pool_close(pool);
}

/* Many tasks of a pool that start and wait for tasks of it, as in a tree. */
static int grow_tree(void *arg, void **result)
{
    const struct link *link = arg;
    uintptr_t sum = 1;
    if (link->number > 0) {
        struct link next = {.pool = link->pool, .number = link->number - 1};
        weft_task *tasks[2];
        for (int i = 0; i < 2; i++)
            tasks[i] = start(link->pool, grow_tree, &next);
        for (int i = 0; i < 2; i++) {
            void *below = NULL;
            CHECK_EQ(weft_task_wait(tasks[i], &below), 0);
            sum += (uintptr_t)below;
            weft_task_release(tasks[i]);
        }
    }
    *result = (void *)sum;
    return 0;
}

static void a_tree_of_waits(void)
{
    for (int capacity = 1; capacity <= 4; capacity++) {
        weft_pool *pool = pool_open(
            (weft_pool_options){.capacity = capacity, .queue = 8, .stack_size = 512 * 1024});
        struct link root = {.pool = pool, .number = 9};
        weft_task *task = start(pool, grow_tree, &root);
        void *sum = NULL;
        CHECK_EQ(weft_task_wait(task, &sum), 0);
        CHECK_EQ((uintptr_t)sum, 1023);
        weft_task_release(task);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(pool_stats(pool).completed, 1023);
        pool_close(pool);
    }
}

int main(void)
{
    RUN_EVERYWHERE(a_chain_of_waits);
    RUN_EVERYWHERE(a_chain_that_is_made_on_the_way);
    RUN_BOTH(who_waits_lends_its_place);
    RUN_BOTH(none_waits_for_itself);
    RUN_BOTH(a_tree_of_waits);
    return 0;
}
