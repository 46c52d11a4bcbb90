/*
 * test_point.h: places in the code where a test run or chaos may let other fibers go first: see
 * test_point.c.
 */
#ifndef WEFT_SCHED_CHECK_TEST_POINT_H
#define WEFT_SCHED_CHECK_TEST_POINT_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/compiler.h"

struct thread;

/* Whether a test run is under way, or the common scheduler works with forced yields. Written
 * while no machine exists. */
enum { TESTING_NOT = 0, TESTING_SEEDED, TESTING_CHAOS };
extern atomic_u32 weft__testing;
static inline bool seeded(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__testing) == TESTING_SEEDED);
}
/* Whether there is anything to do at the points below. */
static inline bool test_points(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__testing) != TESTING_NOT);
}

/* A place where the seed, or chaos, may let others go first. Calls of weft that enter the
 * runtime are such places by themselves; this is for those that do not, if they need not wait.
 * For callers outside the runtime. */
void weft__test_point(void);
static inline void test_point(void)
{
    if (test_points())
        weft__test_point();
}

/* In a fiber that has just entered the runtime, which may go on on another thread: such an entry
 * is a test point too. */
struct thread *weft__test_enter(struct thread *thread);

#endif
