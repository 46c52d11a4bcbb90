/*
 * timers.c: in which order those run whose time has come at once. The time is said to have come: nobody waits for it.
 */
#include <errno.h>

#include "sched/sched.h"
#include "seeds.h"
#include <weft/weft.h>

enum { SLEEPERS = 50, NAPPER = SLEEPERS, ALL };

static int64_t deadline; /* of all, and far away */
static int order[ALL], ran;

static void sleep_till_then(void *arg)
{
    CHECK_EQ(weft_sleep_until(deadline), 0);
    order[ran++] = (int)(intptr_t)arg;
}

/* As one who naps until a pool has places. */
static void nap_till_then(void *arg)
{
    struct thread *thread = runtime_enter(thread_self());
    CHECK_EQ(weft__park(&thread->fiber->waiter, WAIT_POOL_SUBMIT | WAIT_FIRM | WAIT_TOLD, NULL,
                        NULL, deadline),
             -ETIMEDOUT);
    runtime_leave(thread_self());
    order[ran++] = (int)(intptr_t)arg;
}

static bool fire(void)
{
    struct thread *thread = runtime_enter(thread_self());
    bool fired = weft__timers_fire(thread->processor, thread->processor, deadline + WEFT_MS);
    runtime_leave(thread_self());
    return fired;
}

static void start(void (*function)(void *), int number)
{
    CHECK_EQ(weft_go(function, (void *)(intptr_t)number), 0);
    weft_yield(); /* it runs, and parks */
}

static void run_all(int count)
{
    while (ran < count)
        weft_yield();
}

static void fire_all(void *arg)
{
    (void)arg;
    deadline = weft_now() + 3600 * WEFT_S;
    for (int i = 0; i < SLEEPERS; i++)
        start(sleep_till_then, i);
    start(nap_till_then, NAPPER);
    CHECK(fire());
    run_all(ALL);
    CHECK_EQ(order[0], NAPPER);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQ(order[1 + i], i);
}

static void note(void *arg)
{
    order[ran++] = (int)(intptr_t)arg;
}

/* Of two who nap the first one goes first; neither the other is lost, nor who was to run next. */
static void fire_two_naps(void *arg)
{
    (void)arg;
    ran = 0;
    deadline += 3600 * WEFT_S;
    start(nap_till_then, 0);
    start(sleep_till_then, 2);
    start(nap_till_then, 3);
    CHECK_EQ(weft_go(note, (void *)(intptr_t)1), 0);
    CHECK(fire());
    run_all(4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(order[i], i);
}

/* One who naps is all that is ready: that is something. */
static void fire_one_nap(void *arg)
{
    (void)arg;
    ran = 0;
    deadline += 3600 * WEFT_S;
    CHECK(!fire());
    start(nap_till_then, 0);
    CHECK(fire());
    run_all(1);
}

static void run(void (*function)(void *))
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
}

static void who_naps_for_a_place_goes_first(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    run(fire_all);
    run(fire_two_naps);
    run(fire_one_nap);
}

int main(void)
{
    RUN_PLAIN(who_naps_for_a_place_goes_first, "knows who runs next on one processor");
    return 0;
}
