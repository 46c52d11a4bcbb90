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
 * the pool's own tasks, unless it says otherwise.
 *
 * Capacity. A task is active if it has begun, has not ended, and does not wait for a task or group
 * of its own pool (weft_task_wait, weft_group_wait, weft_group_close, weft_group_go at the group's
 * limit). No task begins while `capacity` tasks are active. A task that sleeps, waits for anything
 * else, or blocks its thread is active. While a task waits for its own pool it lends its place: to
 * the task that it waits for, or the first of that group, if that has not begun; else to the next
 * task. When what it waits for ends, the place is its own again before another task begins. A wait
 * that ends otherwise (deadline, context, a place in a group with a limit) returns at once, without
 * waiting for a place: then more than `capacity` tasks may be active, and nothing else begins until
 * that is over.
 *
 * Sub-pools. A pool that is opened with a `parent` shares the parent's capacity: a task of it
 * begins when fewer than its own capacity are active in it, and fewer than the parent's in the
 * parent and all its sub-pools together. The places go round among the pools that have tasks ready,
 * the parent and each sub-pool, in the order in which they asked; no pool keeps another one out.
 * All else is each pool's own: admission, queue, policies, limiter, workers and their state,
 * figures, cancel, abort, stop.
 *   - A task that waits for a task or group of the same tree (its own pool, the parent, another
 *     sub-pool) lends its place in the parent, as above, and that in its sub-pool. So tasks of a
 *     tree may wait for each other at any capacities. If the awaited task is in another pool, the
 *     place in the sub-pool is lent only to tasks of that sub-pool that other tasks wait for. If
 *     one of these still runs when the wait ends, more than the sub-pool's capacity are active
 *     until that is over, and nothing begins in it.
 *   - Take no lock across such a wait. A task that took a lock in that situation, and waits for a
 *     task of its own sub-pool while the task that still runs wants the lock, waits for ever.
 *   - A plain submit by a task of the tree to any pool of it never waits.
 *   - While the parent is paused nothing begins in its sub-pools either.
 *   - A sub-pool without a `context` is under that of the parent, and ends with it.
 *   - A stopped parent keeps its capacity for its sub-pools; it cannot be closed before they are. A
 *     sub-pool cannot have sub-pools.
 *   - Tasks of a tree are taken one by one: where they are very short, a pool by itself is several
 *     times faster.
 *
 * Admission. At most capacity + queue tasks are in flight, admitted and not ended. The pool's
 * `when_full` says what a submit does when there are as many: by default the submitter waits, first
 * come, first served. A plain submit by one of the pool's own tasks (weft_pool_submit, or another
 * call without a deadline, in a pool with WEFT_BLOCK) never waits: it is admitted beyond the limit,
 * and counted (weft_pool_stats.beyond). Every other submit gets what its policy and its deadline
 * say.
 *
 * Rate. A task of a pool with a limiter begins when it has a place and a token. While the pool
 * waits for a token nothing holds a place; the pool waits once, in the limiter's line, first come,
 * first served with all other takes of the limiter. The token is for the task that is next when it
 * comes: a task of high priority, or one that another task waits for, goes first even if it came
 * later. A token that no task needs any more goes back to the limiter: its task was cancelled,
 * skipped by its group or dropped, or the pool was paused. So an abort, a pause and a close never
 * wait for a token, except for tasks that are still to run. Tasks that wait for a token count as
 * `starting` while a place is free. A submit to a full pool with WEFT_CALLER_RUNS calls the task
 * only if there is a token at that moment; else it waits, as WEFT_BLOCK. When its workers come
 * late, a pool catches up by at most the limiter's burst: a high rate needs a burst of more than 1.
 *
 * No task runs inside another. Each runs in a worker, a fiber of the pool, from its first
 * instruction to its end, on a stack of its own; except where WEFT_CALLER_RUNS asks for it. A task
 * begins with no fiber-local values, no deferred calls and errno 0, bound to the pool's context
 * (or, without one, to what on_worker_start has bound, if anything). What it leaves of these is
 * gone when it ends.
 *
 * A task that is admitted (the submit returned 0) runs exactly once, unless it is dropped by policy
 * (WEFT_DROP_OLDEST), or cancelled through its handle or its context, or the pool is aborted or its
 * context ends. Then on_drop is called; or the task's handle or group says so, if it has one.
 *
 * The pool's context. A pool that is opened with `context`, or as `cancellable`, has a context of
 * its own (weft/context.h), under `context`. Its tasks are bound to that, in workers and, by
 * WEFT_CALLER_RUNS, in their submitters. Tasks with a handle and those of groups have their own
 * contexts instead. The pool's context is cancelled
 *   - by weft_pool_cancel, for what runs at that moment; a new one takes its place;
 *   - when `context` ends: cancelled by a call or a timeout, or closed. That is the end of the
 *     pool. At one moment nothing more begins, and admission ends as by weft_pool_stop, and for the
 *     pool's own tasks too: submits return -ESHUTDOWN, those that wait included. Then the contexts
 *     of all tasks that run are cancelled with the error of `context`: those of tasks with a handle
 *     too, and the groups of tasks that are of a group. Schedules end as by a stop, and the tasks
 *     that have not begun are dropped as by weft_pool_abort. All that is done when
 *     weft_context_cancel returns, which calls on_drop. (After a timeout a fiber of the context
 *     does it.) When the tasks that run have ended the pool is stopped. It must be closed like any
 *     other, and cannot be opened again.
 * A task must not cancel the pool's context by weft_context_current(): it would be cancelled for
 * all tasks, those that begin later too, until weft_pool_cancel.
 *
 * A task that panics (weft/panic.h) has ended; the worker goes on with the next one. A panic in a
 * function of the options is counted and reported on stderr, and ends that call only; a worker
 * whose on_worker_start panics has failed to start.
 *
 * Crashes. A memory fault or a stack overflow ends the process, after a report. In a pool with
 * isolate_crashes the report is made, and then only the task ends: the fiber that ran it is
 * abandoned, another one takes its place, and the task counts as completed, and as crashed. Its
 * handle gets -EFAULT, its group that error, and on_panic is called as for a panic. What cannot be
 * repaired: what the task wrote before the fault stays written; what it held stays held (locks of
 * any kind, memory, descriptors, libc's own locks if the fault was in libc); its clean-ups,
 * destructors and fiber-local values are not run or ended, nor is the state of its worker; its
 * stack is kept for ever. Read docs/pool.md before you use it.
 *
 * Workers are made by need. Tasks that do not wait are run one after the other by as many workers
 * as there are processors, however large the capacity. Only when a task waits is another worker
 * woken or made for the next task.
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

/* What a submit does when capacity + queue tasks are in flight. */
enum {
    /* Waits its turn; first come, first served. */
    WEFT_BLOCK = 0,
    /* Returns -EAGAIN. */
    WEFT_REJECT,
    /* Calls the task itself, bound to the pool's context or to none and without worker state, and
     * returns when it is done; the task counts as running, and holds no place. While the pool is
     * paused, and with a task that has a key, it waits as WEFT_BLOCK. From inside a task that its
     * submitter runs, the task is admitted beyond the limit. */
    WEFT_CALLER_RUNS,
    /* Drops the new task: on_drop is called, the submit returns 0. */
    WEFT_DROP_NEWEST,
    /* Drops, of the tasks of the lowest priority that have not begun, the one that was admitted
     * first, and admits the new one; if there is none, drops the new one. */
    WEFT_DROP_OLDEST,
};

/* Which idle worker gets the next task. */
enum {
    WEFT_LIFO = 0, /* the last one to become idle: its memory is warm, and the others can expire */
    WEFT_FIFO,     /* the one that is idle longest */
};

/* The priorities. Of the tasks that have not begun, high ones go before normal before low; but of
 * nine taken at least one is not high, and of ninety at least one is low, if any are there. */
enum { WEFT_NORMAL = 0, WEFT_HIGH = 1, WEFT_LOW = -1 };

/* The options of a pool. Zero means default in every field. */
typedef struct weft_pool_options {
    /* Shown in reports; copied, at most 31 bytes of it. Default: no name. */
    const char *name;
    /* The most tasks that are active at the same time. Default 10,000; WEFT_UNLIMITED. */
    int64_t capacity;
    /* The most tasks that wait in the pool beyond those. Default 0; WEFT_UNLIMITED. */
    int64_t queue;
    /* What a submit does when both are full: WEFT_BLOCK and so on. */
    int when_full;
    /* Which idle worker gets the next task: WEFT_LIFO or WEFT_FIFO. */
    int reuse;
    /* With WEFT_BLOCK: the most submitters that wait; one more gets -EAGAIN. Default 0: any
     * number. */
    int64_t max_blocked;
    /* The function that weft_pool_invoke calls. */
    void (*function)(void *arg);

    /* Idle workers that never expire. Default 0. */
    int64_t keep;
    /* Workers that are made when the pool is opened, and never expire either. At most `capacity`,
     * and not WEFT_UNLIMITED. Default 0. */
    int64_t prestart;
    /* How long a worker stays idle before it ends, by an exact clock. Default 1 s; WEFT_NEVER. */
    int64_t expiry;
    /* 0: each idle worker has its own clock. n: instead, every `expiry` one n-th of the idle
     * workers beyond `keep` ends, at least one: 4 ends a quarter. */
    int shrink;
    /* Bytes of stack of a worker, as weft_spawn_options.stack_size. */
    size_t stack_size;

    /* Called in each worker when it starts and when it ends. *state is the worker's own, NULL at
     * first, returned by weft_pool_worker_state. A context that on_worker_start binds
     * (weft_context_bind) is bound when each task of the worker begins; in a pool with a context
     * both are called bound to none. Fiber-locals that on_worker_start sets end when it returns.
     * If it fails (not 0) it is called again after a pause, 10 ms and doubling up to about a
     * second, and no more workers are made meanwhile. */
    int (*on_worker_start)(void **state, void *data);
    void (*on_worker_exit)(void *state, void *data);
    /* Called for each task that was admitted, or offered to a full pool that drops, and will not
     * run; by the call that drops it. Not for tasks with a handle or of a group: handle and group
     * say so. */
    void (*on_drop)(void (*function)(void *), void *arg, void *data);
    /* Called for each task that panicked (weft/panic.h), in its worker and as part of the task.
     * `function` and `arg` are the task's; for a task with a handle or of a group they are only
     * numbers to know it by. Default: a report on stderr, unless the task's handle or its group is
     * asked for the panic. If on_panic panics, that is counted, both panics are reported on stderr,
     * and the worker goes on. */
    void (*on_panic)(const weft_panic_info *info, void (*function)(void *), void *arg, void *data);
    /* Called with each message of the pool, a line without its end. Default: stderr. */
    void (*log)(const char *line, void *data);
    /* Passed to all these functions. */
    void *data;
    /* Not 0: workers have compact stacks, as weft_spawn_options.compact. For many tasks that wait
     * and share nothing of what is on their stack. */
    int compact;
    /* Not 0: a task that faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL raised by its own code) or
     * overflows its stack does not end the process: see "Crashes" above. Needs the runtime's
     * handlers (weft_config.no_fault_report). */
    int isolate_crashes;
    /* With isolate_crashes: how many crashes this pool isolates; the next one ends the process.
     * Default 1,000; WEFT_UNLIMITED. */
    int64_t max_crashes;
    /* The end of this context is the end of the pool: see "The pool's context" above. It may be
     * closed before the pool is, which ends it. Default NULL: none. */
    weft_context *context;
    /* Not 0: weft_pool_cancel works without `context` too. */
    int cancellable;
    /* Tasks begin at a rate: each takes one event of this limiter (weft/limiter.h), a token, when
     * it begins: see "Rate" above. Pools and other callers may share a limiter. It must not be
     * closed before the pool is. Default NULL: no rate. */
    weft_limiter *limiter;
    /* The pool is a sub-pool of this one: see "Sub-pools" above. Default NULL: it is none. */
    weft_pool *parent;
    uintptr_t reserved[1]; /* must be zero */
} weft_pool_options;

/* Returns options for a pool of `workers` workers that are made at the start and stay, with a queue
 * of as many tasks; a submitter waits when that is full. If workers is below 1, weft_pool_open
 * refuses the options.
 * Contexts: fiber, thread. */
WEFT_API weft_pool_options weft_pool_fixed(int64_t workers);

/* Returns options for a pool that keeps `idle` workers, grows by need to `most`, and ends a quarter
 * of the other idle workers every `period`. If most is below 1, weft_pool_open refuses the options.
 * Contexts: fiber, thread. */
WEFT_API weft_pool_options weft_pool_scalable(int64_t idle, int64_t most, int64_t period);

/* Opens a pool; options NULL: all defaults.
 * Returns 0; -EINVAL if pool is NULL, a number is out of range, a reserved field is set or the
 * parent is a sub-pool; -ESHUTDOWN if the parent is stopping or stopped; -ENOTSUP if crashes are to
 * be isolated and the runtime does not handle faults; -ECANCELED or -ETIMEDOUT if `context` has
 * ended; or as weft_go.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_open(weft_pool **pool, const weft_pool_options *options);

/* Returns a pool with all defaults, opened at first use. It is never closed (weft_pool_close
 * returns -EBUSY), but may be stopped and opened again. NULL if it could not be opened, or if the
 * runtime, after a shut-down, could not be started; then the next call tries again.
 * Contexts: fiber, thread. */
WEFT_API weft_pool *weft_pool_default(void);

/* Submits a task: function(arg) will be called in a worker. Waits for room in a full pool, if that
 * is the pool's policy.
 * Returns 0 if the task was admitted (or, by WEFT_CALLER_RUNS, run; or, by a policy that drops,
 * dropped). On an error the task does not run:
 *   -EAGAIN      the pool is full and rejects, or max_blocked submitters wait already
 *   -ESHUTDOWN   the pool stops or its context ends, also while this call waits
 *   -ECANCELED   the caller's context is cancelled and the call would have to wait
 *   -ETIMEDOUT   the same, by a timeout
 *   -EINVAL      an argument is NULL
 *   -ENOMEM      no memory
 *   -ECHILD      in a forked child
 *   another one  as weft_go, if the pool has no worker and the first cannot be made
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API WEFT_MUST_USE int weft_pool_submit(weft_pool *pool, void (*function)(void *), void *arg);

/* Submits a task as weft_pool_submit, and waits for room until the deadline at the latest.
 * Returns as weft_pool_submit; -ETIMEDOUT also if the deadline has passed.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_pool_submit_until(weft_pool *pool, void (*function)(void *),
                                                  void *arg, int64_t deadline);

/* Submits a task as weft_pool_submit, if that is possible without waiting for room.
 * Returns as weft_pool_submit; -EAGAIN where that would wait.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_pool_try_submit(weft_pool *pool, void (*function)(void *),
                                                void *arg);

/* Submits a task that calls the pool's function (weft_pool_options.function) with arg; otherwise as
 * weft_pool_submit, weft_pool_submit_until and weft_pool_try_submit.
 * Returns as those; -EINVAL also if the pool has no function.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_pool_invoke(weft_pool *pool, void *arg);
WEFT_API WEFT_MUST_USE int weft_pool_invoke_until(weft_pool *pool, void *arg, int64_t deadline);
WEFT_API WEFT_MUST_USE int weft_pool_try_invoke(weft_pool *pool, void *arg);

/* The options of a submit. Zero means default in every field. */
typedef struct weft_submit_options {
    /* WEFT_HIGH, WEFT_NORMAL or WEFT_LOW. */
    int priority;
    /* Not 0: tasks of the pool with the same key run one at a time, in the order in which they were
     * admitted. */
    uint64_t key;
    /* Not 0: this many bytes (at most WEFT_COPY_MAX) are copied from arg into the pool, and the
     * function is called with the address of the copy. The copy is valid until the function
     * returns; for a task with a handle, until that is released (weft_task_arg). */
    size_t copy;
    /* The longest that a submit to a full pool waits: a duration. 0: no limit. */
    int64_t timeout;
    /* For a task with a handle: this long after the task began its context is cancelled, with
     * -ETIMEDOUT. 0: never. */
    int64_t run_timeout;
    /* For a task with a handle: the context under which its own is opened. NULL: the context that
     * the caller is bound to, if there is one. */
    weft_context *context;
    uintptr_t reserved[4]; /* must be zero */
} weft_submit_options;

/* Submits a task with options; NULL: all defaults.
 * Returns as weft_pool_submit_until; -EINVAL also for an option out of range.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int weft_pool_submit_with(weft_pool *pool, void (*function)(void *),
                                                 void *arg, const weft_submit_options *options);

/* Submits a task for each of `count` arguments, in order; waits for room as weft_pool_submit_until.
 * A NULL function means the pool's own (weft_pool_options.function).
 * Returns how many were submitted: fewer than count if one of them got an error; that error, if
 * none was submitted; -EINVAL also if count is negative, or args is NULL and count is not 0.
 * Contexts: as weft_pool_submit. */
WEFT_API WEFT_MUST_USE int64_t weft_pool_submit_batch(weft_pool *pool, void (*function)(void *),
                                                      void *const *args, int64_t count,
                                                      int64_t deadline);

/* Sets the capacity, the most tasks that are active at the same time: 1 to WEFT_UNLIMITED. If it is
 * raised, tasks and submitters that wait go on at once. If it is lowered, no task begins until
 * fewer are active.
 * Returns 0; -EINVAL if pool is NULL or capacity is below 1; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API int weft_pool_tune(weft_pool *pool, int64_t capacity);

/* Sets the queue, the most tasks that wait beyond the capacity: 0 to WEFT_UNLIMITED. If it is
 * raised, submitters that wait are admitted at once. If it is lowered, none is admitted until fewer
 * tasks are in flight; those in the pool stay.
 * Returns 0; -EINVAL if pool is NULL or queue is negative; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API int weft_pool_tune_queue(weft_pool *pool, int64_t queue);

/* weft_pool_pause lets no task begin until weft_pool_resume; tasks that run go on, and submits are
 * admitted as before. A pause of a paused pool changes nothing: one resume ends it. A stopped pool
 * can be paused: it is then paused when it is opened again.
 * Returns 0; -EINVAL if pool is NULL; -ESHUTDOWN if the pool is stopping (weft_pool_pause only);
 * -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API int weft_pool_pause(weft_pool *pool);
WEFT_API int weft_pool_resume(weft_pool *pool);

/* Pauses the pool until the context ends, or weft_pool_resume is called. Pauses add up: tasks begin
 * again when the contexts of all these calls have ended and no weft_pool_pause is in force. One
 * resume, or a stop, ends them all and leaves the contexts as they are. A stopped pool can be
 * paused: if it is opened again before the context ends, it is paused until then. The context may
 * be closed at any time, which ends it, and the pool may be closed before it.
 * Returns 0; -ECANCELED or -ETIMEDOUT if the context has ended: the pool is as it was; -EINVAL if
 * an argument is NULL; -ESHUTDOWN if the pool is stopping; -ENOMEM; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API WEFT_MUST_USE int weft_pool_pause_until(weft_pool *pool, weft_context *context);

/* The states of a pool. */
enum { WEFT_POOL_OPEN = 0, WEFT_POOL_STOPPING, WEFT_POOL_STOPPED };

/* Returns WEFT_POOL_OPEN, WEFT_POOL_STOPPING (it was told to stop or its context has ended, and
 * tasks still run) or WEFT_POOL_STOPPED; -EINVAL if pool is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_pool_state(weft_pool *pool);

/* The figures of a pool, of one moment: submitted == completed + running + starting + queued +
 * dropped + cancelled. Totals never decrease. */
typedef struct weft_pool_stats {
    int64_t capacity;
    int64_t queue;
    /* Tasks that have begun and not ended. */
    int64_t running;
    /* Of `running`: tasks that wait for a task or group of this pool, and have lent their place. */
    int64_t lending;
    /* Tasks that have not begun, and for which a place is free; in a tree of pools another one may
     * have that place. */
    int64_t starting;
    /* All other tasks that have not begun: at most `queue`, except for those beyond the limit. */
    int64_t queued;
    int64_t blocked;      /* submitters that wait */
    int64_t workers;      /* workers that exist */
    int64_t idle;         /* workers without a task */
    int64_t most_workers; /* the most workers that ever existed at once */

    /* Totals since the pool was opened. */

    int64_t submitted; /* tasks admitted */
    int64_t beyond;    /* of `submitted`: by the pool's own tasks, beyond the limit */
    int64_t completed; /* tasks that have run to their end */
    /* Of `completed`: returned an error, below 0 with a handle, not 0 in a group. */
    int64_t failed;
    int64_t panicked; /* of `completed` */
    /* Submits that returned -EAGAIN, -ETIMEDOUT, -ECANCELED or -ESHUTDOWN, or found no first
     * worker. */
    int64_t rejected;
    /* Tasks dropped by policy, an abort or the end of the context; or scheduled, and dropped by a
     * stop. */
    int64_t dropped;
    int64_t cancelled; /* tasks that were admitted, and cancelled before they began */
    int64_t stolen;    /* tasks taken from those that another processor had set aside */
    /* Calls of on_panic, on_drop, on_worker_start and so on that panicked. */
    int64_t handlers_panicked;
    int64_t crashed; /* of `completed`: ended by a fault, in a pool that isolates crashes */

    /* At this moment. */

    int64_t schedules; /* delayed and periodic submits that are not over: weft/schedule.h */
    int64_t below;     /* places of the capacity that sub-pools hold */
    uintptr_t reserved[4];
} weft_pool_stats;

/* Gets the figures of the pool.
 * Returns 0; -EINVAL if an argument is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_pool_stats_get(weft_pool *pool, weft_pool_stats *stats);

/* Returns, in a task, the state of the worker that runs it (on_worker_start); NULL elsewhere, and
 * in a task that its submitter runs.
 * Contexts: fiber, thread. */
WEFT_API void *weft_pool_worker_state(void);

/* Drops the tasks that were admitted before this call and have not begun. For each of them on_drop
 * is called, or its handle or group says so, before this call returns. Admission goes on.
 * Returns how many were dropped; -EINVAL if pool is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API int64_t weft_pool_abort(weft_pool *pool);

/* Cancels what runs: the contexts of all tasks that have begun and not ended are cancelled, with
 * -ECANCELED. Those of tasks with a handle are, too; for a task of a group the whole group is
 * cancelled (weft_group_cancel). So their waits end; each task goes on until it returns. Tasks that
 * have not begun are not cancelled, except for those that the cancelled tasks have started with a
 * handle or in a group, under their context: weft_pool_abort before this call cancels the whole
 * pool. A task that begins after this call has returned is bound to a new context of the pool.
 * Returns 0; -ENOTSUP if the pool was opened without `context` and not as `cancellable`; -EINVAL if
 * pool is NULL; -ENOMEM: nothing is cancelled; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks: the caller's own is cancelled with the others. */
WEFT_API WEFT_MUST_USE int weft_pool_cancel(weft_pool *pool);

/* Waits until all tasks that were admitted have ended, no submit waits, and on_drop has returned
 * for what was dropped. The pool and its workers stay as they are. That moment may never come while
 * tasks are submitted without a pause: call it after the last submit. on_drop must not call it: it
 * would wait for itself.
 * Returns 0; -ETIMEDOUT if the deadline has passed; -EDEADLK from a task of the pool, its tree or
 * its family (weft/pools.h), on_worker_start and on_worker_exit; -ECANCELED or -ETIMEDOUT if the
 * caller's context is cancelled; -EINVAL if pool is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_wait(weft_pool *pool, int64_t deadline);

/* Stops the pool: ends admission, lets all tasks that were admitted run to their end, and ends all
 * workers. Submits return -ESHUTDOWN, those that wait included; what its own tasks submit is still
 * admitted. A paused pool is resumed. Schedules end: weft/schedule.h. The pool is still there: it
 * can be asked for its figures, opened again, and must be closed. A second stop waits as the first
 * does; of a stopped pool it returns 0 at once.
 * Returns 0; -ETIMEDOUT if tasks still run at the deadline: the pool goes on stopping; -EDEADLK
 * from a task of the pool, its tree or its family (weft/pools.h), on_worker_start and
 * on_worker_exit; -ECANCELED or -ETIMEDOUT if the caller's context is cancelled: the pool goes on
 * stopping; -EINVAL if pool is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_stop(weft_pool *pool, int64_t deadline);

/* Opens a stopped pool again.
 * Returns 0; -EBUSY if the pool is open or still stopping; -ECANCELED or -ETIMEDOUT if its context
 * has ended; -EINVAL if pool is NULL; or as weft_go.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pool_reopen(weft_pool *pool);

/* Stops the pool (weft_pool_stop) and frees it: when this returns 0, all tasks have ended and
 * nothing of the pool is left. The wait does not end with the caller's context.
 * Returns 0; -EDEADLK from a task of the pool, its tree or its family (weft/pools.h),
 * on_worker_start and on_worker_exit; -EBUSY for weft_pool_default, and while the pool has
 * sub-pools; -EINVAL if pool is NULL; -ECHILD in a forked child. On an error nothing has happened.
 * Contexts: fiber, thread.
 * Undefined: any use during or after it, except by its tasks, and by submitters that wait in it. */
WEFT_API int weft_pool_close(weft_pool *pool);

/* Stops the pool, and frees it as weft_pool_close if it is stopped by the deadline.
 * Returns as weft_pool_close; -ETIMEDOUT if tasks still run at the deadline: the pool goes on
 * stopping, and must be closed again.
 * Contexts: as weft_pool_close. */
WEFT_API WEFT_MUST_USE int weft_pool_close_until(weft_pool *pool, int64_t deadline);

WEFT_END

#endif
