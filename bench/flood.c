/*
 * flood.c: many tasks that sleep 10 ms each, as in the benchmark of ants.
 *
 * no_pool_sleep: a fiber per task, spawned by main. How many are alive at once is not fixed: as
 * many as the spawner starts in 10 ms. pool_sleep: on a pool of 50,000, submitted by one fiber, as
 * the submitter of ants is a goroutine; the least possible time is tasks / 50,000 * 10 ms. The
 * figure is the time from the first task until all have ended, in a new process: it includes
 * starting the runtime, making the stacks and touching them for the first time.
 *
 * pool_sleep_thread: submitted by main, a plain thread next to the two processors, which has to
 * wait for a CPU. pool_sleep_queue: the pool has a queue of as many tasks again, so that the
 * submitter need not be there for each task that ends; ants has no such queue, so it is a case of
 * its own. throughput: as pool_sleep, until the last submit has returned, without waiting for the
 * tasks that run then.
 *
 * _bytes counts the heap bytes requested meanwhile (heap.c), with the number of requests as
 * `allocations` in the parameters. The peak memory of the process, next to the figure, depends on
 * the most workers at a time: ten million tasks must need about as much as one million.
 */
#include <weft/weft.h>

#include "bench.h"

enum { CAPACITY = 50000 };

static void sleep_10ms(void *arg)
{
    (void)arg;
    weft_sleep(10 * WEFT_MS);
}

static void task(void *arg)
{
    weft_sleep(10 * WEFT_MS);
    weft_wg_done(arg);
}

/* Reports the figures of a run that began at `start`, when counting of the heap began too. */
static int64_t note(struct bench *bench, int64_t start)
{
    struct bench_heap heap = bench_heap_read();
    bench->values[0] = (double)(weft_now() - start) / (double)WEFT_S;
    bench->values[1] = (double)heap.bytes;
    return heap.allocations;
}

static void measure_fibers(struct bench *bench, int64_t full)
{
    int64_t tasks = bench_amount(bench, full);
    weft_wg wg;
    weft_wg_init(&wg, tasks);
    bench_heap_start();
    int64_t start = weft_now();
    for (int64_t i = 0; i < tasks; i++)
        bench_check(weft_go(task, &wg), "weft_go");
    weft_wg_wait(&wg);
    bench_params(bench, "tasks=%ld sleep=10ms allocations=%ld", (long)tasks,
                 (long)note(bench, start));
}

struct flood {
    weft_pool_options options;
    int64_t tasks;
    weft_pool *pool;
};

static void submit_all(void *arg)
{
    struct flood *flood = arg;
    bench_check(weft_pool_open(&flood->pool, &flood->options), "weft_pool_open");
    for (int64_t i = 0; i < flood->tasks; i++)
        bench_check(weft_pool_submit(flood->pool, sleep_10ms, NULL), "weft_pool_submit");
}

static void submit_all_and_wait(void *arg)
{
    struct flood *flood = arg;
    submit_all(flood);
    bench_check(weft_pool_wait(flood->pool, WEFT_NEVER), "weft_pool_wait");
}

void bench_flood(struct bench *bench, int64_t full, enum bench_flood kind, bool compact)
{
    struct flood flood = {
        .options = {.capacity = CAPACITY,
                    .queue = kind == BENCH_FLOOD_QUEUED ? CAPACITY : 0,
                    .compact = compact},
        .tasks = bench_amount(bench, full),
    };
    weft_pool_stats stats;
    bench_heap_start();
    int64_t start = weft_now();
    if (kind == BENCH_FLOOD_THREAD)
        submit_all_and_wait(&flood);
    else
        bench_in_fiber(submit_all_and_wait, &flood);
    int64_t allocations = note(bench, start);
    bench_check(weft_pool_stats_get(flood.pool, &stats), "weft_pool_stats_get");
    bench_check(stats.completed == flood.tasks ? 0 : -1, "all tasks have run");
    bench_check(weft_pool_close(flood.pool), "weft_pool_close");
    bench_params(bench,
                 "tasks=%ld sleep=10ms capacity=%d queue=%ld from=%s workers=%ld allocations=%ld",
                 (long)flood.tasks, CAPACITY, (long)flood.options.queue,
                 kind == BENCH_FLOOD_THREAD ? "thread" : "fiber", (long)stats.most_workers,
                 (long)allocations);
}

static void measure_pool(struct bench *bench, int64_t full)
{
    bench_flood(bench, full, BENCH_FLOOD_PLAIN, false);
}

static void measure_thread(struct bench *bench, int64_t full)
{
    bench_flood(bench, full, BENCH_FLOOD_THREAD, false);
}

static void measure_queue(struct bench *bench, int64_t full)
{
    bench_flood(bench, full, BENCH_FLOOD_QUEUED, false);
}

static void measure_throughput(struct bench *bench, int64_t full)
{
    struct flood flood = {.options = {.capacity = CAPACITY}, .tasks = bench_amount(bench, full)};
    bench_heap_start();
    int64_t start = weft_now();
    bench_in_fiber(submit_all, &flood);
    int64_t allocations = note(bench, start);
    bench_check(weft_pool_close(flood.pool), "weft_pool_close");
    bench_params(bench, "tasks=%ld sleep=10ms capacity=%d submit=only allocations=%ld",
                 (long)flood.tasks, CAPACITY, (long)allocations);
}

#define FLOOD(case_name, function, count, text)                                       \
    {                                                                                 \
        .name = case_name, .what = text, .metrics = {{"", "s"}, {"_bytes", "bytes"}}, \
        .measure = function, .size = count, .cold = true                              \
    }

const struct bench_case bench_flood_cases[] = {
    FLOOD("no_pool_sleep", measure_fibers, 1000000, "1,000,000 fibers that sleep 10 ms"),
    FLOOD("no_pool_sleep_100k", measure_fibers, 100000, "the same with 100,000"),
    FLOOD("pool_sleep", measure_pool, 1000000, "1,000,000 tasks of 10 ms on a pool of 50,000"),
    FLOOD("pool_sleep_100k", measure_pool, 100000, "the same with 100,000"),
    FLOOD("pool_sleep_10m", measure_pool, 10000000, "the same with 10,000,000"),
    FLOOD("pool_sleep_thread", measure_thread, 1000000, "as pool_sleep, from a plain thread"),
    FLOOD("pool_sleep_queue", measure_queue, 1000000, "as pool_sleep, with a queue of 50,000"),
    FLOOD("pool_sleep_10m_queue", measure_queue, 10000000, "the same with 10,000,000"),
    FLOOD("throughput_100k", measure_throughput, 100000, "submit of 100,000 such tasks, only"),
    FLOOD("throughput_1m", measure_throughput, 1000000, "the same with 1,000,000"),
    FLOOD("throughput_10m", measure_throughput, 10000000, "the same with 10,000,000"),
    {.name = NULL},
};
