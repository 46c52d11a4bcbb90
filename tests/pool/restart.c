/*
 * restart.c: the default pool outlives a shut-down, and the runtime may start again with more
 * processors, or fewer.
 */
#include "tasks.h"

static atomic_u32 met, ended;

static void wait_a_little(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    atomic_u32_add_seq_cst(&ended, 1);
}

/* And keeps its processor until another does the same: so they are on two. */
static void meet_another(void *arg)
{
    wait_a_little(arg);
    uint32_t number = atomic_u32_add_seq_cst(&met, 1);
    while (count_of(&met) < (number | 1) + 1)
        cpu_relax();
}

static void run_on(int processors)
{
    enum { TASKS = 40 };
    CHECK_EQ(weft_configure(&(weft_config){.processors = processors}), 0);
    weft_pool *pool = weft_pool_default();
    CHECK(pool != NULL);
    CHECK_EQ(weft_processors(), processors);
    atomic_u32_store_relaxed(&met, 0);
    atomic_u32_store_relaxed(&ended, 0);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(weft_pool_submit(pool, processors > 1 ? meet_another : wait_a_little, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ended), TASKS);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_reopen(pool), 0); /* starts the runtime */
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void with_other_processors(void)
{
    run_on(1);
    run_on(2);
    run_on(4);
    run_on(1);
}

int main(void)
{
    RUN_PLAIN(with_other_processors, "stops or configures the runtime");
    return 0;
}
