/*
 * workers.c: the workers of a pool: made when needed, reused in order, ended in time, each with a
 * state of its own.
 */
#include <weft/weft.h>

#include "sync/lines.h"
#include "tasks.h"

static void short_tasks_need_few_workers(void *arg)
{
    atomic_u32 ran = {0};
    int64_t count = test_scale(300000);
    weft_pool *pool = POOL_OPEN(.queue = 1000);
    submit_counts(pool, &ran, count);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), count);
    CHECK(pool_stats(pool).most_workers <= weft_processors() + 2);
    pool_close(pool);
}

/* A worker whose task has waited takes the next tasks by the chunk, and the first of those waits
 * too: the tasks behind it do not wait for it. With any number of tasks, since it depends on the
 * schedule how many the worker takes. */
static void those_behind_one_that_waits_run(void *arg)
{
    enum { MOST = 64 };
    for (int tasks = 1; tasks <= MOST; tasks++) {
        struct gate first, rest;
        void *rests[MOST];
        gate_shut(&first);
        gate_shut(&rest);
        for (int i = 0; i < tasks; i++)
            rests[i] = &rest;
        weft_pool *pool = POOL_OPEN(.capacity = 1 + MOST);
        gate_fill(&first, pool, 1);
        gate_open(&first);
        CHECK_EQ(weft_pool_submit_batch(pool, gate_task, rests, tasks, WEFT_NOW), tasks);
        await_at_gate(&rest, (uint32_t)tasks);
        gate_open_and_close(&rest, pool);
    }
}

/* The state of a worker. */

enum { WORKERS_MOST = 64 };

/* One worker that started; its address is the state. */
struct life {
    atomic_u32 exits, tasks;
    int64_t busy_until; /* when its last task ended */
    int64_t ended;
};

static struct {
    struct life lives[WORKERS_MOST];
    atomic_u32 starts, exits, tries, failures;
    atomic_u32 to_fail; /* so many starts fail first */
    atomic_u32 lines;   /* given to log */
    int data;
} crew;

static void crew_clear(void)
{
    memset(&crew, 0, sizeof crew);
}

static int crew_start(void **state, void *data)
{
    CHECK_PTR(data, &crew.data);
    CHECK_PTR(*state, NULL);
    CHECK_PTR(weft_pool_worker_state(), NULL); /* no task runs yet */
    uint32_t number = atomic_u32_add_seq_cst(&crew.tries, 1);
    if (number < count_of(&crew.to_fail)) {
        atomic_u32_add_seq_cst(&crew.failures, 1);
        *state = &crew; /* of no meaning, since it fails */
        return -ECONNREFUSED;
    }
    number = atomic_u32_add_seq_cst(&crew.starts, 1);
    CHECK(number < WORKERS_MOST);
    *state = &crew.lives[number];
    return 0;
}

static void crew_exit(void *state, void *data)
{
    struct life *life = state;
    CHECK_PTR(data, &crew.data);
    CHECK_EQ(atomic_u32_add_seq_cst(&life->exits, 1), 0);
    life->ended = weft_now();
    atomic_u32_add_seq_cst(&crew.exits, 1);
}

static void crew_log(const char *line, void *data)
{
    CHECK_PTR(data, &crew.data);
    CHECK(strstr(line, weft_strerror(-ECONNREFUSED)) != NULL);
    CHECK(strchr(line, '\n') == NULL);
    atomic_u32_add_seq_cst(&crew.lines, 1);
}

static weft_pool_options crew_options(int64_t capacity, int64_t expiry)
{
    crew_clear();
    return (weft_pool_options){.capacity = capacity,
                               .queue = WEFT_UNLIMITED,
                               .expiry = expiry,
                               .on_worker_start = crew_start,
                               .on_worker_exit = crew_exit,
                               .log = crew_log,
                               .data = &crew.data};
}

/* Every start has had its exit, and no worker another's. */
static void crew_check_paired(void)
{
    uint32_t starts = count_of(&crew.starts);
    CHECK_EQ(count_of(&crew.exits), starts);
    for (uint32_t i = 0; i < starts; i++)
        CHECK_EQ(count_of(&crew.lives[i].exits), 1);
}

/* A task that waits, and one that does not. */

static void note_worker(void *place)
{
    struct life *life = weft_pool_worker_state();
    CHECK(life >= crew.lives && life < crew.lives + count_of(&crew.starts));
    atomic_u32_add_relaxed(&life->tasks, 1);
    *(struct life **)place = life;
    life->busy_until = weft_now();
}

struct held {
    struct gate gate;
    struct life *life;
};

static void hold_worker(void *arg)
{
    struct held *held = arg;
    gate_task(&held->gate);
    note_worker(&held->life); /* the same as before it waited, or the checks of exits fail */
}

/* A pool with `count` workers, each with a task of its own that waits. */
static weft_pool *hold_workers(weft_pool_options options, struct held *held, int count)
{
    for (;;) {
        weft_pool *pool = pool_open(options);
        for (int i = 0; i < count; i++) {
            gate_shut(&held[i].gate);
            CHECK_EQ(weft_pool_submit(pool, hold_worker, &held[i]), 0);
            await_at_gate(&held[i].gate, 1);
        }
        if (pool_stats(pool).workers == count)
            return pool;
        /* One was made for a task that another took first: not this time. */
        for (int i = 0; i < count; i++)
            gate_open(&held[i].gate);
        pool_close(pool);
        crew_clear();
    }
}

/* They become idle in that order. */
static void free_in_order(weft_pool *pool, struct held *held, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        gate_open(&held[order[i]].gate);
        AWAIT_FIGURE(pool, idle, i + 1);
    }
}

static void each_worker_has_its_state(void *arg)
{
    weft_pool_options options = crew_options(8, WEFT_NEVER);
    struct held held[8];
    static const int order[] = {0, 1, 2, 3, 4, 5, 6, 7};
    weft_pool *pool = hold_workers(options, held, 8);
    CHECK_EQ(count_of(&crew.starts), 8);
    CHECK_EQ(count_of(&crew.exits), 0);
    free_in_order(pool, held, order, 8);
    for (int i = 0; i < 8; i++)
        for (int other = 0; other < i; other++)
            CHECK(held[i].life != held[other].life);
    CHECK_PTR(weft_pool_worker_state(), NULL); /* this is none */
    pool_close(pool);
    CHECK_EQ(count_of(&crew.starts), 8);
    crew_check_paired();
}

static void starts_and_exits_are_paired(void)
{
    for (int reopen = 0; reopen < 2; reopen++) {
        weft_pool_options options = crew_options(16, 100 * WEFT_US); /* they come and go */
        weft_pool *pool = pool_open(options);
        enum { ROUNDS = 3 };
        struct life *life[ROUNDS][100];
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < 100; i++)
                CHECK_EQ(weft_pool_submit(pool, note_worker, &life[round][i]), 0);
            if (round == 1)
                AWAIT_FIGURE(pool, workers, 0);
            if (round == 1 && reopen) {
                CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
                crew_check_paired();
                CHECK_EQ(weft_pool_reopen(pool), 0);
            }
            if (round == 2)
                CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        }
        crew_check_paired();
        pool_close(pool);
    }
}

static void a_worker_that_cannot_start_is_tried_again(void)
{
    weft_pool_options options = crew_options(4, 0);
    atomic_u32_store_relaxed(&crew.to_fail, 2);
    weft_pool *pool = pool_open(options);
    struct life *life = NULL;
    CHECK_EQ(weft_pool_submit(pool, note_worker, &life), 0);
    pool_close(pool);
    CHECK(life != NULL); /* it has run */
    CHECK_EQ(count_of(&crew.failures), 2);
    CHECK_EQ(count_of(&crew.lines), 2);
    crew_check_paired(); /* a start that failed has no exit */
}

/* As with a database that allows two connections: two workers do the work. */

static atomic_u32 connections;

static int connect_two(void **state, void *data)
{
    if (atomic_u32_add_seq_cst(&connections, 1) < 2)
        return 0;
    atomic_u32_add_seq_cst(&crew.failures, 1);
    return -ECONNREFUSED;
}

static void workers_that_cannot_start_hold_no_task_back(void *arg)
{
    crew_clear();
    atomic_u32_store_relaxed(&connections, 0);
    struct gate gate;
    gate_shut(&gate);
    weft_pool *pool =
        POOL_OPEN(.capacity = 10, .queue = 100, .on_worker_start = connect_two, .log = ignore_line);
    submit_many(pool, gate_task, &gate, 20);
    await_at_gate(&gate, 2);
    while (count_of(&crew.failures) == 0)
        CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
    gate_open(&gate);
    await_at_gate(&gate, 20); /* by the two workers, while others still try */
    pool_close(pool);
}

static int never_connect(void **state, void *data)
{
    count_task(&crew.failures);
    return -ECONNREFUSED;
}

static void no_exit(void *state, void *data)
{
    CHECK(!"a worker ends that has not started");
}

static void a_pool_without_workers_can_be_closed(void *arg)
{
    for (int aborted = 0; aborted < 2; aborted++) {
        crew_clear();
        weft_pool *pool = POOL_OPEN(.capacity = 4, .queue = 10, .prestart = !aborted,
                                    .on_worker_start = never_connect, .on_worker_exit = no_exit,
                                    .log = ignore_line);
        atomic_u32 ran = {0};
        if (aborted)
            CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
        while (count_of(&crew.failures) == 0)
            CHECK_EQ(weft_sleep(50 * WEFT_US), 0);
        if (aborted)
            CHECK_EQ(weft_pool_abort(pool), 1);
        pool_close(pool);
        CHECK_EQ(count_of(&ran), 0);
    }
}

/* Calls that would wait for themselves. */

static struct {
    weft_pool *pool;
    atomic_u32 started, ended;
} hooks;

static void try_to_end(void)
{
    CHECK_EQ(weft_pool_close(hooks.pool), -EDEADLK);
    CHECK_EQ(weft_pool_close_until(hooks.pool, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_pool_stop(hooks.pool, WEFT_NEVER), -EDEADLK);
    CHECK_EQ(weft_pool_wait(hooks.pool, WEFT_NEVER), -EDEADLK);
}

static int start_and_end(void **state, void *data)
{
    if (hooks.pool != NULL)
        try_to_end();
    count_task(&hooks.started);
    return 0;
}

static void exit_and_end(void *state, void *data)
{
    try_to_end();
    count_task(&hooks.ended);
}

static void end_in_task(void *arg)
{
    try_to_end();
}

static void no_worker_waits_for_its_own_end(void *arg)
{
    memset(&hooks, 0, sizeof hooks);
    hooks.pool =
        POOL_OPEN(.capacity = 2, .on_worker_start = start_and_end, .on_worker_exit = exit_and_end);
    CHECK_EQ(weft_pool_submit(hooks.pool, end_in_task, NULL), 0);
    pool_close(hooks.pool);
    CHECK(count_of(&hooks.started) >= 1);
    CHECK_EQ(count_of(&hooks.ended), count_of(&hooks.started));
}

static void which_is_reused(int reuse, const int *expected)
{
    enum { WORKERS = 4, TASKS = 8 };
    weft_pool_options options = crew_options(WORKERS, WEFT_NEVER);
    options.reuse = reuse;
    struct held held[WORKERS];
    static const int order[] = {2, 0, 3, 1};
    weft_pool *pool = hold_workers(options, held, WORKERS);
    free_in_order(pool, held, order, WORKERS);
    for (int i = 0; i < TASKS; i++) {
        struct life *life = NULL;
        CHECK_EQ(weft_pool_submit(pool, note_worker, &life), 0);
        AWAIT_FIGURE(pool, completed, WORKERS + i + 1);
        AWAIT_FIGURE(pool, idle, WORKERS);
        CHECK_PTR(life, held[expected[i]].life);
    }
    pool_close(pool);
    crew_check_paired();
}

static void lifo_takes_the_one_that_was_busy_last(void *arg)
{
    static const int expected[] = {1, 1, 1, 1, 1, 1, 1, 1};
    which_is_reused(WEFT_LIFO, expected);
}

static void fifo_takes_the_one_that_is_idle_longest(void *arg)
{
    static const int expected[] = {2, 0, 3, 1, 2, 0, 3, 1};
    which_is_reused(WEFT_FIFO, expected);
}

static void expire_after(int64_t expiry, int64_t keep)
{
    weft_pool_options options = crew_options(8, expiry);
    options.keep = keep;
    weft_pool *pool = pool_open(options);
    struct held held[8];
    for (int k = 0; k < 8; k++) {
        gate_shut(&held[k].gate);
        CHECK_EQ(weft_pool_submit(pool, hold_worker, &held[k]), 0);
    }
    for (int k = 0; k < 8; k++)
        await_at_gate(&held[k].gate, 1);
    for (int k = 0; k < 8; k++)
        gate_open(&held[k].gate);
    AWAIT_FIGURE(pool, completed, 8);
    while (pool_stats(pool).workers != keep) /* the other workers do expire */
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    CHECK_EQ(count_of(&crew.exits), count_of(&crew.starts) - keep);
    for (uint32_t k = 0; k < count_of(&crew.starts); k++)
        if (crew.lives[k].busy_until != 0 && count_of(&crew.lives[k].exits) != 0)
            CHECK(crew.lives[k].ended - crew.lives[k].busy_until >= expiry);
    pool_close(pool);
    crew_check_paired();
}

static void expiry_is_never_early(void)
{
    for (int64_t expiry = WEFT_US; expiry <= 10 * WEFT_MS; expiry *= 10) {
        expire_after(expiry, 0);
        expire_after(expiry, 2);
    }
}

static void workers_that_are_used_do_not_expire(void)
{
    weft_pool_options options = crew_options(1, 5 * WEFT_MS);
    weft_pool *pool = pool_open(options);
    int64_t begin = weft_now();
    struct life *life = NULL;
    int64_t last = begin;
    bool prompt = true; /* this thread was never away for as long as a worker may be idle */
    for (int64_t i = 0; weft_now() - begin < 20 * WEFT_MS; i++) {
        CHECK_EQ(weft_pool_submit(pool, note_worker, &life), 0);
        AWAIT_FIGURE(pool, completed, i + 1);
        int64_t now = weft_now();
        prompt = prompt && now - last < 4 * WEFT_MS;
        last = now;
    }
    CHECK(!prompt || count_of(&crew.starts) == 1);
    pool_close(pool);
}

static void never_and_keep(void)
{
    for (int never = 0; never < 2; never++) {
        weft_pool_options options = crew_options(8, never ? WEFT_NEVER : 5 * WEFT_MS);
        int64_t stay = never ? 8 : 3;
        options.keep = never ? 0 : 3;
        options.shrink = never ? 2 : 0; /* no share is ever given back */
        struct held held[8];
        weft_pool *pool = hold_workers(options, held, 8);
        for (int i = 0; i < 8; i++)
            gate_open(&held[i].gate);
        AWAIT_FIGURE(pool, workers, stay); /* so many are idle on the way to eight, too */
        AWAIT_FIGURE(pool, idle, stay);
        CHECK_EQ(weft_sleep(20 * WEFT_MS), 0); /* they could go now, and must not */
        CHECK_EQ(pool_stats(pool).workers, stay);
        CHECK_EQ(count_of(&crew.exits), 8 - stay);
        pool_close(pool);
        crew_check_paired();
    }
}

/* Which of them stay does not matter, but so many do. */
static void as_many_are_kept_when_they_take_turns(void)
{
    weft_pool_options options = crew_options(8, 5 * WEFT_MS);
    options.keep = 3;
    options.reuse = WEFT_FIFO;
    struct held held[8];
    weft_pool *pool = hold_workers(options, held, 8);
    for (int i = 0; i < 8; i++)
        gate_open(&held[i].gate);
    AWAIT_FIGURE(pool, running, 0);
    struct gate gate;
    gate_shut_and_fill(&gate, pool, 3); /* by the workers that were idle first */
    gate_open(&gate);
    AWAIT_FIGURE(pool, running, 0);
    AWAIT_FIGURE(pool, idle, 3);
    CHECK_EQ(weft_sleep(20 * WEFT_MS), 0);
    CHECK_EQ(pool_stats(pool).workers, 3);
    pool_close(pool);
    crew_check_paired();
}

static void prestarted_ones_are_there_and_stay(void)
{
    weft_pool_options options = crew_options(8, WEFT_MS);
    options.prestart = 4;
    weft_pool *pool = pool_open(options);
    CHECK_EQ(pool_stats(pool).workers, 4);
    AWAIT_FIGURE(pool, idle, 4);
    CHECK_EQ(count_of(&crew.starts), 4);
    struct held held[8];
    for (int i = 0; i < 4; i++) {
        gate_shut(&held[i].gate);
        CHECK_EQ(weft_pool_submit(pool, hold_worker, &held[i]), 0);
        await_at_gate(&held[i].gate, 1);
    }
    CHECK_EQ(count_of(&crew.starts), 4); /* no more were needed */
    for (int i = 4; i < 8; i++) {
        gate_shut(&held[i].gate);
        CHECK_EQ(weft_pool_submit(pool, hold_worker, &held[i]), 0);
        await_at_gate(&held[i].gate, 1);
    }
    for (int i = 0; i < 8; i++)
        gate_open(&held[i].gate);
    AWAIT_FIGURE(pool, workers, 4);
    CHECK_EQ(weft_sleep(5 * WEFT_MS), 0);
    CHECK_EQ(pool_stats(pool).workers, 4);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(pool_stats(pool).workers, 0);
    CHECK_EQ(weft_pool_reopen(pool), 0);
    CHECK_EQ(pool_stats(pool).workers, 4); /* again */
    pool_close(pool);
    crew_check_paired();
}

/* Giving back in shares. */

static weft_pool *shrinking;
static int64_t shrink_times[WORKERS_MOST], left_idle[WORKERS_MOST];

static void note_shrink(void *state, void *data)
{
    weft_pool_stats stats;
    CHECK_EQ(weft_pool_stats_get(shrinking, &stats), 0);
    uint32_t number = atomic_u32_add_seq_cst(&crew.exits, 1);
    CHECK(number < WORKERS_MOST);
    left_idle[number] = stats.idle;
    shrink_times[number] = weft_now();
}

/* 11 idle workers, of which 3 are kept, give back a quarter of 8, of 6, of 5 and so on, but at
 * least one. */
static void a_quarter_of_the_surplus_each_time(void)
{
    enum { WORKERS = 11, KEPT = 3, SURPLUS = WORKERS - KEPT };
    static const int periods[SURPLUS] = {1, 1, 2, 3, 4, 5, 6, 7};
    int64_t period = 5 * WEFT_MS;
    for (bool seen = false; !seen; period *= 2) {
        crew_clear();
        weft_pool_options options = weft_pool_scalable(KEPT, WORKERS, period);
        options.on_worker_exit = note_shrink;
        weft_pool *pool = shrinking = pool_open(options);
        struct gate gate;
        gate_shut(&gate);
        submit_many(pool, gate_task, &gate, WORKERS);
        await_at_gate(&gate, WORKERS);
        int64_t begin = weft_now();
        gate_open(&gate);
        /* Were all idle before the first ended? If this thread was too slow, once more. */
        int64_t idle, exits = 0;
        int times = 0;
        while ((idle = pool_stats(pool).idle) < WORKERS && exits == 0) {
            exits = count_of(&crew.exits);
            look_again(&times);
        }
        seen = idle == WORKERS;
        AWAIT_FIGURE(pool, workers, KEPT);
        for (int i = 0; i < SURPLUS; i++)
            CHECK(shrink_times[i] - begin >= periods[i] * period);
        if (seen)
            CHECK(left_idle[0] <= WORKERS - SURPLUS / 4); /* they go together */
        CHECK_EQ(weft_sleep(2 * period), 0);
        CHECK_EQ(count_of(&crew.exits), SURPLUS); /* the kept ones stay */
        CHECK_EQ(pool_stats(pool).idle, KEPT);
        pool_close(pool);
        CHECK_EQ(count_of(&crew.exits), WORKERS);
    }
}

static void the_fixed_pool(void)
{
    enum { WORKERS = 5 };
    weft_pool_options options = weft_pool_fixed(WORKERS);
    weft_pool *pool = pool_open(options);
    CHECK_EQ(pool_stats(pool).workers, WORKERS); /* up front */
    struct gate gate;
    gate_shut(&gate);
    for (int i = 0; i < 2 * WORKERS; i++) /* so many run, as many wait */
        CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), 0);
    await_at_gate(&gate, WORKERS);
    CHECK_EQ(pool_stats(pool).queued, WORKERS);
    CHECK_EQ(weft_pool_try_submit(pool, gate_task, &gate), -EAGAIN);
    CHECK_EQ(weft_pool_submit_until(pool, gate_task, &gate, weft_after(WEFT_MS)), -ETIMEDOUT);
    gate_open(&gate);
    CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), 0);
    AWAIT_FIGURE(pool, idle, WORKERS);
    CHECK_EQ(pool_stats(pool).most_workers, WORKERS);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&gate.gauge.total), 2 * WORKERS + 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0); /* once is enough, twice is no harm */
    pool_close(pool);
}

static void the_scalable_pool(void)
{
    enum { IDLE = 2, MOST = 9 };
    for (int wait = 0; wait < 2; wait++) {
        weft_pool_options options = weft_pool_scalable(IDLE, MOST, WEFT_MS);
        options.when_full = wait ? WEFT_BLOCK : WEFT_REJECT;
        weft_pool *pool = pool_open(options);
        struct gate gate;
        gate_shut(&gate);
        for (int i = 0; i < MOST; i++) {
            CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), 0);
            await_at_gate(&gate, (uint32_t)i + 1);
            CHECK(pool_stats(pool).workers <= i + 1 + weft_processors()); /* by need */
        }
        if (wait)
            CHECK_EQ(weft_pool_submit_until(pool, gate_task, &gate, weft_after(WEFT_MS)),
                     -ETIMEDOUT);
        else
            CHECK_EQ(weft_pool_submit(pool, gate_task, &gate), -EAGAIN);
        gate_open(&gate);
        AWAIT_FIGURE(pool, workers, IDLE);
        pool_close(pool);
    }
}

/* Long tasks in front of short ones. */

static struct {
    atomic_u32 begun, ran;
    uint32_t expected;
} rush;

static void compute_until_the_others_have_run(void *arg)
{
    atomic_u32_add_seq_cst(&rush.begun, 1);
    while (count_of(&rush.ran) < rush.expected)
        cpu_relax();
}

static void short_ones_run_beside_a_long_one(void *arg)
{
    enum { SHORT = 15 };
    for (int64_t round = test_scale(20); round > 0; round--) {
        weft_pool *pool = POOL_OPEN(.queue = WEFT_UNLIMITED);
        memset(&rush, 0, sizeof rush);
        rush.expected = SHORT;
        CHECK_EQ(weft_pool_pause(pool), 0);
        CHECK_EQ(weft_pool_submit(pool, compute_until_the_others_have_run, NULL), 0);
        submit_counts(pool, &rush.ran, SHORT);
        CHECK_EQ(weft_pool_resume(pool), 0);
        await_count(&rush.ran, SHORT);
        pool_close(pool);
    }
}

int main(void)
{
    RUN_EVERYWHERE(short_tasks_need_few_workers);
    RUN_EVERYWHERE(those_behind_one_that_waits_run);
    RUN_EVERYWHERE(each_worker_has_its_state);
    RUN_BOTH(starts_and_exits_are_paired);
    RUN_BOTH(a_worker_that_cannot_start_is_tried_again);
    RUN_EVERYWHERE(workers_that_cannot_start_hold_no_task_back);
    RUN_EVERYWHERE(a_pool_without_workers_can_be_closed);
    RUN_EVERYWHERE(no_worker_waits_for_its_own_end);
    RUN_BOTH(expiry_is_never_early);
    RUN_PLAIN(workers_that_are_used_do_not_expire,
              "waits until real time has passed while tasks run");
    RUN_BOTH(never_and_keep);
    RUN_BOTH(as_many_are_kept_when_they_take_turns);
    RUN_BOTH(prestarted_ones_are_there_and_stay);
    RUN_BOTH(a_quarter_of_the_surplus_each_time);
    RUN_BOTH(the_fixed_pool);
    RUN_BOTH(the_scalable_pool);
    /* One processor: with more, a second worker may be woken for a task if the first is slow. */
    with_processors(1, lifo_takes_the_one_that_was_busy_last, NULL);
    with_processors(1, fifo_takes_the_one_that_is_idle_longest, NULL);
    with_processors(2, short_ones_run_beside_a_long_one, NULL);
    return 0;
}
