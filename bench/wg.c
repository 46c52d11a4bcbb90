/*
 * wg.c: a million calls of done on one wait group.
 *
 * wg_fanin: an operation is one weft_wg_done, by eight fibers on all processors, so the word of the
 * wait group moves between the caches. One fiber waits. The figure does not include spawning.
 * wg_fibers: each of the million is a fiber, spawned by the fiber that then waits: an operation is
 * spawn, run and done. Memory of fibers and stacks is warm, for as many as are alive at once.
 */
#include <weft/weft.h>

#include "bench.h"

enum { FIBERS = 8 };

struct fanin {
    struct bench *bench;
    int64_t each;
    weft_wg start, wg;
};

static void doer(void *arg)
{
    struct fanin *fanin = arg;
    int64_t each = fanin->each; /* the memory may go after the last done */
    weft_wg_wait(&fanin->start);
    for (int64_t i = 0; i < each; i++)
        weft_wg_done(&fanin->wg);
}

static void coordinate(void *arg)
{
    struct fanin *fanin = arg;
    weft_wg_init(&fanin->wg, FIBERS * fanin->each);
    weft_wg_init(&fanin->start, 1);
    for (int i = 0; i < FIBERS; i++)
        bench_check(weft_go(doer, fanin), "weft_go");
    int64_t start = weft_now();
    weft_wg_done(&fanin->start);
    weft_wg_wait(&fanin->wg);
    int64_t elapsed = weft_now() - start;
    fanin->bench->values[0] = (double)elapsed / (double)(FIBERS * fanin->each);
}

static void measure(struct bench *bench, int64_t dones)
{
    struct fanin fanin = {.bench = bench, .each = bench_amount(bench, dones) / FIBERS};
    bench_params(bench, "fibers=%d dones=%ld", FIBERS, (long)(FIBERS * fanin.each));
    bench_in_fiber(coordinate, &fanin);
}

/* A fiber for each done. */

static void done_once(void *arg)
{
    struct fanin *fanin = arg;
    weft_wg_done(&fanin->wg);
}

static void coordinate_fibers(void *arg)
{
    struct fanin *fanin = arg;
    weft_wg_init(&fanin->wg, fanin->each);
    int64_t start = weft_now();
    for (int64_t i = 0; i < fanin->each; i++)
        bench_check(weft_go(done_once, fanin), "weft_go");
    weft_wg_wait(&fanin->wg);
    fanin->bench->values[0] = (double)(weft_now() - start) / (double)fanin->each;
}

static void measure_fibers(struct bench *bench, int64_t fibers)
{
    struct fanin fanin = {.bench = bench, .each = bench_amount(bench, fibers)};
    bench_params(bench, "fibers=%ld", (long)fanin.each);
    bench_in_fiber(coordinate_fibers, &fanin);
}

const struct bench_case bench_wg_cases[] = {
    {.name = "wg_fanin",
     .what = "one of 1,000,000 weft_wg_done by eight fibers on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1000000},
    {.name = "wg_fanin_one",
     .what = "the same on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1000000,
     .one_processor = true},
    {.name = "wg_fibers_one",
     .what =
         "one of 1,000,000 fibers that report to one wait group: spawn, run, done; one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .size = 1000000,
     .one_processor = true},
    {.name = "wg_fibers_all",
     .what = "the same on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .size = 1000000},
    {.name = NULL},
};
