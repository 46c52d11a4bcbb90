/*
 * threads.c: no more threads can be made after the first: all fibers still run, on fewer.
 */
#include <pthread.h>

#include "base/atomic.h"
#include "failing.h"

enum { SPAWNERS = 2, EACH = 3000 };

static atomic_u32 ran, spawned;

static void count(void *arg)
{
    atomic_u32_add_seq_cst(&ran, 1);
    if (arg != NULL)
        weft_yield();
}

static void spawn_child(void *arg)
{
    CHECK_EQ(weft_go(count, arg), 0);
    atomic_u32_add_seq_cst(&spawned, 1);
    CHECK_EQ(weft_sleep(10 * WEFT_US), 0);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void *spawn_many(void *arg)
{
    static char yield;
    int64_t each = test_scale(EACH);
    (void)arg;
    for (int64_t i = 0; i < each; i++) {
        CHECK_EQ(weft_go(i % 3 == 0 ? spawn_child : count, i % 2 == 0 ? &yield : NULL), 0);
        atomic_u32_add_seq_cst(&spawned, 1);
        if (i % 100 == 0)
            sched_yield(); /* let the machine run dry now and then */
    }
    return NULL;
}

static void run_with(int processors, uint32_t nth, bool persistent)
{
    weft_config config = {.processors = processors};
    pthread_t threads[SPAWNERS];
    atomic_u32_store_relaxed(&ran, 0);
    atomic_u32_store_relaxed(&spawned, 0);
    CHECK_EQ(weft_configure(&config), 0);
    failing_on(OS_THREAD, nth, persistent);
    for (int i = 0; i < SPAWNERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, spawn_many, NULL), 0);
    for (int i = 0; i < SPAWNERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* still without threads */
    failing_off();
    CHECK_EQ(atomic_u32_load_acquire(&ran), atomic_u32_load_acquire(&spawned));
    CHECK(atomic_u32_load_acquire(&ran) >= (uint32_t)(SPAWNERS * test_scale(EACH)));
}

static void all_run_on_one(void)
{
    for (int i = 0; i < 10; i++)
        run_with(2 + i % 3 * 3, 2, true);
}

static void all_run_on_few(void)
{
    for (int i = 0; i < 5; i++) {
        run_with(8, 4, true);
        run_with(8, 3, false);
    }
}

/* The first machine is blocked in user code while all others cannot be made; then one can. */

static atomic_u32 blocking, over;

static void block(void *arg)
{
    (void)arg;
    atomic_u32_store_release(&blocking, 1);
    while (!atomic_u32_load_acquire(&over))
        sched_yield();
}

static void threads_are_tried_again(void)
{
    weft_config config = {.processors = 4};
    weft_fiber *blocker, *fiber;
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_configure(&config), 0);
    failing_on(OS_THREAD, 2, true);
    CHECK_EQ(weft_spawn(&blocker, block, NULL, NULL), 0);
    while (!atomic_u32_load_acquire(&blocking))
        sched_yield();
    for (int i = 0; i < 10; i++)
        CHECK_EQ(weft_go(count, NULL), 0);
    failing_off();
    CHECK_EQ(weft_spawn(&fiber, count, NULL, NULL), 0); /* this one makes a machine */
    CHECK_EQ(weft_join(fiber), 0);
    while (atomic_u32_load_acquire(&ran) < 11)
        sched_yield();
    atomic_u32_store_release(&over, 1);
    CHECK_EQ(weft_join(blocker), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

int main(void)
{
    RUN(all_run_on_one);
    RUN(all_run_on_few);
    RUN(threads_are_tried_again);
    return 0;
}
