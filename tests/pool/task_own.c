/*
 * task_own.c: tasks that wait for tasks of their own pool: none hangs for lack of a worker.
 */
#include <weft/weft.h>

#include "seeds.h"
#include "tasks.h"

static int twice(void *number)
{
    return 2 * *(int *)number;
}

struct link {
    weft_pool *pool;
    struct link *next;
    weft_task *task;
    int number;
};

/* Waits for the next in the chain, which was submitted before it. */
static int follow_chain(void *arg)
{
    struct link *link = arg;
    return 1 + (link->next != NULL ? task_result(link->next->task) : 0);
}

/* Starts the next one itself, and waits for it. */
static int make_chain(void *arg)
{
    struct link *link = arg;
    int below = 0;
    if (link->number > 0) {
        struct link next = {.pool = link->pool, .number = link->number - 1};
        weft_task *task = start_task(link->pool, make_chain, &next);
        below = task_result(task);
        weft_task_release(task);
    }
    return below + 1;
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
                link->task = start_task(pool, follow_chain, link);
            }
            CHECK_EQ(weft_pool_resume(pool), 0);
            CHECK_EQ(task_result(links[0].task), CHAIN);
            for (int k = 0; k < CHAIN; k++)
                weft_task_release(links[k].task);
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
            weft_pool_stats stats = pool_stats(pool);
            CHECK_FIGURES(stats, FIGURE(completed, CHAIN), FIGURE(cancelled, 0),
                          FIGURE(lending, 0));
            if (!backwards) /* each lends its place to the next: no task runs inside another */
                CHECK(stats.most_workers >= CHAIN);
            pool_close(pool);
        }
}

static void a_chain_that_is_made_on_the_way(void *arg)
{
    static const int64_t queues[] = {0, 1, WEFT_UNLIMITED};
    for (int i = 0; i < 3; i++) {
        weft_pool *pool = pool_open(
            (weft_pool_options){.capacity = 1, .queue = queues[i], .stack_size = 512 * 1024});
        struct link first = {.pool = pool, .number = CHAIN - 1};
        weft_task *task = start_task(pool, make_chain, &first);
        CHECK_EQ(end_task(task), CHAIN);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        if (queues[i] == 0) /* all but the first */
            CHECK_EQ(pool_stats(pool).beyond, CHAIN - 1);
        pool_close(pool);
    }
}

/* Two tasks wait for one that already runs, and it needs a place to go on. */

static struct {
    weft_pool *pool;
    weft_task *inner;
    struct gate gate;
} lending;

static int wait_for_inner(void *arg)
{
    return task_result(lending.inner);
}

static int start_after_the_gate(void *number)
{
    gate_task(&lending.gate);
    weft_task *task = start_task(lending.pool, twice, number);
    return end_task(task);
}

static void who_waits_lends_its_place(void)
{
    gate_shut(&lending.gate);
    lending.pool = pool_open((weft_pool_options){.capacity = 2, .queue = WEFT_UNLIMITED});
    int number = 12;
    lending.inner = start_task(lending.pool, start_after_the_gate, &number);
    await_at_gate(&lending.gate, 1);
    weft_task *outer = start_task(lending.pool, wait_for_inner, NULL);
    atomic_u32 ran = {0};
    CHECK_EQ(weft_pool_submit(lending.pool, count_task, &ran), 0);
    await_count(&ran, 1); /* in the place of the one that waits */
    CHECK_EQ(weft_task_ended(outer), 0);
    CHECK_EQ(pool_stats(lending.pool).lending, 1);
    gate_open(&lending.gate);
    CHECK_EQ(end_task(outer), 24);
    weft_task_release(lending.inner);
    /* and has it back afterwards: two run again, and no more */
    struct gate gate;
    gate_shut(&gate);
    submit_many(lending.pool, gate_task, &gate, 4);
    await_at_gate(&gate, 2);
    CHECK_EQ(pool_stats(lending.pool).queued, 2);
    gate_open(&gate);
    CHECK_EQ(gauge_most(&gate.gauge), 2);
    pool_close(lending.pool);
}

static int wait_for_itself(void *arg)
{
    weft_task **own = arg;
    CHECK_EQ(weft_task_wait(*own, NULL), -EDEADLK);
    CHECK_EQ(weft_task_wait_until(*own, NULL, WEFT_NOW), -EDEADLK);
    return 0;
}

static void none_waits_for_itself(void)
{
    weft_task *task;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = 1});
    CHECK_EQ(weft_pool_pause(pool), 0);
    task = start_task(pool, wait_for_itself, &task);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(end_task(task), 0);
    pool_close(pool);
}

/* Many tasks of a pool that start and wait for tasks of it, as in a tree. */
static int grow_tree(void *arg)
{
    const struct link *link = arg;
    int sum = 1;
    if (link->number > 0) {
        struct link next = {.pool = link->pool, .number = link->number - 1};
        weft_task *tasks[2];
        for (int i = 0; i < 2; i++)
            tasks[i] = start_task(link->pool, grow_tree, &next);
        for (int i = 0; i < 2; i++) {
            sum += task_result(tasks[i]);
            weft_task_release(tasks[i]);
        }
    }
    return sum;
}

static void a_tree_of_waits(void)
{
    for (int capacity = 1; capacity <= 4; capacity++) {
        weft_pool *pool = pool_open(
            (weft_pool_options){.capacity = capacity, .queue = 8, .stack_size = 512 * 1024});
        struct link root = {.pool = pool, .number = 9};
        weft_task *task = start_task(pool, grow_tree, &root);
        CHECK_EQ(end_task(task), 1023);
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
