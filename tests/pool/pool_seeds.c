/*
 * pool_seeds.c: the pool under many seeds: every admitted task runs once, or on_drop is told of
 * it; no more tasks run than the capacity allows; keys are in order; while the pool is tuned,
 * paused, aborted, stopped, and tasks are cancelled or panic.
 */
#include <limits.h>

#include "seeds.h"

enum { SUBMITTERS = 4, EACH = 10, KEYS = 3, TASKS = SUBMITTERS * EACH };

static struct prng lots;
static weft_pool *pool;
static weft_wg wg;
static int64_t capacity, running, most;
static int ran[TASKS], dropped[TASKS], admitted[TASKS];
static int64_t key_next[KEYS + 1], key_given[KEYS + 1];

static bool one_in(uint32_t times)
{
    return prng_below(&lots, times) == 0;
}

static void work(void)
{
    if (one_in(2))
        weft_yield();
    if (one_in(3)) {
        int error = weft_sleep((int64_t)prng_below(&lots, 3) * WEFT_MS);
        CHECK(error == 0 || error == -ECANCELED);
    }
}

static void task(void *arg)
{
    if (++running > most)
        most = running;
    ran[(uintptr_t)arg]++;
    work();
    running--;
}

static void told_dropped(void (*function)(void *), void *arg, void *data)
{
    dropped[(uintptr_t)arg]++;
}

static void begin(int when_full)
{
    lots = seeds_prng();
    memset(ran, 0, sizeof ran);
    memset(dropped, 0, sizeof dropped);
    memset(admitted, 0, sizeof admitted);
    memset(key_next, 0, sizeof key_next);
    memset(key_given, 0, sizeof key_given);
    running = most = 0;
    capacity = 1 + prng_below(&lots, 3);
    wg = (weft_wg)WEFT_WG_INIT;
    CHECK_EQ(weft_pool_open(&pool, &(weft_pool_options){.capacity = capacity,
                                                        .queue = prng_below(&lots, 4),
                                                        .when_full = when_full,
                                                        .reuse = one_in(2) ? WEFT_FIFO : WEFT_LIFO,
                                                        .expiry = WEFT_MS,
                                                        .on_drop = told_dropped}),
             0);
}

static void check_figures(void)
{
    weft_pool_stats stats;
    CHECK_EQ(weft_pool_stats_get(pool, &stats), 0);
    CHECK_EQ(stats.submitted, stats.completed + stats.running + stats.starting + stats.queued +
                                  stats.dropped + stats.cancelled);
    CHECK(stats.running >= 0 && stats.queued >= 0 && stats.idle >= 0 && stats.blocked >= 0);
    CHECK(stats.starting >= 0 && stats.lending >= 0 && stats.lending <= stats.running);
}

static void end(void)
{
    check_figures();
    CHECK_EQ(weft_pool_close(pool), 0);
    CHECK_EQ(running, 0);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(ran[i] + dropped[i], admitted[i]);
}

/* Several fibers of the first kind, and one of the other. */
static void play(int when_full, void (*function)(void *), void (*other)(void *))
{
    begin(when_full);
    for (uintptr_t i = 0; i < SUBMITTERS; i++)
        CHECK_EQ(weft_wg_go(&wg, function, (void *)i), 0);
    if (other != NULL)
        CHECK_EQ(weft_wg_go(&wg, other, NULL), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    end();
}

/* Blocks, rejects, with deadlines. */
static void submit_some(void *arg)
{
    for (uintptr_t i = 0; i < EACH; i++) {
        uintptr_t number = (uintptr_t)arg * EACH + i;
        int error;
        switch (prng_below(&lots, 3)) {
        case 0:
            error = weft_pool_submit(pool, task, (void *)number);
            break;
        case 1:
            error = weft_pool_submit_until(pool, task, (void *)number, weft_after(WEFT_MS));
            break;
        default:
            error = weft_pool_try_submit(pool, task, (void *)number);
        }
        CHECK(error == 0 || error == -EAGAIN || error == -ETIMEDOUT || error == -ESHUTDOWN);
        admitted[number] = error == 0;
        if (one_in(4))
            work();
    }
}

static void each_runs_once(void)
{
    play(WEFT_BLOCK, submit_some, NULL);
    CHECK(most <= capacity);
}

static void dropped_or_run(void)
{
    static const int policies[] = {WEFT_DROP_NEWEST, WEFT_DROP_OLDEST, WEFT_REJECT};
    uint64_t seed;
    CHECK_EQ(weft_test_seed(&seed), 0);
    play(policies[seed % 3], submit_some, NULL);
    CHECK(most <= capacity);
}

/* Stopped meanwhile. */
static void stop_soon(void *arg)
{
    work();
    int error = weft_pool_stop(pool, one_in(2) ? WEFT_NEVER : weft_after(WEFT_MS));
    CHECK(error == 0 || error == -ETIMEDOUT);
}

static void stopped_under_their_hands(void)
{
    play(WEFT_BLOCK, submit_some, stop_soon);
}

/* All other calls meanwhile. */
static void meddle(void *arg)
{
    for (int i = 0; i < 12; i++) {
        switch (prng_below(&lots, 5)) {
        case 0:
            CHECK_EQ(weft_pool_tune(pool, 1 + prng_below(&lots, 4)), 0);
            break;
        case 1:
            CHECK_EQ(weft_pool_pause(pool), 0);
            work();
            CHECK_EQ(weft_pool_resume(pool), 0);
            break;
        case 2:
            CHECK(weft_pool_abort(pool) >= 0);
            break;
        case 3:
            CHECK_EQ(weft_pool_tune_queue(pool, prng_below(&lots, 4)), 0);
            break;
        default:
            check_figures();
        }
        work();
    }
}

static void meddled_with(void)
{
    play(WEFT_BLOCK, submit_some, meddle);
}

/* Keys: one at a time, in order of admission; one submitter, since others would come between. */
struct keyed {
    int64_t key, number;
};

static int64_t key_running[KEYS + 1];

static void keyed_task(void *arg)
{
    const struct keyed *keyed = arg;
    CHECK_EQ(key_running[keyed->key]++, 0);
    CHECK_EQ(keyed->number, key_next[keyed->key]++);
    work();
    CHECK_EQ(--key_running[keyed->key], 0);
}

static void keys_in_order(void)
{
    static const int priorities[] = {WEFT_NORMAL, WEFT_HIGH, WEFT_LOW};
    begin(WEFT_BLOCK);
    memset(key_running, 0, sizeof key_running);
    int priority_of[KEYS + 1];
    for (int key = 1; key <= KEYS; key++)
        priority_of[key] = priorities[prng_below(&lots, 3)];
    for (int i = 0; i < TASKS; i++) {
        struct keyed keyed = {1 + prng_below(&lots, KEYS), 0};
        keyed.number = key_given[keyed.key]++;
        CHECK_EQ(weft_pool_submit_with(pool, keyed_task, &keyed,
                                       &(weft_submit_options){.key = (uint64_t)keyed.key,
                                                              .priority = priority_of[keyed.key],
                                                              .copy = sizeof keyed}),
                 0);
    }
    end();
    for (int key = 1; key <= KEYS; key++)
        CHECK_EQ(key_next[key], key_given[key]);
}

/* Handles: waited for, cancelled, released, some tasks panic. */
static int handled_task(void *arg)
{
    work();
    if ((uintptr_t)arg % 7 == 3)
        weft_panic("task %d, on purpose", (int)(uintptr_t)arg);
    return (uintptr_t)arg % 5 == 1 ? -EIO : (int)(uintptr_t)arg;
}

static void check_result(uintptr_t number, int result)
{
    if (number % 7 == 3)
        CHECK_EQ(result, -EOWNERDEAD);
    else
        CHECK_EQ(result, number % 5 == 1 ? -EIO : (int)number);
}

static void use_handles(void *arg)
{
    for (uintptr_t i = 0; i < EACH; i++) {
        uintptr_t number = (uintptr_t)arg * EACH + i;
        weft_task *handle;
        weft_panic_info info;
        int result = INT_MIN;
        CHECK_EQ(weft_task_start(&handle, pool, handled_task, (void *)number, NULL), 0);
        bool cancelled = one_in(4);
        int how = cancelled ? weft_task_cancel(handle) : 1;
        CHECK(how >= 0 && how <= 2);
        CHECK_EQ(weft_task_wait(handle, &result), 0);
        if (how == 0)
            CHECK_EQ(result, -ECANCELED);
        else
            check_result(number, result);
        if (result == -EOWNERDEAD)
            CHECK_EQ(weft_task_panic(handle, &info), 0);
        CHECK_EQ(weft_task_ended(handle), 1);
        weft_task_release(handle);
    }
}

static void handles(void)
{
    play(WEFT_BLOCK, use_handles, NULL);
}

/* Tasks submit to their own full pool, and wait for the submitted task. */
static int nested(void *arg)
{
    uintptr_t depth = (uintptr_t)arg;
    weft_task *handle;
    int inner = 0;
    if (depth > 0) {
        CHECK_EQ(weft_task_start(&handle, pool, nested, (void *)(depth - 1), NULL), 0);
        work();
        CHECK_EQ(weft_task_wait(handle, &inner), 0);
        weft_task_release(handle);
    }
    return inner + 1;
}

static void nest(void *arg)
{
    weft_task *handle;
    int result;
    CHECK_EQ(weft_task_start(&handle, pool, nested, (void *)5, NULL), 0);
    CHECK_EQ(weft_task_wait(handle, &result), 0);
    CHECK_EQ(result, 6);
    weft_task_release(handle);
}

static void nested_tasks_end(void)
{
    play(WEFT_BLOCK, nest, NULL);
}

/* A group over the pool. */
static int group_task(void *arg)
{
    work();
    return (uintptr_t)arg == 4 ? -EIO : 0;
}

static void groups(void)
{
    weft_group *group;
    begin(WEFT_BLOCK);
    CHECK_EQ(weft_pool_group(&group, pool, NULL), 0);
    for (uintptr_t i = 0; i < EACH; i++) {
        int error = weft_group_go(group, group_task, (void *)i);
        CHECK(error == 0 || error == -ECANCELED);
    }
    CHECK_EQ(weft_group_close(group), -EIO);
    end();
}

int main(void)
{
    RUN_SEEDS_MANY(each_runs_once);
    RUN_SEEDS_MANY(dropped_or_run);
    RUN_SEEDS_MANY(stopped_under_their_hands);
    RUN_SEEDS_MANY(meddled_with);
    RUN_SEEDS_MANY(keys_in_order);
    RUN_SEEDS_MANY(handles);
    RUN_SEEDS_MANY(nested_tasks_end);
    RUN_SEEDS_MANY(groups);
    return 0;
}
