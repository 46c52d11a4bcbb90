/*
 * weft/task.h: tasks with a handle: wait for the end of a task in a pool, get its result, cancel
 * it.
 *
 *     struct job { char url[40]; size_t bytes; };
 *     static int fetch(void *arg) { struct job *job = arg; ... job->bytes = n; return 0; }
 *
 *     weft_task *task; if (weft_task_start(&task, pool, fetch, &job, &(weft_submit_options){.copy =
 *     sizeof job}) != 0)
 *         ...
 *     int result;
 *     error = weft_task_wait(task, &result);     // 0: fetch has returned `result`
 *     struct job *done = weft_task_arg(task);    // the copy, as fetch has left it
 *     weft_task_release(task);
 *
 * The task is bound to a context of its own (weft/context.h), under that of its submitter:
 * cancelling the task, or a context above it, cancels that. A task whose context is cancelled
 * before it begins does not run.
 *
 * A task that waits for a task of its own pool lends its place meanwhile, to the very task if that
 * has not begun: see "Capacity" in weft/pool.h. So it cannot hang for want of a worker.
 */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include <weft/base.h>
#include <weft/chan.h>
#include <weft/context.h>
#include <weft/group.h>
#include <weft/pool.h>

WEFT_BEGIN

typedef struct weft_task weft_task;

/* Submits function(arg) to the pool, with options (NULL: all defaults), and gives a handle in
 * *task, to be released.
 * Returns as weft_pool_submit_with. On an error there is no handle. A task that the pool drops by
 * policy is admitted, and ends with -ECANCELED.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_task_start(weft_task **task, weft_pool *pool,
                                           int (*function)(void *arg), void *arg,
                                           const weft_submit_options *options);

/* Starts a task as weft_task_start does, if that is possible without waiting.
 * Returns as weft_task_start; -EAGAIN where that would wait.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_task_try_start(weft_task **task, weft_pool *pool,
                                               int (*function)(void *arg), void *arg,
                                               const weft_submit_options *options);

/* Waits until the task has ended, or will never run.
 * Returns 0: then *result, if result is not NULL, is what the function returned; -EOWNERDEAD if it
 * panicked (weft/panic.h); -EFAULT if it crashed, in a pool that isolates crashes (weft_task_panic
 * tells more); -ECANCELED or -ETIMEDOUT if it did not run: it was cancelled or dropped before it
 * began, or its context had ended. Else an error of the wait, and *result is untouched: -ECANCELED
 * or -ETIMEDOUT if the caller's own context is cancelled; -EINVAL if task is NULL; -EDEADLK if a
 * task waits for itself; -ECHILD in a forked child.
 * Contexts: fiber, thread, tasks of the pool. Any number may wait. */
WEFT_API WEFT_MUST_USE int weft_task_wait(weft_task *task, int *result);

/* Waits until the task has ended, or will never run, or the deadline has passed.
 * Returns as weft_task_wait; -ETIMEDOUT if the task has not ended by the deadline: it goes on. With
 * WEFT_NOW it never waits.
 * Contexts: as weft_task_wait. */
WEFT_API WEFT_MUST_USE int weft_task_wait_until(weft_task *task, int *result, int64_t deadline);

/* Stores in *done a channel that is closed when the task has ended, or will never run, for a select
 * (weft/select.h). It belongs to the handle, and must not be used after the handle is released.
 * Returns 0; -EINVAL if an argument is NULL; -ENOMEM; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_task_done(weft_task *task, weft_chan **done);

/* The argument of the task: what was given, or the copy (weft_submit_options.copy), which is valid
 * until the handle is released. The task may write it until it has ended. NULL for NULL.
 * Contexts: fiber, thread. */
WEFT_API void *weft_task_arg(const weft_task *task);

/* 1 if the task has ended, or will never begin; else 0.
 * Contexts: fiber, thread. */
WEFT_API int weft_task_ended(const weft_task *task);

/* Stores in *info the description of the panic that ended the task. If this is not called, and the
 * pool has no on_panic, the panic is reported on stderr when the handle is released.
 * Returns 0; -ENOENT if the task has not panicked (or not ended); -EINVAL if an argument is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_task_panic(weft_task *task, weft_panic_info *info);

/* Cancels the task. If it has not begun it never will, and its place in the queue is free at once.
 * If it runs, its context is cancelled, so that its waits end. Returns 0 if the task will not run
 * because of this call; 1 if it is running; 2 if it had ended, or been cancelled before it began;
 * -EINVAL if task is NULL; -ECHILD in a forked child. Contexts: fiber, thread. */
WEFT_API int weft_task_cancel(weft_task *task);

/* Gives up the handle. The task goes on. NULL is allowed.
 * Contexts: fiber, thread.
 * Undefined: any use of the handle after it. */
WEFT_API void weft_task_release(weft_task *task);

/* Opens a group (weft/group.h) whose functions run as tasks of the pool instead of fibers of their
 * own: weft_group_go submits (when the pool is full, it waits or not as the pool does), and all
 * else is as for any group. When the group is cancelled, a function that waits in the pool's queue
 * is skipped when its turn comes, unless the group keeps going; so is one whose weft_group_go was
 * waiting for the full pool. The pool must not be closed before the group. Returns as
 * weft_group_open. Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_group(weft_group **group, weft_pool *pool,
                                           const weft_group_options *options);

WEFT_END

#endif
