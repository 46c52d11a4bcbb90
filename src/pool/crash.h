/*
 * crash.h: workers of a pool that isolates crashes.
 */
#ifndef WEFT_POOL_CRASH_H
#define WEFT_POOL_CRASH_H

#include "pool/pool.h"

/* A worker that can be abandoned in its task; 0 or an error. */
int weft__isolated_make(weft_pool *pool);
/* In its fiber: it has ended. */
void weft__isolated_end(struct worker *worker);

/* Around code that is not that of the task which the caller runs, if it is a worker: a fault in it is not the
 * task's. Disarm returns what rearm is to be given. */
static inline struct worker *weft__worker_disarm(void)
{
    struct worker *worker = weft__worker_self();
    if (worker == NULL || !worker->armed)
        return NULL;
    worker->armed = false;
    return worker;
}

static inline void weft__worker_rearm(struct worker *worker)
{
    if (worker != NULL)
        worker->armed = true;
}

#endif
