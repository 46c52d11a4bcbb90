/*
 * flow.c: threads and fibers that submit faster than a large pool gets on: they nap in line (pool/submit.c).
 *
 * Whether one naps depends on how fast tasks end; what must hold does not: each task that was
 * admitted runs once, each submitter's tasks begin in their order, nobody is left in line, and a close
 * turns those away that nap.
 */
#include "pool/pool.h"
#include "tasks.h"

enum { FEEDERS = 3, EACH = 40000, CAPACITY = 1000 };

struct feeder {
    pthread_t thread;
    weft_fiber *fiber; /* NULL: it is a thread */
    weft_pool *pool;
    int64_t admitted;  /* how many of its tasks */
    int64_t deadline;  /* of each submit, from its beginning; 0: none */
    atomic_u32 *begin; /* when they all are to start */
    atomic_u64 ran;    /* counted by the tasks */
    atomic_u64 out_of_turn;
    atomic_u64 last; /* number that began */
};

struct item {
    struct feeder *feeder;
    uint64_t number;
};

/* The tasks of a pool of one processor, which no other thread takes over, begin one after the other. */
static void nap_task(void *arg)
{
    const struct item *item = arg;
    if (item->number < atomic_u64_load_relaxed(&item->feeder->last))
        atomic_u64_add_acq_rel(&item->feeder->out_of_turn, 1);
    atomic_u64_store_relaxed(&item->feeder->last, item->number);
    atomic_u64_add_acq_rel(&item->feeder->ran, 1);
    CHECK_EQ(weft_sleep(2 * WEFT_MS), 0);
}

static void pass(void)
{
    if (weft_self() != NULL)
        weft_yield();
    else
        sched_yield();
}

static void feed(void *arg)
{
    struct feeder *feeder = arg;
    while (!atomic_u32_load_acquire(feeder->begin))
        pass();
    for (uint64_t i = 0; i < EACH; i++) {
        struct item item = {feeder, i};
        weft_submit_options options = {.copy = sizeof item};
        if (feeder->deadline != 0)
            options.deadline = weft_after(feeder->deadline);
        int error = weft_pool_submit_with(feeder->pool, nap_task, &item, &options);
        if (error == -ESHUTDOWN)
            break;
        CHECK(error == 0 || (feeder->deadline != 0 && error == -ETIMEDOUT));
        feeder->admitted += error == 0;
    }
}

static void *feed_as_thread(void *arg)
{
    feed(arg);
    return NULL;
}

static struct feeder feeders[FEEDERS];
static atomic_u32 begin;
static int fibers; /* so many of them are */

static weft_pool *start_feeding(int64_t deadline)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = CAPACITY});
    atomic_u32_store_release(&begin, 0);
    for (int i = 0; i < FEEDERS; i++) {
        feeders[i] = (struct feeder){.pool = pool, .begin = &begin, .deadline = deadline};
        if (i < fibers)
            CHECK_EQ(weft_spawn(&feeders[i].fiber, feed, &feeders[i], NULL), 0);
        else
            CHECK_EQ(pthread_create(&feeders[i].thread, NULL, feed_as_thread, &feeders[i]), 0);
    }
    atomic_u32_store_release(&begin, 1);
    return pool;
}

static int64_t finish_feeding(void)
{
    int64_t admitted = 0;
    for (int i = 0; i < FEEDERS; i++) {
        if (feeders[i].fiber != NULL)
            CHECK_EQ(weft_join(feeders[i].fiber), 0);
        else
            CHECK_EQ(pthread_join(feeders[i].thread, NULL), 0);
        admitted += feeders[i].admitted;
    }
    return admitted;
}

static void check_feeders(void)
{
    for (int i = 0; i < FEEDERS; i++)
        CHECK_EQ(atomic_u64_load_acquire(&feeders[i].ran), feeders[i].admitted);
}

static void check_nobody_waits(weft_pool *pool)
{
    CHECK_EQ(pool_stats(pool).blocked, 0);
    latch_acquire(&pool->latch);
    int64_t napping = pool->napping;
    latch_release(&pool->latch);
    CHECK_EQ(napping, 0);
}

static void all_run_in_order(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    weft_pool *pool = start_feeding(0);
    CHECK_EQ(finish_feeding(), (int64_t)FEEDERS * EACH);
    check_nobody_waits(pool);
    pool_close(pool);
    check_feeders();
    for (int i = 0; i < FEEDERS; i++)
        CHECK_EQ(atomic_u64_load_acquire(&feeders[i].out_of_turn), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

static void deadlines_pass_in_a_nap(void)
{
    weft_pool *pool = start_feeding(20 * WEFT_US);
    int64_t admitted = finish_feeding();
    weft_pool_stats stats = pool_stats(pool);
    CHECK_EQ(stats.submitted, admitted);
    CHECK_EQ(stats.rejected, (int64_t)FEEDERS * EACH - admitted);
    check_nobody_waits(pool);
    pool_close(pool);
    check_feeders();
}

/* The pool is stopped while all are at it, again and again at another moment. */
static void a_stop_turns_them_away(void)
{
    for (int64_t i = 0; i < 4; i++) {
        weft_pool *pool = start_feeding(0);
        while (pool_stats(pool).completed < i * 997)
            sched_yield();
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        int64_t admitted = finish_feeding();
        weft_pool_stats stats = pool_stats(pool);
        CHECK_EQ(stats.completed, admitted);
        check_nobody_waits(pool);
        pool_close(pool);
        check_feeders();
    }
}

/* A worker has ended some tasks, and is in one that does not let go until the submitter goes on: it does not look, so the submitter
 * itself must, when its nap is over. There is no monitor, which is the second thread to be started, to do so for it. */

enum { ENDED = 50 };

static bool went_on;

static void end_at_once(void *arg)
{
    (void)arg;
}

static void hold_on(void *arg)
{
    (void)arg;
    while (!went_on)
        weft_yield();
}

/* As if 100 had ended in the last tenth of a millisecond. */
static void let_it_nap(weft_pool *pool)
{
    latch_acquire(&pool->latch);
    pool->flow_at = weft_now() - WEFT_MS / 10;
    pool->flow_ended = pool->stats.completed - 100;
    latch_release(&pool->latch);
}

static void submit_beyond(void *arg)
{
    weft_pool *pool = arg;
    for (int i = 0; i < ENDED; i++)
        CHECK_EQ(weft_pool_submit(pool, end_at_once, NULL), 0);
    for (int i = ENDED; i < CAPACITY; i++)
        CHECK_EQ(weft_pool_submit(pool, hold_on, NULL), 0);
    let_it_nap(pool);
    CHECK_EQ(weft_pool_submit(pool, hold_on, NULL), 0);
    went_on = true;
}

static void on_one_thread(void (*function)(void *))
{
    weft_fiber *fiber;
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    weft__sys_fail(SYS_THREAD, 2, true);
    weft_pool *pool = pool_open((weft_pool_options){.capacity = CAPACITY, .expiry = WEFT_NEVER});
    CHECK_EQ(weft_spawn(&fiber, function, pool, NULL), 0);
    CHECK_EQ(weft_join(fiber), 0);
    pool_close(pool);
    weft__sys_fail(SYS_THREAD, 0, false);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

static void a_nap_ends_by_itself(void)
{
    on_one_thread(submit_beyond);
}

/* Tasks are ready, and each of them waits: who rests is not called for them while a fiber naps, but when its nap is over. */

enum { WAITING = 20, ROUNDS = 1000 };

static struct gate first, second;
static bool submitted, nap_seen;

static void watch_nap(void *arg)
{
    weft_pool *pool = arg;
    for (; !submitted; weft_yield()) {
        latch_acquire(&pool->latch);
        CHECK(!pool->put_off || atomic_u32_load_acquire(&second.gauge.now) <= 1);
        nap_seen |= pool->put_off;
        latch_release(&pool->latch);
    }
}

static void open_when_all_wait(void *arg)
{
    (void)arg;
    await(&second.gauge.now, WAITING);
    gate_open(&second);
}

static void submit_ready(void *arg)
{
    weft_pool *pool = arg;
    weft_fiber *watcher, *opener;
    gate_shut(&first);
    gate_shut(&second);
    gate_fill(&first, pool, CAPACITY - WAITING);
    gate_fill(&second, pool, WAITING);
    gate_open(&second);
    while (pool_stats(pool).running > CAPACITY - WAITING || pool_stats(pool).idle < WAITING)
        weft_yield();
    gate_shut(&second);
    submitted = false;
    CHECK_EQ(weft_spawn(&watcher, watch_nap, pool, NULL), 0);
    for (int i = 0; i < WAITING; i++)
        CHECK_EQ(weft_pool_submit(pool, gate_task, &second), 0);
    CHECK_EQ(weft_spawn(&opener, open_when_all_wait, NULL, NULL), 0);
    let_it_nap(pool);
    CHECK_EQ(weft_pool_submit(pool, end_at_once, NULL), 0);
    submitted = true;
    CHECK_EQ(weft_join(watcher), 0);
    CHECK_EQ(weft_join(opener), 0);
    gate_open(&first);
}

static void who_rests_is_called_after_a_nap(void)
{
    /* Where all is slow the nap is over before another has its turn, and who napped goes first. */
    for (int round = 0; round < ROUNDS && !nap_seen; round++)
        on_one_thread(submit_ready);
    CHECK(nap_seen);
}

int main(void)
{
    for (fibers = 0; fibers <= FEEDERS; fibers++) {
        RUN_PLAIN(all_run_in_order, "about plain threads");
        RUN_PLAIN(deadlines_pass_in_a_nap, "about plain threads");
        RUN_PLAIN(a_stop_turns_them_away, "about plain threads");
    }
    RUN_PLAIN(a_nap_ends_by_itself, "stops or configures the runtime");
    RUN_PLAIN(who_rests_is_called_after_a_nap, "stops or configures the runtime");
    return 0;
}
