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

/* Many are late, and each that has its turn wakes another: none of them comes before one that was to wake earlier. */

enum { MANY = 1000 };

static int many_order[MANY], many_ran;

static void end_at_once(void *arg)
{
    (void)arg;
}

static void sleep_late(void *arg)
{
    CHECK_EQ(weft_sleep_until(deadline), 0);
    many_order[many_ran++] = (int)(intptr_t)arg;
    (void)fire();
    CHECK_EQ(weft_go(end_at_once, NULL), 0);
}

static void fire_many(void *arg)
{
    (void)arg;
    deadline += 3600 * WEFT_S;
    for (int i = 0; i < MANY; i++)
        start(sleep_late, i);
    while (many_ran < MANY) {
        (void)fire();
        weft_yield();
    }
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(many_order[i], i);
}

/* One who naps to look after others is not late where they are, though the ring is as full as timers may make it. */

static int ran_before_nap = -1; /* of the many, and of others */

static void nap_promptly(void *arg)
{
    struct thread *thread = runtime_enter(thread_self());
    CHECK_EQ(weft__park(&thread->fiber->waiter, WAIT_POOL_NAP | WAIT_FIRM | WAIT_TOLD, NULL, NULL,
                        deadline + WEFT_MS / 2),
             -ETIMEDOUT);
    runtime_leave(thread_self());
    ran_before_nap = many_ran + ran;
    (void)arg;
}

/* One who only waits for a place gives way to it. */
static void fire_nap_behind_another(void *arg)
{
    (void)arg;
    ran = many_ran = 0;
    ran_before_nap = -1;
    deadline += 3600 * WEFT_S;
    start(nap_promptly, 0);
    start(nap_till_then, 0);
    struct thread *thread = runtime_enter(thread_self());
    CHECK(weft__timers_fire(thread->processor, thread->processor, deadline + WEFT_MS / 4));
    CHECK(weft__timers_fire(thread->processor, thread->processor, deadline + WEFT_MS));
    runtime_leave(thread_self());
    run_all(1);
    CHECK_EQ(ran_before_nap, 0);
}

static void fire_many_and_a_nap(void *arg)
{
    (void)arg;
    ran = many_ran = 0;
    deadline += 3600 * WEFT_S;
    start(nap_promptly, 0);
    for (int i = 0; i < MANY; i++)
        start(sleep_late, i);
    struct thread *thread = runtime_enter(thread_self());
    while (weft__timers_fire(thread->processor, thread->processor, deadline + WEFT_MS / 4))
        continue;
    runtime_leave(thread_self());
    CHECK(fire());
    while (many_ran < MANY || ran_before_nap < 0) {
        (void)fire();
        weft_yield();
    }
    CHECK_EQ(ran_before_nap, 0);
}

/* However long others keep the ring, timers have their turn. */

enum { YIELDS_MOST = 100000000 };

static bool slept;
static int64_t yields;

static void sleep_a_moment(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    slept = true;
}

static void yield_until_slept(void *arg)
{
    (void)arg;
    while (!slept) {
        weft_yield();
        CHECK(yields++ < YIELDS_MOST);
    }
}

/* Of the turns, not only at the end: as many are late as others want turns all the time. */

enum { LATE = 400, TURNS_MOST = LATE * 8 };

static int late_ran;

static void count_late(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep_until(deadline), 0);
    late_ran++;
}

static void yield_and_fire(void *arg)
{
    (void)arg;
    while (late_ran < LATE) {
        (void)fire();
        weft_yield();
        yields++;
    }
}

static void share_with(int64_t count)
{
    weft_fiber *fibers[1000];
    late_ran = 0;
    yields = 0;
    deadline += 3600 * WEFT_S;
    for (int i = 0; i < LATE; i++)
        start(count_late, i);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_spawn(&fibers[i], yield_and_fire, NULL, NULL), 0);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK(yields - count < TURNS_MOST);
}

static void share_the_turns(void *arg)
{
    (void)arg;
    static const int64_t counts[] = {1, 60, 100, 120, 127, 130, 150};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        share_with(counts[i]);
}

/* Nor does one who naps again and again, and is prompt, take the turns of all others who sleep. */

static void nap_until_slept(void *arg)
{
    (void)arg;
    while (!slept) {
        struct thread *thread = runtime_enter(thread_self());
        CHECK_EQ(weft__park(&thread->fiber->waiter, WAIT_POOL_NAP | WAIT_FIRM | WAIT_TOLD, NULL,
                            NULL, weft_now() + WEFT_US),
                 -ETIMEDOUT);
        runtime_leave(thread_self());
    }
}

static void compute_until_slept(void *arg)
{
    enum { PAUSES = 20, MOST = 3000000 };
    (void)arg;
    while (!slept) {
        for (int i = 0; i < PAUSES; i++)
            cpu_relax();
        weft_yield();
        CHECK(yields++ < MOST);
    }
}

static void sleep_beside_naps(void *arg)
{
    enum { OTHERS = 150 };
    (void)arg;
    weft_fiber *fibers[OTHERS + 1];
    slept = false;
    yields = 0;
    CHECK_EQ(weft_spawn(&fibers[OTHERS], nap_until_slept, NULL, NULL), 0);
    for (int i = 0; i < OTHERS; i++)
        CHECK_EQ(weft_spawn(&fibers[i], compute_until_slept, NULL, NULL), 0);
    weft_yield();
    CHECK_EQ(weft_go(sleep_a_moment, NULL), 0);
    for (int i = 0; i <= OTHERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void crowd(int64_t count)
{
    weft_fiber *fibers[1000];
    slept = false;
    yields = 0;
    CHECK_EQ(weft_go(sleep_a_moment, NULL), 0);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_spawn(&fibers[i], yield_until_slept, NULL, NULL), 0);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
}

static void sleep_in_a_crowd(void *arg)
{
    (void)arg;
    static const int64_t counts[] = {1, 100, 130, 200, 250, 256, 258, 300, 1000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        crowd(counts[i]);
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
    /* No monitor, the second thread to be started: it would give the processor to another if this thread has no CPU for long. */
    weft__sys_fail(SYS_THREAD, 2, true);
    run(fire_all);
    weft__sys_fail(SYS_THREAD, 0, false);
    run(fire_two_naps);
    run(fire_one_nap);
}

static void who_is_late_waits_in_its_order(void)
{
    run(fire_many);
    run(fire_many_and_a_nap);
    run(fire_nap_behind_another);
    run(sleep_in_a_crowd);
    run(share_the_turns);
    run(sleep_beside_naps);
}

int main(void)
{
    RUN_PLAIN(who_naps_for_a_place_goes_first, "knows who runs next on one processor");
    RUN_PLAIN(who_is_late_waits_in_its_order, "knows who runs next on one processor");
    return 0;
}
