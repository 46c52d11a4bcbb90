/*
 * schedule.c: tasks that are submitted later, or periodically: weft/schedule.h.
 *
 * Problem. A task is to be submitted at a time to come, maybe again and again, without a fiber that
 * waits for it, and nothing may fail then. The schedule, its run and its pool may end in any order.
 *
 * Pattern. A schedule owns a timer and the record of its task. The timer calls `fire`, which puts
 * the record into the pool's line of submitters; there it stands by itself (admission.c), and is
 * admitted in the same hold of the latch if the pool has room. A periodic schedule starts its timer
 * again for the next time, counted from the first; a schedule that runs once closes it. So `fire`
 * never waits, and closing a timer from elsewhere waits for some instructions at most.
 *
 *               fire                  the pool has room           the run ends, or is dropped
 *     not due ---------> due, in line -----------------> in flight ---------------------------+
 *        ^                                                                                    |
 *        |________________________________ periodic _________________________________________|
 *
 * A cancel, or a stop of the pool, takes the schedule out of each of these: its timer is closed,
 * its record leaves the line and, by a cancel, the queue. A run that has begun goes on.
 *
 *   ending      Under the pool's latch the call that finds `timer` not NULL may take it: it sets it
 *               to NULL, and closes the timer after the latch is released. `users` counts the timer
 *               until it is closed, and the run while it is due. The call that makes it 0 ends the
 *               schedule; at that moment it is a task in flight or pins the pool. A timer that
 *               closes itself passes its count on to the run, and needs neither the pool nor the
 *               schedule after that
 *   handles     outlive pools. The call that ends the schedule sets `over` under the schedule's
 *               latch. So a call that holds this latch, and sees that the schedule is not over, may
 *               use the pool. Two references: the handle's, and the schedule's own until it is over
 *   enrolment   The timer is started before the pool knows the schedule: a stop might close it
 *               afterwards. If it fires before its maker has the latch, `fire` enrols the schedule
 *               itself; or finds that the pool stops, and refuses it
 *
 * Lock order: the schedule's latch, then the pool's.
 */
#include "pool/schedule.h"

#include <errno.h>
#include <string.h>
#include <weft/schedule.h>
#include <weft/timer.h>

#include "base/assert.h"
#include "pool/submit.h"
#include "sched/fiber/compact.h"

enum enrolment { NEW, ENROLLED, REFUSED };

struct weft_schedule {
    struct task task;           /* of the run that is due */
    struct submitter submitter; /* the same, in line */
    struct latch latch;         /* of `over` */
    bool over;                  /* the pool has nothing of it, and may be gone */
    atomic_u32 references;
    weft_pool *pool;
    void (*function)(void *);
    void *arg;
    int64_t period; /* 0: it runs once */
    uint64_t key;
    int priority;
    /* Under the pool's latch. */
    weft_schedule **out; /* gets the handle at enrolment, before any run; NULL: none is wanted */
    struct link link;    /* in pool->schedules, if `listed` */
    weft_timer *timer;
    int64_t next; /* when the timer is due */
    int64_t runs, skipped;
    uint8_t enrolment; /* enum enrolment */
    uint8_t users;
    bool listed;
    bool due;
    _Alignas(max_align_t) unsigned char copy[];
};

static struct weft_schedule *of(struct task *task)
{
    return container_of(task, struct weft_schedule, task);
}

static void drop(struct weft_schedule *schedule)
{
    /* Pairs with itself: the last to drop sees what the other did. */
    if (atomic_u32_sub_acq_rel(&schedule->references, 1) == 1)
        weft__os_free(schedule);
}

/* The end. */

/* Under the pool's latch: takes away that many users. True: it is over, and the caller sets `over`.
 * */
static bool leave(struct weft_schedule *schedule, int users)
{
    schedule->users = (uint8_t)(schedule->users - users);
    if (schedule->users > 0)
        return false;
    if (schedule->listed)
        line_leave(&schedule->pool->schedules, &schedule->link);
    schedule->listed = false;
    return true;
}

/* Outside the pool's latch, by a task in flight or a call that pins the pool. */
static void say_over(struct weft_schedule *schedule)
{
    latch_acquire(&schedule->latch);
    schedule->over = true;
    latch_release(&schedule->latch);
    drop(schedule);
}

static void leave_unlatched(struct weft_schedule *schedule, int users)
{
    weft_pool *pool = schedule->pool;
    latch_acquire(pool->latch);
    bool over = leave(schedule, users);
    latch_release(pool->latch);
    if (over)
        say_over(schedule);
}

/* What the call that ends a schedule has taken from it. */
struct taken {
    weft_timer *timer; /* to be closed; NULL: none */
    int users;
    bool in_line; /* a run that was due, and not admitted */
};

/* Under the pool's latch: nothing more is submitted. */
static struct taken take(struct weft_schedule *schedule)
{
    weft_pool *pool = schedule->pool;
    struct taken taken = {schedule->timer, schedule->timer != NULL,
                          schedule->due && !schedule->submitter.served};
    schedule->timer = NULL;
    schedule->next = WEFT_NEVER;
    if (schedule->listed)
        line_leave(&pool->schedules, &schedule->link);
    schedule->listed = false;
    if (taken.in_line) {
        weft__line_withdraw(pool, &schedule->submitter);
        schedule->due = false;
        taken.users++;
    }
    return taken;
}

/* Outside the latch. */
static void give_up(struct weft_schedule *schedule, const struct taken *taken)
{
    if (taken->timer != NULL)
        must(weft_timer_close(taken->timer) == 0);
    if (taken->users > 0)
        leave_unlatched(schedule, taken->users);
}

/* The run. */

static void run(struct task *task)
{
    task->function(task->arg);
}

/* The run has ended, or was dropped: it is still in flight, or the caller pins the pool. */
static void release(struct task *task)
{
    struct weft_schedule *schedule = of(task);
    weft_pool *pool = schedule->pool;
    latch_acquire(pool->latch);
    schedule->runs += task->begun;
    schedule->due = false;
    bool over = leave(schedule, 1);
    latch_release(pool->latch);
    if (over)
        say_over(schedule);
}

static const struct task_kind scheduled_kind = {.run = run, .release = release};

/* Under the latch. */
static void submit(struct weft_schedule *schedule, struct deferred_wakes *wakes)
{
    schedule->task = (struct task){.kind = &scheduled_kind,
                                   .function = schedule->function,
                                   .arg = schedule->arg,
                                   .priority = (int8_t)schedule->priority,
                                   .key = schedule->key};
    schedule->submitter = (struct submitter){.offer = {.record = &schedule->task}};
    schedule->due = true;
    weft__line_join(schedule->pool, &schedule->submitter, wakes);
}

/* The clock. */

/* Under the latch: the pool knows the schedule from here on; false: the pool stops. */
static bool enrol(struct weft_schedule *schedule)
{
    weft_pool *pool = schedule->pool;
    if (schedule->enrolment == NEW) {
        bool open = pool->state == POOL_OPEN;
        schedule->enrolment = open ? ENROLLED : REFUSED;
        schedule->listed = open;
        if (open)
            line_add(&pool->schedules, &schedule->link);
        else
            pool->stats.rejected++;
        if (open && schedule->out != NULL)
            *schedule->out = schedule;
    }
    return schedule->enrolment == ENROLLED;
}

/* Under the latch: of the times that have passed one is submitted, the others are skipped. Sets the
 * next time. */
static void advance(struct weft_schedule *schedule)
{
    int64_t late = weft__now() - schedule->next;
    int64_t missed = late > 0 ? late / schedule->period : 0;
    int64_t next = schedule->next + missed * schedule->period;
    if (__builtin_add_overflow(next, schedule->period, &schedule->next))
        schedule->next = WEFT_NEVER;
    schedule->skipped += missed + schedule->due;
    schedule->users += !schedule->due;
}

/* Called by the timer. */
static void fire(void *arg)
{
    struct weft_schedule *schedule = arg;
    weft_pool *pool = schedule->pool;
    struct deferred_wakes wakes = NO_WAKES(wakes);
    bool fiber = enter_if_fiber();
    latch_acquire(pool->latch);
    weft_timer *timer = schedule->timer;
    if (!enrol(schedule) || timer == NULL) { /* the call that took it waits for this one */
        latch_release(pool->latch);
        leave_if_fiber(fiber);
        return;
    }
    bool once = schedule->period == 0;
    if (once) {
        schedule->timer = NULL;
        schedule->next = WEFT_NEVER;
    } else {
        advance(schedule);
    }
    int64_t next = schedule->next;
    if (!schedule->due)
        submit(schedule, &wakes);
    /* After this a schedule that runs once may be gone, and its pool. */
    weft__pool_finish(pool, &wakes, fiber);
    if (once)
        must(weft_timer_close(timer) == 0);
    else
        (void)weft_timer_start(timer, next, 0); /* does nothing while a call closes it */
}

/* The calls. */

static bool valid(const weft_schedule_options *options, const void *arg)
{
    static const weft_schedule_options none;
    return options->delay >= 0 && options->period >= 0 && options->priority >= WEFT_LOW &&
           options->priority <= WEFT_HIGH && options->copy <= WEFT_COPY_MAX &&
           (options->copy == 0 || arg != NULL) &&
           memcmp(options->reserved, none.reserved, sizeof none.reserved) == 0;
}

static int make(struct weft_schedule **out, weft_pool *pool, void (*function)(void *), void *arg,
                const weft_schedule_options *options)
{
    struct weft_schedule *schedule = weft__os_alloc_zeroed(sizeof *schedule + options->copy);
    if (schedule == NULL)
        return -ENOMEM;
    schedule->pool = pool;
    schedule->function = function;
    schedule->period = options->period;
    schedule->key = options->key;
    schedule->priority = options->priority;
    schedule->arg = options->copy != 0 ? memcpy(schedule->copy, arg, options->copy) : arg;
    schedule->next = options->delay > 0 ? weft_after(options->delay) : weft_now();
    schedule->users = 1;
    atomic_u32_store_relaxed(&schedule->references, 2);
    int error = weft_timer_open(&schedule->timer, fire, schedule);
    if (error != 0)
        weft__os_free(schedule);
    else
        *out = schedule;
    return error;
}

int weft_pool_schedule(weft_pool *pool, void (*function)(void *), void *arg,
                       const weft_schedule_options *options, weft_schedule **out)
{
    static const weft_schedule_options defaults;
    struct weft_schedule *schedule;
    if (options == NULL)
        options = &defaults;
    int error = call_error(pool != NULL && function != NULL && valid(options, arg));
    if (error == 0 && options->copy == 0)
        compact_check_task(arg);
    if (error == 0)
        error = make(&schedule, pool, function, arg, options);
    if (error != 0)
        return error;
    weft_timer *timer = schedule->timer;
    schedule->out = out;
    (void)weft_timer_start(timer, schedule->next, 0);
    latch_acquire(pool->latch);
    bool enrolled = enrol(schedule);
    latch_release(pool->latch);
    if (!enrolled) {
        must(weft_timer_close(timer) == 0);
        weft__os_free(schedule);
        return -ESHUTDOWN;
    }
    if (out == NULL)
        drop(schedule);
    return 0;
}

int weft_pool_submit_after(weft_pool *pool, void (*function)(void *), void *arg, int64_t delay,
                           weft_schedule **schedule)
{
    weft_schedule_options options = {.delay = delay};
    return weft_pool_schedule(pool, function, arg, &options, schedule);
}

int weft_pool_submit_every(weft_pool *pool, void (*function)(void *), void *arg, int64_t period,
                           weft_schedule **schedule)
{
    weft_schedule_options options = {.delay = period, .period = period};
    return period > 0 ? weft_pool_schedule(pool, function, arg, &options, schedule) : -EINVAL;
}

/* Under both latches. */
static int cancel(struct weft_schedule *schedule, struct taken *taken, struct deferred_wakes *wakes)
{
    weft_pool *pool = schedule->pool;
    *taken = take(schedule);
    bool begun = schedule->due && schedule->task.begun;
    if (schedule->due && !begun &&
        schedule->task.place != TASK_NOWHERE) { /* else it is being dropped */
        weft__pool_remove(pool, &schedule->task);
        pool->in_flight--;
        pool->stats.cancelled++;
        schedule->due = false;
        taken->users++;
    }
    if (taken->users > 0) {
        pool->pins++;
        weft__pool_dispatch(pool, wakes);
    }
    return begun ? 1 : taken->users > 0 ? 0 : 2;
}

int weft_schedule_cancel(weft_schedule *schedule)
{
    struct deferred_wakes wakes = NO_WAKES(wakes);
    struct taken taken = {.users = 0};
    int error = call_error(schedule != NULL), result = 2;
    if (error != 0)
        return error;
    weft_pool *pool = schedule->pool;
    bool fiber = enter_if_fiber();
    latch_acquire(&schedule->latch);
    if (!schedule->over) {
        latch_acquire(pool->latch);
        result = cancel(schedule, &taken, &wakes);
        latch_release(pool->latch);
    }
    latch_release(&schedule->latch);
    if (taken.users > 0)
        weft__wakes_run(&wakes);
    leave_if_fiber(fiber);
    if (taken.users > 0) {
        give_up(schedule, &taken);
        weft__pool_unpin(pool);
    }
    return result;
}

int weft_schedule_stats_get(weft_schedule *schedule, weft_schedule_stats *stats)
{
    int error = call_error(schedule != NULL && stats != NULL);
    if (error != 0)
        return error;
    bool fiber = enter_if_fiber();
    latch_acquire(&schedule->latch);
    bool over = schedule->over;
    if (!over)
        latch_acquire(schedule->pool->latch);
    *stats = (weft_schedule_stats){
        .runs = schedule->runs, .skipped = schedule->skipped, .next = schedule->next};
    if (!over)
        latch_release(schedule->pool->latch);
    latch_release(&schedule->latch);
    leave_if_fiber(fiber);
    return 0;
}

void weft_schedule_release(weft_schedule *schedule)
{
    if (schedule != NULL && !weft__runtime_forked())
        drop(schedule);
}

/* The pool stops. */

static struct weft_schedule *first_of(weft_pool *pool)
{
    struct link *first = pool->schedules.first;
    return first != NULL ? container_of(first, struct weft_schedule, link) : NULL;
}

void weft__schedules_stop(weft_pool *pool)
{
    struct weft_schedule *schedule;
    for (;;) {
        struct taken taken = {.users = 0};
        bool drops = false;
        latch_acquire(pool->latch);
        schedule = first_of(pool);
        if (schedule != NULL) {
            taken = take(schedule);
            drops = schedule->period == 0 && taken.users > 0;
            pool->stats.submitted += drops;
            pool->stats.dropped += drops;
        }
        latch_release(pool->latch);
        if (schedule == NULL)
            return;
        if (drops)
            weft__pool_notify_drop(pool, &(struct plain_task){schedule->function, schedule->arg},
                                   NULL);
        if (weft__runtime_forked())
            return;          /* on_drop has forked */
        if (taken.users > 0) /* else the run, which is in flight, ends it */
            give_up(schedule, &taken);
    }
}
