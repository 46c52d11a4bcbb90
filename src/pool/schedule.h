/*
 * schedule.h: what the life of a pool needs of its schedules.
 */
#ifndef WEFT_POOL_SCHEDULE_H
#define WEFT_POOL_SCHEDULE_H

#include "pool/pool_internal.h"

/* The pool stops, and the caller is a visitor: ends all schedules, and drops what was to run
 * once. Outside the latch. */
void weft__schedules_stop(weft_pool *pool);

#endif
