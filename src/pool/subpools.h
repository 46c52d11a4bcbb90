/*
 * subpools.h: pools that share the capacity of a parent: weft_pool_options.parent.
 */
#ifndef WEFT_POOL_SUBPOOLS_H
#define WEFT_POOL_SUBPOOLS_H

#include "pool/dispatch.h"

/* Outside the latch. A pool that is being opened joins its parent, if it has one: 0, or -ESHUTDOWN.
 * A stopped pool leaves it; that is the last use of its latch. */
int weft__tree_join(weft_pool *pool);
void weft__tree_leave(weft_pool *pool);
/* The pool has sub-pools that are not closed. Outside the latch. */
bool weft__tree_has_children(weft_pool *pool);

/* The following under the latch, for pools that are in a tree. */

/* weft__pool_start_wanted in a tree: the pool asks for a place if it wants a worker, and the pools
 * that ask are served. */
void weft__tree_start_wanted(weft_pool *pool, struct deferred_wakes *wakes, bool dry);
/* A task is about to become urgent (queue.h). */
void weft__tree_note_urgent(weft_pool *pool, struct task *task);
/* A worker looks for a task. True: its place, or the one that it would take, is another pool's
 * turn, and it has given its place up. */
bool weft__tree_passes_on(weft_pool *pool, struct worker *worker);

#endif
