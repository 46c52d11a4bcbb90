/*
 * schedule.h: the end of the schedules of a pool.
 */
#ifndef WEFT_POOL_SCHEDULE_H
#define WEFT_POOL_SCHEDULE_H

#include "pool/pool_internal.h"

/* Outside the latch, when the pool stops, by a call that pins it: ends all schedules, and drops the
 * tasks that were to run once. */
void weft__schedules_stop(weft_pool *pool);

#endif
