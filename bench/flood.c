/*
 * flood.c: a million fibers that sleep 10 ms each, without a pool, from main.
 *
 * Measured is the time from the first spawn until all have ended, in a new process: starting the
 * runtime, making the stacks and touching them for the first time is all in it. How many fibers are
 * alive at once is not fixed: it is what the spawner gets done in 10 ms.
 */
#include <weft/weft.h>

#include "bench.h"

static void task(void *arg)
{
    weft_sleep(10 * WEFT_MS);
    weft_wg_done(arg);
}

static void measure(struct bench *bench, int64_t full)
{
    int64_t tasks = bench_amount(bench, full);
    weft_wg wg;
    weft_wg_init(&wg, tasks);
    int64_t start = weft_now();
    for (int64_t i = 0; i < tasks; i++)
        bench_check(weft_go(task, &wg), "weft_go");
    weft_wg_wait(&wg);
    bench->values[0] = (double)(weft_now() - start) / (double)WEFT_S;
    bench_params(bench, "tasks=%ld sleep=10ms", (long)tasks);
}

const struct bench_case bench_flood_cases[] = {
    {.name = "no_pool_sleep",
     .what = "1,000,000 fibers that sleep 10 ms, spawned from main, in a new process",
     .metrics = {{"", "s"}},
     .measure = measure,
     .size = 1000000,
     .cold = true},
    {.name = NULL},
};
