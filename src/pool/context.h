/*
 * context.h: contexts of a whole pool: what its tasks are bound to, and pauses.
 */
#ifndef WEFT_POOL_CONTEXT_H
#define WEFT_POOL_CONTEXT_H

#include "pool/pool_internal.h"

/* The pool has a context of its own: it was opened with one, or as cancellable. True from the open
 * to the close. */
static inline bool pool_has_context(const weft_pool *pool)
{
    return atomic_ptr_load_relaxed(&pool->context) != NULL;
}

/* Opens the context of a pool, if the options ask for one: 0 or an error. Closing gives it up, and
 * all pauses; the pool is stopped. */
int weft__pool_context_open(weft_pool *pool);
void weft__pool_context_close(weft_pool *pool);

/* The error of the context of the options, if that has ended; else 0. */
int weft__pool_context_error(const weft_pool *pool);
/* The pool's context at this moment, with a reference; NULL: it has none. */
weft_context *weft__pool_context_hold(weft_pool *pool);
/* Binds a worker that has taken a task to the pool's context of this moment, if there is one; ends
 * that bond. */
void weft__worker_bind(struct worker *worker);
void weft__worker_unbind(struct worker *worker);
/* Binds the caller, which runs a task of the pool, to the pool's context again, if it is bound to
 * none. */
void weft__task_rebind(weft_pool *pool);

/* Ends the pauses that have a context. Outside the latch. */
void weft__pauses_end(weft_pool *pool);

/* Tasks that run and have a context of their own: the line `running`. Under the latch: a task that
 * begins is added, one that has ended leaves. */
static inline bool has_own_context(const weft_pool *pool, const struct task *task)
{
    return unlikely(pool_has_context(pool)) && task->context != NULL;
}

static inline void running_add(weft_pool *pool, struct task *task)
{
    if (!has_own_context(pool, task))
        return;
    task->age = pool->begun++;
    line_add(&pool->running, &task->age_link);
}

static inline void running_leave(weft_pool *pool, struct task *task)
{
    if (has_own_context(pool, task))
        line_leave(&pool->running, &task->age_link);
}

#endif
