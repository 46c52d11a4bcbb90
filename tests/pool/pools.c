/*
 * pools.c: several pools behind one door.
 */
#include <weft/weft.h>

#include "failing.h"
#include "figures.h"
#include "seeds.h"

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
    return stats.running + stats.queued;
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
    CHECK_EQ(weft_pools_submit(NULL, count_task, NULL), -EINVAL);
    CHECK_EQ(weft_pools_submit_until(NULL, count_task, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_pools_count(NULL), 0);
    CHECK_PTR(weft_pools_get(NULL, 0), NULL);
    weft_pool_stats stats = {.capacity = 1234};
    CHECK_EQ(weft_pools_stats(NULL, &stats), -EINVAL);
    CHECK_EQ(stats.capacity, 1234);
    CHECK_EQ(weft_pools_close(NULL), -EINVAL);
    pools = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 1});
    CHECK_EQ(weft_pools_submit(pools, NULL, NULL), -EINVAL);
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

/* Strategies. */

static void one_after_the_other(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pools *pools = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 100});
    for (int round = 1; round <= 5; round++) {
        for (int i = 0; i < COUNT; i++)
            CHECK_EQ(weft_pools_submit(pools, gate_task, &gate), 0);
        for (int i = 0; i < COUNT; i++)
            CHECK_EQ(inside(pools, i), round);
    }
    gate_open(&gate);
    close_all(pools);
    CHECK_EQ(gauge_total(&gate.gauge), 5 * COUNT);
    (void)arg;
}

static void the_least_busy_one(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    weft_pools *pools = make(WEFT_LEAST_BUSY, (weft_pool_options){.capacity = 2, .queue = 100});
    /* Uneven at first: running and waiting tasks count alike. */
    static const int before[COUNT] = {7, 0, 3, 1};
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < before[i]; k++)
            CHECK_EQ(weft_pool_submit(weft_pools_get(pools, i), gate_task, &gate), 0);
    for (int total = 11; total < 28; total++)
        CHECK_EQ(weft_pools_submit(pools, gate_task, &gate), 0);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(inside(pools, i), 7);
    gate_open(&gate);
    close_all(pools);
    CHECK_EQ(gauge_total(&gate.gauge), 28);
    (void)arg;
}

static void full_ones_are_passed_over(void *arg)
{
    static const int strategies[] = {WEFT_ROUND_ROBIN, WEFT_LEAST_BUSY};
    for (int s = 0; s < 2; s++) {
        struct gate gate;
        gate_shut(&gate);
        weft_pools *pools =
            make(strategies[s], (weft_pool_options){.capacity = 3, .when_full = WEFT_REJECT});
        for (int i = 0; i < COUNT; i++)
            if (i != 2)
                for (int k = 0; k < 3; k++)
                    CHECK_EQ(weft_pool_submit(weft_pools_get(pools, i), gate_task, &gate), 0);
        for (int k = 0; k < 3; k++)
            CHECK_EQ(weft_pools_submit(pools, gate_task, &gate), 0);
        CHECK_EQ(inside(pools, 2), 3);
        CHECK_EQ(weft_pools_submit(pools, gate_task, &gate), -EAGAIN); /* now all are full */
        gate_open(&gate);
        close_all(pools);
    }
    (void)arg;
}

static void when_all_are_full_it_waits(void *arg)
{
    struct gate gate;
    gate_shut(&gate);
    atomic_u32 ran = {0};
    weft_pools *pools = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 1});
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(weft_pools_submit(pools, gate_task, &gate), 0);
    CHECK_EQ(weft_pools_submit_until(pools, count_task, &ran, WEFT_NOW), -ETIMEDOUT);
    int64_t deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_pools_submit_until(pools, count_task, &ran, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    gate_open(&gate);
    CHECK_EQ(weft_pools_submit(pools, count_task, &ran), 0);
    close_all(pools);
    CHECK_EQ(atomic_u32_load_relaxed(&ran), 1);
    (void)arg;
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
        CHECK_EQ(weft_pools_submit(pools, gate_task, &gate), 0);
    CHECK_EQ(weft_pools_submit(pools, count_task, &ran), -EAGAIN);
    await_at_gate(&gate, 2 * COUNT);
    weft_pool_stats stats;
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_EQ(stats.capacity, 2 * COUNT);
    CHECK_EQ(stats.running, 2 * COUNT);
    CHECK_EQ(stats.queued, COUNT);
    CHECK_EQ(stats.submitted, 3 * COUNT);
    CHECK_EQ(stats.rejected, 1);
    CHECK_EQ(stats.workers, 2 * COUNT);
    CHECK_EQ(stats.completed, 0);
    int64_t aborted = 0;
    for (int i = 0; i < COUNT; i++)
        aborted += weft_pool_abort(weft_pools_get(pools, i));
    CHECK_EQ(aborted, COUNT);
    gate_open(&gate);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(weft_pool_stop(weft_pools_get(pools, i), WEFT_NEVER), 0);
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_EQ(stats.completed, 2 * COUNT);
    CHECK_EQ(stats.dropped, COUNT);
    CHECK_EQ(stats.running, 0);
    CHECK_EQ(stats.workers, 0);
    CHECK(stats.most_workers >= 2 * COUNT);
    CHECK_EQ(weft_pools_submit(pools, count_task, &ran), -ESHUTDOWN);
    close_all(pools);
    pools = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = WEFT_UNLIMITED});
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_EQ(stats.capacity, WEFT_UNLIMITED);
    close_all(pools);
    (void)arg;
}

/* Many at the door. */

struct visitor {
    weft_pools *pools;
    int64_t count;
    atomic_u32 *ran;
};

static void visit(void *arg)
{
    const struct visitor *visitor = arg;
    for (int64_t i = 0; i < visitor->count; i++)
        CHECK_EQ(weft_pools_submit(visitor->pools, count_task, visitor->ran), 0);
}

static void many_submitters(void)
{
    static const int strategies[] = {WEFT_ROUND_ROBIN, WEFT_LEAST_BUSY};
    for (int s = 0; s < 2; s++) {
        atomic_u32 ran = {0};
        struct visitor visitor = {
            make(strategies[s], (weft_pool_options){.capacity = 3, .queue = 2}), test_scale(3000),
            &ran};
        struct body bodies[6];
        for (int i = 0; i < 6; i++)
            bodies[i] = (struct body){.function = visit, .arg = &visitor, .thread = i % 2 == 0};
        bodies_run(bodies, 6);
        close_all(visitor.pools); /* waits for all of them */
        CHECK_EQ(atomic_u32_load_relaxed(&ran), 6 * test_scale(3000));
    }
}

static weft_pools *own;

static void close_from_inside(void *result)
{
    *(int *)result = weft_pools_close(own);
}

static void not_closed_from_inside(void)
{
    int result[COUNT] = {0};
    own = make(WEFT_ROUND_ROBIN, (weft_pool_options){.capacity = 1});
    /* Only that of its own pool says so; and that one is closed last of all, so nothing is lost. */
    CHECK_EQ(weft_pool_submit(weft_pools_get(own, COUNT - 1), close_from_inside, &result[0]), 0);
    AWAIT_FIGURE(weft_pools_get(own, COUNT - 1), completed, 1);
    CHECK_EQ(result[0], -EDEADLK);
    CHECK_EQ(weft_pools_count(own), COUNT);
    close_all(own);
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
    RUN_EVERYWHERE(full_ones_are_passed_over);
    RUN_EVERYWHERE(when_all_are_full_it_waits);
    RUN_EVERYWHERE(sums);
    RUN_BOTH(many_submitters);
    RUN_BOTH(not_closed_from_inside);
    CHECK(failing_each(open_without_memory, 30) > 0);
    return 0;
}
