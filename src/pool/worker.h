/*
 * worker.h: the life of a worker.
 */
#ifndef WEFT_POOL_WORKER_H
#define WEFT_POOL_WORKER_H

#include "os/process.h"
#include "pool/pool_internal.h"

/* What an idle worker is woken with. */
enum { WORKER_WORK = 0, WORKER_EXIT = 1 };

/* Makes a worker, which is counted as starting: 0 or an error. And: only its fiber, not started. */
int weft__worker_make(weft_pool *pool);
int weft__worker_fiber(weft_pool *pool, struct weft_fiber **fiber, void (*function)(void *),
                       void *arg);
/* The worker's whole life, in its fiber. */
void weft__worker_run(struct worker *worker);
/* The hook of the scheduler: a panic has ended the worker's task. Returns when the worker ends. */
void weft__worker_continue(struct worker *worker, struct panic *panic);
/* What the heir of a crashed worker does: ends the task, and is a worker that starts. */
void weft__worker_end_crashed(struct worker *worker);
void weft__worker_start_anew(struct worker *worker);
/* start.c: the beginning of a worker, in its fiber; false: it is not needed any more. What it
 * does at its end, whether it has started or not; and of that only what concerns the pool. */
bool weft__worker_begin(struct worker *worker);
void weft__worker_finish(struct worker *worker, bool started);
void weft__worker_end(struct worker *worker);
/* Under the latch: the worker is on no list, and holds no place. */
void weft__worker_unlist(weft_pool *pool, struct worker *worker);

/* The worker that the caller runs in, in a task of it; NULL: none. */
struct worker *weft__worker_self(void);
/* In a task that is to be bound to a context: a worker that was made before any such task came
 * may have to wait for memory. */
void weft__worker_can_bind(void);
/* Around the user's code that a worker runs. */
void weft__worker_enter_user(struct worker *worker);
void weft__worker_leave_user(struct worker *worker);
/* In a worker, after code of the user's. In a child that this code has forked nothing of the pool
 * is left, and the child ends here. */
static inline void worker_end_forked_child(void)
{
    if (weft__runtime_forked())
        weft__os_exit_now(0);
}
/* Calls a task in a caller that is not its worker: no panic leaves it. Ends the record. True: it
 * was counted as ended. */
bool weft__pool_call_task(weft_pool *pool, const struct plain_task *plain, struct task *record);
/* In a worker, after user code: nothing of it is left in the fiber. */
void weft__worker_clean(struct worker *worker);
/* The record of the task that the caller runs; NULL: a plain task, or none. */
struct task *weft__task_self(void);
/* The function of a task with a handle or of a group is over, before those who wait for it know:
 * it leaves nothing behind, and is counted as ended. */
void weft__task_clean(void);
void weft__task_count_end(weft_pool *pool, struct task *task, bool ran, bool failed);

#endif
