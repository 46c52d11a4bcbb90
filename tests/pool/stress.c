/*
 * stress.c: fibers and threads submit while others tune, pause, resume, stop, reopen and abort at
 * random, for every policy: each admitted task runs exactly once, or is dropped and on_drop is
 * told exactly once; other tasks never run.
 */

#include "base/compiler.h"
#include "base/prng.h"
#include "sync/lines.h"
#include "system.h"
#include "tasks.h"

enum { SUBMITTERS = 6, EACH = 2000, CHILDREN = 2 };

enum fate { NOT_OFFERED, REFUSED, TAKEN };

/* One for each task, and its children. */
struct job {
    atomic_u32 ran, dropped;
    uint8_t fate; /* written by the submitter */
    uint32_t number;
};

static struct {
    weft_pool *pool;
    int64_t each;
    uint64_t seed;
    bool may_stop;
    struct job jobs[SUBMITTERS][EACH][1 + CHILDREN];
    atomic_u32 left;
} world;

static void run_job(void *arg);

static void offer(struct job *job, struct prng *prng)
{
    weft_submit_options options = {
        .priority = (int)prng_below(prng, 3) - 1,
        .key = prng_below(prng, 4) == 0 ? 1 + prng_below(prng, 5) : 0,
        .timeout = prng_below(prng, 3) == 0 ? prng_below(prng, 50) * WEFT_US : 0};
    int64_t deadline = options.timeout != 0 ? weft_after(options.timeout) : WEFT_NEVER;
    int error;
    switch (prng_below(prng, 4)) {
    case 0:
        error = weft_pool_try_submit(world.pool, run_job, job);
        break;
    case 1:
        error = weft_pool_submit_with(world.pool, run_job, job, &options);
        break;
    case 2: {
        void *args[1] = {job};
        int64_t count = weft_pool_submit_batch(world.pool, run_job, args, 1, deadline);
        CHECK(count != 0);
        error = count == 1 ? 0 : (int)count;
        break;
    }
    default:
        error = weft_pool_submit(world.pool, run_job, job);
        break;
    }
    CHECK(error == 0 || error == -EAGAIN || error == -ETIMEDOUT || error == -ESHUTDOWN);
    job->fate = error == 0 ? TAKEN : REFUSED;
}

static void run_job(void *arg)
{
    struct job *job = arg;
    struct prng prng;
    CHECK_EQ(atomic_u32_add_seq_cst(&job->ran, 1), 0);
    prng_seed(&prng, world.seed + job->number);
    switch (prng_below(&prng, 16)) {
    case 0:
        CHECK_EQ(weft_sleep(prng_below(&prng, 20) * WEFT_US), 0);
        break;
    case 1:
        weft_yield();
        break;
    case 2:
        if (job->number % (1 + CHILDREN) == 0)
            for (int i = 1; i <= CHILDREN; i++)
                offer(job + i, &prng);
        break;
    default:
        break;
    }
}

static void drop_job(void (*function)(void *), void *arg, void *data)
{
    struct job *job = arg;
    CHECK(function == run_job);
    CHECK_PTR(data, &world);
    CHECK_EQ(atomic_u32_add_seq_cst(&job->dropped, 1), 0);
}

static void submit_jobs(void *arg)
{
    struct prng prng;
    uintptr_t number = (uintptr_t)arg;
    prng_seed(&prng, world.seed + 1000 + number);
    for (int64_t i = 0; i < world.each; i++) {
        offer(&world.jobs[number][i][0], &prng);
        if (prng_below(&prng, 64) == 0)
            weft_yield();
    }
    atomic_u32_sub_seq_cst(&world.left, 1);
}

static void disturb_once(struct prng *prng)
{
    weft_pool *pool = world.pool;
    switch (prng_below(prng, 9)) {
    case 0:
        CHECK_EQ(weft_pool_pause(pool), 0);
        break;
    case 1:
        CHECK(weft_pool_abort(pool) >= 0);
        break;
    case 2:
        if (world.may_stop && weft_pool_stop(pool, weft_after(100 * WEFT_US)) == -ETIMEDOUT)
            CHECK_EQ(weft_pool_stop(pool, WEFT_NEVER), 0);
        if (world.may_stop)
            CHECK_EQ(weft_pool_reopen(pool), 0);
        break;
    case 3:
    case 4:
        CHECK_EQ(weft_pool_tune(pool, 1 + prng_below(prng, 10)), 0);
        break;
    case 5:
        CHECK_EQ(weft_pool_tune_queue(pool, prng_below(prng, 60)), 0);
        break;
    default:
        CHECK_EQ(weft_pool_resume(pool), 0);
        break;
    }
    (void)pool_stats(pool);
}

/* Until all have submitted; a pool that is paused is resumed in the end. */
static void disturb(void *arg)
{
    struct prng prng;
    prng_seed(&prng, world.seed + 2000 + (uintptr_t)arg);
    while (count_of(&world.left) > 0) {
        disturb_once(&prng);
        CHECK_EQ(weft_sleep(prng_below(&prng, 100) * WEFT_US), 0);
    }
    CHECK_EQ(weft_pool_resume(world.pool), 0);
}

static void check_job(const struct job *job, int64_t *taken, int64_t *drops, int64_t *refused)
{
    uint32_t ran = count_of(&job->ran);
    uint32_t dropped = count_of(&job->dropped);
    CHECK_EQ(ran + dropped, job->fate == TAKEN);
    *taken += job->fate == TAKEN;
    *drops += dropped;
    *refused += job->fate == REFUSED;
}

static void check_world(void)
{
    int64_t taken = 0, drops = 0, refused = 0;
    for (int i = 0; i < SUBMITTERS; i++)
        for (int64_t j = 0; j < world.each; j++)
            for (int k = 0; k <= CHILDREN; k++)
                check_job(&world.jobs[i][j][k], &taken, &drops, &refused);
    weft_pool_stats stats = pool_stats(world.pool);
    CHECK_STATS(stats, IS(submitted, taken), IS(dropped, drops), IS(rejected, refused),
                IS(completed, taken - drops));
    CHECK_EQ(stats.running + stats.starting + stats.queued, 0);
    CHECK_EQ(stats.blocked + stats.workers + stats.idle, 0);
}

static void run_world(weft_pool_options options)
{
    struct body bodies[SUBMITTERS + 1];
    memset(world.jobs, 0, sizeof world.jobs);
    for (int i = 0; i < SUBMITTERS; i++)
        for (int j = 0; j < EACH; j++)
            for (int k = 0; k <= CHILDREN; k++)
                world.jobs[i][j][k].number = (uint32_t)((i * EACH + j) * (1 + CHILDREN) + k);
    options.on_drop = drop_job;
    options.data = &world;
    world.pool = pool_open(options);
    atomic_u32_store_relaxed(&world.left, SUBMITTERS);
    for (int i = 0; i < SUBMITTERS; i++)
        bodies[i] = (struct body){
            .function = submit_jobs, .arg = (void *)(uintptr_t)i, .thread = i % 2 == 0};
    bodies[SUBMITTERS] = (struct body){.function = disturb, .thread = world.seed % 2 == 0};
    bodies_run(bodies, SUBMITTERS + 1);
    CHECK_EQ(weft_pool_stop(world.pool, WEFT_NEVER), 0);
    check_world();
    pool_close(world.pool);
}

static void run_policies(void *arg)
{
    for (int policy = WEFT_BLOCK; policy <= WEFT_DROP_OLDEST; policy++) {
        weft_pool_options options = {.capacity = 3,
                                     .queue = world.seed % 3 * 20,
                                     .when_full = policy,
                                     .reuse = (int)(world.seed % 2),
                                     .keep = (int64_t)(world.seed % 3),
                                     .prestart = policy == WEFT_REJECT,
                                     .expiry = world.seed % 2 == 0 ? 10 * WEFT_US : 0,
                                     .shrink = world.seed % 4 == 0 ? 2 : 0};
        world.may_stop = true;
        world.seed++;
        run_world(options);
    }
}

static void run_all(void)
{
    world.each = test_scale(EACH) < EACH ? test_scale(EACH) : EACH;
    run_policies(NULL);
    for (int round = 0; round < 2; round++)
        for (int processors = 1; processors <= 3; processors++)
            with_processors(processors, run_policies, NULL);
}

static void each_task_runs_or_is_dropped_once(void)
{
    world.seed = 1;
    run_all();
}

static void and_nothing_grows(void)
{
    size_t before = heap_in_use();
    run_all();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    size_t after = heap_in_use();
    printf("  memory in use: %zu before, %zu after\n", before, after);
    if (!WEFT_ASAN && !WEFT_TSAN) /* they have allocators of their own, and look for leaks */
        CHECK(after < before + 64 * 1024);
}

int main(void)
{
    RUN_BOTH(each_task_runs_or_is_dropped_once);
    RUN_PLAIN(and_nothing_grows, "stops or configures the runtime");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
