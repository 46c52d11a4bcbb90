/*
 * context.c: the context of a pool: its end stops admission, drops waiting tasks and cancels
 * running ones.
 */
#include <weft/pools.h>
#include <weft/schedule.h>

#include "tasks.h"

static weft_context *context_open(weft_context *parent, int64_t timeout)
{
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, parent, &(weft_context_options){.timeout = timeout}), 0);
    return context;
}

static struct {
    atomic_u32 begun, ended, dropped, ran;
    int expected; /* the result of the tasks' waits */
} seen;

static void begin(void)
{
    memset(&seen, 0, sizeof seen);
    seen.expected = -ECANCELED;
}

static int own_wait(void *arg)
{
    atomic_u32_add_seq_cst(&seen.begun, 1);
    int error = weft_sleep(LONG);
    CHECK_EQ(error, seen.expected);
    atomic_u32_add_seq_cst(&seen.ended, 1);
    return error;
}

static void plain_wait(void *arg)
{
    (void)own_wait(arg);
}

static void never(void *arg)
{
    test_fail(__FILE__, __LINE__, "a task ran that was to be dropped");
}

static int never_with_handle(void *arg)
{
    never(arg);
    return 0;
}

static void note_drop(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == never);
    CHECK_PTR(data, &seen);
    atomic_u32_add_seq_cst(&seen.dropped, 1);
}

#define DROPS .on_drop = note_drop, .data = &seen

/* The end, with everything in the pool that can be there. */

enum { RUNNING = 4, QUEUED = 6, BLOCKED = 4 };

static struct {
    weft_context *other;
    weft_pool *pool;
    struct gate gate;
    weft_task *running, *waiting;
    weft_group *busy, *idle;
    weft_schedule *late;
    struct submission submitters[BLOCKED];
} whole;

static void fill_running(void)
{
    weft_submit_options own = {.context = whole.other};
    weft_group_options grouped = {.context = whole.other};
    gate_shut(&whole.gate);
    gate_fill_firmly(&whole.gate, whole.pool, 1);
    CHECK_EQ(weft_pool_submit(whole.pool, plain_wait, NULL), 0);
    CHECK_EQ(weft_task_start(&whole.running, whole.pool, own_wait, NULL, &own), 0);
    CHECK_EQ(weft_pool_group(&whole.busy, whole.pool, &grouped), 0);
    CHECK_EQ(weft_pool_group(&whole.idle, whole.pool, &grouped), 0);
    CHECK_EQ(weft_group_go(whole.busy, own_wait, NULL), 0);
    await(&seen.begun, RUNNING - 1);
}

static void fill_waiting(void)
{
    weft_submit_options own = {.context = whole.other}, keyed = {.key = 5};
    CHECK_EQ(weft_pool_submit(whole.pool, never, NULL), 0);
    CHECK_EQ(weft_pool_submit_with(whole.pool, never, NULL, &keyed), 0);
    CHECK_EQ(weft_pool_submit_with(whole.pool, never, NULL, &keyed), 0);
    CHECK_EQ(weft_task_start(&whole.waiting, whole.pool, never_with_handle, NULL, &own), 0);
    CHECK_EQ(weft_group_go(whole.busy, never_with_handle, NULL), 0);
    CHECK_EQ(weft_group_go(whole.idle, never_with_handle, NULL), 0);
    CHECK_EQ(pool_waiting(whole.pool), QUEUED);
    for (int i = 0; i < BLOCKED; i++)
        submission_start(&whole.submitters[i], whole.pool, never, NULL, i % 2 == 0);
    AWAIT_FIGURE(whole.pool, blocked, BLOCKED);
    CHECK_EQ(weft_pool_submit_after(whole.pool, never, NULL, LONG, NULL), 0);
    CHECK_EQ(weft_pool_submit_every(whole.pool, never, NULL, LONG, &whole.late), 0);
}

/* As soon as the call that ended the context has returned. */
static void check_ended_at_once(void)
{
    weft_schedule_stats schedule;
    int result = 0;
    CHECK_EQ(count_of(&seen.dropped), 4); /* three, and one that was scheduled */
    CHECK_EQ(weft_task_wait_until(whole.waiting, &result, WEFT_NOW), 0);
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(pool_waiting(whole.pool), 0);
    CHECK_EQ(weft_pool_state(whole.pool), WEFT_POOL_STOPPING);
    CHECK_EQ(weft_pool_submit(whole.pool, never, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_submit_after(whole.pool, never, NULL, 0, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_pause(whole.pool), -ESHUTDOWN);
    CHECK_EQ(weft_schedule_stats_get(whole.late, &schedule), 0);
    CHECK_EQ(schedule.next, WEFT_NEVER);
    CHECK_EQ(weft_pool_stop(whole.pool, WEFT_NOW), -ETIMEDOUT); /* one still runs */
    CHECK_EQ(weft_pool_reopen(whole.pool), -EBUSY);
}

static void check_ended_whole(int error)
{
    for (int i = 0; i < BLOCKED; i++)
        CHECK_EQ(submission_end(&whole.submitters[i]), -ESHUTDOWN);
    CHECK_EQ(task_result(whole.running), error);
    CHECK_EQ(weft_group_close(whole.busy), error);
    CHECK_EQ(weft_group_close(whole.idle), -ECANCELED);
    CHECK_EQ(weft_context_error(whole.other), 0);
    gate_open(&whole.gate);
    CHECK_EQ(weft_pool_wait(whole.pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_stop(whole.pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_state(whole.pool), WEFT_POOL_STOPPED);
    CHECK_EQ(count_of(&seen.ended), RUNNING - 1);
    CHECK_FIGURES(whole.pool, IS(completed, RUNNING), IS(dropped, QUEUED + 1),
                  IS(rejected, BLOCKED + 2), IS(schedules, 0));
    CHECK_EQ(weft_pool_reopen(whole.pool), error); /* it cannot be opened again */
    CHECK_EQ(weft_pool_state(whole.pool), WEFT_POOL_STOPPED);
    CHECK_EQ(weft_pool_cancel(whole.pool), 0);
    pool_close(whole.pool);
    weft_task_release(whole.running);
    weft_task_release(whole.waiting);
    weft_schedule_release(whole.late);
    weft_context_close(whole.other);
}

static void open_whole(weft_context *context)
{
    begin();
    whole.other = new_context();
    whole.pool = POOL_OPEN(.capacity = RUNNING, .queue = QUEUED, .context = context, DROPS);
    fill_running();
    fill_waiting();
}

static void check_cancelled(void *arg)
{
    weft_context *root = new_context(), *context = context_open(root, 0);
    open_whole(context);
    weft_context_cancel(root); /* or one above it */
    check_ended_at_once();
    check_ended_whole(-ECANCELED);
    weft_context_close(context);
    weft_context_close(root);
}

static void check_closed(void *arg)
{
    weft_context *context = new_context();
    open_whole(context);
    weft_context_close(context);
    check_ended_at_once();
    check_ended_whole(-ECANCELED);
}

static void the_end_of_its_context_is_the_end_of_the_pool(void)
{
    everywhere(check_cancelled);
    everywhere(check_closed);
    on_processors(1, check_cancelled, NULL);
}

/* After 10 ms of the seed's time, to the nanosecond. */
static void a_timeout_is_the_end_of_the_pool(void)
{
    weft_context *context = context_open(NULL, 10 * WEFT_MS);
    int64_t end = weft_context_deadline(context);
    open_whole(context);
    seen.expected = -ETIMEDOUT;
    CHECK(weft_now() < end);
    CHECK_EQ(weft_sleep_until(end - 1), 0);
    CHECK_EQ(weft_pool_state(whole.pool), WEFT_POOL_OPEN);
    CHECK_EQ(count_of(&seen.dropped), 0);
    while (count_of(&seen.dropped) < 4 || pool_waiting(whole.pool) > 0)
        weft_yield();
    CHECK(weft_now() >= end);
    AWAIT_FIGURE(whole.pool, blocked, 0);
    while (!weft_task_ended(whole.waiting))
        weft_yield();
    check_ended_at_once();
    check_ended_whole(-ETIMEDOUT);
    weft_context_close(context);
}

static void a_context_that_has_ended_opens_no_pool(void)
{
    weft_context *context = new_context();
    weft_pool *pool = POOL_POISON;
    weft_pools *pools = (weft_pools *)(uintptr_t)0xdead;
    weft_pool_options options = {.capacity = 1, .prestart = 1, .context = context};
    weft_context_cancel(context);
    CHECK_EQ(weft_pool_open(&pool, &options), -ECANCELED);
    CHECK_PTR(pool, POOL_POISON);
    CHECK_EQ(weft_pools_open(&pools, 3, WEFT_ROUND_ROBIN, &options), -ECANCELED);
    CHECK_PTR(pools, (weft_pools *)(uintptr_t)0xdead);
    weft_context_close(context);
    options.context = context_open(NULL, 1);
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    while (weft_context_error(options.context) == 0)
        weft_yield();
    CHECK_EQ(weft_pool_open(&pool, &options), -ETIMEDOUT);
    weft_context_close(options.context);
}

/* Submits of the pool's own tasks are refused too. */

static struct {
    weft_pool *pool;
    weft_wg over;
    atomic_u32 waits;
} own;

static void submit_after_the_end(void *arg)
{
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_wg_wait(&own.over), 0);
    CHECK_EQ(weft_pool_submit(own.pool, never, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_try_submit(own.pool, never, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_submit_until(own.pool, never, NULL, weft_after(LONG)), -ESHUTDOWN);
    atomic_u32_add_seq_cst(&seen.ended, 1);
}

static void wait_in_line(void *arg)
{
    CHECK_EQ(weft_context_bind(NULL, NULL), 0); /* it is not the context that ends the wait */
    CHECK_EQ(weft_pool_submit_until(own.pool, never, NULL, weft_after(LONG)), -ESHUTDOWN);
    atomic_u32_add_seq_cst(&seen.ended, 1);
}

static void own_tasks_are_refused_too(void)
{
    weft_context *context = new_context();
    begin();
    CHECK_EQ(weft_wg_init(&own.over, 1), 0);
    own.pool = POOL_OPEN(.capacity = 2, .context = context, DROPS);
    CHECK_EQ(weft_pool_submit(own.pool, submit_after_the_end, NULL), 0);
    CHECK_EQ(weft_pool_submit(own.pool, wait_in_line, NULL), 0);
    AWAIT_FIGURE(own.pool, blocked, 1);
    weft_context_cancel(context);
    weft_wg_done(&own.over);
    pool_close(own.pool);
    CHECK_EQ(count_of(&seen.ended), 2);
    weft_context_close(context);
}

/* Running tasks are cancelled before waiting ones are dropped: on_drop may wait for them. */

static void await_cancelled(void (*function)(void *), void *arg, void *data)
{
    await(&seen.ended, 1);
    atomic_u32_add_seq_cst(&seen.dropped, 1);
}

static void what_runs_is_cancelled_first(void)
{
    weft_context *context = new_context();
    begin();
    weft_pool *pool =
        POOL_OPEN(.capacity = 1, .queue = 1, .context = context, .on_drop = await_cancelled);
    CHECK_EQ(weft_pool_submit(pool, plain_wait, NULL), 0);
    await(&seen.begun, 1);
    CHECK_EQ(weft_pool_submit(pool, never, NULL), 0);
    weft_context_cancel(context);
    CHECK_EQ(count_of(&seen.dropped), 1);
    pool_close(pool);
    weft_context_close(context);
}

/* While the pool stops: own tasks in line are refused, waiting tasks are dropped. */
static void it_may_end_while_the_pool_stops(void)
{
    static struct gate gate;
    weft_context *context = new_context();
    begin();
    gate_shut(&gate);
    own.pool = POOL_OPEN(.capacity = 3, .queue = 1, .context = context, DROPS);
    gate_fill_firmly(&gate, own.pool, 1);
    CHECK_EQ(weft_pool_submit(own.pool, plain_wait, NULL), 0);
    await(&seen.begun, 1);
    CHECK_EQ(weft_pool_pause(own.pool), 0);
    CHECK_EQ(weft_pool_submit(own.pool, wait_in_line, NULL), 0);
    CHECK_EQ(weft_pool_submit(own.pool, never, NULL), 0);
    CHECK_EQ(weft_pool_resume(own.pool), 0); /* it is full when the first of them begins */
    AWAIT_FIGURE(own.pool, blocked, 1);
    CHECK_EQ(weft_pool_stop(own.pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(pool_waiting(own.pool), 1);
    CHECK_EQ(pool_stats(own.pool).blocked, 1); /* one of its own may still wait */
    weft_context_cancel(context);
    CHECK_EQ(count_of(&seen.dropped), 1);
    await(&seen.ended, 2);
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(own.pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_reopen(own.pool), -ECANCELED);
    pool_close(own.pool);
    weft_context_close(context);
}

/* While it is stopped, and again open before that. */
static void it_may_end_while_the_pool_is_stopped(void)
{
    weft_context *context = new_context();
    begin();
    weft_pool *pool = POOL_OPEN(.prestart = 2, .context = context);
    submit_counts(pool, &seen.ran, 5);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_reopen(pool), 0);
    submit_counts(pool, &seen.ran, 5);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_pool_reopen(pool), -ECANCELED);
    CHECK_EQ(weft_pool_submit(pool, never, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&seen.ran), 10);
    weft_context_close(context);
}

/* A pool that is closed first does not hear of it. */
static void it_may_outlive_the_pool(void)
{
    weft_context *context = new_context();
    begin();
    for (int i = 0; i < 3; i++) {
        weft_pool *pool = POOL_OPEN(.prestart = i, .context = context);
        submit_counts(pool, &seen.ran, 5);
        if (i == 1)
            CHECK_EQ(weft_pool_cancel(pool), 0);
        pool_close(pool);
    }
    CHECK_EQ(weft_context_error(context), 0);
    weft_context_close(context);
    CHECK_EQ(count_of(&seen.ran), 15);
}

static void a_paused_pool_ends_too(void)
{
    weft_context *context = new_context();
    begin();
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = 2, .context = context, DROPS);
    submit_many(pool, never, NULL, 3);
    CHECK_EQ(weft_pool_submit_after(pool, never, NULL, 0, NULL), 0);
    AWAIT_FIGURE(pool, blocked, 1); /* its time has come, and it stands in line */
    weft_context_cancel(context);
    CHECK_EQ(count_of(&seen.dropped), 4);
    CHECK_EQ(weft_pool_resume(pool), 0);
    pool_close(pool);
    weft_context_close(context);
}

static void end_context(void *context)
{
    weft_context_cancel(context);
    CHECK_EQ(weft_context_error(weft_context_current()), -ECANCELED);
    CHECK_EQ(weft_sleep(WEFT_US), -ECANCELED);
}

static void tasks_may_end_their_pool(void)
{
    weft_context *context = new_context();
    begin();
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10, .context = context, DROPS);
    CHECK_EQ(weft_pool_submit(pool, plain_wait, NULL), 0);
    await(&seen.begun, 1);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, end_context, context), 0);
    submit_many(pool, never, NULL, 3);
    CHECK_EQ(weft_pool_resume(pool), 0); /* for one place */
    await(&seen.dropped, 3);
    await(&seen.ended, 1);
    CHECK_EQ(weft_pool_submit(pool, never, NULL), -ESHUTDOWN);
    pool_close(pool);
    weft_context_close(context);
}

/* A task that cancels the context it is bound to cancels all tasks, until weft_pool_cancel. */

static void end_current(void *arg)
{
    CHECK_EQ(weft_context_error(weft_context_current()), *(int *)arg);
    end_context(weft_context_current());
}

static void what_a_task_cancels_is_replaced_by_a_cancel(void)
{
    int clean = 0, cancelled = -ECANCELED;
    weft_context *context = new_context();
    for (int i = 0; i < 2; i++) {
        weft_pool *pool = POOL_OPEN(.context = i == 0 ? context : NULL, .cancellable = i);
        for (int j = 0; j < 3; j++) {
            CHECK_EQ(weft_pool_submit(pool, end_current, &clean), 0);
            CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
            CHECK_EQ(weft_pool_submit(pool, end_current, &cancelled), 0);
            CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
            CHECK_EQ(weft_pool_cancel(pool), 0);
        }
        CHECK_EQ(weft_pool_state(pool), WEFT_POOL_OPEN);
        pool_close(pool);
    }
    CHECK_EQ(weft_context_error(context), 0);
    weft_context_close(context);
}

/* A task that waits for one of its own pool, which is dropped. */

static int await_dropped(void *pool)
{
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0); /* neither task is under the other's context */
    weft_task *task = start_task(pool, never_with_handle, NULL);
    atomic_u32_add_seq_cst(&seen.begun, 1);
    int result = 0;
    CHECK_EQ(weft_task_wait(task, &result), 0);
    CHECK_EQ(result, -ECANCELED);
    weft_task_release(task);
    return 7;
}

static void lent_places_come_back(void)
{
    weft_context *context = new_context();
    begin();
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = 10, .context = context);
    weft_task *task = start_task(pool, await_dropped, pool);
    while (pool_stats(pool).lending == 0)
        weft_yield();
    weft_context_cancel(context);
    CHECK_EQ(task_result(task), 7);
    CHECK_EQ(pool_stats(pool).lending, 0);
    weft_task_release(task);
    pool_close(pool);
    weft_context_close(context);
}

/* Several pools. */
static void a_family_ends_as_one(void)
{
    weft_context *context = new_context();
    weft_pools *pools;
    weft_pool_stats stats;
    weft_pool_options options = {.capacity = 1, .queue = 5, .context = context, DROPS};
    begin();
    CHECK_EQ(weft_pools_open(&pools, 3, WEFT_ROUND_ROBIN, &options), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_pool_submit(weft_pools_get(pools, i), plain_wait, NULL), 0);
    await(&seen.begun, 3);
    CHECK_EQ(weft_pool_cancel(weft_pools_get(pools, 0)), 0); /* of this pool alone */
    await(&seen.ended, 1);
    CHECK_EQ(weft_pool_submit(weft_pools_get(pools, 0), plain_wait, NULL), 0);
    await(&seen.begun, 4);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(weft_pool_submit(weft_pools_pick(pools), never, NULL), 0);
    weft_context_cancel(context);
    await(&seen.ended, 4);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_pool_submit(weft_pools_get(pools, i), never, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pools_stats(pools, &stats), 0);
    CHECK_EQ(stats.dropped, 6);
    CHECK_EQ(weft_pools_close(pools), 0);
    weft_context_close(context);
}

/* Submits, cancels, a stop and the end of the context: each admitted task runs or is dropped. */

static struct {
    weft_pool *pool;
    weft_context *context;
    atomic_u32 admitted, ran, dropped;
} race;

static void count_run(void *arg)
{
    weft_yield();
    atomic_u32_add_seq_cst(&race.ran, 1);
}

static int count_run_with_handle(void *arg)
{
    count_run(arg);
    return 0;
}

static void count_drop(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == count_run);
    atomic_u32_add_seq_cst(&race.dropped, 1);
}

static void submit_until_the_end(void *arg)
{
    int error = 0;
    for (int i = 0; error == 0; i++) {
        if (i % 4 != 0) {
            error = weft_pool_submit(race.pool, count_run, NULL);
        } else {
            weft_task *task;
            int result = 0;
            error = weft_task_start(&task, race.pool, count_run_with_handle, NULL, NULL);
            if (error != 0)
                break;
            CHECK_EQ(weft_task_wait(task, &result), 0);
            CHECK(result == 0 || result == -ECANCELED);
            atomic_u32_add_seq_cst(&race.dropped, result != 0);
            weft_task_release(task);
        }
        atomic_u32_add_seq_cst(&race.admitted, error == 0);
    }
    CHECK_EQ(error, -ESHUTDOWN);
}

static void cancel_until_the_end(void *arg)
{
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_pool_cancel(race.pool), 0);
        weft_yield();
    }
    weft_context_cancel(race.context);
}

static void stop_at_the_end(void *arg)
{
    while (count_of(&race.ran) < 20 && weft_context_error(race.context) == 0)
        weft_yield();
    CHECK_EQ(weft_pool_stop(race.pool, WEFT_NEVER), 0);
}

static void it_ends_amid_everything(void)
{
    int64_t rounds = test_scale(300);
    for (int64_t round = 0; round < rounds; round++) {
        memset(&race, 0, sizeof race);
        race.context = new_context();
        race.pool = POOL_OPEN(.capacity = 2 + round % 3, .queue = round % 4, .prestart = round % 2,
                              .context = race.context, .on_drop = count_drop);
        struct body bodies[] = {{.function = submit_until_the_end},
                                {.function = submit_until_the_end, .thread = true},
                                {.function = submit_until_the_end},
                                {.function = cancel_until_the_end, .thread = round % 2 != 0},
                                {.function = stop_at_the_end}};
        bodies_run(bodies, round % 3 == 0 ? 5 : 4);
        pool_close(race.pool);
        CHECK_EQ(count_of(&race.ran) + count_of(&race.dropped), count_of(&race.admitted));
        weft_context_close(race.context);
    }
}

/* The pool is closed at the moment at which its context ends. */

static void end_context_now(void *context)
{
    weft_context_cancel(context);
}

static void it_ends_while_the_pool_is_closed(void)
{
    int64_t rounds = test_scale(1000);
    for (int64_t round = 0; round < rounds; round++) {
        memset(&race, 0, sizeof race);
        race.context = new_context();
        weft_pool *pool =
            POOL_OPEN(.queue = WEFT_UNLIMITED, .context = race.context, .on_drop = count_drop);
        submit_many(pool, count_run, NULL, round % 5);
        struct body body = {
            .function = end_context_now, .arg = race.context, .thread = round % 2 != 0};
        body_start(&body);
        pool_close(pool);
        CHECK_EQ(count_of(&race.ran) + count_of(&race.dropped), round % 5);
        body_join(&body);
        weft_context_close(race.context);
    }
}

int main(void)
{
    RUN_BOTH(the_end_of_its_context_is_the_end_of_the_pool);
    RUN_SEEDS(a_timeout_is_the_end_of_the_pool);
    RUN_BOTH(a_context_that_has_ended_opens_no_pool);
    RUN_BOTH(own_tasks_are_refused_too);
    RUN_BOTH(what_runs_is_cancelled_first);
    RUN_BOTH(it_may_end_while_the_pool_stops);
    RUN_BOTH(it_may_end_while_the_pool_is_stopped);
    RUN_BOTH(it_may_outlive_the_pool);
    RUN_BOTH(a_paused_pool_ends_too);
    RUN_BOTH(tasks_may_end_their_pool);
    RUN_BOTH(what_a_task_cancels_is_replaced_by_a_cancel);
    RUN_BOTH(lent_places_come_back);
    RUN_BOTH(a_family_ends_as_one);
    RUN_BOTH(it_ends_amid_everything);
    RUN_BOTH(it_ends_while_the_pool_is_closed);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
