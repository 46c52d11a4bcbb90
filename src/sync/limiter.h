/*
 * limiter.h: a rate limiter and its line, for limiter.c and its test.
 */
#ifndef WEFT_SYNC_LIMITER_H
#define WEFT_SYNC_LIMITER_H

#include <stdbool.h>
#include <weft/limiter.h>

#include "sched/park.h"

/* One take in line; on the stack of the call that waits. */
struct take {
    struct take *next, *previous;
    struct waiter *waiter;
    int64_t events;
    int64_t until; /* what its clock is set to */
    bool granted;  /* its events are its own, and it is out of the line */
};

struct weft_limiter {
    uint32_t latch; /* for everything below */
    int64_t rate, period, burst;
    int64_t level;    /* whole events there are, those that are reserved included */
    int64_t part;     /* a part of an event, in units of 1/period; from 0 to period - 1 */
    int64_t counted;  /* up to when level and part are counted */
    int64_t reserved; /* events that those in line have asked for */
    struct take *first, *last;
};

#endif
