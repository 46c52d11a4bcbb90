/*
 * control.c: a pool that is told what to do while it runs: abort, pause and resume, tune.
 */
#include "seeds.h"
#include "sync/lines.h"
#include "tasks.h"

static atomic_u32 ran;

/* Abort. */

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
        weft_pool *pool = pool_open((weft_pool_options){.capacity = 1 + variant % 2,
                                                        .queue = WEFT_UNLIMITED,
                                                        .on_drop = note_abort,
                                                        .data = &aborted});
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
        gate_open(&gate);
        pool_close(pool);
        CHECK_EQ(count_of(&aborted.ran[0]), 1);
    }
}

/* Tasks behind one that keeps its processor, in the inbox there, have not begun either. */

static void abort_behind_a_holder(void *arg)
{
    memset(&aborted, 0, sizeof aborted);
    memset(&holder, 0, sizeof holder);
    weft_pool *pool = pool_open((weft_pool_options){
        .capacity = 1, .queue = WEFT_UNLIMITED, .on_drop = note_abort, .data = &aborted});
    CHECK_EQ(weft_pool_pause(pool), 0);
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

static void abort_empties_inboxes(void)
{
    with_processors(1, abort_behind_a_holder, NULL);
    with_processors(2, abort_behind_a_holder, NULL);
}

/* Pause. */

static void check_pause(void *arg)
{
    static struct gate gate;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = 10});
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    submit_counts(pool, &ran, 11); /* admitted as before, until it is full */
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -EAGAIN);
    gate_open(&gate); /* what runs goes on */
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

static void check_pause_at_the_end(void *arg)
{
    static struct gate gate;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = 10});
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_STOPPING);
    CHECK_EQ(weft_pool_pause(pool), -ESHUTDOWN); /* it could not stop then */
    CHECK_EQ(weft_pool_resume(pool), 0);
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_STOPPED);
    CHECK_EQ(weft_pool_pause(pool), 0); /* for when it is open again */
    CHECK_EQ(weft_pool_reopen(pool), 0);
    CHECK_EQ(weft_pool_state(pool), WEFT_POOL_OPEN);
    submit_counts(pool, &ran, 5);
    CHECK_EQ(pool_waiting(pool), 5);
    CHECK_EQ(count_of(&ran), 0);
    CHECK_EQ(weft_pool_resume(pool), 0);
    await(&ran, 5);
    pool_close(pool);
}

static void a_paused_pool_begins_nothing(void)
{
    everywhere(check_pause);
    everywhere(check_pause_at_the_end);
}

static void resume_task(void *arg)
{
    CHECK_EQ(weft_pool_pause(arg), 0);
    CHECK_EQ(weft_pool_submit(arg, count_task, &ran), 0);
    CHECK_EQ(weft_pool_resume(arg), 0);
}

static void tasks_may_pause_their_pool(void)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = 100});
    atomic_u32_store_relaxed(&ran, 0);
    submit_many(pool, resume_task, pool, 50);
    await(&ran, 50);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 50);
}

/* Only what ran when it was paused goes on; of tasks so short that workers take them by the chunk. */
static void pause_amid_short_tasks(void *arg)
{
    int64_t rounds = test_scale(150);
    weft_pool *pool = pool_open((weft_pool_options){.queue = WEFT_UNLIMITED});
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

/* Tune. */

static void check_tune(void *arg)
{
    static struct gate gate, second;
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .queue = WEFT_UNLIMITED});
    gate_shut(&gate);
    submit_many(pool, gate_task, &gate, 30);
    await(&gate.gauge.now, 2);
    CHECK_EQ(weft_pool_tune(pool, 7), 0); /* those who wait go on at once */
    CHECK_EQ(pool_stats(pool).capacity, 7);
    await(&gate.gauge.now, 7);
    CHECK_EQ(weft_pool_tune(pool, 3), 0);
    CHECK_EQ(pool_stats(pool).capacity, 3);
    gate_shut(&second); /* behind those that run */
    submit_many(pool, gate_task, &second, 20);
    gate_open(&gate);
    await(&second.gauge.now, 3);
    AWAIT_FIGURE(pool, completed, 30);
    CHECK_EQ(gauge_most(&gate.gauge), 7);
    CHECK_EQ(gauge_most(&second.gauge), 3);
    CHECK_EQ(weft_pool_tune(pool, WEFT_UNLIMITED), 0);
    await(&second.gauge.now, 20);
    gate_open(&second);
    pool_close(pool);
}

static void tune_counts_at_once(void)
{
    everywhere(check_tune);
    on_processors(1, check_tune, NULL);
}

/* Without a queue: more capacity lets in who waits. */

enum { BLOCKED = 6 };

static void tune_admits_who_waits(void)
{
    static struct gate gate;
    struct submission own[BLOCKED];
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
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
    gate_open(&gate);
    pool_close(pool);
}

int main(void)
{
    RUN_EVERYWHERE(abort_drops_what_has_not_begun);
    RUN_PLAIN(abort_empties_inboxes, "holds a processor while others run on another one");
    RUN_BOTH(a_paused_pool_begins_nothing);
    RUN_BOTH(tasks_may_pause_their_pool);
    RUN_BOTH(pause_stops_short_tasks);
    RUN_BOTH(tune_counts_at_once);
    RUN_BOTH(tune_admits_who_waits);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
