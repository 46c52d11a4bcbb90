/*
 * weft/schedule.h: submit a task to a pool later, or periodically.
 *
 *     error = weft_pool_submit_after(pool, expire, session, 30 * WEFT_S, NULL); // in 30 seconds
 *
 *     weft_schedule *schedule;
 *     error = weft_pool_submit_every(pool, report, NULL, 500 * WEFT_MS, &schedule);
 *     ...
 *     (void)weft_schedule_cancel(schedule);
 *     weft_schedule_release(schedule);
 *
 * When its time has come a scheduled task is submitted to its pool, and from then on is a task like
 * any other: it takes a place in the queue, waits while the pool is paused, runs in a worker, bound
 * to no context. Everything that is needed is allocated when it is scheduled: nothing fails later.
 * No thread and no waiting fiber stands behind a schedule; it costs a timer (weft/timer.h) and 400
 * bytes.
 *
 * A full pool. The task waits in the pool's line of submitters until there is a place, first come,
 * first served, whatever the pool's `when_full` and max_blocked are: there is no caller to get an
 * error or to run the task. It delays only the submits behind it in the line. It is counted in
 * weft_pool_stats.blocked, and towards the max_blocked of other submits. Once it is admitted,
 * WEFT_DROP_OLDEST and weft_pool_abort may drop it like any task.
 *
 * Periods. Runs are due at absolute times, first, first + period, first + 2 * period and so on:
 * they do not drift. Two runs of one schedule never overlap: if the last one has not ended, or
 * stands in the line or queue, when the next is due, that one is skipped. Times that passed while
 * the process did not get to them are skipped as well, except for one: there are no bursts.
 * weft_schedule_stats.skipped counts both. A run that panics, crashes (in a pool that isolates
 * crashes) or is dropped ends that run only.
 *
 * The end of the pool. From the moment at which a pool stops (weft_pool_stop, weft_pool_close,
 * weft_pools_close) nothing is submitted by schedules: a task that was to run once, and has not
 * been admitted, is dropped: on_drop is called for it, by the call that stops the pool and before
 * it waits for the rest, and it counts as submitted and as dropped. A periodic schedule is over,
 * without on_drop; a run that was admitted goes on to its end. A pool that is opened again does not
 * resume its schedules. weft_pool_abort and weft_pool_wait are about tasks that were admitted:
 * schedules go on, and are not waited for while they are not due.
 */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H

#include <weft/base.h>
#include <weft/pool.h>

WEFT_BEGIN

typedef struct weft_schedule weft_schedule;

/* Submits function(arg) to the pool once, `delay` from now (0: at once). If schedule is not NULL,
 * *schedule is a handle by which it can be cancelled, to be released; it is set before the task can
 * begin.
 * Returns 0; -EINVAL if pool or function is NULL or delay is negative; -ESHUTDOWN if the pool is
 * stopping or stopped, also to its own tasks; -ENOMEM, and as weft_timer_open; -ECHILD in a forked
 * child. On an error there is no handle, and on_drop is not called.
 * Contexts: fiber, thread, the pool's own tasks. */
WEFT_API WEFT_MUST_USE int weft_pool_submit_after(weft_pool *pool, void (*function)(void *),
                                                  void *arg, int64_t delay,
                                                  weft_schedule **schedule);

/* Submits function(arg) to the pool every `period`, for the first time one period from now, until
 * it is cancelled or the pool stops. If schedule is not NULL, *schedule is a handle, to be
 * released.
 * Returns as weft_pool_submit_after; -EINVAL if period is not positive.
 * Contexts: as weft_pool_submit_after. */
WEFT_API WEFT_MUST_USE int weft_pool_submit_every(weft_pool *pool, void (*function)(void *),
                                                  void *arg, int64_t period,
                                                  weft_schedule **schedule);

/* Zero means default in every field. */
typedef struct weft_schedule_options {
    /* From now until the first run is due. Default 0: at once. */
    int64_t delay;
    /* After the first run, another one is due every `period`. Default 0: there is one run. */
    int64_t period;
    /* Priority and key of the runs, as in weft_submit_options. */
    int priority;
    uint64_t key;
    /* Not 0: so many bytes (at most WEFT_COPY_MAX) are copied from arg, and the function is
     * called with the address of the copy. All runs have the same copy, and may write it; it is
     * valid until the last run has returned. */
    size_t copy;
    uintptr_t reserved[4]; /* must be zero */
} weft_schedule_options;

/* Schedules function(arg) as the options say; NULL: all defaults.
 * Returns as weft_pool_submit_after; -EINVAL also for an option out of range.
 * Contexts: as weft_pool_submit_after. */
WEFT_API WEFT_MUST_USE int weft_pool_schedule(weft_pool *pool, void (*function)(void *), void *arg,
                                              const weft_schedule_options *options,
                                              weft_schedule **schedule);

/* Ends the schedule: no run of it begins after the call has returned. A run that waits in the
 * pool's line or queue is removed, and its place is free at once. on_drop is not called. The time
 * that the call takes does not depend on the number of schedules or tasks. Returns 0 if no run is
 * in progress and the call has prevented one, the only or the next one; 1 if a run is in progress:
 * it goes on, and is the last; 2 if the schedule was over: it had run, been dropped or been
 * cancelled, or its pool had stopped; -EINVAL if schedule is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread, the pool's own tasks, the scheduled function itself; also after the pool
 * is closed. Undefined: while the handle is being released. */
WEFT_API int weft_schedule_cancel(weft_schedule *schedule);

/* The figures of a schedule. */
typedef struct weft_schedule_stats {
    int64_t runs;    /* runs that have ended */
    int64_t skipped; /* times at which a run was due and not submitted */
    int64_t next;    /* when a run is due next, by weft_now; WEFT_NEVER: none will be */
    uintptr_t reserved[5];
} weft_schedule_stats;

/* Stores the figures of a schedule.
 * Returns 0; -EINVAL if an argument is NULL; -ECHILD in a forked child.
 * Contexts: as weft_schedule_cancel. */
WEFT_API int weft_schedule_stats_get(weft_schedule *schedule, weft_schedule_stats *stats);

/* Gives up the handle. The schedule goes on. NULL is allowed.
 * Contexts: as weft_schedule_cancel.
 * Undefined: any use of the handle after it. */
WEFT_API void weft_schedule_release(weft_schedule *schedule);

WEFT_END

#endif
