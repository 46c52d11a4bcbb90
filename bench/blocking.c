/*
 * blocking.c: the lateness of sleeps while other fibers block their threads.
 *
 * 1,000 fibers sleep for a millisecond in a loop. After a while 64 more begin to block their
 * threads, all at once and unmarked: in nanosleep for 200 ms, in a loop of 200 ms, or on a file
 * lock that is held for 200 ms. From then until the last of the 64 has ended, the figure is the
 * time from the deadline of a sleep to its end.
 *
 * tick_lateness: the 64 are in nanosleep, and the 1,000 fibers tick on a schedule, every 10 ms. A
 * tick that is missed because an earlier one came late counts too, with its own lateness, so a
 * stall of 200 ms has its full weight even if nothing runs meanwhile. Every system in bench/peers
 * can carry this load. The figure is the 99th percentile.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/atomic.h"
#include "bench.h"

enum {
    TICKERS = 1000,
    BLOCKERS = 64,
    BLOCKERS_QUICK = 16,
    WARM_MS = 50,
    BLOCK_MS = 200,
    SAMPLES_MOST = 4000000,
    TICK_MS = 10
};
enum { BY_NANOSLEEP, BY_LOOP, BY_FLOCK };

static struct {
    int64_t way;
    atomic_u32 counts, over;
    atomic_i64 samples, begin,
        end; /* of the period in which ticks count; end is 0 until it is known */
    double *late;
    char path[32];
} run;

static void tick(void *arg)
{
    (void)arg;
    while (!atomic_u32_load_relaxed(&run.over)) {
        int64_t deadline = weft_after(WEFT_MS);
        bench_check(weft_sleep_until(deadline), "weft_sleep_until");
        if (!atomic_u32_load_relaxed(&run.counts))
            continue;
        int64_t place = atomic_i64_add_relaxed(&run.samples, 1);
        if (place < SAMPLES_MOST)
            run.late[place] = (double)(weft_now() - deadline) / (double)WEFT_US;
    }
}

static void tick_by_schedule(void *arg)
{
    (void)arg;
    for (int64_t due = weft_now() + TICK_MS * WEFT_MS;; due += TICK_MS * WEFT_MS) {
        bench_check(weft_sleep_until(due), "weft_sleep_until");
        int64_t begin = atomic_i64_load_relaxed(&run.begin),
                end = atomic_i64_load_relaxed(&run.end);
        if (end != 0 && due > end)
            return;
        if (begin == 0 || due < begin)
            continue;
        int64_t place = atomic_i64_add_relaxed(&run.samples, 1);
        if (place < SAMPLES_MOST)
            run.late[place] = (double)(weft_now() - due) / (double)WEFT_US;
    }
}

static void nap(long milliseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

static void block(void *arg)
{
    int64_t end = weft_now() + BLOCK_MS * WEFT_MS;
    (void)arg;
    if (run.way == BY_NANOSLEEP) {
        nap(BLOCK_MS);
    } else if (run.way == BY_LOOP) {
        while (weft_now() < end)
            continue;
    } else {
        int file = open(run.path, O_RDWR | O_CLOEXEC);
        bench_check(file < 0 || flock(file, LOCK_EX) != 0, "flock");
        close(file);
    }
}

static void run_with(struct bench *bench, int64_t way, int blocking, void (*ticker)(void *))
{
    static weft_fiber *tickers[TICKERS], *blockers[BLOCKERS];
    char path[] = "/tmp/weft-bench-XXXXXX";
    int file = mkstemp(path);
    bench_check(file < 0 || flock(file, LOCK_EX) != 0, "mkstemp");
    for (size_t i = 0; i < sizeof path; i++)
        run.path[i] = path[i];
    run.way = way;
    run.late = bench_alloc(SAMPLES_MOST, sizeof(double));
    atomic_i64_store_relaxed(&run.samples, 0);
    atomic_u32_store_relaxed(&run.over, 0);
    atomic_u32_store_relaxed(&run.counts, 0);
    for (int i = 0; i < TICKERS; i++)
        bench_check(weft_spawn(&tickers[i], ticker, NULL, NULL), "weft_spawn");
    nap(WARM_MS);
    atomic_i64_store_relaxed(&run.begin, weft_now());
    atomic_u32_store_relaxed(&run.counts, 1);
    for (int i = 0; i < blocking; i++)
        bench_check(weft_spawn(&blockers[i], block, NULL, NULL), "weft_spawn");
    nap(BLOCK_MS);
    flock(file, LOCK_UN);
    for (int i = 0; i < blocking; i++)
        bench_check(weft_join(blockers[i]), "weft_join");
    atomic_i64_store_relaxed(&run.end, weft_now());
    atomic_u32_store_relaxed(&run.over, 1);
    for (int i = 0; i < TICKERS; i++)
        bench_check(weft_join(tickers[i]), "weft_join");
    int64_t count = atomic_i64_load_relaxed(&run.samples);
    count = count < SAMPLES_MOST ? count : SAMPLES_MOST;
    bench_sort(run.late, count);
    bench->values[0] = bench_quantile(run.late, count, 0.5);
    bench->values[1] = bench_quantile(run.late, count, 0.99);
    bench_params(bench, "tickers=%d blockers=%d each=%dms ticks=%ld", TICKERS, blocking, BLOCK_MS,
                 (long)count);
    free(run.late);
    close(file);
    unlink(path);
}

static void measure(struct bench *bench, int64_t way)
{
    run_with(bench, way, BLOCKERS, tick);
}

static void measure_tick_lateness(struct bench *bench, int64_t way)
{
    int blocking = bench->quick ? BLOCKERS_QUICK : BLOCKERS;
    run_with(bench, way, blocking, tick_by_schedule);
    double median = bench->values[0] / 1e6;
    bench->values[0] = bench->values[1] / 1e6;
    bench_params(bench, "tickers=%d period=%dms blockers=%d each=%dms quantile=0.99 median=%.3gs",
                 TICKERS, TICK_MS, blocking, BLOCK_MS, median);
}

const struct bench_case bench_blocking_cases[] = {
    {.name = "tick_lateness",
     .what =
         "how late a tick of 1,000 tickers is, 99th percentile, while 64 fibers block in nanosleep",
     .metrics = {{"", "s"}},
     .measure = measure_tick_lateness,
     .size = BY_NANOSLEEP,
     .cold = true},
    {.name = "blocking_nanosleep",
     .what = "how late 1,000 sleeps of 1 ms end while 64 fibers block in nanosleep",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure,
     .size = BY_NANOSLEEP,
     .cold = true},
    {.name = "blocking_flock",
     .what = "the same while they block in flock",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure,
     .size = BY_FLOCK,
     .cold = true},
    {.name = "blocking_loop",
     .what = "the same while they compute",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure,
     .size = BY_LOOP,
     .cold = true},
    {.name = NULL},
};
