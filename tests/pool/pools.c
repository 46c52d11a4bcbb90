/*
 * pools.c: several pools opened together, and the choice among them.
 */
#include <weft/weft.h>

#include "failing.h"
#include "tasks.h"

#define POOLS_POISON ((weft_pools *)(uintptr_t)0xdead)

enum { COUNT = 4 };

static weft_pools *make(int strategy, weft_pool_options each)
{
    weft_pools *pools = POOLS_POISON;
    CHECK_EQ(weft_pools_open(&pools, COUNT, strategy, &each), 0);
    CHECK(pools != NULL && pools != POOLS_POISON);
    CHECK_EQ(weft_pools_count(pools), COUNT);
    return pools;
}

static void close_all(weft_pools *pools)
{
    CHECK_EQ(weft_pools_close(pools), 0);
}

static int64_t inside(const weft_pools *pools, int index)
{
    weft_pool_stats stats = pool_stats(weft_pools_get(pools, index));
    return stats.running + stats.starting + stats.queued;
}

static int submit(weft_pools *pools, void (*function)(void *), void *arg)
{
    return weft_pool_submit(weft_pools_pick(pools), function, arg);
}

static int submit_until(weft_pools *pools, void (*function)(void *), void *arg, int64_t deadline)
{
    return weft_pool_submit_until(weft_pools_pick(pools), function, arg, deadline);
}

static void arguments(void)
{
    weft_pools *pools = POOLS_POISON;
    CHECK_EQ(weft_pools_open(NULL, 1, WEFT_ROUND_ROBIN, NULL), -EINVAL);
    CHECK_EQ(weft_pools_open(&pools, 0, WEFT_ROUND_ROBIN, NULL), -EINVAL);
    CHECK_EQ(weft_pools_open(&pools, -1, WEFT_ROUND_ROBIN, NULL), -EINVAL);
    CHECK_EQ(weft_pools_open(&pools, WEFT_POOLS_MAX + 1, WEFT_ROUND_ROBIN, NULL), -EINVAL);
    CHECK_EQ(weft_pools_open(&pools, 1, -1, NULL), -EINVAL);
    CHECK_EQ(weft_pools_open(&pools, 1, WEFT_LEAST_BUSY + 1, NULL), -EINVAL);
    CHECK_EQ(weft_pools_open(&pools, 3, WEFT_LEAST_BUSY, &(weft_pool_options){.capacity = -1}),
             -EINVAL);
    CHECK_PTR(pools, POOLS_POISON);
    CHECK_PTR(weft_pools_pick(NULL), NULL);
    CHECK_EQ(weft_pool_submit(weft_pools_pick(NULL), count_task, NULL), -EINVAL);
    CHECK_EQ(weft_pools_count(NULL), 0);
    CHECK_PTR(weft_pools_get(NULL, 0), NULL);
    weft_pool_stats stats = {.capacity = 1234};
    CHECK_EQ(weft_pools_stats(NULL, &stats), -EINVAL);
    CHECK_EQ(stats.capacity, 1234);
    CHECK_EQ(weft_pools_close(NULL), -EINVAL);
    pools = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 1});
    CHECK_EQ(weft_pools_stats(pools, NULL), -EINVAL);
    CHECK_PTR(weft_pools_get(pools, -1), NULL);
    CHECK_PTR(weft_pools_get(pools, COUNT), NULL);
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < i; k++)
            CHECK(weft_pools_get(pools, i) != weft_pools_get(pools, k));
    close_all(pools);
    CHECK_EQ(weft_pools_open(&pools, WEFT_POOLS_MAX, WEFT_ROUND_ROBIN, NULL), 0); /* not too many */
    close_all(pools);
}

static void one_after_the_other(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pools *pools = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 100});
    for (int round = 1; round <= 5; round++) {
        for (int i = 0; i < COUNT; i++)
            CHECK_EQ(submit(pools, gate_task, &gate), 0);
        for (int i = 0; i < COUNT; i++)
            CHECK_EQ(inside(pools, i), round);
    }
    gate_open(&gate);
    close_all(pools);
    CHECK_EQ(gauge_total(&gate.gauge), 5 * COUNT);
}

/* Of the two pools compared, the busiest of all is never chosen; and each pool is chosen at some
 * time. */
static void the_least_busy_one(void *arg)
{
    enum { TOTAL = 400 };
    struct gate gate;
    gate_shut(&gate);
    weft_pools *pools = make(WEFT_LEAST_BUSY, (weft_pool_options){.capacity = 2, .queue = 1000});
    /* Uneven at first: running and waiting tasks count alike. */
    int load[COUNT] = {7, 0, 3, 1}, total = 11, chosen[COUNT] = {0};
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < load[i]; k++)
            CHECK_EQ(weft_pool_submit(weft_pools_get(pools, i), gate_task, &gate), 0);
    for (; total < TOTAL; total++) {
        weft_pool *pool = weft_pools_pick(pools);
        int index = 0, as_busy = 0;
        while (weft_pools_get(pools, index) != pool)
            index++;
        for (int i = 0; i < COUNT; i++)
            as_busy += i != index && load[i] >= load[index];
        CHECK(as_busy > 0);
        CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), 0);
        load[index]++;
        chosen[index]++;
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(inside(pools, i), load[i]);
        CHECK(chosen[i] > 0);
    }
    gate_open(&gate);
    close_all(pools);
    CHECK_EQ(gauge_total(&gate.gauge), TOTAL);
}

static void when_all_are_full_it_waits(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    atomic_u32 ran = {0};
    weft_pools *pools = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 1});
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(submit(pools, gate_task, &gate), 0);
    CHECK_EQ(submit_until(pools, count_task, &ran, WEFT_NOW), -ETIMEDOUT);
    int64_t deadline = weft_after(WEFT_MS);
    CHECK_EQ(submit_until(pools, count_task, &ran, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    gate_open(&gate);
    CHECK_EQ(submit(pools, count_task, &ran), 0);
    close_all(pools);
    CHECK_EQ(count_of(&ran), 1);
}

/* Figures, added up. */

static void sums(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    atomic_u32 ran = {0};
    weft_pools *pools =
        make(WEFT_ROUND_ROBIN,
             (weft_pool_options){.capacity = 2, .queue = 1, .when_full = WEFT_REJECT, .keep = 2});
    for (int i = 0; i < 3 * COUNT; i++)
        CHECK_EQ(submit(pools, gate_task, &gate), 0);
    CHECK_EQ(submit(pools, count_task, &ran), -EAGAIN);
    await_at_gate(&gate, 2 * COUNT);
    weft_pool_stats stats;
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_STATS(stats, IS(capacity, 2 * COUNT), IS(running, 2 * COUNT), IS(queued, COUNT),
                IS(submitted, 3 * COUNT), IS(rejected, 1), IS(workers, 2 * COUNT),
                IS(completed, 0));
    int64_t aborted = 0;
    for (int i = 0; i < COUNT; i++)
        aborted += weft_pool_abort(weft_pools_get(pools, i));
    CHECK_EQ(aborted, COUNT);
    gate_open(&gate);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(weft_pool_wait(weft_pools_get(pools, i), WEFT_NEVER), 0);
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_STATS(stats, IS(completed, 2 * COUNT), IS(dropped, COUNT), IS(running, 0));
    CHECK(stats.most_workers >= 2 * COUNT);
    close_all(pools);
    pools = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = WEFT_UNLIMITED});
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_EQ(stats.capacity, WEFT_UNLIMITED);
    close_all(pools);
}

struct feeder {
    weft_pools *pools;
    int64_t count;
    atomic_u32 *ran;
};

static void feed(void *arg)
{
    const struct feeder *feeder = arg;
    for (int64_t i = 0; i < feeder->count; i++)
        CHECK_EQ(submit(feeder->pools, count_task, feeder->ran), 0);
}

static void many_submitters(void)
{
    static const int strategies[] = {WEFT_ROUND_ROBIN, WEFT_LEAST_BUSY};
    for (int s = 0; s < 2; s++) {
        atomic_u32 ran = {0};
        struct feeder feeder = {make(strategies[s], (weft_pool_options){.capacity = 3, .queue = 2}),
                                test_scale(3000), &ran};
        run_many(feed, &feeder, 6);
        close_all(feeder.pools); /* waits for all of them */
        CHECK_EQ(count_of(&ran), 6 * test_scale(3000));
    }
}

/* A task of one of them is an own task of all. */

static weft_pools *own;

static void close_from_inside(void *result)
{
    *(int *)result = weft_pools_close(own);
}

static void not_closed_from_inside(void)
{
    int result[COUNT] = {0};
    own = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 1});
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(weft_pool_submit(weft_pools_get(own, i), close_from_inside, &result[i]), 0);
    for (int i = 0; i < COUNT; i++) {
        AWAIT_FIGURE(weft_pools_get(own, i), completed, 1);
        CHECK_EQ(result[i], -EDEADLK);
    }
    CHECK_EQ(weft_pools_count(own), COUNT);
    close_all(own);
}

static void submit_to_all(void *ran)
{
    for (int i = 0; i < COUNT; i++) /* all are full, and this one does not wait */
        CHECK_EQ(weft_pool_submit(weft_pools_get(own, i), count_task, ran), 0);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(weft_pool_try_submit(weft_pools_get(own, i), count_task, ran), -EAGAIN);
}

static void own_tasks_are_admitted_beyond_the_limit(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    atomic_u32 ran = {0};
    own = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 1});
    for (int i = 1; i < COUNT; i++)
        CHECK_EQ(weft_pool_submit(weft_pools_get(own, i), gate_task, &gate), 0);
    await_at_gate(&gate, COUNT - 1);
    CHECK_EQ(weft_pool_submit(weft_pools_get(own, 0), submit_to_all, &ran), 0);
    AWAIT_FIGURE(weft_pools_get(own, 0), completed,
                 2); /* with the task that it submitted to its own pool */
    weft_pool_stats stats;
    CHECK_EQ(weft_pools_stats(own, &stats), 0);
    CHECK_EQ(stats.beyond, COUNT);
    CHECK_EQ(count_of(&ran), 1);
    gate_open(&gate);
    close_all(own);
    CHECK_EQ(count_of(&ran), COUNT);
}

/* Pools that close together: what their tasks submit, to any of the pools, still runs. */

static struct {
    weft_pools *pools;
    struct gate gate;
    atomic_u32 ran;
} family;

static void submit_on(void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    if (left == 5)
        CHECK_EQ(weft_wg_wait(&family.gate.shut), 0);
    for (int i = 0; left > 0 && i < 2; i++)
        CHECK_EQ(weft_pool_submit(weft_pools_pick(family.pools), submit_on, (void *)(left - 1)), 0);
    weft_yield();
    count_task(&family.ran);
}

static void close_family(void *arg)
{
    CHECK_EQ(weft_pools_close(family.pools), 0);
}

static void await_state(weft_pool *pool, int state)
{
    for (int times = 0; weft_pool_state(pool) != state;)
        look_again(&times);
}

static void pools_close_when_all_have_run(void)
{
    static const int strategies[] = {WEFT_ROUND_ROBIN, WEFT_LEAST_BUSY};
    for (int i = 0; i < 4; i++) {
        memset(&family, 0, sizeof family);
        gate_shut(&family.gate);
        weft_pool_options each = {.capacity = 1};
        CHECK_EQ(weft_pools_open(&family.pools, 4, strategies[i % 2], &each), 0);
        for (int k = 0; k < 2; k++)
            CHECK_EQ(
                weft_pool_submit(weft_pools_get(family.pools, k), submit_on, (void *)(uintptr_t)5),
                0);
        weft_pool *idle = weft_pools_get(family.pools, 3);
        struct body closer = {.function = close_family, .thread = i >= 2};
        body_start(&closer);
        await_state(idle, WEFT_POOL_STOPPING); /* and not stopped: other pools may submit to it */
        CHECK_EQ(weft_pool_submit(idle, count_task, &family.ran), -ESHUTDOWN);
        gate_open(&family.gate);
        body_join(&closer);
        CHECK_EQ(count_of(&family.ran), 2 * 63);
    }
}

/* A submit finds the pool that has room, also after that pool was full for a time. */
static void pools_with_room_are_found(void *arg)
{
    static const int strategies[] = {WEFT_ROUND_ROBIN, WEFT_LEAST_BUSY};
    enum { POOLS = 5, QUEUE = 4 };
    for (int s = 0; s < 2; s++)
        for (int turn = 0; turn < POOLS; turn++) {
            struct gate all, first, second;
            atomic_u32 ran = {0};
            weft_pools *pools;
            weft_pool_options each = {.capacity = 1, .queue = QUEUE, .when_full = WEFT_REJECT};
            gate_shut(&all);
            gate_shut(&first);
            gate_shut(&second);
            CHECK_EQ(weft_pools_open(&pools, POOLS, strategies[s], &each), 0);
            for (int i = 0; i < turn; i++) /* begin the round elsewhere */
                CHECK(weft_pools_pick(pools) != NULL);
            /* One is full, and then one task stands at a gate. */
            weft_pool *room = weft_pools_get(pools, 2);
            CHECK_EQ(weft_pool_submit(room, gate_task, &first), 0);
            submit_counts(room, &ran, QUEUE - 1);
            CHECK_EQ(weft_pool_submit(room, gate_task, &second), 0);
            CHECK_EQ(weft_pool_submit(room, gate_task, &second), -EAGAIN);
            for (int i = 0; i < POOLS; i++)
                for (int k = 0; i != 2 && k < 1 + QUEUE; k++)
                    CHECK_EQ(weft_pool_submit(weft_pools_get(pools, i), gate_task, &all), 0);
            CHECK_EQ(weft_pool_try_submit(weft_pools_pick(pools), gate_task, &all), -EAGAIN);
            gate_open(&first);
            await_at_gate(&second, 1);
            for (int i = 0; i < QUEUE; i++)
                CHECK_EQ(weft_pool_submit(weft_pools_pick(pools), gate_task, &second), 0);
            CHECK_EQ(weft_pool_submit(weft_pools_pick(pools), gate_task, &second), -EAGAIN);
            gate_open(&second);
            gate_open(&all);
            CHECK_EQ(weft_pools_close(pools), 0);
        }
}

static void open_without_memory(void)
{
    weft_pools *pools = POOLS_POISON;
    int error = weft_pools_open(&pools, 3, WEFT_ROUND_ROBIN, &(weft_pool_options){.prestart = 2});
    failing_check(error, failing_start);
    failing_off();
    if (error == 0)
        close_all(pools);
    else
        CHECK_PTR(pools, POOLS_POISON);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_EVERYWHERE(one_after_the_other);
    RUN_EVERYWHERE(the_least_busy_one);
    RUN_EVERYWHERE(when_all_are_full_it_waits);
    RUN_EVERYWHERE(pools_with_room_are_found);
    RUN_EVERYWHERE(sums);
    RUN_BOTH(many_submitters);
    RUN_BOTH(not_closed_from_inside);
    RUN_EVERYWHERE(own_tasks_are_admitted_beyond_the_limit);
    RUN_BOTH(pools_close_when_all_have_run);
    CHECK(failing_each(open_without_memory, 30) > 0);
    return 0;
}
