/*
 * fail.c: without memory, mappings or threads the pool returns an error where it can, loses no
 * admitted task, and goes on.
 */
#include "failing.h"
#include "tasks.h"

static atomic_u32 ran;

/* For some milliseconds after the system has refused the memory of a stack no more is asked for. */
static void submit_at_last(weft_pool *pool)
{
    int error;
    while ((error = weft_pool_submit(pool, count_task, &ran)) == -ENOMEM)
        CHECK_EQ(weft_sleep(100 * WEFT_US), 0);
    CHECK_EQ(error, 0);
}

static struct {
    weft_pool_options options;
    weft_pool *pool;
    int result;
} opened;

/* Joins a thread that may wait for workers that were started and have no memory yet. */
static void join_at_last(pthread_t thread)
{
    for (int64_t pause = WEFT_MS;; pause = 20 * WEFT_MS) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        int64_t ns = until.tv_nsec + pause;
        until.tv_sec += ns / WEFT_S;
        until.tv_nsec = ns % WEFT_S;
        int error = pthread_timedjoin_np(thread, NULL, &until);
        if (error == 0)
            break;
        CHECK_EQ(error, ETIMEDOUT);
        if (pause > WEFT_MS)
            failing_off();
    }
    failing_off();
}

static void *open_there(void *arg)
{
    opened.result = weft_pool_open(&opened.pool, &opened.options);
    return NULL;
}

static void open_failing(void)
{
    pthread_t thread;
    opened.pool = POOL_POISON;
    CHECK_EQ(pthread_create(&thread, NULL, open_there, NULL), 0);
    join_at_last(thread);
    failing_check(opened.result, failing_start);
    CHECK((opened.result == 0) == (opened.pool != POOL_POISON));
    if (opened.result == 0) {
        atomic_u32_store_relaxed(&ran, 0);
        submit_at_last(opened.pool);
        pool_close(opened.pool);
        CHECK_EQ(count_of(&ran), 1);
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* nothing is left */
}

static void open_fails_cleanly(void)
{
    static const weft_pool_options all[] = {
        {.capacity = 2},
        {.capacity = 4, .prestart = 3},
        {.capacity = 4, .shrink = 4, .keep = 1},
    };
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    for (int i = 0; i < 3; i++) {
        opened.options = all[i];
        CHECK(failing_each(open_failing, 30) > 0);
    }
}

static void *reopen_there(void *arg)
{
    *(int *)arg = weft_pool_reopen(opened.pool);
    return NULL;
}

static void reopen_failing(void)
{
    enum weft__os_call call = failing.call;
    uint32_t nth = failing.nth;
    bool persistent = failing.persistent;
    failing_off();
    opened.pool = POOL_OPEN(.capacity = 4, .prestart = 2);
    CHECK_EQ(weft_pool_stop(opened.pool, WEFT_NEVER), 0);
    int result = 1;
    pthread_t thread;
    failing_on(call, nth, persistent);
    CHECK_EQ(pthread_create(&thread, NULL, reopen_there, &result), 0);
    join_at_last(thread);
    failing_check(result, failing_spawn);
    pool_close(opened.pool);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void reopen_fails_cleanly(void)
{
    CHECK(failing_each(reopen_failing, 20) > 0);
}

/* Submits to a pool without a worker: each says whether its task was admitted, and all admitted
 * tasks run. */

enum { TASKS = 60, NUMBER = 12345 };

static uint64_t number = NUMBER;

static struct {
    weft_pool_options options;
    weft_submit_options submit;
    bool in_fiber, waits;
} scene;

static void scene_task(void *arg)
{
    if (scene.waits)
        CHECK_EQ(weft_sleep(WEFT_US), 0);
    CHECK_EQ(*(uint64_t *)arg, NUMBER);
    atomic_u32_add_seq_cst(&ran, 1);
}

static struct {
    weft_pool *pool;
    uint32_t admitted;
    enum weft__os_call call;
    uint32_t nth;
    bool persistent;
} act;

static void act_submit(void *arg)
{
    failing_on(act.call, act.nth, act.persistent);
    for (int i = 0; i < TASKS; i++) {
        weft_submit_options options = scene.submit;
        options.timeout = 20 * WEFT_MS;
        int result = weft_pool_submit_with(act.pool, scene_task, &number, &options);
        if (result ==
            -ETIMEDOUT) { /* a worker was started, and waits until there is memory for it */
            failing_off();
            continue;
        }
        failing_check(result, failing_spawn);
        act.admitted += result == 0;
    }
    failing_off();
}

static void submit_failing(void)
{
    weft_fiber *fiber;
    act.call = failing.call;
    act.nth = failing.nth;
    act.persistent = failing.persistent;
    failing_off();
    atomic_u32_store_relaxed(&ran, 0);
    act.admitted = 0;
    act.pool = pool_open(scene.options);
    if (scene.in_fiber) {
        CHECK_EQ(weft_spawn(&fiber, act_submit, NULL, NULL), 0);
        CHECK_EQ(weft_join(fiber), 0);
    } else {
        act_submit(NULL);
    }
    await(&ran, act.admitted); /* no further call helps */
    submit_at_last(act.pool);
    CHECK_EQ(weft_pool_stop(act.pool, WEFT_NEVER), 0);
    CHECK_EQ(count_of(&ran), act.admitted + 1);
    CHECK_FIGURES(act.pool, IS(submitted, act.admitted + 1), IS(completed, act.admitted + 1),
                  IS(workers, 0));
    pool_close(act.pool);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void submit_loses_nothing(void)
{
    static const weft_pool_options pools[] = {
        {.capacity = 1},
        {.capacity = 4, .queue = 5},
        {.capacity = 100, .queue = WEFT_UNLIMITED, .expiry = WEFT_US},
    };
    static const weft_submit_options submits[] = {
        {.key = 0},
        {.key = 7},
        {.copy = 8},
    };
    uint32_t most = (uint32_t)test_scale(8);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 2; k++) {
                scene.options = pools[i];
                scene.submit = submits[j];
                scene.in_fiber = k == 0;
                scene.waits = (i + j + k) % 2 == 0;
                CHECK(failing_each(submit_failing, most) > 0);
            }
}

/* Without memory from then on: an error, and admitted tasks run. */

static void without_memory_submit_says_so(void *arg)
{
    uint32_t admitted = 0;
    weft_pool *pool = POOL_OPEN(.capacity = 5, .queue = 20);
    atomic_u32_store_relaxed(&ran, 0);
    failing_on(OS_ALLOC, 1, true);
    for (int i = 0; i < 10; i++) {
        int result = weft_pool_submit(pool, count_task, &ran);
        CHECK(result == 0 || result == -ENOMEM);
        admitted += result == 0;
    }
    failing_off();
    CHECK(admitted < 10);
    await(&ran, admitted);
    CHECK_EQ(pool_stats(pool).submitted, admitted);
    for (int i = 0; i < 10; i++) /* and then as if nothing had been */
        submit_at_last(pool);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), admitted + 10);
}

/* No more fibers may be made. */

enum { MANY = 30, FIBERS_MOST = 4 };

static struct {
    struct gate gate;
    struct body bodies[FIBERS_MOST];
    int64_t count;
} crowd;

static void limit_fibers(int64_t most)
{
    weft_config config = {.max_fibers = most};
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(&config), 0);
    atomic_u32_store_relaxed(&ran, 0);
}

static void unlimit_fibers(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(weft_configure(NULL), 0);
}

static void crowd_comes(int64_t count)
{
    crowd.count = count;
    gate_shut(&crowd.gate);
    for (int64_t i = 0; i < count; i++) {
        crowd.bodies[i] = (struct body){.function = gate_task, .arg = &crowd.gate};
        body_start(&crowd.bodies[i]);
    }
    await(&crowd.gate.gauge.now, (uint32_t)count);
}

static void crowd_goes(void)
{
    gate_open(&crowd.gate);
    for (int64_t i = 0; i < crowd.count; i++)
        body_join(&crowd.bodies[i]);
}

/* A pool without any worker: the submitter is told, and nothing was admitted. */
static void submit_without_workers(int64_t fibers)
{
    void *args[] = {&ran, &ran};
    weft_task *task = NULL;
    limit_fibers(fibers);
    weft_pool *pool = POOL_OPEN(.capacity = 10, .queue = WEFT_UNLIMITED);
    crowd_comes(fibers);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), -EAGAIN);
    CHECK_EQ(weft_pool_try_submit(pool, count_task, &ran), -EAGAIN);
    CHECK_EQ(weft_pool_submit_batch(pool, count_task, args, 2, WEFT_NEVER), -EAGAIN);
    CHECK_EQ(weft_task_start(&task, pool, count_handle, &ran, NULL), -EAGAIN);
    CHECK_PTR(task, NULL);
    CHECK_FIGURES(pool, IS(submitted, 0), IS(rejected, 4), IS(workers, 0));
    crowd_goes();
    submit_counts(pool, &ran, MANY); /* now there may be */
    pool_close(pool);
    CHECK_EQ(count_of(&ran), MANY);
    unlimit_fibers();
}

/* The only worker waits in its task: admitted tasks run as soon as another worker can be made,
 * without a further call. */
static void submit_behind_the_only_worker(int64_t fibers)
{
    static struct gate gate;
    limit_fibers(fibers + 1);
    weft_pool *pool = POOL_OPEN(.capacity = 10, .queue = WEFT_UNLIMITED);
    gate_shut_and_fill(&gate, pool, 1);
    crowd_comes(fibers);
    submit_counts(pool, &ran, MANY);
    CHECK_EQ(pool_waiting(pool), MANY);
    CHECK_EQ(count_of(&ran), 0);
    crowd_goes();
    await(&ran, MANY);
    CHECK_EQ(pool_stats(pool).running, 1);
    gate_open_and_close(&gate, pool);
    unlimit_fibers();
}

static void tasks_wait_for_workers(void)
{
    for (int64_t fibers = 1; fibers <= FIBERS_MOST; fibers++) {
        submit_without_workers(fibers);
        submit_behind_the_only_worker(fibers);
    }
}

/* A submitter in line gets the error if there is no memory when its turn comes. */

static void a_submitter_in_line_gets_the_error(void)
{
    static struct gate gate;
    weft_pool *pool = POOL_OPEN(.capacity = 1);
    gate_shut_and_fill(&gate, pool, 1);
    atomic_u32_store_relaxed(&ran, 0);
    struct submission own;
    submission_start_with(
        &own,
        (struct submission){
            .pool = pool, .function = count_task, .arg = &ran, .deadline = WEFT_NEVER},
        false);
    AWAIT_FIGURE(pool, blocked, 1);
    failing_on(OS_ALLOC, 1, true);
    gate_open(&gate);
    await(&own.returned, 1);
    failing_off();
    (void)submission_end(&own);
    CHECK(own.result == 0 || own.result == -ENOMEM);
    CHECK_EQ(weft_pool_submit(pool, count_task, &ran), 0);
    pool_close(pool);
    CHECK_EQ(count_of(&ran), own.result == 0 ? 2 : 1);
}

int main(void)
{
    RUN_PLAIN(open_fails_cleanly, "stops or configures the runtime");
    RUN_PLAIN(reopen_fails_cleanly, "stops or configures the runtime");
    RUN_PLAIN(submit_loses_nothing, "stops or configures the runtime");
    RUN_EVERYWHERE(without_memory_submit_says_so);
    RUN_PLAIN(tasks_wait_for_workers, "stops or configures the runtime");
    RUN_BOTH(a_submitter_in_line_gets_the_error);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
