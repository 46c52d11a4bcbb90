/*
 * spawn.c: the cost of a fiber that does nothing.
 *
 * An operation is spawn, first run and end of one fiber, whose function is a single weft_wg_done;
 * memory of fibers and stacks is warm. Fibers are spawned in batches, with a wait after each batch.
 * The first touch of fresh stacks is not included: no_pool_sleep and parked measure that.
 */
#include <weft/weft.h>

#include "bench.h"

enum { FIBER_BATCH = 100, THREAD_BATCH = 10000 };

struct spawner {
    int64_t batch, batches;
    weft_wg *finished;
};

static void task(void *arg)
{
    weft_wg_done(arg);
}

static void spawn_batches(int64_t batch, int64_t batches)
{
    weft_wg wg;
    for (int64_t i = 0; i < batches; i++) {
        weft_wg_init(&wg, batch);
        for (int64_t k = 0; k < batch; k++)
            bench_check(weft_go(task, &wg), "weft_go");
        weft_wg_wait(&wg);
    }
}

static void spawner_main(void *arg)
{
    struct spawner *spawner = arg;
    spawn_batches(spawner->batch, spawner->batches);
    weft_wg_done(spawner->finished);
}

/* `per` spawners per processor, or a single one for 0. */
static void measure_fibers(struct bench *bench, int64_t per)
{
    int64_t spawners = per > 0 ? per * bench->processors : 1;
    int64_t batches = bench_amount(bench, 500 * 1000) / FIBER_BATCH / spawners;
    weft_wg finished;
    struct spawner spawner = {.batch = FIBER_BATCH, .batches = batches, .finished = &finished};
    weft_wg_init(&finished, spawners);
    int64_t start = weft_now();
    for (int64_t i = 0; i < spawners; i++)
        bench_check(weft_go(spawner_main, &spawner), "weft_go");
    weft_wg_wait(&finished);
    int64_t elapsed = weft_now() - start;
    bench->values[0] = (double)elapsed / (double)(batches * FIBER_BATCH * spawners);
    bench_params(bench, "spawners=%ld batch=%d batches=%ld", (long)spawners, FIBER_BATCH,
                 (long)batches);
}

static void measure_thread(struct bench *bench, int64_t batch)
{
    int64_t batches = bench_amount(bench, 1000 * 1000) / batch;
    int64_t start = weft_now();
    spawn_batches(batch, batches);
    int64_t elapsed = weft_now() - start;
    bench->values[0] = (double)elapsed / (double)(batches * batch);
    bench_params(bench, "from=thread batch=%ld batches=%ld", (long)batch, (long)batches);
}

const struct bench_case bench_spawn_cases[] = {
    {.name = "spawn_one",
     .what = "spawn, run and end, from a fiber on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .one_processor = true},
    {.name = "spawn",
     .what = "the same with a spawner for each processor: wall time by all fibers",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .size = 1},
    {.name = "spawn_spread",
     .what = "the same with a single spawner while other processors look for work",
     .metrics = {{"", "ns/op"}},
     .measure = measure_fibers,
     .size = 0},
    {.name = "spawn_main",
     .what = "the same from main, a plain thread, in batches of 10000",
     .metrics = {{"", "ns/op"}},
     .measure = measure_thread,
     .size = THREAD_BATCH},
    {.name = NULL},
};
