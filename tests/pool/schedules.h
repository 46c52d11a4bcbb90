/*
 * schedules.h: for tests of delayed and periodic submits: calls that must succeed.
 */
#ifndef WEFT_TEST_SCHEDULES_H
#define WEFT_TEST_SCHEDULES_H

#include <weft/pools.h>
#include <weft/schedule.h>

#include "tasks.h"

#define SCHEDULE_POISON ((weft_schedule *)(uintptr_t)0xdead)

static inline weft_schedule_stats stats_of(weft_schedule *schedule)
{
    weft_schedule_stats stats;
    memset(&stats, 0x55, sizeof stats);
    CHECK_EQ(weft_schedule_stats_get(schedule, &stats), 0);
    return stats;
}

static inline weft_schedule *after(weft_pool *pool, void (*function)(void *), void *arg,
                                   int64_t delay)
{
    weft_schedule *schedule = SCHEDULE_POISON;
    CHECK_EQ(weft_pool_submit_after(pool, function, arg, delay, &schedule), 0);
    CHECK(schedule != SCHEDULE_POISON);
    return schedule;
}

static inline weft_schedule *every(weft_pool *pool, void (*function)(void *), void *arg,
                                   int64_t period)
{
    weft_schedule *schedule = SCHEDULE_POISON;
    CHECK_EQ(weft_pool_submit_every(pool, function, arg, period, &schedule), 0);
    CHECK(schedule != SCHEDULE_POISON);
    return schedule;
}

#endif
