/*
 * rests.c: what compact workers need while their task sleeps; while they rest it is no more.
 *
 * Frames are as large as the compiler makes them: it is checked where they are known, a release built by gcc for x86-64.
 */
#include "pool/figures.h"
#include "pool/tasks.h"
#include "sched/compact.h"
#include "stack/slab.h"
#include "test.h"

enum { TASKS = 2000, KEPT_MOST = 256, CHUNK = 64 * 1024 };

static void check_held(int64_t workers)
{
    uint64_t held = weft__slab_figures().held;
    printf("  %llu bytes for %lld workers\n", (unsigned long long)held, (long long)workers);
    CHECK(held > 0 && held < (uint64_t)workers * KEPT_MOST + 4 * CHUNK);
}

static weft_wg asleep;

static void sleeps(void *arg)
{
    (void)arg;
    weft_wg_done(&asleep);
    weft_sleep(50 * WEFT_MS); /* the last that it does: nothing of the task's is kept */
}

static void all_sleep_and_rest(void)
{
    weft_pool_stats stats;
    weft_pool *pool =
        pool_open((weft_pool_options){.capacity = TASKS, .compact = 1, .keep = TASKS});
    CHECK_EQ(weft_wg_init(&asleep, TASKS), 0);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(weft_pool_submit(pool, sleeps, NULL), 0);
    CHECK_EQ(weft_wg_wait(&asleep), 0);
    CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    check_held(stats.workers);
    do {
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
        CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    } while (stats.completed < TASKS || stats.idle < stats.workers);
    check_held(stats.workers);
    pool_close(pool);
}

int main(void)
{
#if !defined(__x86_64__) || defined(WEFT_DEBUG) || defined(WEFT_COVERAGE) || \
    !defined(__OPTIMIZE__) || defined(__clang__) || WEFT_TSAN
    test_skip("frames are larger in this build");
#endif
    if (!weft__compact_works())
        test_skip("there are no compact stacks here");
    RUN_PLAIN(all_sleep_and_rest, "it looks at the memory of the process");
    return 0;
}
