/*
 * flow.c: threads that submit faster than a large pool gets on: they nap in line (pool/submit.c).
 *
 * Whether a thread naps depends on how fast tasks end; what must hold does not: each task that was
 * admitted runs once, each submitter's tasks begin in their order, nobody is left in line, and a close
 * turns those away that nap.
 */
#include "tasks.h"

enum { THREADS = 3, EACH = 40000, CAPACITY = 1000 };

struct feeder {
    pthread_t thread;
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

static void *feed(void *arg)
{
    struct feeder *feeder = arg;
    while (!atomic_u32_load_acquire(feeder->begin))
        sched_yield();
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
    return NULL;
}

static struct feeder feeders[THREADS];
static atomic_u32 begin;

static weft_pool *start_feeding(int64_t deadline)
{
    weft_pool *pool = pool_open((weft_pool_options){.capacity = CAPACITY});
    atomic_u32_store_release(&begin, 0);
    for (int i = 0; i < THREADS; i++) {
        feeders[i] = (struct feeder){.pool = pool, .begin = &begin, .deadline = deadline};
        CHECK_EQ(pthread_create(&feeders[i].thread, NULL, feed, &feeders[i]), 0);
    }
    atomic_u32_store_release(&begin, 1);
    return pool;
}

static int64_t finish_feeding(void)
{
    int64_t admitted = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(feeders[i].thread, NULL), 0);
        admitted += feeders[i].admitted;
    }
    return admitted;
}

static void check_feeders(void)
{
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(atomic_u64_load_acquire(&feeders[i].ran), feeders[i].admitted);
}

static void all_run_in_order(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    weft_pool *pool = start_feeding(0);
    CHECK_EQ(finish_feeding(), (int64_t)THREADS * EACH);
    pool_close(pool);
    check_feeders();
    for (int i = 0; i < THREADS; i++)
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
    CHECK_EQ(stats.rejected, (int64_t)THREADS * EACH - admitted);
    CHECK_EQ(stats.blocked, 0);
    pool_close(pool);
    check_feeders();
}

/* The pool is stopped while all are at it, again and again at another moment. */
static void a_stop_turns_them_away(void)
{
    for (int64_t i = 0; i < 10; i++) {
        weft_pool *pool = start_feeding(0);
        while (pool_stats(pool).completed < i * 997)
            sched_yield();
        CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        int64_t admitted = finish_feeding();
        weft_pool_stats stats = pool_stats(pool);
        CHECK_EQ(stats.completed, admitted);
        CHECK_EQ(stats.blocked, 0);
        pool_close(pool);
        check_feeders();
    }
}

int main(void)
{
    RUN_PLAIN(all_run_in_order, "about plain threads");
    RUN_PLAIN(deadlines_pass_in_a_nap, "about plain threads");
    RUN_PLAIN(a_stop_turns_them_away, "about plain threads");
    return 0;
}
