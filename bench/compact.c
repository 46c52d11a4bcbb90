/*
 * compact.c: compact stacks: pool_sleep, no_pool_sleep and parked with them, and the cost of a
 * move.
 *
 * compact_move: 200 compact fibers on one processor, so 25 on each hot stack, with frames of a
 * given size, yield in turn. Each turn moves the frames of one fiber out and those of the next one
 * in. private_turn does the same with private stacks, with a switch to the machine at each turn:
 * each fiber sleeps until a time that has passed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "bench.h"

enum { MOVERS = 200, FRAME = 256 };

static void measure_pool_sleep(struct bench *bench, int64_t full)
{
    bench_flood(bench, full, BENCH_FLOOD_PLAIN, true);
}

static void measure_pool_thread(struct bench *bench, int64_t full)
{
    bench_flood(bench, full, BENCH_FLOOD_THREAD, true);
}

static void measure_pool_queue(struct bench *bench, int64_t full)
{
    bench_flood(bench, full, BENCH_FLOOD_QUEUED, true);
}

static weft_wg arrived, gate, done;

static void sleep_once(void *arg)
{
    (void)arg;
    weft_sleep(10 * WEFT_MS);
    weft_wg_done(&done);
}

static void go_compact(void (*function)(void *), void *arg)
{
    bench_check(weft_spawn(NULL, function, arg, &(weft_spawn_options){.compact = 1}), "weft_spawn");
}

static void measure_flood(struct bench *bench, int64_t full)
{
    int64_t tasks = bench_amount(bench, full);
    bench_check(weft_wg_init(&done, tasks), "weft_wg_init");
    int64_t start = weft_now();
    for (int64_t i = 0; i < tasks; i++)
        go_compact(sleep_once, NULL);
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    bench->values[0] = (double)(weft_now() - start) / (double)WEFT_S;
    bench_params(bench, "tasks=%ld sleep=10ms", (long)tasks);
}

static void park(void *arg)
{
    (void)arg;
    weft_wg_done(&arrived);
    bench_check(weft_wg_wait(&gate), "weft_wg_wait");
    weft_wg_done(&done);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void measure_parked(struct bench *bench, int64_t full)
{
    int64_t fibers = bench_amount(bench, full);
    bench_check(weft_wg_init(&arrived, fibers), "weft_wg_init");
    bench_check(weft_wg_init(&gate, 1), "weft_wg_init");
    bench_check(weft_wg_init(&done, fibers), "weft_wg_init");
    bench_in_fiber(nothing, NULL); /* starts the runtime */
    int64_t before = bench_resident();
    for (int64_t i = 0; i < fibers; i++)
        go_compact(park, NULL);
    bench_check(weft_wg_wait(&arrived), "weft_wg_wait");
    bench->values[0] = (double)(bench_resident() - before) / (double)fibers;
    weft_wg_done(&gate);
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    bench_params(bench, "fibers=%ld", (long)fibers);
}

/* Moves. */

struct movers {
    int64_t depth, yields, start;
    bool compact;
};

static __attribute__((noinline)) void yield_below(int64_t depth, const struct movers *movers)
{
    volatile char frame[FRAME];
    frame[0] = 1;
    if (depth > FRAME)
        yield_below(depth - FRAME, movers);
    else
        for (int64_t i = 0; i < movers->yields; i++)
            bench_check(movers->compact ? (weft_yield(), 0) : weft_sleep_until(1), "weft_sleep");
    frame[FRAME - 1] = frame[0];
}

static void move(void *arg)
{
    const struct movers *movers = arg;
    yield_below(movers->depth, movers);
    weft_wg_done(&done);
}

static void measure_moves_of(struct bench *bench, int64_t depth, bool compact)
{
    static struct movers movers;
    movers = (struct movers){.depth = depth, .compact = compact};
    movers.yields = bench_amount(bench, 2 * 1000 * 1000) / MOVERS;
    bench_check(weft_wg_init(&done, MOVERS), "weft_wg_init");
    bench_in_fiber(nothing, NULL);
    int64_t start = weft_now();
    for (int i = 0; i < MOVERS; i++)
        bench_check(weft_spawn(NULL, move, &movers, &(weft_spawn_options){.compact = compact}),
                    "weft_spawn");
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    bench->values[0] = (double)(weft_now() - start) / (double)(movers.yields * MOVERS);
    bench_params(bench, "fibers=%d bytes=%ld", MOVERS, (long)depth);
}

static void measure_moves(struct bench *bench, int64_t depth)
{
    measure_moves_of(bench, depth, true);
}

static void measure_private(struct bench *bench, int64_t depth)
{
    measure_moves_of(bench, depth, false);
}

#define MOVE_CASE(bytes)                                                                           \
    {                                                                                              \
        .name = "compact_move_" #bytes,                                                            \
        .what = "a turn of a compact fiber with " #bytes " bytes of frames",                       \
        .metrics = {{"", "ns/op"}}, .measure = measure_moves, .size = bytes, .one_processor = true \
    }

const struct bench_case bench_compact_cases[] = {
    {.name = "pool_sleep_compact",
     .what = "as pool_sleep, with compact stacks",
     .metrics = {{"", "s"}},
     .measure = measure_pool_sleep,
     .size = 1000000,
     .cold = true},
    {.name = "pool_sleep_10m_compact",
     .what = "as pool_sleep_10m, with compact stacks",
     .metrics = {{"", "s"}},
     .measure = measure_pool_sleep,
     .size = 10000000,
     .cold = true},
    {.name = "pool_sleep_thread_compact",
     .what = "as pool_sleep_thread, with compact stacks",
     .metrics = {{"", "s"}},
     .measure = measure_pool_thread,
     .size = 1000000,
     .cold = true},
    {.name = "pool_sleep_queue_compact",
     .what = "as pool_sleep_queue, with compact stacks",
     .metrics = {{"", "s"}},
     .measure = measure_pool_queue,
     .size = 1000000,
     .cold = true},
    {.name = "pool_sleep_10m_queue_compact",
     .what = "as pool_sleep_10m_queue, with compact stacks",
     .metrics = {{"", "s"}},
     .measure = measure_pool_queue,
     .size = 10000000,
     .cold = true},
    {.name = "no_pool_sleep_compact",
     .what = "as no_pool_sleep, with compact stacks",
     .metrics = {{"", "s"}},
     .measure = measure_flood,
     .size = 1000000,
     .cold = true},
    {.name = "parked_compact",
     .what = "as parked, with compact stacks",
     .metrics = {{"", "bytes"}},
     .measure = measure_parked,
     .size = 1000000,
     .cold = true},
    MOVE_CASE(256),
    MOVE_CASE(1024),
    MOVE_CASE(4096),
    MOVE_CASE(16384),
    {.name = "private_turn",
     .what = "a turn of a private fiber, by way of its machine",
     .metrics = {{"", "ns/op"}},
     .measure = measure_private,
     .size = 256,
     .one_processor = true},
    {.name = NULL},
};
