/*
 * keys.h: tasks of one key run one at a time, in the order of their admission. Everything is under
 * the pool's latch.
 */
#ifndef WEFT_POOL_KEYS_H
#define WEFT_POOL_KEYS_H

#include "pool/pool_internal.h"

/* A task with a key was admitted. True: it is the first of its key, and is ready. False: it is
 * held back. */
bool weft__keys_put(weft_pool *pool, struct task *task);
/* The first task of its key has ended, or will not run. Returns the next one, which is not held
 * back any more; NULL: there is none. */
struct task *weft__keys_next(weft_pool *pool, struct task *task);
/* Removes a task that is held back. */
void weft__keys_remove(weft_pool *pool, struct task *task);
/* The first task of the key of a task that is held back. */
struct task *weft__keys_first(weft_pool *pool, const struct task *task);
/* Frees the table. */
void weft__keys_free(weft_pool *pool);

#endif
