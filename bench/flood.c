/*
 * flood.c: a flood of tasks that sleep 10 ms each, from main, as in the benchmark of ants.
 *
 * no_pool_sleep: a fiber for each. How many are alive at once is not fixed: it is what the spawner gets done
 * in 10 ms. pool_sleep: on a pool of 50,000. It cannot be less than tasks / 50,000 * 10 ms. Both are the time
 * from the first task until all have ended, in a new process: starting the runtime, making the stacks and
 * touching them for the first time is all in it. pool_sleep_queue: as many tasks again may wait in the pool, so that main,
 * which is a thread, need not be there for each one that ends; ants has no such queue, so it is a case of its own. throughput: the same pool, until the last submit has
 * returned; the tasks that run then are not waited for.
 *
 * _bytes is what the heap was asked for meanwhile (heap.c), `allocations` in the parameters how often. The
 * peak memory of the process is the figure beside it: it hangs on how many workers there were, so ten million
 * tasks must need about what one million does.
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

/* The figures of a flood that began at `start`, when the heap began to count. */
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

static weft_pool *submit_all(int64_t tasks, int64_t queue)
{
    weft_pool *pool;
    bench_check(weft_pool_open(&pool, &(weft_pool_options){.capacity = CAPACITY, .queue = queue}),
                "weft_pool_open");
    for (int64_t i = 0; i < tasks; i++)
        bench_check(weft_pool_submit(pool, sleep_10ms, NULL), "weft_pool_submit");
    return pool;
}

static void measure_pool_of(struct bench *bench, int64_t full, int64_t queue)
{
    int64_t tasks = bench_amount(bench, full);
    weft_pool_stats stats;
    bench_heap_start();
    int64_t start = weft_now();
    weft_pool *pool = submit_all(tasks, queue);
    bench_check(weft_pool_wait(pool, WEFT_NEVER), "weft_pool_wait");
    int64_t allocations = note(bench, start);
    bench_check(weft_pool_stats_get(pool, &stats), "weft_pool_stats_get");
    bench_check(stats.completed == tasks ? 0 : -1, "all tasks have run");
    bench_check(weft_pool_close(pool), "weft_pool_close");
    bench_params(bench, "tasks=%ld sleep=10ms capacity=%d queue=%ld workers=%ld allocations=%ld",
                 (long)tasks, CAPACITY, (long)queue, (long)stats.most_workers, (long)allocations);
}

static void measure_pool(struct bench *bench, int64_t full)
{
    measure_pool_of(bench, full, 0);
}

static void measure_queue(struct bench *bench, int64_t full)
{
    measure_pool_of(bench, full, BENCH_FLOOD_QUEUE);
}

static void measure_throughput(struct bench *bench, int64_t full)
{
    int64_t tasks = bench_amount(bench, full);
    bench_heap_start();
    int64_t start = weft_now();
    weft_pool *pool = submit_all(tasks, 0);
    int64_t allocations = note(bench, start);
    bench_check(weft_pool_close(pool), "weft_pool_close");
    bench_params(bench, "tasks=%ld sleep=10ms capacity=%d submit=only allocations=%ld", (long)tasks,
                 CAPACITY, (long)allocations);
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
    FLOOD("pool_sleep_queue", measure_queue, 1000000, "as pool_sleep, with a queue of 50,000"),
    FLOOD("pool_sleep_10m_queue", measure_queue, 10000000, "the same with 10,000,000"),
    FLOOD("throughput_100k", measure_throughput, 100000, "submit of 100,000 such tasks, only"),
    FLOOD("throughput_1m", measure_throughput, 1000000, "the same with 1,000,000"),
    FLOOD("throughput_10m", measure_throughput, 10000000, "the same with 10,000,000"),
    {.name = NULL},
};
