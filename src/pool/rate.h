/*
 * rate.h: tasks that begin at a rate: weft_pool_options.limiter.
 */
#ifndef WEFT_POOL_RATE_H
#define WEFT_POOL_RATE_H

#include "pool/dispatch.h"

static inline bool pool_has_rate(const weft_pool *pool)
{
    return unlikely(pool->rate.limiter != NULL);
}

/* The following under the latch, for a pool that has a limiter. */

/* If a task is ready, takes a token for it. False: no task is ready, or no token is there. */
bool weft__rate_take(weft_pool *pool);
/* Takes a token for a task that its submitter is to run; false: none is there. */
bool weft__rate_take_for_caller(weft_pool *pool);
/* A task for which a token was taken will not run. */
void weft__rate_unused(weft_pool *pool);
/* For a worker that has found no task to begin. True: a token was missing, and this worker is to
 * wait for one by weft__rate_await, without a place. */
bool weft__rate_claim(weft_pool *pool);
/* After a change: gives back the tokens that no task needs any more. */
void weft__rate_return_tokens(weft_pool *pool, struct deferred_wakes *wakes);

/* Not under the latch, inside the runtime: waits for a token, after weft__rate_claim. */
void weft__rate_await(weft_pool *pool);

#endif
