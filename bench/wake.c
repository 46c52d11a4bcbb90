/*
 * wake.c: the time from waking a fiber until it runs, while its processor sleeps.
 *
 * wake_thread: a plain thread, after a pause of 1 ms in which all machines go to sleep, releases a
 * fiber that waits on a wait group. wake_fiber: a fiber releases it, and then computes until the
 * other has answered, so that another processor has to run the other. Both include the system's own
 * time to wake a thread: these are latencies of an idle process, not costs.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <weft/weft.h>

#include "bench.h"

struct relay {
    struct bench *bench;
    int64_t count;
    _Atomic int64_t stamp;    /* the time at which the gate was opened */
    _Atomic int64_t answered; /* the number of times that the waiter ran */
    weft_wg gate, ready;
    double *samples; /* us */
};

/* Waits at the gate in a loop, and records the time from its opening until it runs. */
static void waiter(void *arg)
{
    struct relay *relay = arg;
    for (int64_t i = 0; i < relay->count; i++) {
        weft_wg_wait(&relay->gate);
        relay->samples[i] = (double)(weft_now() - relay->stamp) / (double)WEFT_US;
        weft_wg_init(&relay->gate, 1);
        relay->answered = i + 1;
        weft_wg_done(&relay->ready);
    }
}

/* Opens the gate after a pause in which all machines go to sleep. */
static void open_gate(struct relay *relay)
{
    weft_wg_init(&relay->ready, 1);
    weft_sleep(WEFT_MS);
    relay->stamp = weft_now();
    weft_wg_done(&relay->gate);
}

static void waker(void *arg)
{
    struct relay *relay = arg;
    for (int64_t i = 0; i < relay->count; i++) {
        open_gate(relay);
        int64_t limit = weft_after(100 * WEFT_MS);
        while (relay->answered == i && weft_now() < limit)
            continue;
        weft_wg_wait(&relay->ready);
    }
}

static void measure(struct bench *bench, int64_t from_fiber)
{
    struct relay relay = {.bench = bench, .count = bench_amount(bench, 1000)};
    weft_fiber *fiber;
    relay.samples = bench_alloc(relay.count, sizeof(double));
    weft_wg_init(&relay.gate, 1);
    bench_check(weft_spawn(&fiber, waiter, &relay, NULL), "weft_spawn");
    if (from_fiber) {
        bench_in_fiber(waker, &relay);
    } else {
        for (int64_t i = 0; i < relay.count; i++) {
            open_gate(&relay);
            weft_wg_wait(&relay.ready);
        }
    }
    bench_check(weft_join(fiber), "weft_join");
    bench_sort(relay.samples, relay.count);
    bench->values[0] = bench_quantile(relay.samples, relay.count, 0.5);
    bench->values[1] = bench_quantile(relay.samples, relay.count, 0.99);
    bench_params(bench, "wakes=%ld pause=1ms", (long)relay.count);
    free(relay.samples);
}

const struct bench_case bench_wake_cases[] = {
    {.name = "wake_thread",
     .what = "from a plain thread's weft_wg_done until the fiber runs, process idle",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure,
     .size = 0},
    {.name = "wake_fiber",
     .what = "from a busy fiber's weft_wg_done until the fiber runs on another processor",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure,
     .size = 1},
    {.name = NULL},
};
