/*
 * test_point.h: points in the code where a test run or chaos may run other fibers first: see
 * test_point.c.
 */
#ifndef WEFT_SCHED_CHECK_TEST_POINT_H
#define WEFT_SCHED_CHECK_TEST_POINT_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/compiler.h"

struct thread;

/* Mode of the scheduler: ordinary, a test run (seeded.c), or forced yields (chaos.c). Written while
 * no machine exists. */
enum { TESTING_NOT = 0, TESTING_SEEDED, TESTING_CHAOS };
extern atomic_u32 weft__testing;
static inline bool seeded(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__testing) == TESTING_SEEDED);
}
/* Whether test points do anything. */
static inline bool test_points(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__testing) != TESTING_NOT);
}

/* A point where other fibers may run first. An entry into the runtime is such a point by itself;
 * this is for calls that do not enter it when they need not wait. Called outside the runtime. */
void weft__test_point(void);
static inline void test_point(void)
{
    if (test_points())
        weft__test_point();
}

/* The test point of an entry into the runtime. In a fiber that has just entered. Returns the thread
 * that the fiber is on after it. */
struct thread *weft__test_enter(struct thread *thread);

#endif
