/*
 * lending.h: places that workers lend while they wait for tasks of their own pool.
 */
#ifndef WEFT_POOL_LENDING_H
#define WEFT_POOL_LENDING_H

#include "pool/dispatch.h"

/* The units of awaited.pending. */
enum { AWAITED_LENDERS = 1, AWAITED_TASK = 2 };

/* A task with a handle, or the tasks of a group, for which workers can wait. The latch guards all
 * but `pending`. */
struct awaited {
    /* AWAITED_TASK for each task that has not ended and was not taken out of the queue for good;
     * AWAITED_LENDERS while `lenders` is not empty. */
    atomic_u64 pending;
    struct line waiting;    /* tasks in the queue, by awaited_link */
    struct line lenders;    /* workers that wait */
    struct line submitters; /* in the pool's line, with tasks of the group: admission.c */
    bool refuses;           /* a group: no task is admitted once its context has ended */
};

/* Under the latch: the number of workers that wait for the task. */
static inline int64_t task_lenders(const struct task *task)
{
    return task->awaited != NULL ? task->awaited->lenders.length : 0;
}

/* Under the latch: a task enters the queue; leaves it, to be run or for good; was taken out for
 * good, and is not pending any more. */
void weft__awaited_put(struct awaited *awaited, struct task *task);
void weft__awaited_begin(struct awaited *awaited, struct task *task);
void weft__awaited_removed(struct awaited *awaited);
/* Under the latch: if a worker waits, the first of the tasks in the queue goes before all others.
 * */
void weft__awaited_expedite(weft_pool *pool, struct awaited *awaited);
/* Outside the latch: one more task is pending; one has ended, or was not admitted. (A task that is
 * taken out of the queue for good: weft__awaited_removed.) */
void weft__awaited_add(weft_pool *pool, struct awaited *awaited);
void weft__awaited_end(weft_pool *pool, struct awaited *awaited);

/* Around a wait of the caller, a worker that holds a place: it lends the place as long as tasks are
 * pending. `pool` is the pool of the tasks; it may be gone if none is pending. */
void weft__lending_begin(weft_pool *pool, struct awaited *awaited, struct worker *worker);
void weft__lending_end(weft_pool *pool, struct awaited *awaited, struct worker *worker);

#endif
