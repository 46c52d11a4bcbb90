/*
 * worker.h: the life of a worker.
 */
#ifndef WEFT_POOL_WORKER_H
#define WEFT_POOL_WORKER_H

#include "os/process.h"
#include "pool/pool_internal.h"

/* What an idle worker is woken with. */
enum { WORKER_WORK = 0, WORKER_EXIT = 1 };

/* Life. */

/* Makes a worker, which is counted as starting: 0 or an error. weft__worker_fiber makes its fiber,
 * and does not start it. */
int weft__worker_make(weft_pool *pool);
int weft__worker_fiber(weft_pool *pool, struct weft_fiber **fiber, void (*function)(void *),
                       void *arg);
/* The whole life of the worker, in its fiber. */
void weft__worker_run(struct worker *worker);
/* The hook of the scheduler: a panic has ended the worker's task. Goes on as weft__worker_run. */
void weft__worker_continue(struct worker *worker, struct panic *panic);
/* Ends the task of a worker, after its panic or crash was handled. */
void weft__worker_end_failed(struct worker *worker);
/* In the fiber that replaces that of a crashed worker: counts the worker as starting. */
void weft__worker_start_anew(struct worker *worker);
/* The start of a worker, in its fiber (start.c). False: it is not needed any more. */
bool weft__worker_begin(struct worker *worker);
/* The end of a worker, in its fiber, whether it has started or not (start.c). weft__worker_end is
 * the part that concerns the pool. */
void weft__worker_finish(struct worker *worker, bool started);
void weft__worker_end(struct worker *worker);
/* Under the latch: takes the worker off its list, and gives its place back. */
void weft__worker_unlist(weft_pool *pool, struct worker *worker);

/* User code. */

/* The worker whose task the caller is; NULL: none. */
struct worker *weft__worker_self(void);
/* The record of the task that the caller runs; NULL: a plain task, or none. */
struct task *weft__task_self(void);
/* Around user code that a worker runs. */
void weft__worker_enter_user(struct worker *worker);
void weft__worker_leave_user(struct worker *worker);
/* In a worker, after user code. In a child that this code has forked nothing of the pool is left,
 * and the child ends here. */
static inline void worker_end_forked_child(void)
{
    if (weft__runtime_forked())
        weft__os_exit_now(0);
}
/* In a worker, after user code: ends all that it has left in the fiber. */
void weft__worker_clean(struct worker *worker);
/* In a task that is about to be bound to a context: a worker that was made before any such task
 * came may have to wait for memory. */
void weft__worker_can_bind(void);

/* Ends of tasks. */

/* Calls a task in a caller that is not its worker: no panic leaves it. Ends the record. True: the
 * task was counted as ended. */
bool weft__pool_call_task(weft_pool *pool, const struct plain_task *plain, struct task *record);
/* The function of a task with a handle or of a group has ended, and the calls that wait for it are
 * not woken yet: ends what it has left in its worker; counts the task as ended. */
void weft__task_clean(void);
void weft__task_count_end(weft_pool *pool, struct task *task, bool ran, bool failed);

#endif
