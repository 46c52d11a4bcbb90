/*
 * timers.c: the cost of a timer while a thousand to a million are outstanding.
 *
 * The timers are armed one after the other, each due at a random moment of the second second from
 * the start, and all of them fire. The figure is the CPU time of the whole process, user and
 * system, divided by the timers: an arm, a fire, the call of an empty function, and the work to be
 * awake at the right moments. Wall time would be meaningless: it is two seconds. With --quick there
 * are fewer timers, and they are due sooner.
 */
#include <sys/resource.h>
#include <sys/time.h>
#include <weft/weft.h>

#include "bench.h"

static int64_t processor_time(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * WEFT_S +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * WEFT_US;
}

static void fired(void *arg)
{
    weft_wg_done(arg);
}

static void measure(struct bench *bench, int64_t full)
{
    int64_t count = bench_amount(bench, full);
    int64_t ahead = bench->quick ? 200 * WEFT_MS : WEFT_S;
    uint64_t random = 88172645463325252u;
    weft_wg done;
    weft_wg_init(&done, count);
    int64_t before = processor_time(), start = weft_now();
    for (int64_t i = 0; i < count; i++) {
        weft_timer *timer;
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t due = start + ahead + (int64_t)(random >> 16) % ahead;
        bench_check(weft_timer_open(&timer, fired, &done), "weft_timer_open");
        (void)weft_timer_start(timer, due, 0);
    }
    weft_wg_wait(&done);
    bench->values[0] = (double)(processor_time() - before) / (double)count;
    bench_params(bench, "timers=%ld due=%ld..%ldms time=cpu", (long)count, (long)(ahead / WEFT_MS),
                 (long)(2 * ahead / WEFT_MS));
}

const struct bench_case bench_timers_cases[] = {
    {.name = "timers",
     .what = "arm and fire of a timer, CPU time, of 1,000,000 that are outstanding at once",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1000000,
     .cold = true},
    {.name = "timers_100k",
     .what = "the same of 100,000",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 100000,
     .cold = true},
    {.name = "timers_10k",
     .what = "the same of 10,000",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 10000,
     .cold = true},
    {.name = "timers_1k",
     .what = "the same of 1,000",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1000,
     .cold = true},
    {.name = NULL},
};
