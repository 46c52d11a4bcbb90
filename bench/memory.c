/*
 * memory.c: the memory of a fiber that waits.
 *
 * The figure is the growth of the resident memory of the process, divided by the number of fibers;
 * parked_tables is the growth of the page tables, which resident memory does not include. The
 * fibers are shallow: each has called one function of weft. A fiber that has gone deeper keeps
 * more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "bench.h"

struct crowd {
    struct bench *bench;
    int64_t fibers, ran;
    weft_wg arrived, gate, done;
};

static void parker(void *arg)
{
    struct crowd *crowd = arg;
    weft_wg_done(&crowd->arrived);
    weft_wg_wait(&crowd->gate);
    weft_wg_done(&crowd->done);
}

static void start_runtime(void *arg)
{
    (void)arg;
}

static void measure_parked(struct bench *bench, int64_t full)
{
    struct crowd crowd = {.bench = bench, .fibers = bench_amount(bench, full)};
    weft_wg_init(&crowd.arrived, crowd.fibers);
    weft_wg_init(&crowd.gate, 1);
    weft_wg_init(&crowd.done, crowd.fibers);
    bench_in_fiber(start_runtime, NULL);
    int64_t before = bench_resident(), tables = bench_status("VmPTE:");
    for (int64_t i = 0; i < crowd.fibers; i++)
        bench_check(weft_go(parker, &crowd), "weft_go");
    weft_wg_wait(&crowd.arrived);
    bench->values[0] = (double)(bench_resident() - before) / (double)crowd.fibers;
    bench->values[1] = (double)(bench_status("VmPTE:") - tables) / (double)crowd.fibers;
    weft_wg_done(&crowd.gate);
    weft_wg_wait(&crowd.done);
    bench_params(bench, "fibers=%ld", (long)crowd.fibers);
}

/* Runs on the only processor: no other fiber runs before the spawner waits. */
static void counted(void *arg)
{
    struct crowd *crowd = arg;
    crowd->ran++;
    weft_wg_done(&crowd->done);
}

static void spawn_all(void *arg)
{
    struct crowd *crowd = arg;
    int64_t before = bench_resident();
    for (int64_t i = 0; i < crowd->fibers; i++)
        bench_check(weft_go(counted, crowd), "weft_go");
    crowd->bench->values[0] = (double)(bench_resident() - before) / (double)crowd->fibers;
    bench_check(crowd->ran == 0 ? 0 : -EBUSY, "fibers ran before they were counted");
    weft_wg_wait(&crowd->done);
}

static void measure_spawned(struct bench *bench, int64_t full)
{
    struct crowd crowd = {.bench = bench, .fibers = bench_amount(bench, full)};
    weft_wg_init(&crowd.done, crowd.fibers);
    bench_params(bench, "fibers=%ld", (long)crowd.fibers);
    bench_in_fiber(spawn_all, &crowd);
}

const struct bench_case bench_memory_cases[] = {
    {.name = "parked",
     .what = "memory of a fiber that has run and waits, of 1,000,000",
     .metrics = {{"", "bytes"}, {"_tables", "bytes"}},
     .measure = measure_parked,
     .size = 1000000,
     .cold = true},
    {.name = "spawned",
     .what = "memory of a fiber that is spawned and has not run, of 1,000,000",
     .metrics = {{"", "bytes"}},
     .measure = measure_spawned,
     .size = 1000000,
     .one_processor = true,
     .cold = true},
    {.name = NULL},
};
