/*
 * admission.c: who gets into a pool: capacity, queue, what happens when both are full, and what becomes of
 * the arguments.
 */
#include <stdalign.h>

#include "lines.h"
#include "seeds.h"
#include "tasks.h"

static atomic_u32 ran;

/* Nonsense. */

static void refuse_options(weft_pool_options options)
{
    weft_pool *pool = POOL_POISON;
    CHECK_EQ(weft_pool_open(&pool, &options), -EINVAL);
    CHECK_PTR(pool, POOL_POISON);
}

static void check_options(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_pool_open(NULL, NULL), -EINVAL);
    refuse_options((weft_pool_options){.capacity = -1});
    refuse_options((weft_pool_options){.queue = -1});
    refuse_options((weft_pool_options){.max_blocked = -1});
    refuse_options((weft_pool_options){.when_full = -1});
    refuse_options((weft_pool_options){.when_full = WEFT_DROP_OLDEST + 1});
    refuse_options((weft_pool_options){.reuse = -1});
    refuse_options((weft_pool_options){.reuse = WEFT_FIFO + 1});
    refuse_options((weft_pool_options){.keep = -1});
    refuse_options((weft_pool_options){.prestart = -1});
    refuse_options((weft_pool_options){.capacity = 2, .prestart = 3});
    refuse_options((weft_pool_options){.prestart = 10001});
    refuse_options((weft_pool_options){.expiry = -1});
    refuse_options((weft_pool_options){.shrink = -1});
    refuse_options((weft_pool_options){.max_crashes = -1});
    refuse_options((weft_pool_options){.stack_size = 1});
    refuse_options((weft_pool_options){.stack_size = SIZE_MAX});
    weft_pool_options options = {.capacity = 1};
    for (size_t i = 0; i < sizeof options.reserved / sizeof options.reserved[0]; i++) {
        options.reserved[i] = 1;
        refuse_options(options);
        options.reserved[i] = 0;
    }
}

static void refuse_submit(weft_pool *pool, weft_submit_options options)
{
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &options), -EINVAL);
}

static void check_submits(void *arg)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1});
    void *args[] = {&ran, &ran};
    (void)arg;
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit(NULL, count_task, &ran), -EINVAL);
    CHECK_EQ(weft_pool_submit(pool, NULL, &ran), -EINVAL);
    CHECK_EQ(weft_pool_submit_until(NULL, count_task, &ran, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_until(pool, NULL, &ran, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_try_submit(NULL, count_task, &ran), -EINVAL);
    CHECK_EQ(weft_pool_try_submit(pool, NULL, &ran), -EINVAL);
    CHECK_EQ(weft_pool_invoke(NULL, &ran), -EINVAL);
    CHECK_EQ(weft_pool_invoke(pool, &ran), -EINVAL); /* it has no function */
    CHECK_EQ(weft_pool_invoke_until(pool, &ran, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_try_invoke(pool, &ran), -EINVAL);
    CHECK_EQ(weft_pool_submit_with(NULL, count_task, &ran, NULL), -EINVAL);
    CHECK_EQ(weft_pool_submit_with(pool, NULL, &ran, NULL), -EINVAL);
    refuse_submit(pool, (weft_submit_options){.priority = WEFT_HIGH + 1});
    refuse_submit(pool, (weft_submit_options){.priority = WEFT_LOW - 1});
    refuse_submit(pool, (weft_submit_options){.copy = WEFT_COPY_MAX + 1});
    for (int i = 0; i < 4; i++) {
        weft_submit_options options = {.priority = WEFT_NORMAL};
        options.reserved[i] = 1;
        refuse_submit(pool, options);
    }
    CHECK_EQ(weft_pool_submit_with(pool, count_task, NULL, &(weft_submit_options){.copy = 1}),
             -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(NULL, count_task, args, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, NULL, args, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, NULL, 2, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, args, -1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, NULL, 0, WEFT_NEVER), 0);

    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.submitted, 0);
    CHECK_EQ(weft_pool_stats_get(NULL, &stats), -EINVAL);
    CHECK_EQ(weft_pool_stats_get(pool, NULL), -EINVAL);
    CHECK_EQ(weft_pool_tune(NULL, 1), -EINVAL);
    CHECK_EQ(weft_pool_tune(pool, 0), -EINVAL);
    CHECK_EQ(weft_pool_tune(pool, -1), -EINVAL);
    CHECK_EQ(weft_pool_pause(NULL), -EINVAL);
    CHECK_EQ(weft_pool_resume(NULL), -EINVAL);
    CHECK_EQ(weft_pool_abort(NULL), -EINVAL);
    CHECK_EQ(weft_pool_stop(NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_pool_reopen(NULL), -EINVAL);
    CHECK_EQ(weft_pool_close(NULL), -EINVAL);
    CHECK_EQ(weft_pool_close_until(NULL, WEFT_NEVER), -EINVAL);
    CHECK_PTR(weft_pool_worker_state(), NULL);
    CHECK_EQ(pool_stats(pool).capacity, 1);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* all that has done no harm */
    pool_close(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
}

static void nonsense_is_refused(void)
{
    everywhere(check_options);
    everywhere(check_submits);
}

/* Capacity. */

struct kind {
    struct gauge gauge;
    weft_chan *chan;
    int64_t turns;
};

static void sleeps(void *arg)
{
    struct kind *kind = arg;
    gauge_enter(&kind->gauge);
    CHECK_EQ(weft_sleep(20 * WEFT_US), 0);
    gauge_leave(&kind->gauge);
}

/* Each receives what another has sent. */
static void exchanges(void *arg)
{
    struct kind *kind = arg;
    int value = 1;
    gauge_enter(&kind->gauge);
    CHECK_EQ(weft_chan_send(kind->chan, &value), 0);
    weft_yield();
    CHECK_EQ(weft_chan_receive(kind->chan, &value), 0);
    gauge_leave(&kind->gauge);
}

static void computes(void *arg)
{
    struct kind *kind = arg;
    gauge_enter(&kind->gauge);
    for (int64_t i = 0; i < kind->turns; i++)
        cpu_relax();
    gauge_leave(&kind->gauge);
}

static void mixes(void *arg)
{
    static void (*const kinds[])(void *) = {sleeps, exchanges, computes};
    struct kind *kind = arg;
    kinds[gauge_total(&kind->gauge) % 3](arg);
}

static void hold_capacity(void (*function)(void *), int64_t capacity, int64_t queue)
{
    struct kind kind = {.chan = make_chan(sizeof(int), 1), .turns = 200};
    int64_t count = test_scale(2000);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = capacity, .queue = queue});
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(weft_pool_submit(pool, function, &kind), 0);
    pool_close(pool);
    CHECK_EQ(gauge_total(&kind.gauge), count);
    CHECK_EQ(atomic_u32_load_acquire(&kind.gauge.now), 0);
    CHECK(gauge_most(&kind.gauge) <= capacity);
    weft_chan_destroy(kind.chan);
}

static void hold_capacities(void *arg)
{
    static void (*const kinds[])(void *) = {sleeps, exchanges, computes, mixes};
    (void)arg;
    for (int i = 0; i < 4; i++)
        for (int64_t capacity = 1; capacity <= 9; capacity *= 3)
            hold_capacity(kinds[i], capacity, i % 2 == 0 ? 0 : WEFT_UNLIMITED);
}

static void no_more_run_than_the_capacity(void)
{
    hold_capacities(NULL);
    on_processors(1, hold_capacities, NULL);
    on_processors(3, hold_capacities, NULL);
}

static void reach_capacity(void *arg)
{
    static struct gate gate;
    (void)arg;
    for (uint32_t capacity = 1; capacity <= 64; capacity *= 4) {
        weft_pool *pool =
            pool_open((weft_pool_options){.capacity = capacity, .queue = WEFT_UNLIMITED});
        gate_shut(&gate);
        for (uint32_t i = 0; i < 3 * capacity; i++)
            CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), 0);
        await(&gate.gauge.now, capacity);
        weft_pool_stats stats = pool_stats(pool);
        CHECK_EQ(stats.running, capacity);
        CHECK_EQ(stats.queued, 2 * capacity);
        gate_open(&gate);
        pool_close(pool);
        CHECK_EQ(gauge_most(&gate.gauge), capacity);
        CHECK_EQ(gauge_total(&gate.gauge), 3 * capacity);
    }
}

static void as_many_run_as_the_capacity(void)
{
    everywhere(reach_capacity);
    on_processors(1, reach_capacity, NULL);
}

/* Tasks that keep their processor until there is one on each. */

static struct {
    atomic_u32 begun, all;
} spinners;

static void spin_together(void *arg)
{
    (void)arg;
    atomic_u32_add_seq_cst(&spinners.begun, 1);
    while (atomic_u32_load_acquire(&spinners.begun) < atomic_u32_load_relaxed(&spinners.all))
        sched_yield();
}

static void tasks_that_compute_share_the_processors(void)
{
    int64_t rounds = test_scale(60);
    for (uint32_t processors = 2; processors <= 4; processors++) {
        weft_config config = {.processors = (int)processors};
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(weft_configure(&config), 0);
        atomic_u32_store_relaxed(&spinners.all, processors);
        weft_pool *pool = pool_open((weft_pool_options){.queue = WEFT_UNLIMITED});
        for (int64_t i = 0; i < rounds; i++) {
            atomic_u32_store_relaxed(&spinners.begun, 0);
            for (uint32_t each = 0; each < processors; each++)
                CHECK_EQ(weft_pool_submit(pool, spin_together, NULL), 0);
            await_completed(pool, (i + 1) * processors);
        }
        pool_close(pool);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        CHECK_EQ(weft_configure(NULL), 0);
    }
}

static void the_default_is_ten_thousand(void)
{
    weft_pool *pool;
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_open(&pool, NULL), 0);
    CHECK_EQ(pool_stats(pool).capacity, 10000);
    CHECK_EQ(weft_pool_pause(pool), 0);
    for (int i = 0; i < 10000; i++)
        CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), 0);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -EAGAIN);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 0);
    pool_close(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 10000);
}

static void unlimited_has_no_limit(void)
{
    static struct gate gate;
    uint32_t count = (uint32_t)test_scale(20000);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = WEFT_UNLIMITED});
    CHECK_EQ(pool_stats(pool).capacity, WEFT_UNLIMITED);
    gate_shut(&gate);
    gate_fill(&gate, pool, count);
    gate_open(&gate);
    pool_close(pool);

    pool = pool_open((weft_pool_options){.capacity = 1, .queue = WEFT_UNLIMITED});
    gate_shut(&gate);
    gate_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    for (uint32_t i = 0; i < 5 * count; i++)
        CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), 0);
    CHECK_EQ(pool_stats(pool).queued, 5 * count);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 0);
    gate_open(&gate);
    pool_close(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 5 * count);
}

/* Full: a pool of two with a queue of three, and what is told of drops. */

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
    full.pool = pool_open((weft_pool_options){.capacity = CAPACITY,
                                              .queue = QUEUE,
                                              .when_full = when_full,
                                              .max_blocked = max_blocked,
                                              .on_drop = note_drop,
                                              .data = &full});
    gate_shut(&full.gate);
    gate_fill(&full.gate, full.pool, CAPACITY);
    for (int i = 0; i < QUEUE; i++)
        CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[i]), 0);
    CHECK_EQ(pool_stats(full.pool).queued, QUEUE);
}

/* Those numbers have run, once each; dropped: so many of the others were, in order. */
static void full_close(uint32_t which, uint32_t drops, uint32_t dropped_first)
{
    gate_open(&full.gate);
    pool_close(full.pool);
    CHECK_EQ(gauge_total(&full.gate.gauge), CAPACITY);
    for (uint32_t i = 0; i < 10; i++)
        CHECK_EQ(atomic_u32_load_acquire(&full.ran[i]), which >> i & 1);
    CHECK_EQ(atomic_u32_load_acquire(&full.drops), drops);
    for (uint32_t i = 0; i < drops; i++)
        CHECK_PTR(full.dropped[i], &full.ran[dropped_first + i]);
}

static void check_reject(void *arg)
{
    (void)arg;
    full_open(WEFT_REJECT, 0);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[3]), -EAGAIN);
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[3]), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[3], WEFT_NEVER), -EAGAIN);
    CHECK_EQ(weft_pool_submit_with(full.pool, count_task, &full.ran[3], NULL), -EAGAIN);
    CHECK_EQ(pool_stats(full.pool).rejected, 4);
    full_close(0x7, 0, 0);
}

static void full_rejects(void)
{
    everywhere(check_reject);
}

/* Who ran it. */
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
    if (arg != NULL)
        CHECK_EQ(weft_sleep(WEFT_MS), 0); /* it returns when it is done */
    runner.times++;
}

static void check_caller_runs(void *arg)
{
    static char waits;
    (void)arg;
    full_open(WEFT_CALLER_RUNS, 0);
    for (int i = 1; i <= 2; i++) {
        runner.times = 0;
        CHECK_EQ(weft_pool_submit(full.pool, note_runner, i == 2 ? &waits : NULL), 0);
        CHECK_EQ(runner.times, 2);
        CHECK_PTR(runner.fiber, weft_self());
        if (weft_self() == NULL)
            CHECK(pthread_equal(runner.thread, pthread_self()));
        CHECK_EQ(pool_stats(full.pool).completed, i);
        CHECK_EQ(pool_stats(full.pool).submitted, FULL + i);
    }
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[3]), 0);
    CHECK_EQ(atomic_u32_load_acquire(&full.ran[3]), 1);
    full_close(0xf, 0, 0);
}

static void full_is_run_by_the_caller(void)
{
    everywhere(check_caller_runs);
}

static void check_drop_newest(void *arg)
{
    (void)arg;
    full_open(WEFT_DROP_NEWEST, 0);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[3]), 0);
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[4]), 0);
    CHECK_EQ(atomic_u32_load_acquire(&full.drops), 2); /* told when submit returns */
    CHECK_EQ(pool_stats(full.pool).dropped, 2);
    full_close(0x7, 2, 3);
}

static void full_drops_the_newest(void)
{
    everywhere(check_drop_newest);
}

static void check_drop_oldest(void *arg)
{
    (void)arg;
    full_open(WEFT_DROP_OLDEST, 0);
    for (int i = 3; i < 8; i++)
        CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[i]), 0);
    CHECK_EQ(atomic_u32_load_acquire(&full.drops), 5);
    CHECK_EQ(pool_stats(full.pool).dropped, 5);
    full_close(0xe0, 5, 0);

    /* If none waits, the new one. */
    memset(&full, 0, sizeof full);
    full.pool = pool_open((weft_pool_options){
        .capacity = 1, .when_full = WEFT_DROP_OLDEST, .on_drop = note_drop, .data = &full});
    gate_shut(&full.gate);
    gate_fill(&full.gate, full.pool, 1);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[5]), 0);
    CHECK_EQ(atomic_u32_load_acquire(&full.drops), 1);
    CHECK_PTR(full.dropped[0], &full.ran[5]);
    gate_open(&full.gate);
    pool_close(full.pool);
    CHECK_EQ(atomic_u32_load_acquire(&full.ran[5]), 0);
}

static void full_drops_the_oldest(void)
{
    everywhere(check_drop_oldest);
}

/* Also if it is behind a task that keeps its processor. */

static void drop_behind_a_holder(void *arg)
{
    (void)arg;
    memset(&full, 0, sizeof full);
    memset(&holder, 0, sizeof holder);
    full.pool = pool_open((weft_pool_options){.capacity = 1,
                                              .queue = 5,
                                              .when_full = WEFT_DROP_OLDEST,
                                              .on_drop = note_drop,
                                              .data = &full});
    CHECK_EQ(weft_pool_pause(full.pool), 0);
    CHECK_EQ(weft_pool_submit(full.pool, hold_processor, NULL), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[i]), 0);
    CHECK_EQ(weft_pool_resume(full.pool), 0);
    await(&holder.begun, 1);
    for (int i = 5; i < 8; i++)
        CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[i]), 0);
    CHECK_EQ(atomic_u32_load_acquire(&full.drops), 3);
    for (int i = 0; i < 3; i++)
        CHECK_PTR(full.dropped[i], &full.ran[i]);
    atomic_u32_store_release(&holder.over, 1);
    pool_close(full.pool);
    for (uint32_t i = 0; i < 8; i++)
        CHECK_EQ(atomic_u32_load_acquire(&full.ran[i]), i >= 3);
}

static void the_oldest_may_be_behind_a_task_that_computes(void)
{
    with_processors(1, drop_behind_a_holder, NULL);
    with_processors(2, drop_behind_a_holder, NULL);
}

/* Each task runs or is dropped, once, whoever submits. */

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
        fates.pool = pool_open((weft_pool_options){.capacity = 3,
                                                   .queue = 20,
                                                   .when_full = when_full,
                                                   .on_drop = drop_fate,
                                                   .data = &fates});
        for (int i = 0; i < DROPPERS; i++)
            bodies[i] = (struct body){
                .function = submit_fates, .arg = fates.fates[i], .thread = i % 2 == 0};
        bodies_run(bodies, DROPPERS);
        CHECK_EQ(weft_pool_stop(fates.pool, WEFT_NEVER), 0);
        for (int i = 0; i < DROPPERS; i++)
            for (int64_t j = 0; j < fates.each; j++) {
                uint32_t fate = atomic_u32_load_acquire(&fates.fates[i][j]);
                CHECK(fate == 1 || fate == 0x100);
                ends += fate == 1;
                drops += fate == 0x100;
            }
        CHECK_EQ(pool_stats(fates.pool).completed, ends);
        CHECK_EQ(pool_stats(fates.pool).dropped, drops);
        pool_close(fates.pool);
    }
}

/* Waiting for room. */

static void start_blocked(struct submitter_body *own, struct body *body, bool thread, int number,
                          int64_t deadline)
{
    *own = (struct submitter_body){
        .pool = full.pool, .function = count_task, .arg = &full.ran[number], .deadline = deadline};
    *body = (struct body){.function = submitter_main, .arg = own, .thread = thread};
    body_start(body);
}

static void check_block(void *arg)
{
    struct submitter_body own;
    struct body body;
    (void)arg;
    for (int thread = 0; thread < 2; thread++) {
        full_open(WEFT_BLOCK, 0);
        start_blocked(&own, &body, thread, 3, WEFT_NEVER);
        await_blocked(full.pool, 1);
        CHECK_EQ(atomic_u32_load_acquire(&own.returned), 0);
        gate_open(&full.gate);
        body_join(&body);
        CHECK_EQ(own.result, 0);
        CHECK_EQ(weft_wg_init(&full.gate.shut, 1), 0); /* for full_close to open */
        full_close(0xf, 0, 0);
    }
}

static void full_lets_the_submitter_wait(void)
{
    everywhere(check_block);
}

static void so_many_may_wait_and_no_more(void)
{
    struct submitter_body own[2];
    struct body bodies[2];
    full_open(WEFT_BLOCK, 2);
    for (int i = 0; i < 2; i++)
        start_blocked(&own[i], &bodies[i], i == 0, 3 + i, WEFT_NEVER);
    await_blocked(full.pool, 2);
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[5]), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[5], weft_after(LONG)),
             -EAGAIN);
    CHECK_EQ(pool_stats(full.pool).blocked, 2);
    gate_open(&full.gate);
    for (int i = 0; i < 2; i++) {
        body_join(&bodies[i]);
        CHECK_EQ(own[i].result, 0);
    }
    CHECK_EQ(weft_pool_submit(full.pool, count_task, &full.ran[6]), 0);
    CHECK_EQ(weft_wg_init(&full.gate.shut, 1), 0);
    full_close(0x5f, 0, 0);
}

static void check_deadlines(void *arg)
{
    weft_submit_options options = {.copy = 0};
    (void)arg;
    full_open(WEFT_BLOCK, 0);
    CHECK_EQ(weft_pool_try_submit(full.pool, count_task, &full.ran[3]), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[3], WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[3], 1), -ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        int64_t deadline = weft_after((1 + i) * WEFT_MS / 2);
        CHECK_EQ(weft_pool_submit_until(full.pool, count_task, &full.ran[3], deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
        options.deadline = weft_after((1 + i) * WEFT_MS / 2);
        CHECK_EQ(weft_pool_submit_with(full.pool, count_task, &full.ran[3], &options), -ETIMEDOUT);
        CHECK(weft_now() >= options.deadline);
    }
    CHECK_EQ(pool_stats(full.pool).blocked, 0);
    CHECK_EQ(pool_stats(full.pool).rejected, 9);
    full_close(0x7, 0, 0);

    /* With room the deadline does not matter. */
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 4});
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, WEFT_NOW), 0);
    CHECK_EQ(weft_pool_submit_until(pool, count_task, &ran, weft_after(LONG)), 0);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), 0);
    options.deadline = 1;
    CHECK_EQ(weft_pool_submit_with(pool, count_task, &ran, &options), 0);
    pool_close(pool);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 4);
}

static void a_wait_ends_with_its_deadline(void)
{
    everywhere(check_deadlines);
}

/* First come, first served. */

enum { LINE = 20 };

static struct {
    int order[LINE];
    atomic_u32 length;
    struct submitter_body own[LINE];
    int number[LINE];
} line;

static void note_order(void *arg)
{
    line.order[atomic_u32_add_seq_cst(&line.length, 1)] = *(int *)arg;
}

static void stand_in_line(int64_t queue)
{
    static struct gate gate;
    struct body bodies[LINE];
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 1, .queue = queue});
    gate_shut(&gate);
    gate_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&line.length, 0);
    for (int i = 0; i < LINE; i++) {
        line.number[i] = i;
        line.own[i] = (struct submitter_body){
            .pool = pool, .function = note_order, .arg = &line.number[i], .deadline = WEFT_NEVER};
        bodies[i] =
            (struct body){.function = submitter_main, .arg = &line.own[i], .thread = i % 3 == 0};
        body_start(&bodies[i]);
        await_blocked(pool, i < queue ? 0 : i + 1 - queue);
        if (i < queue)
            await(&line.own[i].returned, 1);
    }
    gate_open(&gate);
    for (int i = 0; i < LINE; i++) {
        body_join(&bodies[i]);
        CHECK_EQ(line.own[i].result, 0);
    }
    pool_close(pool);
    for (int i = 0; i < LINE; i++)
        CHECK_EQ(line.order[i], i);
}

static void those_who_wait_are_served_in_turn(void)
{
    stand_in_line(0);
    stand_in_line(7);
}

/* Contexts. */

static void check_cancel(bool thread, int64_t deadline)
{
    weft_context *context;
    weft_context_options options = {.deadline = deadline};
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    full_open(WEFT_BLOCK, 0);
    struct submitter_body own = {.pool = full.pool,
                                 .function = count_task,
                                 .arg = &full.ran[3],
                                 .deadline = WEFT_NEVER,
                                 .context = context};
    struct body body = {.function = submitter_main, .arg = &own, .thread = thread};
    body_start(&body);
    if (deadline == 0) {
        await_blocked(full.pool, 1);
        weft_context_cancel(context);
    }
    body_join(&body);
    CHECK_EQ(own.result, deadline == 0 ? -ECANCELED : -ETIMEDOUT);
    CHECK_EQ(pool_stats(full.pool).blocked, 0);
    CHECK_EQ(pool_stats(full.pool).rejected, 1);
    body_run(submitter_main, &own, thread); /* and at once, if it is cancelled before */
    CHECK_EQ(own.result, deadline == 0 ? -ECANCELED : -ETIMEDOUT);
    full_close(0x7, 0, 0);

    /* What needs no wait is done. */
    own.pool = pool_open((weft_pool_options){.capacity = 1});
    body_run(submitter_main, &own, thread);
    CHECK_EQ(own.result, 0);
    pool_close(own.pool);
    CHECK_EQ(atomic_u32_load_acquire(&full.ran[3]), 1);
    weft_context_close(context);
}

static void a_wait_ends_with_its_context(void)
{
    for (int thread = 0; thread < 2; thread++) {
        check_cancel(thread, 0);
        check_cancel(thread, weft_after(WEFT_MS));
    }
}

/* Arguments. */

struct copied {
    unsigned char bytes[WEFT_COPY_MAX];
};

static struct {
    atomic_u32 seen[WEFT_COPY_MAX + 1];
} copies;

static void fill_copy(struct copied *copied, size_t size)
{
    for (size_t i = 0; i < size; i++)
        copied->bytes[i] = (unsigned char)(size + 3 * i);
}

/* The first byte is the size. */
static void check_copy(void *arg)
{
    struct copied expected;
    size_t size = *(unsigned char *)arg;
    CHECK_EQ((uintptr_t)arg % alignof(max_align_t), 0);
    CHECK(size >= 1 && size <= WEFT_COPY_MAX);
    fill_copy(&expected, size);
    CHECK_EQ(memcmp(arg, &expected, size), 0);
    weft_yield();
    CHECK_EQ(memcmp(arg, &expected, size), 0); /* valid until it returns */
    if (size % 5 == 0)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    CHECK_EQ(memcmp(arg, &expected, size), 0);
    memset(arg, 0, size); /* it is its own */
    atomic_u32_add_seq_cst(&copies.seen[size], 1);
}

static void drop_copy(void (*function)(void *), void *arg, void *data)
{
    (void)data;
    function(arg);
}

/* Submits one of each size, `rounds` times, in one buffer. */
static void copy_all(weft_pool *pool, uint32_t rounds)
{
    struct copied buffer;
    for (uint32_t i = 0; i < rounds; i++)
        for (size_t size = 1; size <= WEFT_COPY_MAX; size++) {
            weft_submit_options options = {.copy = size, .priority = (int)(size % 3) - 1};
            fill_copy(&buffer, size);
            CHECK_EQ(weft_pool_submit_with(pool, check_copy, &buffer, &options), 0);
            memset(&buffer, 0xff, sizeof buffer);
        }
}

static void check_copies(void *arg)
{
    static struct gate gate;
    uint32_t rounds = (uint32_t)test_scale(20);
    (void)arg;
    for (int when_full = 0; when_full <= WEFT_DROP_OLDEST; when_full++) {
        if (when_full == WEFT_REJECT)
            continue;
        memset(&copies, 0, sizeof copies);
        weft_pool *pool = pool_open((weft_pool_options){
            .capacity = 2, .queue = 10, .when_full = when_full, .on_drop = drop_copy});
        if (when_full != WEFT_BLOCK) {
            gate_shut(&gate);
            gate_fill(&gate, pool, 2);
        }
        copy_all(pool, rounds);
        if (when_full != WEFT_BLOCK)
            gate_open(&gate);
        pool_close(pool);
        for (size_t size = 1; size <= WEFT_COPY_MAX; size++)
            CHECK_EQ(atomic_u32_load_acquire(&copies.seen[size]), rounds);
    }
}

static void arguments_are_copied(void)
{
    everywhere(check_copies);
}

static void check_invoke(void *arg)
{
    static struct gate gate;
    (void)arg;
    gate_shut(&gate);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = 2, .function = gate_task});
    CHECK_EQ(weft_pool_invoke(pool, &gate), 0);
    CHECK_EQ(weft_pool_try_invoke(pool, &gate), 0);
    await(&gate.gauge.now, 2);
    CHECK_EQ(weft_pool_try_invoke(pool, &gate), -EAGAIN);
    CHECK_EQ(weft_pool_invoke_until(pool, &gate, weft_after(WEFT_MS)), -ETIMEDOUT);
    gate_open(&gate);
    CHECK_EQ(weft_pool_invoke_until(pool, &gate, WEFT_NEVER), 0);
    atomic_u32_store_relaxed(&ran, 0);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0); /* others as well */
    pool_close(pool);
    CHECK_EQ(gauge_total(&gate.gauge), 3);
    CHECK_EQ(atomic_u32_load_acquire(&ran), 1);
}

static void a_function_may_be_bound(void)
{
    everywhere(check_invoke);
}

/* Batches. */

static void note_batch(void *arg)
{
    line.order[atomic_u32_add_seq_cst(&line.length, 1)] = *(int *)arg;
}

static void check_batch(void *arg)
{
    static struct gate gate;
    void *args[LINE];
    (void)arg;
    for (int i = 0; i < LINE; i++) {
        line.number[i] = i;
        args[i] = &line.number[i];
    }
    weft_pool_options options = {
        .capacity = 1, .queue = 4, .function = note_batch, .when_full = WEFT_REJECT};
    for (int blocks = 0; blocks < 2; blocks++) {
        atomic_u32_store_relaxed(&line.length, 0);
        options.when_full = blocks ? WEFT_BLOCK : WEFT_REJECT;
        weft_pool *pool = pool_open(options);
        gate_shut(&gate);
        gate_fill(&gate, pool, 1);
        int64_t deadline = blocks ? weft_after(WEFT_MS) : WEFT_NEVER;
        CHECK_EQ(weft_pool_submit_batch(pool, note_batch, args, LINE, deadline), 4);
        if (blocks)
            CHECK(weft_now() >= deadline);
        CHECK_EQ(weft_pool_submit_batch(pool, note_batch, args, LINE, deadline),
                 blocks ? -ETIMEDOUT : -EAGAIN);
        gate_open(&gate);
        await_completed(pool, 5);
        if (blocks) /* waits as often as need be; the pool's own function */
            CHECK_EQ(weft_pool_submit_batch(pool, NULL, args + 4, LINE - 4, WEFT_NEVER), LINE - 4);
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        CHECK_EQ(weft_pool_submit_batch(pool, note_batch, args, LINE, WEFT_NEVER), -ESHUTDOWN);
        CHECK_EQ(pool_stats(pool).completed, blocks ? LINE + 1 : 5);
        pool_close(pool);
        uint32_t length = atomic_u32_load_acquire(&line.length);
        CHECK_EQ(length, blocks ? LINE : 4);
        for (int i = 0; i < (int)length; i++)
            CHECK_EQ(line.order[i], i);
    }
}

static void a_batch_goes_as_far_as_it_can(void)
{
    everywhere(check_batch);
}

/* Who submits: fibers, threads, tasks. */

static struct {
    weft_pool *pool;
    int64_t each;
    struct gauge gauge;
    atomic_u32 children;
} crowd;

static void child(void *arg)
{
    (void)arg;
    weft_yield();
    atomic_u32_add_seq_cst(&crowd.children, 1);
}

static void parent(void *arg)
{
    gauge_enter(&crowd.gauge);
    if (arg != NULL)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    gauge_leave(&crowd.gauge);
    CHECK_EQ(weft_pool_submit(crowd.pool, child, NULL), 0);
}

static void submit_parents(void *arg)
{
    for (int64_t i = 0; i < crowd.each; i++)
        CHECK_EQ(weft_pool_submit(crowd.pool, parent, i % 8 == 0 ? arg : NULL), 0);
}

static void anybody_may_submit(void)
{
    enum { MANY = 8 };
    struct body bodies[MANY];
    static char waits;
    crowd.each = test_scale(2000);
    for (int64_t queue = 0; queue <= 100; queue += 100) {
        memset(&crowd.gauge, 0, sizeof crowd.gauge);
        atomic_u32_store_relaxed(&crowd.children, 0);
        crowd.pool = pool_open((weft_pool_options){.capacity = 4, .queue = queue});
        for (int i = 0; i < MANY; i++)
            bodies[i] =
                (struct body){.function = submit_parents, .arg = &waits, .thread = i % 2 == 0};
        bodies_run(bodies, MANY);
        pool_close(crowd.pool);
        CHECK_EQ(gauge_total(&crowd.gauge), MANY * crowd.each);
        CHECK_EQ(atomic_u32_load_acquire(&crowd.children), MANY * crowd.each);
        CHECK(gauge_most(&crowd.gauge) <= 4);
    }
}

int main(void)
{
    RUN_PLAIN(nonsense_is_refused, "nothing waits");
    RUN_BOTH(no_more_run_than_the_capacity);
    RUN_BOTH(as_many_run_as_the_capacity);
    RUN_PLAIN(tasks_that_compute_share_the_processors,
              "holds a processor while others run on another one");
    RUN_BOTH(the_default_is_ten_thousand);
    RUN_PLAIN(unlimited_has_no_limit, "too much for many runs");
    RUN_BOTH(full_rejects);
    RUN_BOTH(full_is_run_by_the_caller);
    RUN_BOTH(full_drops_the_newest);
    RUN_BOTH(full_drops_the_oldest);
    RUN_PLAIN(the_oldest_may_be_behind_a_task_that_computes,
              "holds a processor while others run on another one");
    RUN_BOTH(drops_are_told_exactly_once);
    RUN_BOTH(full_lets_the_submitter_wait);
    RUN_BOTH(so_many_may_wait_and_no_more);
    RUN_BOTH(a_wait_ends_with_its_deadline);
    RUN_BOTH(those_who_wait_are_served_in_turn);
    RUN_BOTH(a_wait_ends_with_its_context);
    RUN_BOTH(arguments_are_copied);
    RUN_BOTH(a_function_may_be_bound);
    RUN_BOTH(a_batch_goes_as_far_as_it_can);
    RUN_BOTH(anybody_may_submit);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
