/*
 * order.h: in which order fibers run on one processor. The fibers note their numbers; the test
 * fires the timers, so that nothing waits for the clock.
 */
#ifndef WEFT_TEST_ORDER_H
#define WEFT_TEST_ORDER_H

#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"

enum { ORDER_MOST = 2000 };

static int64_t deadline;           /* of all sleepers; far away */
static int order[ORDER_MOST], ran; /* the numbers of the fibers that have run */

/* Runs the function in a fiber on one processor without a monitor, which is the second thread to be
 * started: it would retake the processor if this thread has no CPU for long. */
static inline void run_alone(void (*function)(void *))
{
    configure(1);
    weft__os_fail(OS_THREAD, 2, true);
    ran = 0;
    deadline = weft_now() + 3600 * WEFT_S;
    run_fiber(function, NULL);
    weft__os_fail(OS_THREAD, 0, false);
    shut_down();
}

#define RUN_PLAIN_ALONE(function) \
    (test_title(#function " (not under seeds: knows which fiber runs next)"), run_alone(function))

static inline void note(void *arg)
{
    order[ran++] = (int)(intptr_t)arg;
}

static inline void sleep_and_note(void *arg)
{
    CHECK_EQ(weft_sleep_until(deadline), 0);
    note(arg);
}

static inline void start(void (*function)(void *), int number)
{
    CHECK_EQ(weft_go(function, (void *)(intptr_t)number), 0);
}

static inline void start_and_yield(void (*function)(void *), int number)
{
    start(function, number);
    weft_yield(); /* the fiber runs, and parks */
}

/* Fires the timers that are due at the deadline; false if there is none. */
static inline bool fire(void)
{
    struct thread *thread = runtime_enter(thread_self());
    bool fired = weft__timers_fire(thread->processor, thread->processor, deadline + WEFT_MS);
    runtime_leave(thread_self());
    return fired;
}

static inline void run_all(int count)
{
    while (ran < count)
        weft_yield();
}

/* How many fibers ran before the one with that number. */
static inline int place_of(int number)
{
    int place = 0;
    while (order[place] != number) {
        CHECK(place < ran);
        place++;
    }
    return place;
}

#endif
