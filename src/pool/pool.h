/*
 * pool.h: the life of a pool, for the other files of the pool.
 */
#ifndef WEFT_POOL_POOL_H
#define WEFT_POOL_POOL_H

#include "pool/dispatch.h"

/* Writes a line to the log of the options, or stderr. */
void weft__pool_log(weft_pool *pool, const char *line);
/* Calls how(pool, arg) under the latch, then dispatches. Returns what `how` does; -EINVAL if pool
 * is NULL; -ECHILD in a forked child. */
int weft__pool_change(weft_pool *pool, int (*how)(weft_pool *pool, void *arg), void *arg);
/* Under the latch: begins a stop; false: it has begun before. The caller pins the pool, and ends
 * its pauses and schedules when it has released the latch. */
bool weft__pool_shut(weft_pool *pool, struct deferred_wakes *wakes);
/* Ends admission for all but the pool's own tasks. `kept`: the pool is not stopped before this is
 * called again without it. */
void weft__pool_begin_stop(weft_pool *pool, bool kept);
/* Waits until nothing is in flight, even if the caller's context ends. */
void weft__pool_wait_firmly(weft_pool *pool);

#endif
