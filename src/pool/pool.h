/*
 * pool.h: what the life of a pool (pool.c) offers to its other files.
 */
#ifndef WEFT_POOL_POOL_H
#define WEFT_POOL_POOL_H

#include "pool/dispatch.h"

void weft__pool_log(weft_pool *pool, const char *line);
/* Changes something under the latch, by how(pool, arg), and sees to the consequences; what that
 * returns, or -EINVAL, -ECHILD. */
int weft__pool_change(weft_pool *pool, int (*how)(weft_pool *pool, void *arg), void *arg);
/* Under the latch: the beginning of a stop; false: it has begun before. The caller is a visitor,
 * and ends the pauses and schedules when it has released the latch. */
bool weft__pool_shut(weft_pool *pool, struct deferred_wakes *wakes);
/* Ends admission for all but own tasks; `kept`: it is not stopped before this is called again
 * without. */
void weft__pool_begin_stop(weft_pool *pool, bool kept);
/* Waits until nothing is inside, whatever happens to the caller's context. */
void weft__pool_wait_firmly(weft_pool *pool);

#endif
