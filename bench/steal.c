/*
 * steal.c: how well work that appears on one processor spreads to the others.
 *
 * A fiber first does K pieces of work itself, one after another. Then it spawns K fibers that do
 * one piece each, and waits. The figure is the time of the first, divided by the number of
 * processors, relative to the time of the second, in percent: 100 is perfect, and the cost of
 * spawning lowers it. A piece is a loop of about 20 us that never calls weft. On a busy machine the
 * ratio falls, since the serial part needs only one of its cores.
 */
#include <weft/weft.h>

#include "bench.h"

enum { PIECE_US = 20 };

struct pieces {
    struct bench *bench;
    int64_t count, loops;
    weft_wg done;
};

static void work(int64_t loops)
{
    for (int64_t i = 0; i < loops; i++)
        __asm__ volatile("" ::: "memory");
}

/* The number of loops that take PIECE_US: the fastest of several attempts. */
static int64_t calibrate(void)
{
    int64_t loops = 1000 * 1000, best = INT64_MAX;
    for (int i = 0; i < 10; i++) {
        int64_t start = weft_now();
        work(loops);
        int64_t elapsed = weft_now() - start;
        if (elapsed < best)
            best = elapsed;
    }
    return loops * PIECE_US * WEFT_US / best;
}

static void piece(void *arg)
{
    struct pieces *pieces = arg;
    work(pieces->loops);
    weft_wg_done(&pieces->done);
}

static void coordinate(void *arg)
{
    struct pieces *pieces = arg;
    weft_wg_init(&pieces->done, 2 * pieces->count);
    int64_t start = weft_now();
    for (int64_t i = 0; i < pieces->count; i++)
        piece(pieces);
    int64_t serial = weft_now() - start;
    start = weft_now();
    for (int64_t i = 0; i < pieces->count; i++)
        bench_check(weft_go(piece, pieces), "weft_go");
    weft_wg_wait(&pieces->done);
    int64_t spread = weft_now() - start;
    double ideal = (double)serial / pieces->bench->processors;
    pieces->bench->values[0] = 100 * ideal / (double)spread;
    pieces->bench->values[1] = (double)spread / (double)WEFT_S;
}

static void measure(struct bench *bench, int64_t full)
{
    struct pieces pieces = {.bench = bench, .count = bench_amount(bench, full)};
    pieces.loops = calibrate();
    bench_params(bench, "pieces=%ld of=%dus", (long)pieces.count, PIECE_US);
    bench_in_fiber(coordinate, &pieces);
}

const struct bench_case bench_steal_cases[] = {
    {.name = "steal",
     .what = "10,000 pieces of 20 us, all spawned on one processor: share of the ideal time",
     .metrics = {{"", "ratio"}, {"_time", "s"}},
     .measure = measure,
     .size = 10000},
    {.name = NULL},
};
