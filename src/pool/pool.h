/*
 * pool.h: what the life of a pool (pool.c) offers to its other files.
 */
#ifndef WEFT_POOL_POOL_H
#define WEFT_POOL_POOL_H

#include "pool/pool_internal.h"

void weft__pool_log(weft_pool *pool, const char *line);
/* Ends admission for all but own tasks; `kept`: it is not stopped before this is called again
 * without. */
void weft__pool_begin_stop(weft_pool *pool, bool kept);
/* Waits until nothing is inside, whatever happens to the caller's context. */
void weft__pool_wait_firmly(weft_pool *pool);

#endif
