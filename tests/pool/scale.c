/*
 * scale.c: the cost of very many submitters in line, keys, handles or pools.
 *
 * Each scene runs with n and with 10 n. If a step costs the same, or a little more for the cache,
 * ten times as many cost ten to thirty times as much; if a step costs in proportion to their
 * number, a hundred times. The cost is the CPU time of the process, so a busy machine does not
 * matter, and the best of several tries counts.
 */
#include <time.h>
#include <weft/weft.h>

#include "tasks.h"
#include "test.h"

enum { TIMES = 10, TOO_MUCH = 50, TRIES = 4 };

static int64_t cpu_now(void)
{
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return now.tv_sec * WEFT_S + now.tv_nsec;
}

/* The cost with n is measured first: one-time costs may make it larger, not smaller. */
static void check_growth(const char *what, int64_t (*cost)(int64_t n), int64_t n)
{
    int64_t ratio = 0;
    for (int i = 0; i < TRIES; i++) {
        int64_t more = TIMES * n, few = cost(n), many = cost(more);
        printf("  %s: %lld cost %lld us, %lld cost %lld us\n", what, (long long)n,
               (long long)(few / WEFT_US), (long long)more, (long long)(many / WEFT_US));
        ratio = many / (few > 0 ? few : 1);
        if (ratio < TOO_MUCH)
            return;
    }
    test_fail(__FILE__, __LINE__, "%s: %d times as many cost %lld times as much", what, TIMES,
              (long long)ratio);
}

static weft_pool *pool;

/* The context of submitters in line is cancelled while tasks end. */

struct crowd {
    weft_context *context;
    atomic_u32 cancelled, admitted;
};

static void submit_in_context(void *arg)
{
    struct crowd *crowd = arg;
    static atomic_u32 ran;
    CHECK_EQ(weft_context_bind(crowd->context, NULL), 0);
    int error = weft_pool_submit(pool, count_task, &ran);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK(error == 0 || error == -ECANCELED);
    count_task(error == 0 ? &crowd->admitted : &crowd->cancelled);
}

static int64_t cost_of_cancelling(int64_t n)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    struct gate gate;
    CHECK(crowd != NULL);
    crowd->context = new_context();
    pool = POOL_OPEN(.capacity = 4);
    gate_shut_and_fill(&gate, pool, 4);
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(weft_go(submit_in_context, crowd), 0);
    AWAIT_FIGURE(pool, blocked, n);
    int64_t before = cpu_now();
    gate_open(&gate); /* from here on tasks end, and look at the line */
    weft_context_cancel(crowd->context);
    pool_close(pool);
    for (int times = 0; count_of(&crowd->cancelled) + count_of(&crowd->admitted) != n;)
        look_again(&times);
    int64_t cost = cpu_now() - before;
    weft_context_close(crowd->context);
    free(crowd);
    return cost;
}

/* Submitters in line, each with a deadline of its own, which passes. */

static void submit_for_a_while(void *arg)
{
    struct crowd *crowd = arg;
    static atomic_u32 ran;
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, weft_after(50 * WEFT_MS)), -ETIMEDOUT);
    count_task(&crowd->cancelled);
}

static int64_t cost_of_deadlines(int64_t n)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    struct gate gate;
    CHECK(crowd != NULL);
    pool = POOL_OPEN(.capacity = 1);
    gate_shut_and_fill(&gate, pool, 1);
    int64_t before = cpu_now();
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(weft_go(submit_for_a_while, crowd), 0);
    for (int times = 0; count_of(&crowd->cancelled) != n;)
        look_again(&times);
    int64_t cost = cpu_now() - before;
    gate_open_and_close(&gate, pool);
    free(crowd);
    return cost;
}

static int64_t cost_of_keys(int64_t n)
{
    atomic_u32 ran = {0};
    pool = POOL_OPEN_PAUSED(.capacity = 4, .queue = WEFT_UNLIMITED);
    int64_t before = cpu_now();
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) /* the second one waits for the first */
            SUBMIT_WITH(pool, count_task, &ran, .key = (uint64_t)i + 1);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    int64_t cost = cpu_now() - before;
    CHECK_EQ(count_of(&ran), 2 * n);
    return cost;
}

static weft_task **start_all(int64_t n, uint64_t key)
{
    weft_task **tasks = calloc((size_t)n, sizeof(weft_task *));
    CHECK(tasks != NULL);
    for (int64_t i = 0; i < n; i++)
        tasks[i] = START_WITH(pool, nothing, NULL, .key = key, .priority = (int)(i % 3) - 1);
    return tasks;
}

static int64_t cost_of_handles(int64_t n, uint64_t key)
{
    pool = POOL_OPEN_PAUSED(.capacity = 4, .queue = WEFT_UNLIMITED);
    int64_t before = cpu_now();
    weft_task **tasks = start_all(n, key);
    for (int64_t i = 0; i < n; i++) { /* from both ends, and so to the middle */
        weft_task *task = tasks[i % 2 ? n - 1 - i / 2 : i / 2];
        CHECK_EQ(weft_task_cancel(task), 0);
        weft_task_release(task);
    }
    CHECK_EQ(pool_stats(pool).cancelled, n);
    int64_t cost = cpu_now() - before;
    pool_close(pool);
    free(tasks);
    return cost;
}

static int64_t cost_of_cancelled(int64_t n)
{
    return cost_of_handles(n, 0);
}

static int64_t cost_of_cancelled_keyed(int64_t n)
{
    return cost_of_handles(n, 7);
}

/* Tasks are awaited from the last to the first: each goes before all others. */

static int64_t waited;

static int wait_backwards(void *arg)
{
    weft_task **tasks = arg;
    for (int64_t i = waited - 1; i >= 0; i--) {
        CHECK_EQ(weft_task_wait(tasks[i], NULL), 0);
        weft_task_release(tasks[i]);
    }
    return 0;
}

static int64_t cost_of_waits(int64_t n)
{
    pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = WEFT_UNLIMITED);
    int64_t before = cpu_now();
    weft_task **tasks = calloc((size_t)n, sizeof(weft_task *));
    CHECK(tasks != NULL);
    waited = n;
    weft_task *waiter = start_task(pool, wait_backwards, tasks);
    for (int64_t i = 0; i < n; i++)
        tasks[i] = start_task(pool, nothing, NULL);
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_task_wait(waiter, NULL), 0);
    int64_t cost = cpu_now() - before;
    weft_task_release(waiter);
    pool_close(pool);
    free(tasks);
    return cost;
}

/* Drops: by policy, one by one, and all of them. */

static int64_t cost_of_drops(int64_t n)
{
    atomic_u32 ran = {0};
    pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = n, .when_full = WEFT_DROP_OLDEST);
    int64_t before = cpu_now();
    for (int64_t i = 0; i < 2 * n; i++)
        SUBMIT_WITH(pool, count_task, &ran, .priority = (int)(i % 3) - 1,
                    .key = i % 2 ? (uint64_t)(i % 1000) : 0);
    int64_t dropped = pool_stats(pool).dropped;
    CHECK_EQ(dropped, n - 1);
    CHECK_EQ(weft_pool_abort(pool), n + 1);
    int64_t cost = cpu_now() - before;
    pool_close(pool);
    return cost;
}

/* The choice among many pools. */

static int64_t cost_of_picks(int64_t n)
{
    enum { PICKS = 20000 };
    weft_pools *pools;
    weft_pool_options each = {.capacity = 2, .queue = 1};
    CHECK_EQ(weft_pools_open(&pools, (int)n, WEFT_LEAST_BUSY, &each), 0);
    int64_t before = cpu_now();
    for (int i = 0; i < PICKS; i++)
        CHECK(weft_pools_pick(pools) != NULL);
    int64_t cost = cpu_now() - before;
    CHECK_EQ(weft_pools_close(pools), 0);
    return cost;
}

/* n is the number of pools; the number of picks is the same, so the cost must not grow in
 * proportion. */
static void pools_that_are_chosen_from(void)
{
    int64_t ratio = 0;
    for (int i = 0; i < TRIES; i++) {
        int64_t few = cost_of_picks(40), many = cost_of_picks(4000);
        printf("  picks: of 40 cost %lld us, of 4000 %lld us\n", (long long)(few / WEFT_US),
               (long long)(many / WEFT_US));
        ratio = many / (few > 0 ? few : 1);
        if (ratio < 30)
            return;
    }
    test_fail(__FILE__, __LINE__, "a pick of 100 times as many costs %lld times as much",
              (long long)ratio);
}

/* Not under seeds: time stands still there. */
static const struct {
    const char *scene;
    int64_t (*cost)(int64_t n);
    int64_t n;
} scenes[] = {
    {"submitters_that_are_cancelled", cost_of_cancelling, 5000},
    {"submitters_whose_deadline_passes", cost_of_deadlines, 5000},
    {"keys_that_wait", cost_of_keys, 30000},
    {"handles_that_are_cancelled", cost_of_cancelled, 10000},
    {"handles_that_are_cancelled, of one key", cost_of_cancelled_keyed, 10000},
    {"tasks_that_are_waited_for", cost_of_waits, 10000},
    {"tasks_that_are_dropped", cost_of_drops, 20000},
};

int main(void)
{
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
        check_growth(scenes[i].scene, scenes[i].cost, test_scale(scenes[i].n));
    RUN_PLAIN(pools_that_are_chosen_from, "time stands still there");
    return 0;
}
