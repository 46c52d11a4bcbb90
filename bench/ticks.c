/*
 * ticks.c: the cost of periodic sleeps in an idle process.
 *
 * A number of fibers tick every millisecond for a second, each on a schedule of its own, evenly
 * spaced. The figure is the CPU time of the whole process, user and system, per tick: the
 * scheduler's work to be awake at the right moments. The second figure is how often a thread of the
 * process went to sleep per tick: at least one if the ticks come one by one. ticks_thread is one
 * plain thread in nanosleep.
 */
#include <sys/resource.h>
#include <time.h>
#include <weft/weft.h>

#include "bench.h"

enum { TICKERS_MOST = 1000 };
#define PERIOD WEFT_MS

static int64_t end_of_ticks;

struct usage {
    int64_t time, sleeps;
};

static struct usage usage_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct usage){(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * WEFT_S +
                              (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * WEFT_US,
                          usage.ru_nvcsw};
}

static void tick(void *arg)
{
    for (int64_t due = *(int64_t *)arg; due < end_of_ticks; due += PERIOD)
        bench_check(weft_sleep_until(due), "weft_sleep_until");
}

static void tick_by_thread(int64_t due)
{
    for (; due < end_of_ticks; due += PERIOD) {
        struct timespec until = {.tv_sec = due / WEFT_S, .tv_nsec = due % WEFT_S};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

/* `count` is 0 for the thread. */
static void measure(struct bench *bench, int64_t count)
{
    static weft_fiber *fibers[TICKERS_MOST];
    static int64_t begins[TICKERS_MOST];
    int64_t length = bench_amount(bench, WEFT_S), begin = weft_now() + 10 * WEFT_MS;
    int64_t each = length / PERIOD;
    double ticks = (double)((count > 0 ? count : 1) * each);
    end_of_ticks = begin + length;
    struct usage before = usage_now();
    for (int64_t i = 0; i < count; i++) {
        begins[i] = begin + i * PERIOD / count;
        bench_check(weft_spawn(&fibers[i], tick, &begins[i], NULL), "weft_spawn");
    }
    for (int64_t i = 0; i < count; i++)
        bench_check(weft_join(fibers[i]), "weft_join");
    if (count == 0)
        tick_by_thread(begin);
    struct usage after = usage_now();
    bench->values[0] = (double)(after.time - before.time) / ticks;
    bench->values[1] = (double)(after.sleeps - before.sleeps) / ticks;
    bench_params(bench, "tickers=%ld period=1ms for=%ldms time=cpu", (long)count,
                 (long)(length / WEFT_MS));
}

const struct bench_case bench_ticks_cases[] = {
    {.name = "ticks_1",
     .what = "a tick of one fiber that ticks every millisecond, CPU time; and how often a thread "
             "sleeps",
     .metrics = {{"", "ns/op"}, {"_sleeps", "x"}},
     .measure = measure,
     .size = 1},
    {.name = "ticks_10",
     .what = "the same of ten, evenly apart",
     .metrics = {{"", "ns/op"}, {"_sleeps", "x"}},
     .measure = measure,
     .size = 10},
    {.name = "ticks_100",
     .what = "the same of a hundred",
     .metrics = {{"", "ns/op"}, {"_sleeps", "x"}},
     .measure = measure,
     .size = 100},
    {.name = "ticks_1k",
     .what = "the same of a thousand",
     .metrics = {{"", "ns/op"}, {"_sleeps", "x"}},
     .measure = measure,
     .size = 1000},
    {.name = "ticks_1_one",
     .what = "a tick of one fiber, on one processor",
     .metrics = {{"", "ns/op"}, {"_sleeps", "x"}},
     .measure = measure,
     .size = 1,
     .one_processor = true},
    {.name = "ticks_thread",
     .what = "for comparison: a tick of a plain thread in nanosleep",
     .metrics = {{"", "ns/op"}, {"_sleeps", "x"}},
     .measure = measure,
     .size = 0},
    {.name = NULL},
};
