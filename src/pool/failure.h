/*
 * failure.h: panics, crashes, and workers that are stuck.
 */
#ifndef WEFT_POOL_FAILURE_H
#define WEFT_POOL_FAILURE_H

#include "pool/pool_internal.h"
#include "pool/worker.h"
#include "sched/fiber/panic.h"

/* Panics. Outside the latch. */

/* A task has panicked: counts that and calls on_panic. False: there is none. */
bool weft__pool_notify_panic(weft_pool *pool, struct panic *panic, void (*function)(void *),
                             void *arg);
/* A task without a handle or group has panicked: as weft__pool_notify_panic; without on_panic the
 * panic is reported. Frees the panic. */
void weft__pool_panicked(weft_pool *pool, const struct plain_task *task, struct panic *panic);
/* Calls a function of the options. True: it has panicked, which was counted and reported. */
bool weft__pool_call_option(weft_pool *pool, void (*function)(void *), void *arg);

/* Crashes. */

/* Makes a worker that can be abandoned in its task: 0 or an error. weft__isolated_end is called in
 * its fiber when the worker has ended. */
int weft__isolated_make(weft_pool *pool);
void weft__isolated_end(struct worker *worker);

/* Around code that a worker runs on behalf of its task and that is not the task's own: a fault in
 * it is not isolated. The result of disarm is passed to rearm. */
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

/* Stuck workers: the list of all pools, which the watcher looks at. */

void weft__pools_add(weft_pool *pool);
void weft__pools_remove(weft_pool *pool);

#endif
