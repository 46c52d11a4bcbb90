/*
 * weft/pool.h: the pool: runs any number of tasks, at most `capacity` at a time.
 *
 *     weft_pool *pool;
 *     if (weft_pool_open(&pool, &(weft_pool_options){ .capacity = 100 }) != 0)
 *         return 1;
 *     for (int i = 0; i < 1000000; i++)
 *         error = weft_pool_submit(pool, task, &jobs[i]);
 *     error = weft_pool_close(pool);          // waits until all have run
 *
 * A task is a function and an argument. Every call works from fibers, from plain threads, and from
 * inside the pool's own tasks.
 *
 * Capacity. A task is active if it has begun, has not ended, and does not wait for a task or group
 * of its own pool (weft_task_wait, weft_group_wait, weft_group_close, weft_group_go at the group's
 * limit). No task begins while `capacity` tasks are active. A task that sleeps, waits for anything
 * else, or blocks its thread is active. While a task waits for its own pool it lends its place: to
 * the very task it waits for, or the first of that group, if that has not begun; else to whichever
 * is next. When what it waits for ends, the place is its own again before another task begins. A
 * wait that ends otherwise (deadline, context, a place in a group with a limit) returns at once,
 * without waiting for a place: then more than `capacity` tasks may be active, and nothing else
 * begins until that is over.
 *
 * Sub-pools. A pool that is opened with a `parent` shares the parent's capacity: a task of it begins
 * when fewer than its own capacity are active in it, and fewer than the parent's in the parent and
 * all its sub-pools together. Among those that have tasks ready the places go round: to the
 * parent's own tasks, and to each sub-pool, in the order in which they asked; none can keep another
 * out. A task that waits for a task or group of the same tree (its own pool, the parent, another
 * sub-pool) lends its place in the parent, as above, and that in its sub-pool: so tasks of a tree
 * may wait for each other at any capacities. If the awaited task is in another pool, the place in
 * the sub-pool is lent only to tasks of that sub-pool that others wait for; if one of these still
 * runs when the wait ends, more than the sub-pool's capacity are active until that is over, and
 * nothing begins in it: a task that took a lock then, and waits for a task of its own sub-pool while
 * the one that still runs wants that lock, waits for ever. Take no lock across such a wait. A plain
 * submit by a task of the tree to any pool of it never waits. While the parent is paused nothing
 * begins in its sub-pools either. A sub-pool without a `context` is under that of the parent, and
 * ends with it. All else is each pool's own: admission, queue, policies, limiter, workers and their
 * state, figures, cancel, abort, stop. A stopped parent has its capacity still, for its sub-pools;
 * it cannot be closed before they are. A sub-pool cannot have sub-pools. Tasks of a tree are taken
 * one by one: where they are very short, a pool by itself is several times faster.
 *
 * Admission. At most capacity + queue tasks are in the pool, admitted and not ended. What a submit
 * does when there are as many is the pool's `when_full`: by default the submitter waits, first
 * come, first served. A plain submit by one of the pool's own tasks (weft_pool_submit, or another
 * call without a deadline, in a pool with WEFT_BLOCK) never waits: it is admitted beyond the limit,
 * and counted (weft_pool_stats.beyond). Every other call, by whomever, gets what its policy and its
 * deadline say.
 *
 * Rate. A task of a pool with a limiter begins when it has a place and a token. While the pool
 * waits for a token nothing holds a place; it waits in the limiter's line, first come, first served
 * with all who share the limiter, once for the whole pool. The token is for whichever task is next
 * when it comes: a task of high priority, or one that another waits for, goes first even if it came
 * later. A token that no task needs any more goes back to the limiter: its task was cancelled,
 * skipped by its group or dropped, or the pool was paused. So an abort, a pause and a close never
 * wait for a token, except for tasks that are still to run. Tasks that wait for a token count as
 * `starting` while a place is free. A submit to a full pool with WEFT_CALLER_RUNS calls the task
 * only if there is a token at that moment; else it waits, as WEFT_BLOCK. A limiter's burst is what
 * a pool makes up for when its workers come late: a high rate needs more than one.
 *
 * No task runs inside another. Each runs in a worker, a fiber of the pool, from its first
 * instruction to its end, on a stack of its own; except where WEFT_CALLER_RUNS asks for it. A task
 * begins with no fiber-local values, no deferred calls and errno 0, bound to the pool's context
 * (or, without one, to what on_worker_start has bound, if anything); what it leaves of these is
 * gone when it ends.
 *
 * A task that is admitted (the submit returned 0) runs exactly once, unless it is dropped by policy
 * (WEFT_DROP_OLDEST), cancelled through its handle or its context, or the pool is aborted or its
 * context ends: then on_drop is called; or, for a task that has one, its handle or its group says
 * so.
 *
 * The pool's context. A pool that is opened with `context`, or as `cancellable`, has a context of
 * its own (weft/context.h), under `context`. Its tasks are bound to that, in workers and, by
 * WEFT_CALLER_RUNS, in their submitters; but for those with a handle and those of groups, which
 * have their own. It is cancelled
 *   - by weft_pool_cancel, for what runs at that moment; a new one takes its place;
 *   - when `context` ends, by hand, by a timeout or because it is closed. That is the end of the
 *     pool. At one moment nothing more begins, and admission ends as by weft_pool_stop, but for the
 *     pool's own tasks too: -ESHUTDOWN, also to those who wait in a submit. Then the contexts of
 *     all tasks that run are cancelled, with the error of `context`, those of tasks with a handle
 *     too, and the groups of those that are of a group; schedules end as by a stop, and the tasks
 *     that have not begun are dropped as by weft_pool_abort. All that is done when
 *     weft_context_cancel returns: on_drop is called by it. (After a timeout a fiber of the
 *     context's does it.) When the tasks that run have ended the pool is stopped. It must be closed
 *     as any other, and cannot be opened again.
 * A task must not cancel it by weft_context_current(): it would be cancelled for all tasks, those
 * that begin later too, until weft_pool_cancel.
 *
 * A task that panics (weft/panic.h) has ended; the worker goes on with the next. So it is for all
 * functions of the options: a panic in one of them is counted, reported on stderr, and over; a
 * worker whose on_worker_start panics has failed to start.
 *
 * Crashes. A memory fault or a stack overflow ends the process, after a report. In a pool with
 * isolate_crashes the report is made, and then only the task ends: the fiber that ran it is
 * abandoned, another takes its place, and the task counts as completed, and as crashed. Its handle
 * gets -EFAULT, its group that error, on_panic is called as for a panic. What cannot be repaired:
 * whatever the task has written before it faulted stays written, all that it held stays held (locks
 * of any kind, memory, descriptors, libc's own locks if the fault was in libc), none of its
 * clean-ups, destructors and fiber-local values is ended, nor the state of its worker, and its
 * stack is kept for ever. See docs/pool.md before you use it.
 *
 * Workers are made by need: tasks that do not wait are run one after the other by as many workers
 * as there are processors, however large the capacity; only when a task waits is another worker
 * woken or made for the next.
 */
#ifndef WEFT_POOL_H
#define WEFT_POOL_H

#include <weft/base.h>
#include <weft/context.h>
#include <weft/limiter.h>
#include <weft/panic.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_pool weft_pool;

/* For capacity and queue. */
#define WEFT_UNLIMITED INT64_MAX

/* Bytes of argument that can be copied into the pool: weft_submit_options.copy. */
#define WEFT_COPY_MAX 64

/* What a submit does when capacity + queue tasks are in the pool. */
enum {
    WEFT_BLOCK = 0,   /* waits its turn; first come, first served */
    WEFT_REJECT,      /* -EAGAIN */
    WEFT_CALLER_RUNS, /* calls the task itself, bound to the pool's context or to none and without worker state, and returns
                         when it is done; the task counts as running, and holds no place. Waits, as WEFT_BLOCK, while the pool is paused, and with a task
                         that has a key. From inside a task that its submitter runs: admitted beyond the limit */
    WEFT_DROP_NEWEST, /* drops the new task: on_drop is called, submit returns 0 */
    WEFT_DROP_OLDEST, /* drops, of the tasks of the lowest priority that have not begun, the one that was admitted
                         first; if there is none, the new one */
};

/* Which idle worker gets the next task. */
enum {
    WEFT_LIFO = 0, /* the one that was busy last: its memory is warm, and the others can expire */
    WEFT_FIFO,     /* the one that is idle longest */
};

/* Among tasks that wait: high before normal before low, but of nine taken at least one is not
 * high and of ninety at least one is low, if any wait. */
enum { WEFT_NORMAL = 0, WEFT_HIGH = 1, WEFT_LOW = -1 };

/* Zero means default in every field. */
typedef struct weft_pool_options {
    /* Shown in reports; copied, at most 31 bytes of it. Default: no name. */
    const char *name;
    /* Tasks that are active at the same time, at most. Default 10,000; WEFT_UNLIMITED. */
    int64_t capacity;
    /* Tasks that may wait in the pool beyond those. Default 0; WEFT_UNLIMITED. */
    int64_t queue;
    /* What to do when both are full: WEFT_BLOCK and so on. */
    int when_full;
    /* Which idle worker gets the next task: WEFT_LIFO or WEFT_FIFO. */
    int reuse;
    /* With WEFT_BLOCK: so many submitters may wait, one more gets -EAGAIN. Default 0: any
     * number. */
    int64_t max_blocked;
    /* The function that weft_pool_invoke calls. */
    void (*function)(void *arg);

    /* Idle workers that never expire. Default 0. */
    int64_t keep;
    /* Workers made when the pool is opened; they are kept as well. At most `capacity`, and not
     * WEFT_UNLIMITED. Default 0. */
    int64_t prestart;
    /* How long a worker stays idle before it ends, by an exact clock. Default 1 s; WEFT_NEVER. */
    int64_t expiry;
    /* 0: each idle worker has its own clock. n: instead, every `expiry` one n-th of the idle
     * workers beyond `keep` end, at least one: 4 gives back a quarter. */
    int shrink;
    /* Bytes of stack of a worker, as in weft_spawn_options. */
    size_t stack_size;

    /* Called in each worker when it starts and when it ends; *state is the worker's own, NULL at
     * first, found by weft_pool_worker_state. A context that start binds (weft_context_bind) is
     * bound when each task of the worker begins, unless the pool has one: both are then called
     * bound to none; fiber-locals that it sets end when it returns.
     * If start fails (not 0) it is called again after a pause, 10 ms and doubling to a second,
     * and no more workers are made meanwhile. */
    int (*on_worker_start)(void **state, void *data);
    void (*on_worker_exit)(void *state, void *data);
    /* Called for each task that was admitted, or offered to a full pool that drops, and will not
     * run; by the call that drops it. Not for tasks with a handle or of a group, which say so
     * themselves. */
    void (*on_drop)(void (*function)(void *), void *arg, void *data);
    /* Called for each task that panicked (weft/panic.h), in its worker and as part of the task;
     * function and arg are the task's, as numbers to know it by if it has a handle or is one of
     * a group. Default: a report on stderr, unless the task's handle or its group is asked for
     * it. If it panics itself, that is counted, both are reported on stderr, and the worker goes
     * on. */
    void (*on_panic)(const weft_panic_info *info, void (*function)(void *), void *arg, void *data);
    /* Given what the pool has to say, a line without its end. Default: stderr. */
    void (*log)(const char *line, void *data);
    /* Passed to all of these. */
    void *data;
    /* Not 0: workers have compact stacks, as weft_spawn_options.compact. For many tasks that
     * wait and do not show others what is on their stack. */
    int compact;
    /* Not 0: a task that faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL raised by its own code) or
     * overflows its stack does not end the process: see "Crashes" above. Needs the runtime's
     * handlers (weft_config.no_fault_report). */
    int isolate_crashes;
    /* With that: after so many crashes of this pool the next one ends the process. Default
     * 1,000; WEFT_UNLIMITED. */
    int64_t max_crashes;
    /* The context whose end is the end of the pool: see "The pool's context" above. It may be
     * closed before the pool is: that is its end. Default NULL: none. */
    weft_context *context;
    /* Not 0: what runs can be cancelled by weft_pool_cancel, without such a context too. */
    int cancellable;
    /* Tasks begin at a rate: each takes one event of this limiter (weft/limiter.h), a token,
     * when it begins. See "Rate" above. Several pools and other takers may share a limiter,
     * which must not be closed before the pool is. Default NULL: no rate. */
    weft_limiter *limiter;
    /* The pool is a sub-pool of this one: see "Sub-pools" above. Default NULL: it is not. */
    weft_pool *parent;
    uintptr_t reserved[1]; /* must be zero */
} weft_pool_options;

/* Options for a pool of `workers` workers that are there from the start and stay, with a queue
 * of as many tasks; a submitter waits when that is full. */
WEFT_API weft_pool_options weft_pool_fixed(int64_t workers);

/* Options for a pool that keeps `idle` workers, grows by need to `most`, and gives back a
 * quarter of the idle surplus every `period`. */
WEFT_API weft_pool_options weft_pool_scalable(int64_t idle, int64_t most, int64_t period);

/* Opens a pool; options NULL: all defaults.
 * Returns 0; -EINVAL if pool is NULL, a number is out of range, a reserved field is set or the
 * parent is a sub-pool; -ESHUTDOWN if the parent is stopping or stopped; -ENOTSUP if crashes are to
 * be isolated and the runtime does not handle faults; -ECANCELED or -ETIMEDOUT if `context` has
 * ended; or as weft_go.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_open(weft_pool **pool, const weft_pool_options *options);

/* A pool with all defaults, opened at first use. It is never closed (a close gives -EBUSY), but may
 * be stopped and opened again. NULL if it could not be opened, or if the runtime, after a
 * shut-down, could not be started; then the next call tries again.
 * Contexts: fiber, thread. */
WEFT_API weft_pool *weft_pool_default(void);

/* Submits a task: function(arg) will be called in a worker.
 * Returns 0 if the task was admitted (or, by WEFT_CALLER_RUNS, run; or, by WEFT_DROP_NEWEST,
 * dropped); -EAGAIN if the pool is full and rejects, or max_blocked submitters wait already;
 * -ESHUTDOWN if the pool is closed or its context ends, also while this call waits; -ECANCELED or
 * -ETIMEDOUT if the caller's context is cancelled while it would have to wait; -EINVAL if an
 * argument is NULL; -ENOMEM; if the pool has no worker and the first cannot be made, as weft_go;
 * -ECHILD in a forked child. On an error the task does not run.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API WEFT_MUST_USE int weft_pool_submit(weft_pool *pool, void (*function)(void *), void *arg);

/* Submits a task, and waits for a place in a full pool until the deadline at the latest.
 * Returns as weft_pool_submit; -ETIMEDOUT if the deadline has passed.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_pool_submit_until(weft_pool *pool, void (*function)(void *),
                                                  void *arg, int64_t deadline);

/* Submits a task if that is possible without waiting.
 * Returns as weft_pool_submit; -EAGAIN where a submit would wait.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_pool_try_submit(weft_pool *pool, void (*function)(void *),
                                                void *arg);

/* Submits to a pool that was opened with a function: it will be called with arg. As
 * weft_pool_submit, _submit_until and _try_submit.
 * Returns as those; -EINVAL if the pool has no function.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_pool_invoke(weft_pool *pool, void *arg);
WEFT_API WEFT_MUST_USE int weft_pool_invoke_until(weft_pool *pool, void *arg, int64_t deadline);
WEFT_API WEFT_MUST_USE int weft_pool_try_invoke(weft_pool *pool, void *arg);

/* Zero means default in every field. */
typedef struct weft_submit_options {
    /* WEFT_HIGH, WEFT_NORMAL, WEFT_LOW. */
    int priority;
    /* Not 0: tasks with the same key run one at a time, in the order in which they were
     * admitted, over the pool that they share with all others. */
    uint64_t key;
    /* Not 0: so many bytes (at most WEFT_COPY_MAX) are copied from arg into the pool, and the
     * function is called with the address of the copy, which is valid until it returns; of a
     * task with a handle, until that is released (weft_task_arg). */
    size_t copy;
    /* How long a submit to a full pool waits at most: a duration. 0: as long as it takes. */
    int64_t timeout;
    /* Of a task with a handle: after so much time from its beginning its context is cancelled,
     * with -ETIMEDOUT. 0: never. */
    int64_t run_timeout;
    /* Of a task with a handle: the context under which its own is opened. NULL: what the caller
     * is bound to, if it is bound. */
    weft_context *context;
    uintptr_t reserved[4]; /* must be zero */
} weft_submit_options;

/* Submits with options; NULL: all defaults.
 * Returns as weft_pool_submit_until; -EINVAL also for an option out of range. */
WEFT_API WEFT_MUST_USE int weft_pool_submit_with(weft_pool *pool, void (*function)(void *),
                                                 void *arg, const weft_submit_options *options);

/* Submits a task for each of `count` arguments, in order, waiting as need be until the deadline. A
 * NULL function means the pool's own.
 * Returns how many were admitted: fewer than count if the deadline passed, the pool is full and
 * does not wait, or is closed meanwhile; or, if there was none, the error.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int64_t weft_pool_submit_batch(weft_pool *pool, void (*function)(void *),
                                                      void *const *args, int64_t count,
                                                      int64_t deadline);

/* Sets how many tasks may be active at the same time: 1 to WEFT_UNLIMITED. More: tasks and
 * submitters that wait go on at once. Fewer: no task begins until fewer are active.
 * Returns 0; -EINVAL; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API int weft_pool_tune(weft_pool *pool, int64_t capacity);

/* Sets how many tasks may wait beyond the capacity: 0 to WEFT_UNLIMITED. More: submitters that wait
 * are admitted at once. Fewer: none is admitted until there are fewer; those in the pool stay.
 * Returns 0; -EINVAL; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API int weft_pool_tune_queue(weft_pool *pool, int64_t queue);

/* Lets no task begin until weft_pool_resume; those that run go on, and submits are admitted as
 * before. A pause of a pool that is paused changes nothing: one resume ends it. A stopped pool can
 * be paused: it is then paused when it is opened again.
 * Returns 0; -EINVAL if pool is NULL; -ESHUTDOWN if the pool is stopping (weft_pool_pause only);
 * -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API int weft_pool_pause(weft_pool *pool);
WEFT_API int weft_pool_resume(weft_pool *pool);

/* Pauses the pool until the context ends, or weft_pool_resume is called. Pauses add up: tasks begin
 * again when the contexts of all these calls have ended and no weft_pool_pause is in force. One
 * resume, or a stop, ends them all; the contexts are not touched by that. A stopped pool can be
 * paused: if it is opened again before the context ends, it is paused until then. The context may
 * be closed at any time, which is its end, and the pool may be closed before it.
 * Returns 0; -ECANCELED or -ETIMEDOUT if the context has ended: the pool is as it was; -EINVAL if
 * an argument is NULL; -ESHUTDOWN if the pool is stopping; -ENOMEM; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API WEFT_MUST_USE int weft_pool_pause_until(weft_pool *pool, weft_context *context);

/* What a pool does. */
enum { WEFT_POOL_OPEN = 0, WEFT_POOL_STOPPING, WEFT_POOL_STOPPED };

/* WEFT_POOL_OPEN, WEFT_POOL_STOPPING (weft_pool_stop was called, tasks still run) or
 * WEFT_POOL_STOPPED; -EINVAL if pool is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_pool_state(weft_pool *pool);

/* All of one moment: submitted == completed + running + starting + queued + dropped + cancelled.
 * Totals never go back. */
typedef struct weft_pool_stats {
    int64_t capacity;
    int64_t queue;
    int64_t running; /* tasks that have begun and not ended */
    int64_t
        lending; /* of those: wait for a task or group of this pool, and have lent their place */
    int64_t starting; /* tasks that have not begun, and for which a place is free, or in a tree of
                         pools another has it */
    int64_t
        queued; /* all others that have not begun: no more than `queue`, but for those beyond the limit */
    int64_t blocked;      /* submitters that wait */
    int64_t workers;      /* that exist */
    int64_t idle;         /* workers without a task */
    int64_t most_workers; /* that existed at once */
    /* Since the pool was opened. */
    int64_t submitted; /* admitted */
    int64_t beyond;    /* of those: by the pool's own tasks, beyond the limit */
    int64_t completed;
    int64_t failed;   /* of those: returned an error: below 0 with a handle, not 0 in a group */
    int64_t panicked; /* of those */
    int64_t rejected; /* -EAGAIN, -ETIMEDOUT, -ECANCELED or -ESHUTDOWN */
    int64_t
        dropped; /* admitted, and dropped by policy or abort; or scheduled, and dropped by a stop */
    int64_t cancelled; /* admitted, and cancelled before they began */
    int64_t stolen;    /* taken from the tasks that another processor had set aside */
    int64_t
        handlers_panicked; /* calls of on_panic, on_drop, on_worker_start and so on that panicked */
    int64_t crashed;       /* of the completed: ended by a fault, in a pool that isolates crashes */
    /* At this moment. */
    int64_t schedules; /* delayed and periodic submits that are not over: weft/schedule.h */
    int64_t below;     /* places of the capacity that sub-pools have */
    uintptr_t reserved[4];
} weft_pool_stats;

/* Returns 0; -EINVAL if an argument is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_pool_stats_get(weft_pool *pool, weft_pool_stats *stats);

/* In a task: the state of the worker that runs it (on_worker_start); NULL elsewhere, and in a task
 * that its submitter runs.
 * Contexts: fiber, thread. */
WEFT_API void *weft_pool_worker_state(void);

/* Drops the tasks that were admitted before this call and have not begun; on_drop is called for
 * each (or its handle or group ended) before it returns. Admission goes on.
 * Returns how many there were; -EINVAL if pool is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API int64_t weft_pool_abort(weft_pool *pool);

/* Cancels what runs: the contexts of all tasks that have begun and not ended are cancelled, with
 * -ECANCELED, those of tasks with a handle too; of a task of a group the whole group is
 * (weft_group_cancel). So their waits end; each goes on until it returns. What has not begun is
 * not touched, but for what those tasks have started with a handle or in a group, under their
 * context: weft_pool_abort before this call cancels the whole pool. A task that begins after this
 * call has returned is bound to a new context of the pool's.
 * Returns 0; -ENOTSUP if the pool was opened without `context` and not as `cancellable`; -EINVAL if
 * pool is NULL; -ENOMEM: nothing is cancelled; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks: the caller's own is cancelled with the others. */
WEFT_API WEFT_MUST_USE int weft_pool_cancel(weft_pool *pool);

/* Waits until all tasks that were admitted have ended, nobody waits in submit, and on_drop has been
 * told of what was dropped. The pool and its workers stay as they are. While others submit without
 * a pause that moment may never come: it is for those who know that they have submitted the last.
 * on_drop must not call it: it would wait for itself.
 * Returns 0; -ETIMEDOUT; -EDEADLK from a task of the pool or its tree, on_worker_start and
 * on_worker_exit; -ECANCELED if the caller's context is cancelled; -EINVAL; -ECHILD.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_wait(weft_pool *pool, int64_t deadline);

/* Ends admission (submit gives -ESHUTDOWN, also to those who wait in it; but what its own tasks
 * submit is still admitted), lets all tasks that were admitted run to their end, and ends all
 * workers. A paused pool is resumed. The pool is still there: it can be asked for its figures,
 * opened again, and must be closed. Its schedules end: weft/schedule.h. A second stop waits as the
 * first does; of a stopped pool it returns 0 at once.
 * Returns 0; -ETIMEDOUT: some still run, and the pool goes on stopping; -EDEADLK from a task of the
 * pool or its tree, on_worker_start and on_worker_exit; -ECANCELED if the caller's context is cancelled;
 * -EINVAL; -ECHILD.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_stop(weft_pool *pool, int64_t deadline);

/* Lets a stopped pool work again.
 * Returns 0; -EBUSY if it is not stopped completely; -ECANCELED or -ETIMEDOUT if its context has
 * ended; -EINVAL; or as weft_go.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_reopen(weft_pool *pool);

/* Stops the pool and frees it: when it returns 0, all tasks have run and nothing of the pool is
 * left. It is not ended by a context.
 * Returns 0; -EDEADLK from a task of the pool or its tree; -EBUSY for weft_pool_default, and while it
 * has sub-pools: nothing has happened then; -EINVAL if pool is NULL; -ECHILD.
 * Contexts: fiber, thread.
 * Undefined: any use during or after it, except by its tasks, and by submitters that wait in it. */
WEFT_API int weft_pool_close(weft_pool *pool);

/* Stops the pool and frees it, as weft_pool_close, if it is stopped by the deadline.
 * Returns as weft_pool_close; -ETIMEDOUT: the pool is still stopping, and must be closed again.
 * Contexts: as weft_pool_close. */
WEFT_API WEFT_MUST_USE int weft_pool_close_until(weft_pool *pool, int64_t deadline);

WEFT_END

#endif
