/*
 * fair.c: the worst case of fibers that share the processors with many others.
 *
 * ticker_block, ticker_cpu: one fiber ticks every millisecond on a schedule while 5,000 others,
 * spawned at once, each block their thread in one nanosleep of 200 ms, or compute for 300 us. From
 * the first spawn until the last of them has ended, the figure is the lateness of each tick,
 * including ticks missed because an earlier one came late.
 *
 * yield_turns: a number of equal fibers, all of them ready, compute for a while and yield, for a
 * second. The figures are the ratio of the most to the least turns, and the longest time for which
 * a fiber was ready and did not run.
 *
 * spawn_yield: a fiber spawns 1,000 others that end at once, yields, and so on for half a second.
 * The figure is how many have not begun when it continues, at most.
 *
 * block_short: 5,000 fibers block their thread five times for 100 us, with a yield after each,
 * unmarked or marked by weft_blocking_enter. The figure is the time until all have ended.
 */
#include <stdlib.h>
#include <time.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "bench.h"

enum {
    CROWD = 5000,
    CROWD_QUICK = 1000,
    BLOCK_MS = 200,
    COMPUTE_US = 300,
    TURN_US = 50,
    CALLS = 5,
    CALL_US = 100,
    TICKS_MOST = 1000000,
    SPAWNED_EACH = 1000,
};

static void nap(int64_t time)
{
    nanosleep(&(struct timespec){.tv_sec = time / WEFT_S, .tv_nsec = time % WEFT_S}, NULL);
}

static void compute(int64_t time)
{
    for (int64_t end = weft_now() + time; weft_now() < end;)
        continue;
}

/* A ticker among many fibers. */

enum { BY_BLOCKING, BY_COMPUTING };

static struct {
    atomic_u32 over;
    double *late;
    int64_t ticks;
} ticker;

static void tick(void *arg)
{
    (void)arg;
    for (int64_t due = weft_now() + WEFT_MS; !atomic_u32_load_relaxed(&ticker.over);
         due += WEFT_MS) {
        bench_check(weft_sleep_until(due), "weft_sleep_until");
        if (ticker.ticks < TICKS_MOST)
            ticker.late[ticker.ticks++] = (double)(weft_now() - due) / 1e9;
    }
}

static void block_once(void *arg)
{
    (void)arg;
    nap(BLOCK_MS * WEFT_MS);
}

static void compute_once(void *arg)
{
    (void)arg;
    compute(COMPUTE_US * WEFT_US);
}

static void measure_ticker(struct bench *bench, int64_t way)
{
    static weft_fiber *crowd[CROWD], *fiber;
    int count = bench->quick ? CROWD_QUICK : CROWD;
    ticker.late = bench_alloc(TICKS_MOST, sizeof(double));
    bench_check(weft_spawn(&fiber, tick, NULL, NULL), "weft_spawn");
    nap(10 * WEFT_MS);
    for (int i = 0; i < count; i++)
        bench_check(
            weft_spawn(&crowd[i], way == BY_BLOCKING ? block_once : compute_once, NULL, NULL),
            "weft_spawn");
    for (int i = 0; i < count; i++)
        bench_check(weft_join(crowd[i]), "weft_join");
    atomic_u32_store_relaxed(&ticker.over, 1);
    bench_check(weft_join(fiber), "weft_join");
    bench_sort(ticker.late, ticker.ticks);
    bench->values[0] = bench_quantile(ticker.late, ticker.ticks, 1);
    bench->values[1] = bench_quantile(ticker.late, ticker.ticks, 0.5);
    bench_params(bench, "crowd=%d ticks=%ld", count, (long)ticker.ticks);
    free(ticker.late);
}

/* Equal fibers that yield. */

static struct {
    int64_t turn, end;
    atomic_i64 begin; /* 0 until all are spawned */
} turns;

struct yielder {
    int64_t turns, left, longest;
};

static void take_turns(void *arg)
{
    struct yielder *self = arg;
    while ((self->left = atomic_i64_load_acquire(&turns.begin)) == 0)
        weft_yield();
    for (int64_t now; (now = weft_now()) < turns.end;) {
        if (now - self->left > self->longest)
            self->longest = now - self->left;
        self->turns++;
        if (turns.turn != 0)
            compute(turns.turn);
        self->left = weft_now();
        weft_yield();
    }
    if (turns.end - self->left > self->longest)
        self->longest = turns.end - self->left;
}

static void measure_turns(struct bench *bench, int64_t count)
{
    struct yielder *yielders = bench_alloc(count, sizeof *yielders);
    weft_fiber **fibers = bench_alloc(count, sizeof(void *));
    int64_t least = INT64_MAX, most = 0, longest = 0;
    turns.turn = count <= 1000 ? TURN_US * WEFT_US : 0;
    for (int64_t i = 0; i < count; i++)
        bench_check(weft_spawn(&fibers[i], take_turns, &yielders[i], NULL), "weft_spawn");
    nap(100 * WEFT_MS);
    turns.end = weft_now() + WEFT_S;
    atomic_i64_store_release(&turns.begin, turns.end - WEFT_S);
    for (int64_t i = 0; i < count; i++) {
        bench_check(weft_join(fibers[i]), "weft_join");
        least = yielders[i].turns < least ? yielders[i].turns : least;
        most = yielders[i].turns > most ? yielders[i].turns : most;
        longest = yielders[i].longest > longest ? yielders[i].longest : longest;
    }
    bench->values[0] = (double)most / (double)(least > 0 ? least : 1);
    bench->values[1] = (double)longest / 1e9;
    bench_params(bench, "fibers=%ld turn=%ldus turns=%ld..%ld", (long)count,
                 (long)(turns.turn / WEFT_US), (long)least, (long)most);
    free(fibers);
    free(yielders);
}

/* A fiber that spawns more than a ring holds, and yields. */

static atomic_i64 begun;

static void begin(void *arg)
{
    (void)arg;
    atomic_i64_add_relaxed(&begun, 1);
}

static void spawn_and_yield(void *arg)
{
    double *most = arg;
    int64_t count = 0;
    for (int64_t end = weft_now() + WEFT_S / 2; weft_now() < end; weft_yield()) {
        int64_t waiting = count - atomic_i64_load_relaxed(&begun);
        if ((double)waiting > *most)
            *most = (double)waiting;
        for (int i = 0; i < SPAWNED_EACH; i++, count++)
            bench_check(weft_go(begin, NULL), "weft_go");
    }
}

static void measure_spawn_yield(struct bench *bench, int64_t size)
{
    (void)size;
    bench_in_fiber(spawn_and_yield, &bench->values[0]);
    bench_params(bench, "each=%d", SPAWNED_EACH);
}

/* Short blocking calls. */

enum { UNMARKED, MARKED };

static void block_shortly(void *arg)
{
    const int64_t *way = arg;
    for (int i = 0; i < CALLS; i++) {
        if (*way == MARKED)
            weft_blocking_enter();
        nap(CALL_US * WEFT_US);
        if (*way == MARKED)
            weft_blocking_exit();
        weft_yield();
    }
}

static void measure_block_short(struct bench *bench, int64_t way)
{
    static weft_fiber *crowd[CROWD];
    int count = bench->quick ? CROWD_QUICK : CROWD;
    int64_t start = weft_now();
    for (int i = 0; i < count; i++)
        bench_check(weft_spawn(&crowd[i], block_shortly, &way, NULL), "weft_spawn");
    for (int i = 0; i < count; i++)
        bench_check(weft_join(crowd[i]), "weft_join");
    bench->values[0] = (double)(weft_now() - start) / 1e9;
    bench_params(bench, "fibers=%d calls=%d each=%dus", count, CALLS, CALL_US);
}

const struct bench_case bench_fair_cases[] = {
    {.name = "ticker_block",
     .what = "how late a tick of 1 ms is at worst, while 5,000 fibers block in nanosleep",
     .metrics = {{"", "s"}, {"_median", "s"}},
     .measure = measure_ticker,
     .size = BY_BLOCKING,
     .cold = true},
    {.name = "ticker_cpu",
     .what = "the same while 5,000 fibers compute for 300 us each",
     .metrics = {{"", "s"}, {"_median", "s"}},
     .measure = measure_ticker,
     .size = BY_COMPUTING,
     .cold = true},
    {.name = "yield_turns_10",
     .what = "most by least turns of 10 fibers that yield, and the longest wait for a turn",
     .metrics = {{"", "x"}, {"_wait", "s"}},
     .measure = measure_turns,
     .size = 10,
     .cold = true},
    {.name = "yield_turns_10_one",
     .what = "the same on one processor",
     .metrics = {{"", "x"}, {"_wait", "s"}},
     .measure = measure_turns,
     .size = 10,
     .one_processor = true,
     .cold = true},
    {.name = "yield_turns_1k",
     .what = "the same of 1,000 fibers",
     .metrics = {{"", "x"}, {"_wait", "s"}},
     .measure = measure_turns,
     .size = 1000,
     .cold = true},
    {.name = "yield_turns_1k_one",
     .what = "the same of 1,000 fibers on one processor",
     .metrics = {{"", "x"}, {"_wait", "s"}},
     .measure = measure_turns,
     .size = 1000,
     .one_processor = true,
     .cold = true},
    {.name = "yield_turns_100k",
     .what = "the same of 100,000 fibers",
     .metrics = {{"", "x"}, {"_wait", "s"}},
     .measure = measure_turns,
     .size = 100000,
     .cold = true},
    {.name = "yield_turns_100k_one",
     .what = "the same of 100,000 fibers on one processor",
     .metrics = {{"", "x"}, {"_wait", "s"}},
     .measure = measure_turns,
     .size = 100000,
     .one_processor = true,
     .cold = true},
    {.name = "spawn_yield",
     .what = "fibers that wait to begin, at most, when one that spawns 1,000 and yields goes on",
     .metrics = {{"", "fibers"}},
     .measure = measure_spawn_yield,
     .cold = true},
    {.name = "block_short",
     .what = "5,000 fibers that block for 100 us, five times each, unmarked",
     .metrics = {{"", "s"}},
     .measure = measure_block_short,
     .size = UNMARKED,
     .cold = true},
    {.name = "block_short_marked",
     .what = "the same, marked by weft_blocking_enter",
     .metrics = {{"", "s"}},
     .measure = measure_block_short,
     .size = MARKED,
     .cold = true},
    {.name = NULL},
};
