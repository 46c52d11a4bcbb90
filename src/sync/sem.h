/*
 * sem.h: a request in the line of a semaphore, for sem.c and its test.
 */
#ifndef WEFT_SYNC_SEM_H
#define WEFT_SYNC_SEM_H

#include <weft/sem.h>

#include "sched/core/park.h"

/* A request in line; on the stack of the call that waits, or in the stash of a compact fiber. */
struct request {
    struct request *next, *previous;
    struct waiter *waiter;
    int64_t units;
    bool listed;
};

#endif
