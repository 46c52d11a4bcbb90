/*
 * subpools.h: pools that share the capacity of a parent: weft_pool_options.parent.
 */
#ifndef WEFT_POOL_SUBPOOLS_H
#define WEFT_POOL_SUBPOOLS_H

#include "pool/dispatch.h"

/* A pool that is being opened becomes a sub-pool of its parent, if it has one: 0, or -ESHUTDOWN.
 * And: one that is stopped is none any more; the last use of its latch. Outside the latch. */
int weft__tree_join(weft_pool *pool);
void weft__tree_leave(weft_pool *pool);
/* Sub-pools of it are not closed. Outside the latch. */
bool weft__tree_has_children(weft_pool *pool);

/* The following under the latch, of pools that are in a tree. */

/* weft__pool_start_wanted for them: the pool asks for a place if it wants a worker, and those that ask are
 * served. */
void weft__tree_start_wanted(weft_pool *pool, struct deferred_wakes *wakes, bool dry);
/* A task is about to be urgent (queue.h). */
void weft__tree_note_urgent(weft_pool *pool, struct task *task);
/* A worker looks for a task: true if its place, or the one it would take, is another pool's turn;
 * it has given its place up then. */
bool weft__tree_passes_on(weft_pool *pool, struct worker *worker);

#endif
