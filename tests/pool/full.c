/*
 * full.c: a pool with no room left: it rejects, lets the caller run the task, drops, or lets the
 * submitter wait in line until a deadline or a cancellation.
 */
#include "tasks.h"

static atomic_u32 ran;

/* A pool of two with a queue of three, and its record of drops. */

enum { CAPACITY = 2, QUEUE = 3, FULL = CAPACITY + QUEUE };

static struct {
    weft_pool *pool;
    struct gate gate;
    void *dropped[10]; /* their arguments, in order */
    atomic_u32 drops, ran[10];
} full;

static void note_drop(void (*function)(void *), void *arg, void *data)
{
    CHECK_PTR(data, &full);
    CHECK(function == count_task);
    full.dropped[atomic_u32_add_seq_cst(&full.drops, 1)] = arg;
}

/* Two wait at the gate, three in the queue: numbers 0 to 2. */
static void full_open(int when_full, int64_t max_blocked)
{
    memset(&full, 0, sizeof full);
    full.pool = POOL_OPEN(.capacity = CAPACITY, .queue = QUEUE, .when_full = when_full,
                          .max_blocked = max_blocked, .on_drop = note_drop, .data = &full);
    gate_shut_and_fill(&full.gate, full.pool, CAPACITY);
    for (int i = 0; i < QUEUE; i++)
        CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[i]), 0);
    CHECK_EQ(pool_stats(full.pool).queued, QUEUE);
}

/* Tasks of these numbers have run, once each; `drops` others were dropped, in order. */
static void full_close(uint32_t which, uint32_t drops, uint32_t dropped_first)
{
    gate_open_and_close(&full.gate, full.pool);
    CHECK_EQ(gauge_total(&full.gate.gauge), CAPACITY);
    for (uint32_t i = 0; i < 10; i++)
        CHECK_EQ(count_of(&full.ran[i]), which >> i & 1);
    CHECK_EQ(count_of(&full.drops), drops);
    for (uint32_t i = 0; i < drops; i++)
        CHECK_PTR(full.dropped[i], &full.ran[dropped_first + i]);
}

static void full_rejects(void *arg)
{
    full_open(WEFT_REJECT, 0);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[3]), -EAGAIN);
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[3]), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[3], WEFT_NEVER), -EAGAIN);
    CHECK_EQ(weft_pool_submit_with(full.pool, count_task, &full.ran[3], NULL), -EAGAIN);
    CHECK_EQ(pool_stats(full.pool).rejected, 4);
    full_close(0x7, 0, 0);
}

/* The thread that ran it. */
static struct {
    weft_fiber *fiber;
    pthread_t thread;
    int times;
} runner;

static void note_runner(void *arg)
{
    runner.fiber = weft_self();
    runner.thread = pthread_self();
    runner.times++;
    CHECK_PTR(weft_context_current(), NULL); /* whatever the submitter is bound to */
    CHECK_PTR(weft_pool_worker_state(), NULL);
    if (arg != NULL)
        CHECK_EQ(weft_sleep(WEFT_MS), 0); /* it returns when it is done */
    runner.times++;
}

static void full_is_run_by_the_caller(void *arg)
{
    static char waits;
    weft_context *context, *before;
    context = new_context();
    CHECK_EQ(weft_context_bind(context, &before), 0);
    full_open(WEFT_CALLER_RUNS, 0);
    for (int i = 1; i <= 2; i++) {
        runner.times = 0;
        CHECK_EQ(weft_pool_submit(full.pool, note_runner, i == 2 ? &waits : NULL), 0);
        CHECK_EQ(runner.times, 2);
        CHECK_PTR(runner.fiber, weft_self());
        CHECK_PTR(weft_context_current(), context);
        if (weft_self() == NULL)
            CHECK(pthread_equal(runner.thread, pthread_self()));
        CHECK_FIGURES(full.pool, IS(completed, i), IS(submitted, FULL + i));
    }
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[3]), 0);
    CHECK_EQ(count_of(&full.ran[3]), 1);
    CHECK_EQ(weft_pool_pause(full.pool), 0); /* nothing begins, in the caller either */
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[4]), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[4], weft_after(WEFT_MS)),
             -ETIMEDOUT);
    CHECK_EQ(weft_pool_resume(full.pool), 0);
    full_close(0xf, 0, 0);
    CHECK_EQ(weft_context_bind(before, NULL), 0);
    weft_context_close(context);
}

static void full_drops_the_newest(void *arg)
{
    full_open(WEFT_DROP_NEWEST, 0);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[3]), 0);
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[4]), 0);
    CHECK_EQ(count_of(&full.drops), 2); /* told when submit returns */
    CHECK_EQ(pool_stats(full.pool).dropped, 2);
    full_close(0x7, 2, 3);
}

static void full_drops_the_oldest(void *arg)
{
    full_open(WEFT_DROP_OLDEST, 0);
    for (int i = 3; i < 8; i++)
        CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[i]), 0);
    CHECK_EQ(count_of(&full.drops), 5);
    CHECK_EQ(pool_stats(full.pool).dropped, 5);
    full_close(0xe0, 5, 0);

    /* If none waits, the new one. */
    memset(&full, 0, sizeof full);
    full.pool = POOL_OPEN(.capacity = 1, .when_full = WEFT_DROP_OLDEST, .on_drop = note_drop,
                          .data = &full);
    gate_shut_and_fill(&full.gate, full.pool, 1);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[5]), 0);
    CHECK_EQ(count_of(&full.drops), 1);
    CHECK_PTR(full.dropped[0], &full.ran[5]);
    gate_open_and_close(&full.gate, full.pool);
    CHECK_EQ(count_of(&full.ran[5]), 0);
}

/* Also if it is behind a task that keeps its processor. */

static void the_oldest_may_be_behind_a_task_that_computes(void *arg)
{
    memset(&full, 0, sizeof full);
    memset(&holder, 0, sizeof holder);
    full.pool = POOL_OPEN_PAUSED(.capacity = 1, .queue = 5, .when_full = WEFT_DROP_OLDEST,
                                 .on_drop = note_drop, .data = &full);
    CHECK_EQ(weft_pool_submit(full.pool, hold_processor, NULL), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[i]), 0);
    CHECK_EQ(weft_pool_resume(full.pool), 0);
    await(&holder.begun, 1);
    for (int i = 5; i < 8; i++)
        CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[i]), 0);
    CHECK_EQ(count_of(&full.drops), 3);
    for (int i = 0; i < 3; i++)
        CHECK_PTR(full.dropped[i], &full.ran[i]);
    atomic_u32_store_release(&holder.over, 1);
    pool_close(full.pool);
    for (uint32_t i = 0; i < 8; i++)
        CHECK_EQ(count_of(&full.ran[i]), i >= 3);
}

/* Each task runs or is dropped, once, wherever it was submitted. */

enum { DROPPERS = 4, EACH = 5000 };

static struct {
    weft_pool *pool;
    int64_t each;
    atomic_u32 fates[DROPPERS][EACH]; /* 1: ran; 0x100: dropped */
} fates;

static void run_fate(void *arg)
{
    atomic_u32 *fate = arg;
    CHECK_EQ(atomic_u32_add_seq_cst(fate, 1), 0);
    if ((uintptr_t)fate / sizeof *fate % 16 == 0)
        CHECK_EQ(weft_sleep(5 * WEFT_US), 0);
}

static void drop_fate(void (*function)(void *), void *arg, void *data)
{
    CHECK(function == run_fate);
    CHECK_PTR(data, &fates);
    CHECK_EQ(atomic_u32_add_seq_cst(arg, 0x100), 0);
}

static void submit_fates(void *arg)
{
    atomic_u32 *own = arg;
    for (int64_t i = 0; i < fates.each; i++)
        CHECK_EQ(weft_pool_submit(fates.pool, run_fate, &own[i]), 0);
}

static void drops_are_told_exactly_once(void)
{
    fates.each = test_scale(EACH) < EACH ? test_scale(EACH) : EACH;
    for (int when_full = WEFT_DROP_NEWEST; when_full <= WEFT_DROP_OLDEST; when_full++) {
        struct body bodies[DROPPERS];
        int64_t ends = 0, drops = 0;
        memset(fates.fates, 0, sizeof fates.fates);
        fates.pool = POOL_OPEN(.capacity = 3, .queue = 20, .when_full = when_full,
                               .on_drop = drop_fate, .data = &fates);
        for (int i = 0; i < DROPPERS; i++)
            bodies[i] = (struct body){
                .function = submit_fates, .arg = fates.fates[i], .thread = i % 2 == 0};
        bodies_run(bodies, DROPPERS);
        CHECK_EQ(weft_pool_stop(fates.pool, WEFT_NEVER), 0);
        for (int i = 0; i < DROPPERS; i++)
            for (int64_t j = 0; j < fates.each; j++) {
                uint32_t fate = count_of(&fates.fates[i][j]);
                CHECK(fate == 1 || fate == 0x100);
                ends += fate == 1;
                drops += fate == 0x100;
            }
        CHECK_FIGURES(fates.pool, IS(completed, ends), IS(dropped, drops));
        pool_close(fates.pool);
    }
}

/* Waiting for room. */

static void start_blocked(struct submission *own, bool thread, int number)
{
    submission_start(own, full.pool, count_task, &full.ran[number], thread);
}

static void full_lets_the_submitter_wait(void *arg)
{
    struct submission own;
    for (int thread = 0; thread < 2; thread++) {
        full_open(WEFT_BLOCK, 0);
        start_blocked(&own, thread, 3);
        AWAIT_FIGURE(full.pool, blocked, 1);
        CHECK_EQ(count_of(&own.returned), 0);
        gate_open(&full.gate);
        CHECK_EQ(submission_end(&own), 0);
        CHECK_EQ(weft_wg_init(&full.gate.shut, 1), 0); /* for full_close to open */
        full_close(0xf, 0, 0);
    }
}

static void so_many_may_wait_and_no_more(void)
{
    struct submission own[2];
    full_open(WEFT_BLOCK, 2);
    for (int i = 0; i < 2; i++)
        start_blocked(&own[i], i == 0, 3 + i);
    AWAIT_FIGURE(full.pool, blocked, 2);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[5]), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[5], weft_after(LONG)),
             -EAGAIN);
    CHECK_EQ(pool_stats(full.pool).blocked, 2);
    gate_open(&full.gate);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(submission_end(&own[i]), 0);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[6]), 0);
    CHECK_EQ(weft_wg_init(&full.gate.shut, 1), 0);
    full_close(0x5f, 0, 0);
}

static void a_wait_ends_with_its_deadline(void *arg)
{
    weft_submit_options options = {.copy = 0};
    full_open(WEFT_BLOCK, 0);
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[3]), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[3], WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[3], 1), -ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        int64_t deadline = weft_after((1 + i) * WEFT_MS / 2);
        CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[3], deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
        options.timeout = (1 + i) * WEFT_MS / 2;
        deadline = weft_after(options.timeout);
        CHECK_EQ(weft_pool_submit_with(full.pool, count_task, &full.ran[3], &options), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
    }
    CHECK_FIGURES(full.pool, IS(blocked, 0), IS(rejected, 9));
    full_close(0x7, 0, 0);

    /* With room the deadline does not matter. */
    weft_pool *pool = POOL_OPEN(.capacity = 4);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, WEFT_NOW), 0);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, weft_after(LONG)), 0);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), 0);
    options.timeout = 1;
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &options), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), 4);
}

/* First come, first served. */

enum { LINE = 20 };

static struct {
    struct journal began;
    struct submission own[LINE];
    int number[LINE];
} line;

static void note_order(void *arg)
{
    journal_add(&line.began, *(int *)arg);
}

/* Every fourth submitter gives up when all stand in line. */
static void stand_in_line(int64_t queue)
{
    static struct gate gate;
    weft_context *context = new_context();
    weft_pool *pool = POOL_OPEN(.capacity = 1, .queue = queue);
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&line.began.length, 0);
    for (int i = 0; i < LINE; i++) {
        line.number[i] = i;
        submission_start_in(&line.own[i], pool, note_order, &line.number[i],
                            i % 4 == 3 ? context : NULL, i % 3 == 0);
        AWAIT_FIGURE(pool, blocked, i < queue ? 0 : i + 1 - queue);
        if (i < queue)
            await(&line.own[i].returned, 1);
    }
    weft_context_cancel(context);
    int left = 0;
    for (int i = 0; i < LINE; i++)
        left += i < queue || i % 4 != 3;
    AWAIT_FIGURE(pool, blocked, left - queue);
    CHECK_EQ(weft_pool_try_submit(pool, note_order, NULL), -EAGAIN);
    gate_open(&gate);
    for (int i = 0; i < LINE; i++)
        CHECK_EQ(submission_end(&line.own[i]), i < queue || i % 4 != 3 ? 0 : -ECANCELED);
    pool_close(pool);
    weft_context_close(context);
    CHECK_EQ(count_of(&line.began.length), left);
    for (int i = 1; i < left; i++)
        CHECK(line.began.entries[i] > line.began.entries[i - 1]);
}

static void stand_in_lines(void *arg)
{
    stand_in_line(0);
    stand_in_line(7);
}

/* Later submits do not overtake one in line, however many there are. */

static struct {
    weft_pool *pool;
    atomic_u32 over, first, others;
} overtaking;

static void other_task(void *arg)
{
    weft_yield();
    atomic_u32_add_seq_cst(&overtaking.others, 1);
}

static void first_task(void *arg)
{
    atomic_u32_store_release(&overtaking.first, 1);
}

/* Submits without pause. */
static void push(void *arg)
{
    while (!count_of(&overtaking.over))
        CHECK_EQ(weft_pool_submit(overtaking.pool, other_task, NULL), 0);
}

static void wait_in_the_crowd(void *arg)
{
    enum { PUSHERS = 6 };
    struct body bodies[PUSHERS];
    int64_t rounds = test_scale(200);
    overtaking.pool = POOL_OPEN(.capacity = 1);
    atomic_u32_store_relaxed(&overtaking.over, 0);
    for (int i = 0; i < PUSHERS; i++) {
        bodies[i] = (struct body){.function = push, .thread = i % 3 == 0};
        body_start(&bodies[i]);
    }
    for (int64_t i = 0; i < rounds; i++) {
        atomic_u32_store_relaxed(&overtaking.first, 0);
        CHECK_EQ(weft_pool_submit(overtaking.pool, first_task, NULL), 0);
        await(&overtaking.first, 1);
    }
    atomic_u32_store_release(&overtaking.over, 1);
    for (int i = 0; i < PUSHERS; i++)
        body_join(&bodies[i]);
    pool_close(overtaking.pool);
}

static void those_who_wait_are_served_in_turn(void)
{
    everywhere(stand_in_lines);
    everywhere(wait_in_the_crowd);
}

static void check_cancel(bool thread, int64_t timeout)
{
    weft_context *context;
    weft_context_options options = {.timeout = timeout};
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    full_open(WEFT_BLOCK, 0);
    struct submission own;
    submission_start_in(&own, full.pool, count_task, &full.ran[3], context, thread);
    if (timeout == 0) {
        AWAIT_FIGURE(full.pool, blocked, 1);
        weft_context_cancel(context);
    }
    CHECK_EQ(submission_end(&own), timeout == 0 ? -ECANCELED : -ETIMEDOUT);
    CHECK_FIGURES(full.pool, IS(blocked, 0), IS(rejected, 1));
    body_run(submission_main, &own, thread); /* and at once, if it is cancelled before */
    CHECK_EQ(own.result, timeout == 0 ? -ECANCELED : -ETIMEDOUT);
    full_close(0x7, 0, 0);

    /* A submit that need not wait succeeds. */
    own.pool = POOL_OPEN(.capacity = 1);
    body_run(submission_main, &own, thread);
    CHECK_EQ(own.result, 0);
    pool_close(own.pool);
    CHECK_EQ(count_of(&full.ran[3]), 1);
    weft_context_close(context);
}

static void a_wait_ends_with_its_context(void)
{
    for (int thread = 0; thread < 2; thread++) {
        check_cancel(thread, 0);
        check_cancel(thread, WEFT_MS);
    }
}

int main(void)
{
    RUN_EVERYWHERE(full_rejects);
    RUN_EVERYWHERE(full_is_run_by_the_caller);
    RUN_EVERYWHERE(full_drops_the_newest);
    RUN_EVERYWHERE(full_drops_the_oldest);
    PLAIN_AT(the_oldest_may_be_behind_a_task_that_computes,
             "holds a processor while others run on another one", OUTSIDE(1), OUTSIDE(2));
    RUN_BOTH(drops_are_told_exactly_once);
    RUN_EVERYWHERE(full_lets_the_submitter_wait);
    RUN_BOTH(so_many_may_wait_and_no_more);
    RUN_EVERYWHERE(a_wait_ends_with_its_deadline);
    RUN_BOTH(those_who_wait_are_served_in_turn);
    RUN_BOTH(a_wait_ends_with_its_context);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
