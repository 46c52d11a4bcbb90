/*
 * pause.c: weft_pool_pause_until: a pause that lasts until a context ends.
 */
#include "tasks.h"

static atomic_u32 ran;
static uint32_t submitted; /* how many */

static weft_context *context_open(int64_t timeout)
{
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, NULL, &(weft_context_options){.timeout = timeout}), 0);
    return context;
}

static weft_pool *open_for(weft_context *context)
{
    weft_pool *pool = POOL_OPEN(.capacity = 2, .queue = 100);
    atomic_u32_store_relaxed(&ran, 0);
    submitted = 0;
    if (context != NULL)
        CHECK_EQ(weft_pool_pause_until(pool, context), 0);
    return pool;
}

/* None of the submitted tasks begins. */
static void check_paused(weft_pool *pool)
{
    uint32_t before = count_of(&ran);
    int64_t waiting = pool_waiting(pool);
    submit_counts(pool, &ran, 3);
    submitted += 3;
    for (int i = 0; i < 100; i++)
        weft_yield();
    CHECK_EQ(pool_waiting(pool), waiting + 3);
    CHECK_EQ(count_of(&ran), before);
}

static void check_goes_on(weft_pool *pool)
{
    submit_counts(pool, &ran, 3);
    submitted += 3;
    await(&ran, submitted);
}

static void a_pool_is_paused_until_a_context_ends(void *arg)
{
    static struct gate gate;
    for (int closed = 0; closed < 2; closed++) {
        weft_context *context = context_open(0);
        weft_pool *pool = open_for(NULL);
        gate_shut_and_fill(&gate, pool, 1);
        CHECK_EQ(weft_pool_pause_until(pool, context), 0);
        check_paused(pool);
        gate_open(&gate); /* a running task goes on */
        AWAIT_FIGURE(pool, completed, 1);
        check_paused(pool);
        if (!closed)
            weft_context_cancel(context);
        else
            weft_context_close(context);
        await(&ran, 6); /* without anything else that would wake a worker */
        check_goes_on(pool);
        if (!closed) {
            CHECK_EQ(weft_pool_pause_until(pool, context), -ECANCELED); /* it is as it was */
            check_goes_on(pool);
            weft_context_close(context);
        }
        pool_close(pool);
    }
}

static void a_resume_ends_all_pauses(void)
{
    weft_context *contexts[3] = {context_open(0), context_open(0), context_open(0)};
    weft_pool *pool = open_for(contexts[0]);
    CHECK_EQ(weft_pool_pause_until(pool, contexts[0]), 0); /* twice under the same */
    CHECK_EQ(weft_pool_pause_until(pool, contexts[1]), 0);
    CHECK_EQ(weft_pool_pause(pool), 0);
    check_paused(pool);
    CHECK_EQ(weft_pool_resume(pool), 0);
    check_goes_on(pool);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_context_error(contexts[i]), 0);
    weft_context_cancel(contexts[0]); /* of an older pause: nothing follows */
    CHECK_EQ(weft_pool_pause_until(pool, contexts[2]), 0);
    weft_context_cancel(contexts[1]);
    check_paused(pool);
    weft_context_cancel(contexts[2]);
    check_goes_on(pool);
    pool_close(pool);
    for (int i = 0; i < 3; i++)
        weft_context_close(contexts[i]);
}

static void pauses_add_up(void)
{
    weft_context *one = context_open(0), *other = context_open(0), *third = context_open(0);
    weft_pool *pool = open_for(one);
    CHECK_EQ(weft_pool_pause_until(pool, other), 0);
    weft_context_cancel(one);
    check_paused(pool);
    weft_context_cancel(other);
    check_goes_on(pool);
    CHECK_EQ(weft_pool_pause(pool), 0);
    CHECK_EQ(weft_pool_pause_until(pool, third), 0);
    weft_context_cancel(third);
    check_paused(pool); /* for weft_pool_pause */
    CHECK_EQ(weft_pool_resume(pool), 0);
    check_goes_on(pool);
    pool_close(pool);
    weft_context_close(one);
    weft_context_close(other);
    weft_context_close(third);
}

static void pause_until_checks_its_arguments(void)
{
    weft_context *context = context_open(0);
    weft_pool *pool = open_for(NULL);
    CHECK_EQ(weft_pool_pause_until(NULL, context), -EINVAL);
    CHECK_EQ(weft_pool_pause_until(pool, NULL), -EINVAL);
    check_goes_on(pool);
    pool_close(pool);
    weft_context_close(context);
}

/* A stop resumes it, whatever becomes of the context; so does a close. */
static void a_stop_resumes(void)
{
    weft_context *context = context_open(0);
    weft_pool *pool = open_for(context);
    check_paused(pool);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), 3);
    CHECK_EQ(weft_pool_reopen(pool), 0);
    check_goes_on(pool); /* the pause is not remembered */
    weft_context *other = context_open(0);
    CHECK_EQ(weft_pool_pause_until(pool, other), 0);
    weft_context_close(other);
    check_goes_on(pool); /* nor does it add to another */
    CHECK_EQ(weft_pool_pause_until(pool, context), 0);
    check_paused(pool);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), submitted);
    weft_context_close(context);
}

static void a_stopping_pool_is_not_paused(void)
{
    static struct gate gate;
    weft_context *context = context_open(0);
    weft_pool *pool = open_for(NULL);
    gate_shut_and_fill(&gate, pool, 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pool_pause_until(pool, context), -ESHUTDOWN);
    gate_open(&gate);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    pool_close(pool);
    weft_context_close(context);
}

static void a_stopped_pool_can_be_paused(void)
{
    weft_context *one = context_open(0), *other = context_open(0), *last = context_open(0);
    weft_pool *pool = open_for(NULL);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_pause_until(pool, one), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0); /* it is stopped: nothing follows */
    CHECK_EQ(weft_pool_reopen(pool), 0);
    check_paused(pool);
    weft_context_cancel(one);
    check_goes_on(pool);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_pause_until(pool, other), 0);
    weft_context_cancel(other); /* before it is open again */
    CHECK_EQ(weft_pool_reopen(pool), 0);
    check_goes_on(pool);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_pause_until(pool, last), 0);
    pool_close(pool);
    weft_context_close(one);
    weft_context_close(other);
    weft_context_close(last); /* after the pool is gone */
}

/* To the nanosecond, in the time of a seed. */

static atomic_i64 ran_at;

static void note_time(void *arg)
{
    atomic_i64_store_relaxed(&ran_at, weft_now());
    atomic_u32_add_seq_cst(&ran, 1);
}

static void a_timeout_ends_a_pause(void)
{
    weft_context *context = context_open(10 * WEFT_MS);
    int64_t end = weft_context_deadline(context);
    weft_pool *pool = open_for(context);
    CHECK_EQ(weft_pool_submit(pool, note_time, NULL), 0);
    await(&ran, 1);
    CHECK_EQ(atomic_i64_load_relaxed(&ran_at), end);
    CHECK_EQ(weft_pool_pause_until(pool, context), -ETIMEDOUT);
    pool_close(pool);
    weft_context_close(context);
}

/* By its own tasks, and when nothing but the end of the context makes it go on. */

static struct {
    weft_pool *pool;
    weft_context *context;
} own;

static void pause_own_pool(void *arg)
{
    CHECK_EQ(weft_pool_pause_until(own.pool, own.context), 0);
    submit_counts(own.pool, &ran, 1);
    weft_context_cancel(own.context);
}

static void tasks_may_pause_their_pool_until_then(void)
{
    for (uint32_t i = 0; i < 20; i++) {
        own.context = context_open(0);
        own.pool = POOL_OPEN(.capacity = 1 + i % 2, .queue = 10);
        atomic_u32_store_relaxed(&ran, 0);
        CHECK_EQ(weft_pool_submit(own.pool, pause_own_pool, NULL), 0);
        await(&ran, 1);
        pool_close(own.pool);
        weft_context_close(own.context);
    }
}

/* Pauses that begin while their context ends, with resumes and a stop: in the end it goes on. */

static void end_it(void *context)
{
    weft_context_cancel(context);
}

static void resume_it(void *pool)
{
    CHECK_EQ(weft_pool_resume(pool), 0);
}

static void stop_it(void *pool)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
}

static void a_pause_against_its_end(void)
{
    int64_t rounds = test_scale(1000);
    weft_pool *pool = open_for(NULL);
    for (int64_t round = 0; round < rounds; round++) {
        weft_context *context = context_open(0);
        bool stops = round % 5 == 0;
        void (*other)(void *) = stops ? stop_it : resume_it;
        struct body bodies[] = {{.function = end_it, .arg = context, .thread = round % 2 != 0},
                                {.function = other, .arg = pool, .thread = round % 3 != 0}};
        int count = round % 4 == 0 ? 2 : 1;
        for (int i = 0; i < count; i++)
            body_start(&bodies[i]);
        for (int i = 0; i < 3; i++) {
            int error = weft_pool_pause_until(pool, context);
            CHECK(error == 0 || error == -ECANCELED || (stops && error == -ESHUTDOWN));
        }
        for (int i = 0; i < count; i++)
            body_join(&bodies[i]);
        if (weft_pool_state(pool) == WEFT_POOL_STOPPED)
            CHECK_EQ(weft_pool_reopen(pool), 0);
        check_goes_on(pool);
        weft_context_close(context);
    }
    pool_close(pool);
}

int main(void)
{
    RUN_AT(a_pool_is_paused_until_a_context_ends, EVERYWHERE, 1);
    RUN_BOTH(a_resume_ends_all_pauses);
    RUN_BOTH(pauses_add_up);
    RUN_BOTH(pause_until_checks_its_arguments);
    RUN_BOTH(a_stop_resumes);
    RUN_BOTH(a_stopping_pool_is_not_paused);
    RUN_BOTH(a_stopped_pool_can_be_paused);
    RUN_SEEDS(a_timeout_ends_a_pause);
    RUN_BOTH(tasks_may_pause_their_pool_until_then);
    RUN_BOTH(a_pause_against_its_end);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
