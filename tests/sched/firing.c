/*
 * firing.c: in which order those run whose time has come at once. The time is said to have come: nobody waits for it.
 */
#include <errno.h>

#include "os/failure.h"
#include "os/os.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "seeds.h"
#include <weft/weft.h>

enum { SLEEPERS = 50 };

static int64_t deadline; /* of all, and far away */
static int order[SLEEPERS], ran;

static void sleep_till_then(void *arg)
{
    CHECK_EQ(weft_sleep_until(deadline), 0);
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
    CHECK(fire());
    run_all(SLEEPERS);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQ(order[i], i);
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

static void first_armed_first_run(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1}), 0);
    /* No monitor, the second thread to be started: it would give the processor to another if this thread has no CPU for long. */
    weft__os_fail(OS_THREAD, 2, true);
    run(fire_all);
    weft__os_fail(OS_THREAD, 0, false);
}

static void who_is_late_waits_in_its_order(void)
{
    run(fire_many);
    run(sleep_in_a_crowd);
    run(share_the_turns);
}

int main(void)
{
    RUN_PLAIN(first_armed_first_run, "knows who runs next on one processor");
    RUN_PLAIN(who_is_late_waits_in_its_order, "knows who runs next on one processor");
    return 0;
}
