/*
 * failure.h: what becomes of panics, crashes, and workers that do not come back.
 */
#ifndef WEFT_POOL_FAILURE_H
#define WEFT_POOL_FAILURE_H

#include "pool/pool_internal.h"
#include "pool/worker.h"
#include "sched/fiber/panic.h"

/* Panics. Outside the latch. */

/* A task panicked: it is counted, and on_panic is called; true if there is one. */
bool weft__pool_notify_panic(weft_pool *pool, struct panic *panic, void (*function)(void *),
                             void *arg);
/* A task panicked that has no handle or group: without on_panic it is reported. Ends the panic. */
void weft__pool_panicked(weft_pool *pool, const struct plain_task *task, struct panic *panic);
/* Calls one of the functions of the options; true if it panicked, which is counted and reported. */
bool weft__pool_call_option(weft_pool *pool, void (*function)(void *), void *arg);

/* Crashes. */

/* A worker that can be abandoned in its task; 0 or an error. And: in its fiber, when it has
 * ended. */
int weft__isolated_make(weft_pool *pool);
void weft__isolated_end(struct worker *worker);

/* Around code that is not that of the task which the caller runs, if it is a worker: a fault in
 * it is not the task's. Disarm returns what rearm is to be given. */
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

/* Stuck workers: the list of all pools. */

void weft__pools_add(weft_pool *pool);
void weft__pools_remove(weft_pool *pool);

#endif
