/*
 * weft/task.h: tasks with a handle: wait for the end of a task in a pool, get its result, cancel it.
 *
 *     static int fetch(void *url, void **result) { ... *result = page; return 0; }
 *
 *     weft_task *task;
 *     if (weft_task_start(&task, pool, fetch, url, NULL) != 0)
 *         ...
 *     void *page;
 *     error = weft_task_wait(task, &page);           // what fetch returned
 *     weft_task_release(task);
 *
 * The task is bound to a context of its own (weft/context.h): cancelling the task cancels that.
 *
 * A task that waits for a task of its own pool cannot hang for lack of a worker: if that has not begun, it
 * is run by the one who waits; if it runs, the place of the one who waits is lent to others meanwhile.
 */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include <weft/base.h>
#include <weft/context.h>
#include <weft/group.h>
#include <weft/pool.h>

WEFT_BEGIN

typedef struct weft_task weft_task;

/* Submits function(arg, &result) to the pool, with options (NULL: all defaults; `copy` must be 0), and
 * gives a handle in *task, to be released.
 * Returns as weft_pool_submit_with. On an error there is no handle. A task that the pool drops by policy
 * is admitted, and ends with -ECANCELED.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_task_start(weft_task **task, weft_pool *pool,
                                           int (*function)(void *arg, void **result), void *arg,
                                           const weft_submit_options *options);

/* Waits until the task has ended; its place in the pool is free a moment later. *result, if result is not NULL, gets what the task set (NULL if it set
 * nothing); untouched if the task did not run.
 * Returns what the function returned; -EOWNERDEAD if it panicked (weft/panic.h); -EFAULT if it crashed, in a pool
 * that isolates crashes (weft_task_panic tells more);
 * -ECANCELED if the task was cancelled or dropped before it began;
 * -ECANCELED or -ETIMEDOUT also if the caller's own context is cancelled first (weft_task_ended tells);
 * -EINVAL if task is NULL; -EDEADLK if a task waits for itself; -ECHILD.
 * Contexts: fiber, thread, tasks of the pool. Any number may wait. */
WEFT_API WEFT_MUST_USE int weft_task_wait(weft_task *task, void **result);

/* The same with a deadline. Returns also -ETIMEDOUT. */
WEFT_API WEFT_MUST_USE int weft_task_wait_until(weft_task *task, void **result, int64_t deadline);

/* 1 if the task has ended, or will never begin; else 0.
 * Contexts: fiber, thread. */
WEFT_API int weft_task_ended(const weft_task *task);

/* *info gets what is known of the panic that ended the task. If nobody asks, and the pool has no on_panic, it is
 * reported on stderr when the handle is released.
 * Returns 0; -ENOENT if the task has not panicked (or not ended); -EINVAL if an argument is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_task_panic(weft_task *task, weft_panic_info *info);

/* Cancels the task: one that has not begun never will (its place in the queue is free when its turn would have
 * come, and counted as cancelled from then on); of one that runs the context is cancelled, so that its waits
 * end.
 * Returns 0 if it will not run, by this call; 1 if it is running; 2 if it had ended or been cancelled before it
 * began; -EINVAL if task is NULL.
 * Contexts: fiber, thread. */
WEFT_API int weft_task_cancel(weft_task *task);

/* Gives the handle up. The task goes on. NULL is fine.
 * Contexts: fiber, thread. Undefined: any use of the handle after it. */
WEFT_API void weft_task_release(weft_task *task);

/* Opens a group (weft/group.h) whose functions run as tasks of the pool instead of fibers of their own:
 * weft_group_go submits (and waits, or not, as the pool does when it is full), and everything else is as for
 * any group. A function that waits in the pool's queue when the group is cancelled is skipped when its turn comes, unless
 * the group keeps going; one whose weft_group_go waited for the full pool meanwhile too. The pool must not be closed
 * before the group.
 * Returns as weft_group_open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_group(weft_group **group, weft_pool *pool,
                                           const weft_group_options *options);

WEFT_END

#endif
