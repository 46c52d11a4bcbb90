/*
 * sleep.c: the clock, deadlines, and sleeping: never too short, in order, and not much too long.
 */
#include "base/compiler.h"
#include "everywhere.h"
#include "fibers.h"
#include "sched/fiber/fiber.h"
#include "seeds.h"

static void the_clock_is_the_monotonic_one(void)
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    int64_t now = weft_now();
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(now >= (int64_t)before.tv_sec * WEFT_S + before.tv_nsec);
    CHECK(now <= (int64_t)after.tv_sec * WEFT_S + after.tv_nsec);
}

static void deadlines_do_not_overflow(void)
{
    int64_t before = weft_now(), deadline = weft_after(WEFT_S);
    CHECK(deadline >= before + WEFT_S && deadline <= weft_now() + WEFT_S);
    CHECK_EQ(weft_after(0), WEFT_NOW);
    CHECK_EQ(weft_after(-1), WEFT_NOW);
    CHECK_EQ(weft_after(INT64_MIN), WEFT_NOW);
    CHECK_EQ(weft_after(INT64_MAX), WEFT_NEVER);
    CHECK_EQ(weft_after(INT64_MAX - 1), WEFT_NEVER);
    CHECK_EQ(weft_after(INT64_MAX - before), WEFT_NEVER);
    /* The largest that fits. */
    deadline = weft_after(INT64_MAX - before - 3600 * WEFT_S);
    CHECK(deadline > INT64_MAX - 3601 * WEFT_S && deadline < WEFT_NEVER);
}

static void never_early(void *arg)
{
    static const int64_t durations[] = {
        1,           999,    4095,          4096,    4097,        10 * WEFT_US,   50 * WEFT_US,
        123456,      262144, 500 * WEFT_US, WEFT_MS, WEFT_MS + 1, 1500 * WEFT_US, 5 * WEFT_MS,
        17 * WEFT_MS};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
            int64_t before = weft_now();
            CHECK_EQ(weft_sleep(durations[i]), 0);
            CHECK(weft_now() >= before + durations[i]);
            int64_t deadline = weft_now() + durations[i];
            CHECK_EQ(weft_sleep_until(deadline), 0);
            CHECK(weft_now() >= deadline);
        }
}

/* Many fibers at once, each with its own lengths. */

static void sleep_at_random(void *arg)
{
    struct prng prng = prng_from((uintptr_t)arg);
    for (int round = 0; round < 10; round++) {
        int64_t deadline = weft_now() + (int64_t)prng_below(&prng, 20 * 1000 * 1000);
        CHECK_EQ(weft_sleep_until(deadline), 0);
        CHECK(weft_now() >= deadline);
    }
}

static void never_early_in_a_crowd(void)
{
    enum { CROWD = 500 };
    run_each(CROWD, sleep_at_random);
}

static void the_past_is_over(void *arg)
{
    static const int64_t past[] = {0, -1, INT64_MIN};
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
        CHECK_EQ(weft_sleep(past[i]), 0); /* returns */
        CHECK_EQ(weft_sleep_until(past[i]), 0);
    }
    CHECK_EQ(weft_sleep_until(1), 0);
    CHECK_EQ(weft_sleep_until(weft_now() - WEFT_S), 0);
    CHECK_EQ(weft_sleep_until(weft_now()), 0);
}

/* On one processor a sleep of zero lets the other fiber run, as a yield does. */

static void set_flag(void *arg)
{
    *(bool *)arg = true;
}

static void zero_yields(void *arg)
{
    static const int64_t past[] = {0, -5};
    for (size_t i = 0; i < 2; i++) {
        bool ran = false;
        CHECK_EQ(weft_go(set_flag, &ran), 0);
        CHECK(!ran);
        CHECK_EQ(weft_sleep(past[i]), 0);
        CHECK(ran);
    }
}

/* On one processor fibers whose deadlines are a tick of the clock apart wake in their order, also
 * when all are due before the clock is read. */

enum { SLEEPERS = 64, APART = 10000 /* ns */ };

static struct {
    int64_t base;
    uint32_t order[SLEEPERS], woken;
} line;

static void sleep_in_line(void *arg)
{
    uint32_t number = (uint32_t)(uintptr_t)arg;
    CHECK_EQ(weft_sleep_until(line.base + (int64_t)APART * number), 0);
    line.order[line.woken++] = number;
}

static void spawn_line(void *arg)
{
    weft_fiber *fibers[SLEEPERS];
    bool hold = arg != NULL;
    line.woken = 0;
    line.base = weft_after(20 * WEFT_MS);
    for (uintptr_t i = 0; i < SLEEPERS; i++) {
        uintptr_t number = i * 37 % SLEEPERS; /* each once, mixed */
        CHECK_EQ(weft_spawn(&fibers[i], sleep_in_line, (void *)number, NULL), 0);
    }
    weft_yield(); /* they sleep now */
    if (hold)
        compute_until(line.base + (int64_t)APART * (SLEEPERS + 1));
    join_all(fibers, SLEEPERS);
}

static void check_line(void)
{
    CHECK_EQ(line.woken, SLEEPERS);
    for (uint32_t i = 0; i < SLEEPERS; i++)
        CHECK_EQ(line.order[i], i);
}

static void wakes_in_order(void)
{
    static char hold;
    on_one_machine(spawn_line, NULL);
    check_line();
    on_one_machine(spawn_line, &hold);
    check_line();
}

/* The only check of a duration: a sleep of 50 us takes less than one of a millisecond. */

enum { SHORT_SLEEPS = 401 };
static int64_t lengths[SHORT_SLEEPS];

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void sleep_shortly(void *arg)
{
    for (int i = 0; i < SHORT_SLEEPS; i++) {
        int64_t before = weft_now();
        CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
        lengths[i] = weft_now() - before;
    }
}

static void short_sleeps_are_short(void)
{
    run_fiber(sleep_shortly, NULL);
    qsort(lengths, SHORT_SLEEPS, sizeof lengths[0], compare);
    int64_t median = lengths[SHORT_SLEEPS / 2];
    printf("    median of sleeping 50 us: %lld ns\n", (long long)median);
    CHECK(median >= 50 * WEFT_US);
    CHECK(median < 525 * WEFT_US);
}

/* A sleep for ever switches directly to the next fiber, as any other wait does. */

enum { FOR_EVER = 10 };
static int slept_on;

static void see_it_asleep(void *sleeper)
{
    CHECK_EQ(((weft_fiber *)sleeper)->state, FIBER_PARKED);
    slept_on++;
}

static void sleep_for_ever(void *arg)
{
    CHECK_EQ(weft_go(see_it_asleep, weft_self()), 0);
    CHECK_EQ(weft_sleep_until(WEFT_NEVER), 0);
    CHECK(!"it is awake");
}

static void watch_sleepers(void *arg)
{
    go_many(FOR_EVER, sleep_for_ever, NULL);
    while (slept_on < FOR_EVER)
        weft_yield();
    _exit(0); /* they never end */
}

static void sleep_in_child(void *arg)
{
    on_one_machine(watch_sleepers, arg);
}

static void some_sleep_for_ever(void)
{
    const char *written;
    int status = test_in_child(sleep_in_child, NULL, &written);
    test_exited(status, 0);
}

int main(void)
{
    RUN_PLAIN(some_sleep_for_ever, "some fibers never end");
    RUN_PLAIN(the_clock_is_the_monotonic_one, "about real time");
    RUN_BOTH(deadlines_do_not_overflow);
    RUN_EVERYWHERE(never_early);
    RUN_BOTH(never_early_in_a_crowd);
    RUN_EVERYWHERE(the_past_is_over);
    RUN_PLAIN_ONE_MACHINE(zero_yields, "knows who runs next on one processor");
    RUN_BOTH(wakes_in_order);
    RUN_PLAIN(short_sleeps_are_short, "about real time");
    shut_down();
    return 0;
}
