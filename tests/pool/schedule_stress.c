/*
 * schedule_stress.c: delayed and periodic submits in large numbers, and against cancels and a stop.
 */
#include "schedules.h"

static void use_handle(void *handle)
{
    CHECK_EQ(weft_schedule_cancel(*(weft_schedule **)handle), 1);
}

static void the_handle_is_there_before_the_run(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    for (int64_t i = 0; i < test_scale(2000); i++) {
        static weft_schedule *handle;
        handle = NULL;
        CHECK_EQ(weft_pool_submit_after(pool, use_handle, &handle, 0, &handle), 0);
        while (stats_of(handle).runs == 0)
            weft_yield();
        weft_schedule_release(handle);
    }
    pool_close(pool);
}

static void many(void)
{
    enum { SPREAD = 1000 };
    static atomic_u32 ran;
    int64_t count =
        test_scale(test_seeded ? 10000 : 100000); /* a seed draws among all that are ready */
    weft_pool *pool = POOL_OPEN(.capacity = 10, .queue = 100);
    atomic_u32_store_relaxed(&ran, 0);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit_after(pool, count_task, &ran, i % SPREAD * WEFT_US, NULL), 0);
    await(&ran, (uint32_t)count);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).submitted, count);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit_after(pool, count_task, &ran, LONG, NULL), 0);
    CHECK_EQ(pool_stats(pool).schedules, count);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).dropped, count);
    pool_close(pool);
}

/* Bodies schedule, cancel and release at any moment, and another stops the pool at any moment. */

enum { RACERS = 3, EACH = 40 };

static struct {
    weft_pool *pool;
    atomic_u32 accepted, ran, dropped, periodic, ready;
    weft_wg go;
    uint64_t seed;
} race;

static void race_drop(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == count_task);
    CHECK_PTR(arg, &race.ran);
    atomic_u32_add_seq_cst(&race.dropped, 1);
}

static void race_on(void *arg)
{
    struct prng lots;
    weft_schedule *kept[EACH];
    int count = 0;
    prng_seed(&lots, race.seed * RACERS + (uintptr_t)arg);
    for (int i = 0; i < EACH; i++) {
        bool periodic = prng_below(&lots, 4) == 0;
        weft_schedule_options options = {.delay = prng_below(&lots, 100) * WEFT_US,
                                         .period = periodic ? 20 * WEFT_US : 0,
                                         .key = prng_below(&lots, 3)};
        int error = weft_pool_schedule(race.pool, count_task, periodic ? &race.periodic : &race.ran,
                                       &options, &kept[count]);
        CHECK(error == 0 || error == -ESHUTDOWN);
        if (i == 5) { /* from now on it may be stopped */
            atomic_u32_add_seq_cst(&race.ready, 1);
            CHECK_EQ(weft_wg_wait(&race.go), 0);
        }
        if (error != 0)
            continue;
        atomic_u32_add_seq_cst(&race.accepted, !periodic);
        count++;
        if (prng_below(&lots, 2) == 0)
            weft_yield();
        if (prng_below(&lots, 3) == 0) {
            int result = weft_schedule_cancel(kept[prng_below(&lots, (uint32_t)count)]);
            CHECK(result >= 0 && result <= 2);
        }
        if (prng_below(&lots, 3) == 0)
            weft_schedule_release(kept[--count]);
    }
    while (count > 0)
        weft_schedule_release(kept[--count]);
}

static void stop_soon(void *arg)
{
    while (count_of(&race.ready) < RACERS)
        weft_yield();
    weft_wg_done(&race.go);
    CHECK_EQ(weft_sleep((int64_t)(race.seed % 100) * WEFT_US), 0);
    CHECK_EQ(weft_pool_stop(race.pool, WEFT_NEVER), 0);
}

static void race_with_the_stop(void)
{
    for (int64_t round = 0; round < test_scale(400); round++) {
        struct body bodies[RACERS + 1];
        memset(&race, 0, sizeof race);
        race.seed = (uint64_t)round;
        if (test_seeded)
            CHECK_EQ(weft_test_seed(&race.seed), 0);
        CHECK_EQ(weft_wg_init(&race.go, 1), 0);
        race.pool = POOL_OPEN(.capacity = 1 + round % 2, .queue = round % 3, .on_drop = race_drop);
        for (int i = 0; i < RACERS; i++)
            bodies[i] = (struct body){
                .function = race_on, .arg = (void *)(uintptr_t)i, .thread = (round + i) % 3 == 0};
        bodies[RACERS] = (struct body){.function = stop_soon, .thread = round % 2 == 0};
        bodies_run(bodies, RACERS + 1);
        uint32_t ran = count_of(&race.ran);
        uint32_t dropped = count_of(&race.dropped);
        CHECK(ran + dropped <= count_of(&race.accepted));
        weft_pool_stats stats = pool_stats(race.pool);
        CHECK_STATS(stats, IS(schedules, 0), IS(dropped, dropped),
                    IS(completed, ran + count_of(&race.periodic)), IS(blocked, 0));
        pool_close(race.pool);
    }
}

/* Each runs, or its cancel said that it does not. */
static void cancel_races_with_the_clock(void)
{
    for (int64_t round = 0; round < test_scale(2000); round++) {
        static atomic_u32 ran;
        weft_pool *pool = POOL_OPEN(.capacity = 1 + round % 2);
        atomic_u32_store_relaxed(&ran, 0);
        weft_schedule *one = after(pool, count_task, &ran, round % 30 * WEFT_US);
        weft_schedule *other = after(pool, count_task, &ran, round % 30 * WEFT_US);
        CHECK_EQ(weft_sleep(round % 30 * WEFT_US), 0);
        int cancelled = weft_schedule_cancel(one) == 0;
        cancelled += weft_schedule_cancel(other) == 0;
        await(&ran, (uint32_t)(2 - cancelled));
        pool_close(pool);
        CHECK_EQ(count_of(&ran), 2 - cancelled);
        weft_schedule_release(one);
        weft_schedule_release(other);
    }
}

int main(void)
{
    RUN_BOTH(the_handle_is_there_before_the_run);
    RUN_BOTH(many);
    RUN_BOTH(race_with_the_stop);
    RUN_BOTH(cancel_races_with_the_clock);
    return 0;
}
