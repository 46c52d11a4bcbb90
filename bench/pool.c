/*
 * pool.c: the cost of a task in a pool. Tasks that sleep are in flood.c.
 *
 * No-op tasks. An operation is a submit and the run of an empty function; the figure is the time
 * from the first submit until the pool is stopped, so until the last task has run, divided by all
 * tasks. The capacity is 10,000 without a queue: a submitter waits when so many tasks are in
 * flight. The one submitter is a plain thread, like main, or for pool_noop_fiber a fiber; many
 * submitters are fibers, as those of Go are goroutines, or for pool_noop_threads plain threads.
 * pool_invoke uses the pool's bound function, pool_batch 1,000 arguments per call, pool_task
 * handles: 1,000 are started, then each is waited for and released.
 *
 * Memory. pool_queued is the growth of resident memory by a million tasks in a paused pool, per
 * task; pool_idle that by 10,000 open pools that have not been used, and _used after each has run
 * one task and its worker is idle.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "bench.h"

enum { CAPACITY = 10000, BATCH = 1000, SUBMITTERS_MOST = 64 };

static void nothing(void *arg)
{
    (void)arg;
}

static weft_pool *open_pool(const weft_pool_options *options)
{
    weft_pool *pool;
    bench_check(weft_pool_open(&pool, options), "weft_pool_open");
    return pool;
}

/* The submitter, and its call. */
struct submitter {
    weft_pool *pool;
    int64_t tasks;
    void (*submit)(struct submitter *submitter);
    weft_wg *gate;
};

static void submit_each(struct submitter *submitter)
{
    for (int64_t i = 0; i < submitter->tasks; i++)
        bench_check(weft_pool_submit(submitter->pool, nothing, NULL), "weft_pool_submit");
}

static void invoke_each(struct submitter *submitter)
{
    for (int64_t i = 0; i < submitter->tasks; i++)
        bench_check(weft_pool_invoke(submitter->pool, NULL), "weft_pool_invoke");
}

static void submit_batches(struct submitter *submitter)
{
    static void *args[BATCH];
    for (int64_t i = 0; i < submitter->tasks; i += BATCH) {
        int64_t done = weft_pool_submit_batch(submitter->pool, nothing, args, BATCH, WEFT_NEVER);
        bench_check(done == BATCH ? 0 : (int)done, "weft_pool_submit_batch");
    }
}

static int one(void *arg)
{
    (void)arg;
    return 1;
}

static void start_and_wait(struct submitter *submitter)
{
    weft_task *tasks[BATCH];
    for (int64_t i = 0; i < submitter->tasks; i += BATCH) {
        for (int k = 0; k < BATCH; k++)
            bench_check(weft_task_start(&tasks[k], submitter->pool, one, &tasks[k], NULL),
                        "weft_task_start");
        for (int k = 0; k < BATCH; k++) {
            int result = 0;
            bench_check(weft_task_wait(tasks[k], &result), "weft_task_wait");
            bench_check(result == 1 ? 0 : -1, "the result of a task");
            weft_task_release(tasks[k]);
        }
    }
}

static void submit_as_fiber(void *arg)
{
    struct submitter *submitter = arg;
    submitter->submit(submitter);
}

static void submit_by_fibers(struct submitter *submitter, int fibers)
{
    weft_wg done = WEFT_WG_INIT;
    for (int i = 0; i < fibers; i++)
        bench_check(weft_wg_go(&done, submit_as_fiber, submitter), "weft_wg_go");
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
}

static void *submit_as_thread(void *arg)
{
    struct submitter *submitter = arg;
    (void)weft_wg_wait(submitter->gate);
    submitter->submit(submitter);
    return NULL;
}

static void submit_by_threads(struct submitter *submitter, int threads)
{
    pthread_t ids[SUBMITTERS_MOST];
    for (int i = 0; i < threads; i++)
        bench_check(-pthread_create(&ids[i], NULL, submit_as_thread, submitter), "pthread_create");
    weft_wg_done(submitter->gate);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
}

/* The number of threads; if negative, of fibers. */
static void measure_tasks(struct bench *bench, int64_t threads,
                          void (*submit)(struct submitter *submitter), int64_t full)
{
    weft_pool *pool = open_pool(&(weft_pool_options){.capacity = CAPACITY, .function = nothing});
    weft_pool_stats stats;
    weft_wg gate;
    int64_t submitters = threads > 0 ? threads : -threads;
    struct submitter submitter = {.pool = pool,
                                  .tasks = bench_amount(bench, full) / submitters,
                                  .submit = submit,
                                  .gate = &gate};
    weft_wg_init(&gate, 1);
    int64_t start = weft_now();
    if (threads < 0)
        submit_by_fibers(&submitter, (int)-threads);
    else if (threads == 1)
        submit(&submitter);
    else
        submit_by_threads(&submitter, (int)threads);
    bench_check(weft_pool_stop(pool, WEFT_NEVER), "weft_pool_stop");
    int64_t elapsed = weft_now() - start;
    bench_check(weft_pool_stats_get(pool, &stats), "weft_pool_stats_get");
    int64_t tasks = submitter.tasks * submitters;
    bench_check(stats.completed == tasks ? 0 : -1, "all tasks have run");
    bench_check(weft_pool_close(pool), "weft_pool_close");
    bench->values[0] = (double)elapsed / (double)tasks;
    bench_params(bench, "from=%s submitters=%ld tasks=%ld capacity=%d workers=%ld",
                 threads > 0 ? "thread" : "fiber", (long)submitters, (long)tasks, CAPACITY,
                 (long)stats.most_workers);
}

static void measure_noop(struct bench *bench, int64_t threads)
{
    measure_tasks(bench, threads, submit_each, (int64_t)1000 * 1000);
}

static void measure_invoke(struct bench *bench, int64_t threads)
{
    measure_tasks(bench, threads, invoke_each, (int64_t)2 * 1000 * 1000);
}

static void measure_batch(struct bench *bench, int64_t threads)
{
    measure_tasks(bench, threads, submit_batches, (int64_t)2 * 1000 * 1000);
}

static void measure_handles(struct bench *bench, int64_t threads)
{
    measure_tasks(bench, threads, start_and_wait, (int64_t)500 * 1000);
}

/* The runtime, and the memory of a first pool, exist already. */
static void warm_up(void)
{
    weft_pool *pool = open_pool(NULL);
    bench_check(weft_pool_submit(pool, nothing, NULL), "weft_pool_submit");
    bench_check(weft_pool_close(pool), "weft_pool_close");
}

static void measure_queued(struct bench *bench, int64_t full)
{
    int64_t tasks = bench_amount(bench, full);
    warm_up();
    weft_pool *pool = open_pool(&(weft_pool_options){.capacity = 1, .queue = WEFT_UNLIMITED});
    bench_check(weft_pool_pause(pool), "weft_pool_pause");
    int64_t before = bench_resident();
    for (int64_t i = 0; i < tasks; i++)
        bench_check(weft_pool_submit(pool, nothing, NULL), "weft_pool_submit");
    bench->values[0] = (double)(bench_resident() - before) / (double)tasks;
    bench_check(weft_pool_close(pool), "weft_pool_close");
    bench_params(bench, "tasks=%ld capacity=1 queue=unlimited", (long)tasks);
}

static void use_pools(weft_pool **pools, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        bench_check(weft_pool_submit(pools[i], nothing, NULL), "weft_pool_submit");
    for (int64_t i = 0; i < count; i++) {
        weft_pool_stats stats;
        do {
            weft_sleep(WEFT_MS);
            bench_check(weft_pool_stats_get(pools[i], &stats), "weft_pool_stats_get");
        } while (stats.completed < 1 || stats.idle < 1);
    }
}

static void measure_idle(struct bench *bench, int64_t full)
{
    int64_t count = bench_amount(bench, full);
    warm_up();
    weft_pool **pools = bench_alloc(count, sizeof(weft_pool *));
    memset(pools, 1, (size_t)count * sizeof(weft_pool *)); /* touched before the measurement */
    int64_t before = bench_resident();
    for (int64_t i = 0; i < count; i++)
        pools[i] = open_pool(&(weft_pool_options){.expiry = WEFT_NEVER});
    bench->values[0] = (double)(bench_resident() - before) / (double)count;
    use_pools(pools, count);
    bench->values[1] = (double)(bench_resident() - before) / (double)count;
    for (int64_t i = 0; i < count; i++)
        bench_check(weft_pool_close(pools[i]), "weft_pool_close");
    free(pools);
    bench_params(bench, "pools=%ld", (long)count);
}

const struct bench_case bench_pool_cases[] = {
    {.name = "pool_noop",
     .what = "submit and run of an empty task, from a plain thread",
     .metrics = {{"", "ns/op"}},
     .measure = measure_noop,
     .size = 1},
    {.name = "pool_noop_many",
     .what = "the same from eight fibers at once: wall time by all tasks",
     .metrics = {{"", "ns/op"}},
     .measure = measure_noop,
     .size = -8},
    {.name = "pool_noop_threads",
     .what = "the same from eight plain threads",
     .metrics = {{"", "ns/op"}},
     .measure = measure_noop,
     .size = 8},
    {.name = "pool_noop_fiber",
     .what = "the same from a fiber",
     .metrics = {{"", "ns/op"}},
     .measure = measure_noop,
     .size = -1},
    {.name = "pool_invoke",
     .what = "as pool_noop, with the function of the pool",
     .metrics = {{"", "ns/op"}},
     .measure = measure_invoke,
     .size = 1},
    {.name = "pool_batch",
     .what = "as pool_noop, 1,000 tasks with each call",
     .metrics = {{"", "ns/op"}},
     .measure = measure_batch,
     .size = 1},
    {.name = "pool_task",
     .what = "start, run, wait for and release of a task with a handle, from a plain thread",
     .metrics = {{"", "ns/op"}},
     .measure = measure_handles,
     .size = 1},
    {.name = "pool_queued",
     .what = "memory of a task that waits in a pool, of 1,000,000",
     .metrics = {{"", "bytes"}},
     .measure = measure_queued,
     .size = 1000000,
     .cold = true},
    {.name = "pool_idle",
     .what = "memory of an open pool, of 10,000; and of one whose only worker rests",
     .metrics = {{"", "bytes"}, {"_used", "bytes"}},
     .measure = measure_idle,
     .size = 10000,
     .cold = true},
    {.name = NULL},
};
