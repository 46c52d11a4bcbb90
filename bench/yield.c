/*
 * yield.c: the cost of giving the processor to the next fiber.
 *
 * An operation is one weft_yield that switches: N fibers yield in turn, all of them ready all the
 * time. With two, all data is in the nearest cache; with a thousand, the run queue and the stacks
 * are not, and the ring of one processor (256) overflows. On all processors the figure is wall time
 * divided by the switches of all of them. Waking is not included: no fiber ever waits.
 */
#include <weft/weft.h>

#include "bench.h"

struct turns {
    struct bench *bench;
    int64_t fibers;
    int64_t yields; /* per fiber */
    weft_wg done;
};

static void yielder(void *arg)
{
    struct turns *turns = arg;
    for (int64_t i = 0; i < turns->yields; i++)
        weft_yield();
    weft_wg_done(&turns->done);
}

static void coordinate(void *arg)
{
    struct turns *turns = arg;
    weft_wg_init(&turns->done, turns->fibers);
    int64_t start = weft_now();
    for (int64_t i = 0; i < turns->fibers; i++)
        bench_check(weft_go(yielder, turns), "weft_go");
    weft_wg_wait(&turns->done);
    int64_t elapsed = weft_now() - start;
    turns->bench->values[0] = (double)elapsed / (double)(turns->fibers * turns->yields);
}

static void measure(struct bench *bench, int64_t fibers)
{
    struct turns turns = {.bench = bench, .fibers = fibers};
    turns.yields = bench_amount(bench, 10 * 1000 * 1000) / fibers;
    bench_params(bench, "fibers=%ld yields=%ld", (long)fibers, (long)turns.yields);
    bench_in_fiber(coordinate, &turns);
}

const struct bench_case bench_yield_cases[] = {
    {.name = "yield_2",
     .what = "a switch between two fibers on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 2,
     .one_processor = true},
    {.name = "yield_200",
     .what = "a switch among 200 fibers on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 200,
     .one_processor = true},
    {.name = "yield_one",
     .what = "a switch among 1000 fibers on one processor (more than its run queue holds)",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1000,
     .one_processor = true},
    {.name = "yield",
     .what = "a switch among 1000 fibers on all processors: wall time by all switches",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1000},
    {.name = NULL},
};
