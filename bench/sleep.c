/*
 * sleep.c: the cost of a timer, and its lateness.
 *
 * Cost. A number of timers is outstanding: armed for a time between one and two hours from now, in
 * random order, never due. Next to them 1,000 fibers on one processor sleep for 50 us in a loop. An
 * operation is one weft_sleep: arm, park, fire, resume. A turn of all fibers takes longer than the
 * sleep, so a fiber is always due and the processor never waits for the clock: the figure is cost,
 * not waiting. It includes two switches, which yield_200 measures alone.
 *
 * timer_rearm moves one of a million armed timers: a disarm and an arm; no fiber runs.
 *
 * Lateness. A single fiber sleeps in a process that is otherwise idle; the figure is the time from
 * its deadline until it runs. It includes the time that the system takes to wake a thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <weft/weft.h>

#include "bench.h"

enum { SLEEPERS = 2000, HOUR = 3600 };
#define SHORT (20 * WEFT_US)

static void never(void *arg)
{
    (void)arg;
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int64_t far_deadline(uint64_t *state)
{
    return weft_after(HOUR * WEFT_S + (int64_t)(random_next(state) % (HOUR * (uint64_t)WEFT_S)));
}

/* Armed once per process: the warm-up and the measured pass share the timers. */
static weft_timer **outstanding(int64_t count)
{
    static weft_timer **timers;
    uint64_t state = 88172645463325252u;
    if (timers != NULL)
        return timers;
    timers = bench_alloc(count, sizeof(weft_timer *));
    for (int64_t i = 0; i < count; i++) {
        bench_check(weft_timer_open(&timers[i], never, NULL), "weft_timer_open");
        bench_check(weft_timer_start(timers[i], far_deadline(&state), 0), "weft_timer_start");
    }
    return timers;
}

struct sleepers {
    struct bench *bench;
    int64_t sleeps; /* per fiber */
    weft_wg done;
};

static void sleeper(void *arg)
{
    struct sleepers *sleepers = arg;
    for (int64_t i = 0; i < sleepers->sleeps; i++)
        weft_sleep(SHORT);
    weft_wg_done(&sleepers->done);
}

static void coordinate(void *arg)
{
    struct sleepers *sleepers = arg;
    weft_wg_init(&sleepers->done, SLEEPERS);
    int64_t start = weft_now();
    for (int i = 0; i < SLEEPERS; i++)
        bench_check(weft_go(sleeper, sleepers), "weft_go");
    weft_wg_wait(&sleepers->done);
    int64_t elapsed = weft_now() - start;
    sleepers->bench->values[0] = (double)elapsed / (double)(SLEEPERS * sleepers->sleeps);
}

static void measure_cost(struct bench *bench, int64_t count)
{
    struct sleepers sleepers = {.bench = bench, .sleeps = bench_amount(bench, 1000)};
    (void)outstanding(count);
    bench_params(bench, "outstanding=%ld fibers=%d sleeps=%ld of=20us", (long)count, SLEEPERS,
                 (long)sleepers.sleeps);
    bench_in_fiber(coordinate, &sleepers);
}

static void measure_rearm(struct bench *bench, int64_t count)
{
    weft_timer **timers = outstanding(count);
    int64_t moves = bench_amount(bench, 2 * 1000 * 1000);
    uint64_t state = 2463534242u;
    int64_t start = weft_now();
    for (int64_t i = 0; i < moves; i++) {
        weft_timer *timer = timers[random_next(&state) % (uint64_t)count];
        if (weft_timer_start(timer, far_deadline(&state), 0) != 1)
            bench_check(-EINVAL, "weft_timer_start of an armed timer");
    }
    bench->values[0] = (double)(weft_now() - start) / (double)moves;
    bench_params(bench, "outstanding=%ld moves=%ld from=thread", (long)count, (long)moves);
}

struct lateness {
    int64_t duration, count;
    double *samples; /* us */
};

static void sleep_and_note(void *arg)
{
    struct lateness *lateness = arg;
    for (int64_t i = 0; i < lateness->count; i++) {
        int64_t deadline = weft_after(lateness->duration);
        weft_sleep_until(deadline);
        lateness->samples[i] = (double)(weft_now() - deadline) / (double)WEFT_US;
    }
}

static void measure_lateness(struct bench *bench, int64_t duration)
{
    struct lateness lateness = {.duration = duration};
    lateness.count = bench_amount(bench, duration < WEFT_MS ? 5000 : 2 * WEFT_S / duration);
    lateness.samples = bench_alloc(lateness.count, sizeof(double));
    bench_in_fiber(sleep_and_note, &lateness);
    bench_sort(lateness.samples, lateness.count);
    bench->values[0] = bench_quantile(lateness.samples, lateness.count, 0.5);
    bench->values[1] = bench_quantile(lateness.samples, lateness.count, 0.99);
    bench_params(bench, "sleep=%ldus samples=%ld", (long)(duration / WEFT_US),
                 (long)lateness.count);
    free(lateness.samples);
}

const struct bench_case bench_sleep_cases[] = {
    {.name = "sleep_10",
     .what = "arm, park, fire and resume with 10 other timers outstanding",
     .metrics = {{"", "ns/op"}},
     .measure = measure_cost,
     .size = 10,
     .one_processor = true},
    {.name = "sleep_10k",
     .what = "the same with 10,000 outstanding",
     .metrics = {{"", "ns/op"}},
     .measure = measure_cost,
     .size = 10000,
     .one_processor = true},
    {.name = "sleep_1m",
     .what = "the same with 1,000,000 outstanding",
     .metrics = {{"", "ns/op"}},
     .measure = measure_cost,
     .size = 1000000,
     .one_processor = true},
    {.name = "timer_rearm_1m",
     .what = "disarm and arm of one of 1,000,000 timers, chosen at random, from a thread",
     .metrics = {{"", "ns/op"}},
     .measure = measure_rearm,
     .size = 1000000,
     .one_processor = true},
    {.name = "late_50us",
     .what = "how long after its deadline a sleep of 50 us ends",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure_lateness,
     .size = 50 * 1000},
    {.name = "late_1ms",
     .what = "the same for a sleep of 1 ms",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure_lateness,
     .size = 1000 * 1000},
    {.name = "late_10ms",
     .what = "the same for a sleep of 10 ms",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure_lateness,
     .size = 10 * 1000 * 1000},
    {.name = NULL},
};
