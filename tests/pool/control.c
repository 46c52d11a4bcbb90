/*
 * control.c: calls that change a pool while it runs: abort, pause, resume, tune. And the call that
 * waits for its tasks.
 */
#include "sync/lines.h"
#include "tasks.h"

static atomic_u32 ran;

enum { ABORTED = 100 };

static struct {
    atomic_u32 ran[ABORTED], dropped[ABORTED], drops;
} aborted;

static void note_abort(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == count_task);
    CHECK_PTR(data, &aborted);
    atomic_u32_add_seq_cst(&aborted.dropped[(atomic_u32 *)arg - aborted.ran], 1);
    atomic_u32_add_seq_cst(&aborted.drops, 1);
}

static void abort_task(void *arg)
{
    CHECK_EQ(weft_pool_abort(arg), ABORTED);
    CHECK_EQ(count_of(&aborted.drops), ABORTED);
}

static void abort_drops_what_has_not_begun(void *arg)
{
    static struct gate gate;
    for (int variant = 0; variant < 4; variant++) {
        weft_pool *pool = POOL_OPEN(.capacity = 1 + variant % 2, .queue = WEFT_UNLIMITED,
                                    .on_drop = note_abort, .data = &aborted);
        bool inside = variant >= 2;
        memset(&aborted, 0, sizeof aborted);
        gate_shut(&gate);
        CHECK_EQ(weft_pool_abort(pool), 0);
        if (inside) {
            CHECK_EQ(weft_pool_pause(pool), 0);
            CHECK_EQ(weft_pool_tune(pool, 1), 0);
            CHECK_EQ(weft_pool_submit(pool, abort_task, pool), 0);
        } else {
            gate_fill(&gate, pool, (uint32_t)(1 + variant % 2));
        }
        for (int i = 0; i < ABORTED; i++) {
            weft_submit_options options = {.priority = i % 3 - 1, .key = (uint64_t)(i % 5)};
            if (inside)
                options = (weft_submit_options){.key = 0};
            CHECK_EQ(weft_pool_submit_with(pool, count_task, &aborted.ran[i], &options), 0);
        }
        if (inside) {
            CHECK_EQ(weft_pool_resume(pool), 0);
            await(&aborted.drops, ABORTED);
        } else {
            CHECK_EQ(weft_pool_abort(pool), ABORTED);
            CHECK_EQ(count_of(&aborted.drops), ABORTED); /* told before it returns */
        }
        CHECK_EQ(pool_stats(pool).dropped, ABORTED);
        CHECK_EQ(pool_waiting(pool), 0);
        for (int i = 0; i < ABORTED; i++) {
            CHECK_EQ(count_of(&aborted.dropped[i]), 1);
            CHECK_EQ(count_of(&aborted.ran[i]), 0);
        }
        CHECK_EQ(weft_pool_abort(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, count_task, &aborted.ran[0]), 0); /* it goes on */
        gate_open_and_close(&gate, pool);
        CHECK_EQ(count_of(&aborted.ran[0]), 1);
    }
}

/* Tasks in an inbox, behind a task that keeps its processor, have not begun either. */

static void abort_empties_inboxes(void *arg)
{
    memset(&aborted, 0, sizeof aborted);
    memset(&holder, 0, sizeof holder);
    weft_pool *pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = WEFT_UNLIMITED,
                                       .on_drop = note_abort, .data = &aborted);
    CHECK_EQ(weft_pool_submit(pool, hold_processor, NULL), 0);
    for (int i = 0; i < ABORTED; i++)
        CHECK_EQ(weft_pool_submit(pool, count_task, &aborted.ran[i]), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await(&holder.begun, 1);
    CHECK_EQ(weft_pool_abort(pool), ABORTED);
    atomic_u32_store_release(&holder.over, 1);
    pool_close(pool);
    for (int i = 0; i < ABORTED; i++) {
        CHECK_EQ(count_of(&aborted.dropped[i]), 1);
        CHECK_EQ(count_of(&aborted.ran[i]), 0);
    }
}

/* An abort drops all that was admitted before it, and nothing that was admitted later. */

static struct {
    weft_pool *pool;
    atomic_u32 dropped, late;
} abortion;

static void submit_during_abort(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == count_task);
    CHECK_PTR(arg, &ran);
    uint32_t number = atomic_u32_add_seq_cst(&abortion.dropped, 1);
    SUBMIT_WITH(abortion.pool, count_task, &abortion.late, .priority = (int)(number % 3) - 1,
                .key = number % 2 ? 8 : 0);
}

static void an_abort_drops_what_was_there(void *arg)
{
    enum { TASKS = 1000 };
    memset(&abortion, 0, sizeof abortion);
    atomic_u32_store_relaxed(&ran, 0);
    abortion.pool =
        POOL_OPEN_PAUSED(.capacity = 1, .queue = WEFT_UNLIMITED, .on_drop = submit_during_abort);
    for (int i = 0; i < TASKS; i++)
        SUBMIT_WITH(abortion.pool, count_task, &ran, .priority = i % 3 - 1,
                    .key = i % 5 == 0 ? 8 : 0);
    CHECK_EQ(weft_pool_abort(abortion.pool), TASKS);
    CHECK_EQ(count_of(&abortion.dropped), TASKS);
    CHECK_EQ(pool_waiting(abortion.pool), TASKS);
    CHECK_EQ(weft_pool_resume(abortion.pool), 0);
    pool_close(abortion.pool);
    CHECK_EQ(count_of(&abortion.late), TASKS);
    CHECK_EQ(count_of(&ran), 0);
}

static void a_paused_pool_begins_nothing(void *arg)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10);
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    submit_counts(pool, &ran, 11); /* admitted as before, until it is full */
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -EAGAIN);
    gate_open(&gate); /* a running task goes on */
    AWAIT_FIGURE(pool, completed, 1);
    submit_counts(pool, &ran, 1);
    for (int i = 0; i < 100; i++)
        weft_yield();
    CHECK_EQ(pool_waiting(pool), 12);
    CHECK_EQ(count_of(&ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await(&ran, 12);
    CHECK_EQ(weft_pool_resume(pool), 0);
    submit_counts(pool, &ran, 1);
    await(&ran, 13);

    CHECK_EQ(weft_pool_pause(pool), 0); /* the end resumes it */
    submit_counts(pool, &ran, 12);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 25);
}

/* A pause is refused while the pool stops, and remembered while it is stopped. */
static void a_pause_is_remembered(void *arg)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_OPEN);
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_STOPPING);
    CHECK_EQ(weft_pool_pause(pool), -ESHUTDOWN); /* it could not stop */
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_stop(pool, weft_after(WEFT_MS)), -ETIMEDOUT); /* waits as the first does */
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_STOPPED);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_reopen(pool), 0);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_OPEN);
    submit_counts(pool, &ran, 5);
    CHECK_EQ(weft_pool_wait(pool, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(pool_waiting(pool), 5);
    CHECK_EQ(count_of(&ran), 0);
    CHECK_EQ(weft_pool_pause(pool), 0); /* one resume ends both */
    CHECK_EQ(weft_pool_resume(pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 5);
    pool_close(pool);
}

static void resume_task(void *arg)
{
    CHECK_EQ(weft_pool_pause(arg), 0);
    CHECK_EQ(weft_pool_submit(arg, count_task, &ran), 0);
    CHECK_EQ(weft_pool_resume(arg), 0);
}

static void tasks_may_pause_their_pool(void)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 100);
    atomic_u32_store_relaxed(&ran, 0);
    submit_many(pool, resume_task, pool, 50);
    await(&ran, 50);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 50);
}

/* Only tasks that ran when the pool was paused go on, though they are so short that workers take
 * them by the chunk. */
static void pause_amid_short_tasks(void *arg)
{
    int64_t rounds = test_scale(150);
    weft_pool *pool = POOL_OPEN(.queue = WEFT_UNLIMITED);
    for (int64_t round = 0; round < rounds; round++) {
        submit_counts(pool, &ran, 200);
        CHECK_EQ(weft_pool_pause(pool), 0);
        weft_pool_stats before = pool_stats(pool);
        AWAIT_FIGURE(pool, running, 0);
        weft_pool_stats after = pool_stats(pool);
        CHECK(after.starting + after.queued <= before.starting + before.queued);
        CHECK(after.completed <= before.completed + before.running);
        for (int i = 0; i < 10; i++)
            weft_yield();
        CHECK_EQ(pool_waiting(pool), after.starting + after.queued);
        CHECK_EQ(weft_pool_resume(pool), 0);
    }
    pool_close(pool);
}

static void pause_stops_short_tasks(void)
{
    pause_amid_short_tasks(NULL);
    on_processors(1, pause_amid_short_tasks, NULL);
    with_processors(3, pause_amid_short_tasks, NULL);
}

static void check_tune(void *arg)
{
    static struct gate gate, second;
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = WEFT_UNLIMITED);
    gate_shut(&gate);
    submit_many(pool, gate_task, &gate, 30);
    await(&gate.gauge.now, 2);
    CHECK_EQ(weft_pool_tune(pool, 7), 0); /* tasks in the queue begin at once */
    CHECK_EQ(pool_stats(pool).capacity, 7);
    await(&gate.gauge.now, 7);
    CHECK_EQ(weft_pool_tune(pool, 3), 0);
    CHECK_EQ(pool_stats(pool).capacity, 3);
    gate_shut(&second); /* behind the running tasks */
    submit_many(pool, gate_task, &second, 20);
    gate_open(&gate);
    await(&second.gauge.now, 3);
    AWAIT_FIGURE(pool, completed, 30);
    CHECK_EQ(gauge_most(&gate.gauge), 7);
    CHECK_EQ(gauge_most(&second.gauge), 3);
    CHECK_EQ(weft_pool_tune(pool, WEFT_UNLIMITED), 0);
    await(&second.gauge.now, 20);
    gate_open_and_close(&second, pool);
}

/* A lower capacity holds from the next begin on, whether or not workers are idle. */

static struct gauge short_ones;

static void short_task(void *arg)
{
    gauge_enter(&short_ones);
    if (arg != NULL)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    else
        weft_yield();
    gauge_leave(&short_ones);
}

static void check_tune_down(void *arg)
{
    static struct gate gate;
    static char sleeps;
    int64_t count = test_scale(200);
    weft_pool *pool = POOL_OPEN(.capacity = 10, .queue = WEFT_UNLIMITED, .expiry = WEFT_NEVER);
    for (int64_t capacity = 5; capacity >= 1; capacity -= 2) {
        CHECK_EQ(weft_pool_tune(pool, 10), 0);
        gate_shut_and_fill(&gate, pool, 10);
        CHECK_EQ(weft_pool_tune(pool, capacity), 0); /* while ten run */
        memset(&short_ones, 0, sizeof short_ones);
        for (int64_t i = 0; i < count; i++)
            CHECK_EQ(weft_pool_submit(pool, short_task, i % 2 == 0 ? &sleeps : NULL), 0);
        CHECK_EQ(pool_stats(pool).running, 10);
        CHECK_EQ(gauge_total(&short_ones), 0); /* none begins until fewer run */
        gate_open(&gate);
        while (gauge_total(&short_ones) < (uint32_t)count) {
            (void)pool_stats(pool); /* nothing is negative */
            weft_yield();
        }
        AWAIT_FIGURE(pool, running, 0);
        CHECK(gauge_most(&short_ones) <= capacity);

        while (pool_stats(pool).idle < 10) /* now ten are idle */
            weft_yield();
        memset(&short_ones, 0, sizeof short_ones);
        submit_many(pool, short_task, &sleeps, count);
        await_at_least(&short_ones.total, (uint32_t)count);
        AWAIT_FIGURE(pool, running, 0);
        CHECK(gauge_most(&short_ones) <= capacity);
    }
    pool_close(pool);
}

static struct gauge single;

static void compute_alone(void *arg)
{
    gauge_enter(&single);
    for (int i = 0; i < 1000; i++)
        cpu_relax();
    gauge_leave(&single);
}

/* On two processors, while a task computes on each. */
static void tune_down_while_all_compute(void *arg)
{
    int64_t count = test_scale(500);
    memset(&single, 0, sizeof single);
    memset(&holder, 0, sizeof holder);
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = WEFT_UNLIMITED);
    submit_many(pool, hold_processor, NULL, 2);
    await(&holder.begun, 2);
    submit_many(pool, compute_alone, NULL, count);
    CHECK_EQ(weft_pool_tune(pool, 1), 0);
    atomic_u32_store_release(&holder.over, 1);
    pool_close(pool);
    CHECK_EQ(gauge_total(&single), count);
    CHECK_EQ(gauge_most(&single), 1);
}

static void tune_counts_at_once(void)
{
    static void (*const scenes[])(void *) = {check_tune, check_tune_down};
    for (int i = 0; i < 2; i++) {
        everywhere(scenes[i]);
        on_processors(1, scenes[i], NULL);
        on_processors(3, scenes[i], NULL);
    }
}

/* Without a queue: a higher capacity admits submitters in line. */

enum { BLOCKED = 6 };

static void tune_admits_the_line(void)
{
    static struct gate gate;
    struct submission own[BLOCKED];
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    gate_shut_and_fill(&gate, pool, 1);
    for (int i = 0; i < BLOCKED; i++)
        submission_start(&own[i], pool, gate_task, &gate, i % 2 == 0);
    AWAIT_FIGURE(pool, blocked, BLOCKED);
    CHECK_EQ(weft_pool_tune(pool, 3), 0);
    await(&gate.gauge.now, 3);
    AWAIT_FIGURE(pool, blocked, BLOCKED - 2);
    CHECK_EQ(weft_pool_tune(pool, BLOCKED + 1), 0);
    await(&gate.gauge.now, BLOCKED + 1);
    for (int i = 0; i < BLOCKED; i++)
        CHECK_EQ(submission_end(&own[i]), 0);
    gate_open_and_close(&gate, pool);
}

static void the_queue_is_tuned(void *arg)
{
    struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    CHECK_EQ(weft_pool_tune_queue(pool, -1), -EINVAL);
    CHECK_EQ(weft_pool_tune_queue(NULL, 1), -EINVAL);
    gate_shut_and_fill(&gate, pool, 1);
    struct submission submitter;
    submission_start(&submitter, pool, gate_task, &gate, true);
    AWAIT_FIGURE(pool, blocked, 1);
    CHECK_EQ(weft_pool_tune_queue(pool, 3), 0);
    CHECK_EQ(submission_end(&submitter), 0); /* admitted at once */
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), 0);
    CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), -EAGAIN);
    CHECK_EQ(weft_pool_tune_queue(pool, 1), 0);
    CHECK_EQ(pool_stats(pool).queue, 1);
    CHECK_EQ(pool_stats(pool).queued, 3); /* tasks in the queue stay */
    CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), -EAGAIN);
    gate_open(&gate);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    pool_close(pool);
    CHECK_EQ(gauge_total(&gate.gauge), 4);
}

/* weft_pool_wait returns when all admitted tasks have ended, and the pool goes on. */

enum { CHAIN = 20, WATCHERS = 4 };

static struct gate watched;

static void sleep_and_count(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    count_task(arg);
}

static void waits_for_all(void *arg)
{
    /* No worker ends, so none finds later, when it ends, that all tasks have ended. */
    weft_pool *pool = POOL_OPEN(.capacity = 3, .queue = 10, .expiry = WEFT_NEVER);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NOW), 0); /* there was none yet */
    atomic_u32_store_relaxed(&ran, 0);
    for (uint32_t round = 1; round <= 3; round++) {
        for (int i = 0; i < 20; i++) /* some have to wait for a place */
            CHECK_EQ(weft_pool_submit(pool, i % 2 ? count_task : sleep_and_count, &ran), 0);
        CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
        CHECK_EQ(count_of(&ran), round * 20);
        CHECK_EQ(weft_pool_wait(pool, WEFT_NOW), 0);
        CHECK_EQ(pool_stats(pool).running, 0);
    }
    pool_close(pool);
}

/* A task that submits the next one is not the last. */
static void submit_next(void *arg)
{
    weft_pool *pool = arg;
    if (atomic_u32_add_seq_cst(&ran, 1) + 1 < CHAIN)
        CHECK_EQ(weft_pool_submit(pool, submit_next, pool), 0);
    weft_yield();
}

static void waits_for_what_tasks_submit(void)
{
    atomic_u32_store_relaxed(&ran, 0);
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 2);
    CHECK_EQ(weft_pool_submit(pool, submit_next, pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), CHAIN);
    pool_close(pool);
}

/* A submitter in line will have a task. */
static void submit_three(void *pool)
{
    submit_many(pool, sleep_and_count, &ran, 3);
}

static void waits_for_those_in_line(void)
{
    weft_fiber *submitter;
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    atomic_u32_store_relaxed(&ran, 0);
    gate_shut_and_fill(&watched, pool, 1);
    CHECK_EQ(weft_spawn(&submitter, submit_three, pool, NULL), 0);
    AWAIT_FIGURE(pool, blocked, 1);
    gate_open(&watched);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK(count_of(&ran) >= 1);
    CHECK_EQ(weft_join(submitter), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 3);
    pool_close(pool);
}

static void watch(void *pool)
{
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&watched.gauge.now), 0);
    atomic_u32_add_seq_cst(&ran, 1);
}

static void all_waits_end(void)
{
    weft_wg done = WEFT_WG_INIT;
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    atomic_u32_store_relaxed(&ran, 0);
    gate_shut_and_fill(&watched, pool, 2);
    for (int i = 0; i < WATCHERS; i++)
        CHECK_EQ(weft_wg_go(&done, watch, pool), 0);
    CHECK_EQ(weft_pool_wait(pool, weft_after(3 * WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(count_of(&ran), 0);
    gate_open(&watched);
    CHECK_EQ(weft_wg_wait(&done), 0);
    CHECK_EQ(count_of(&ran), WATCHERS);
    pool_close(pool);
}

/* A dropped task has ended when on_drop has returned; a stop ends the waits too. */
static atomic_u32 dropped;

static void drop_slowly(void (*function)(void *), void *arg, void *data)
{
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    atomic_u32_add_seq_cst(&dropped, 1);
}

static void watch_drops(void *pool)
{
    watch(pool);
    CHECK(count_of(&dropped) % 5 == 0);
}

static void told_of_other_ends(void)
{
    for (int variant = 0; variant < 2; variant++) {
        weft_wg done = WEFT_WG_INIT;
        weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 10, .on_drop = drop_slowly);
        atomic_u32_store_relaxed(&ran, 0);
        gate_shut(&watched);
        CHECK_EQ(weft_pool_pause(pool), 0);
        submit_many(pool, sleep_and_count, &ran, 5);
        CHECK_EQ(weft_wg_go(&done, watch_drops, pool), 0);
        CHECK_EQ(weft_pool_wait(pool, weft_after(2 * WEFT_MS)), -ETIMEDOUT);
        if (variant == 0)
            CHECK_EQ(weft_pool_abort(pool), 5);
        else
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0); /* which resumes it */
        CHECK_EQ(weft_wg_wait(&done), 0);
        CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
        CHECK_EQ(count_of(&ran), variant == 0 ? 1 : 6);
        pool_close(pool);
    }
}

static void wait_cancelled(void *pool)
{
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), -ECANCELED);
}

static void wait_for_own(void *pool)
{
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), -EDEADLK);
    count_task(&ran);
}

static void refused_and_cancelled(void)
{
    weft_fiber *fiber;
    weft_pool *pool = POOL_OPEN(.capacity = 2);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit(pool, wait_for_own, pool), 0);
    CHECK_EQ(weft_pool_wait(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 1);
    gate_shut_and_fill(&watched, pool, 1);
    weft_context *context = new_context();
    CHECK_EQ(weft_spawn(&fiber, wait_cancelled, pool, &(weft_spawn_options){.context = context}),
             0);
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_join(fiber), 0);
    weft_context_close(context);
    gate_open_and_close(&watched, pool);
}

int main(void)
{
    RUN_EVERYWHERE(abort_drops_what_has_not_begun);
    PLAIN_AT(abort_empties_inboxes, "holds a processor while others run on another one", OUTSIDE(1),
             OUTSIDE(2));
    RUN_EVERYWHERE(an_abort_drops_what_was_there);
    RUN_EVERYWHERE(a_paused_pool_begins_nothing);
    RUN_EVERYWHERE(a_pause_is_remembered);
    RUN_BOTH(tasks_may_pause_their_pool);
    RUN_BOTH(pause_stops_short_tasks);
    RUN_BOTH(tune_counts_at_once);
    PLAIN_AT(tune_down_while_all_compute, "holds processors while others run on another one",
             OUTSIDE(2));
    RUN_BOTH(tune_admits_the_line);
    RUN_EVERYWHERE(the_queue_is_tuned);
    RUN_EVERYWHERE(waits_for_all);
    RUN_BOTH(waits_for_what_tasks_submit);
    RUN_BOTH(waits_for_those_in_line);
    RUN_BOTH(all_waits_end);
    RUN_BOTH(told_of_other_ends);
    RUN_BOTH(refused_and_cancelled);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
