/*
 * beside.c: workers take turns with fibers that are always ready.
 */
#include <weft/weft.h>

#include "tasks.h"

enum { TASKS = 100, YIELDS_MOST = 1000 };

static atomic_u32 ran;

/* Longer than the turn of a worker. */
static void compute(void)
{
    int64_t end = weft_after(50 * WEFT_US);
    while (weft_now() < end)
        continue;
}

/* The submitter never waits: each of its turns is long, and behind it the worker has the next. */
static void submit_and_yield(void *arg)
{
    weft_pool *pool = POOL_OPEN(.capacity = 4);
    atomic_u32_store_relaxed(&ran, 0);
    for (uint32_t task = 1; task <= TASKS; task++) {
        int yields = 0;
        CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        while (count_of(&ran) < task) {
            CHECK(++yields < YIELDS_MOST);
            compute();
            weft_yield();
        }
    }
    pool_close(pool);
}

static void tasks_of_one_that_is_always_ready(void)
{
    on_processors(1, submit_and_yield, NULL);
}

int main(void)
{
    RUN_PLAIN(tasks_of_one_that_is_always_ready, "the clock stands still under seeds");
    return 0;
}
