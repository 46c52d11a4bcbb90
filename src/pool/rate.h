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

/* The following under the latch, of a pool that has a limiter. */

/* A task is ready, and a token for it is taken; false: one of them is missing. */
bool weft__rate_take(weft_pool *pool);
/* A token for a task that its submitter is to run: taken, if there is one. */
bool weft__rate_take_for_caller(weft_pool *pool);
/* The task for which a token was taken will not run. */
void weft__rate_unused(weft_pool *pool);
/* For a worker that found nothing to begin: true if that was for want of a token, and it is to
 * wait for one, by weft__rate_await, when it has no place any more. */
bool weft__rate_claim(weft_pool *pool);
/* After a change: a token that no task wants any more is given back. */
void weft__rate_return_tokens(weft_pool *pool, struct deferred_wakes *wakes);

/* Not under the latch, inside the runtime: waits for a token, after weft__rate_claim. */
void weft__rate_await(weft_pool *pool);

#endif
