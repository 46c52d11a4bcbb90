/*
 * firing.c: the order in which fibers run whose timers are due at the same time, and their turns
 * among other fibers.
 */
#include "order.h"
#include "sleeper.h"

enum { SLEEPERS = 50, MANY = 1000 };

static void first_armed_first_run(void *arg)
{
    for (int i = 0; i < SLEEPERS; i++)
        start_and_yield(sleep_and_note, i);
    CHECK(fire());
    run_all(SLEEPERS);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQ(order[i], i);
}

/* Many fibers are late, and each that has its turn wakes another: none runs before one that was to
 * wake earlier. */

static void sleep_and_fire(void *arg)
{
    sleep_and_note(arg);
    (void)fire();
    CHECK_EQ(weft_go(nothing, NULL), 0);
}

static void late_fibers_keep_their_order(void *arg)
{
    for (int i = 0; i < MANY; i++)
        start_and_yield(sleep_and_fire, i);
    while (ran < MANY) {
        (void)fire();
        weft_yield();
    }
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(order[i], i);
}

/* Timers have their turn, however many fibers keep the ring full. */
static void a_sleeper_wakes_beside_a_crowd(void *arg)
{
    static const int64_t counts[] = {1, 100, 130, 200, 250, 256, 258, 300, BESIDE_MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        sleep_beside(counts[i]);
}

/* Late fibers have their turns among others that want turns all the time, not only after those have
 * ended. */

enum { LATE = 400, TURNS_MOST = LATE * 8, OTHERS_MOST = 150 };

static int64_t yields;

static void yield_and_fire(void *arg)
{
    while (ran < LATE) {
        (void)fire();
        weft_yield();
        yields++;
    }
}

static void late_fibers_share_the_turns(void *arg)
{
    static const int64_t counts[] = {1, 60, 100, 120, 127, 130, OTHERS_MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ran = 0;
        yields = 0;
        deadline += 3600 * WEFT_S;
        for (int k = 0; k < LATE; k++)
            start_and_yield(sleep_and_note, k);
        run_fibers(counts[i], yield_and_fire, NULL);
        CHECK(yields - counts[i] < TURNS_MOST);
    }
}

int main(void)
{
    RUN_PLAIN_ALONE(first_armed_first_run);
    RUN_PLAIN_ALONE(late_fibers_keep_their_order);
    RUN_PLAIN_ALONE(a_sleeper_wakes_beside_a_crowd);
    RUN_PLAIN_ALONE(late_fibers_share_the_turns);
    return 0;
}
