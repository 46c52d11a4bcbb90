/*
 * context.c: the cost of opening and closing a context, and of cancelling many fibers with one.
 *
 * context: an operation is one open and one close by one fiber, of a context without a parent, of
 * one under a parent that stays open, or of one with a deadline. context_cancel: 10,000 fibers
 * bound to one context wait on a channel; the figure is the time from the cancel until all have
 * ended, divided by their number. The second figure is the time of the cancel alone.
 */
#include <errno.h>
#include <weft/weft.h>

#include "bench.h"

struct opening {
    int64_t count;
    weft_context *parent;
    int64_t timeout;
};

static void open_and_close(void *arg)
{
    struct opening *opening = arg;
    weft_context_options options = {.timeout = opening->timeout};
    for (int64_t i = 0; i < opening->count; i++) {
        weft_context *context;
        bench_check(weft_context_open(&context, opening->parent, &options), "weft_context_open");
        weft_context_close(context);
    }
}

static void run(struct bench *bench, struct opening *opening)
{
    opening->count = bench_amount(bench, 2 * 1000 * 1000);
    int64_t elapsed = bench_in_fibers(1, open_and_close, opening);
    bench->values[0] = (double)elapsed / (double)opening->count;
    bench_params(bench, "contexts=%ld", (long)opening->count);
}

static void measure_alone(struct bench *bench, int64_t size)
{
    (void)size;
    struct opening opening = {.parent = NULL};
    run(bench, &opening);
}

static void measure_child(struct bench *bench, int64_t size)
{
    (void)size;
    struct opening opening = {.parent = NULL};
    bench_check(weft_context_open(&opening.parent, NULL, NULL), "weft_context_open");
    run(bench, &opening);
    weft_context_close(opening.parent);
}

static void measure_deadline(struct bench *bench, int64_t seconds)
{
    struct opening opening = {.timeout = seconds * WEFT_S};
    run(bench, &opening);
}

/* Cancelling many fibers. */

struct bound {
    struct bench *bench;
    int64_t fibers;
    weft_context *context;
    weft_chan *never;
    weft_wg arrived, ended;
};

static void wait_for_cancel(void *arg)
{
    struct bound *bound = arg;
    weft_wg_done(&bound->arrived);
    if (weft_chan_receive(bound->never, NULL) != -ECANCELED)
        bench_check(-EIO, "the end of a wait");
    weft_wg_done(&bound->ended);
}

static void cancel_all(void *arg)
{
    struct bound *bound = arg;
    weft_spawn_options options = {.context = bound->context};
    for (int64_t i = 0; i < bound->fibers; i++)
        bench_check(weft_spawn(NULL, wait_for_cancel, bound, &options), "weft_spawn");
    bench_check(weft_wg_wait(&bound->arrived), "weft_wg_wait");
    weft_sleep(10 * WEFT_MS); /* until the last fiber waits */
    int64_t start = weft_now();
    weft_context_cancel(bound->context);
    int64_t cancelled = weft_now() - start;
    bench_check(weft_wg_wait(&bound->ended), "weft_wg_wait");
    bound->bench->values[0] = (double)(weft_now() - start) / (double)bound->fibers;
    bound->bench->values[1] = (double)cancelled / (double)bound->fibers;
}

static void measure_cancel(struct bench *bench, int64_t full)
{
    struct bound bound = {.bench = bench, .fibers = bench_amount(bench, full)};
    bench_check(weft_context_open(&bound.context, NULL, NULL), "weft_context_open");
    bench_check(weft_chan_make(&bound.never, 0, 0), "weft_chan_make");
    bench_check(weft_wg_init(&bound.arrived, bound.fibers), "weft_wg_init");
    bench_check(weft_wg_init(&bound.ended, bound.fibers), "weft_wg_init");
    bench_in_fiber(cancel_all, &bound);
    weft_chan_destroy(bound.never);
    weft_context_close(bound.context);
    bench_params(bench, "fibers=%ld", (long)bound.fibers);
}

const struct bench_case bench_context_cases[] = {
    {.name = "context",
     .what = "open and close a context, by one fiber",
     .metrics = {{"", "ns/op"}},
     .measure = measure_alone,
     .one_processor = true},
    {.name = "context_child",
     .what = "the same under a parent",
     .metrics = {{"", "ns/op"}},
     .measure = measure_child,
     .one_processor = true},
    {.name = "context_deadline",
     .what = "the same with a deadline that is far away",
     .metrics = {{"", "ns/op"}},
     .measure = measure_deadline,
     .size = 3600,
     .one_processor = true},
    {.name = "context_cancel_one",
     .what = "a fiber of 10,000 that wait, from the cancel until all have ended; the cancel alone",
     .metrics = {{"", "ns/op"}, {"_call", "ns/op"}},
     .measure = measure_cancel,
     .size = 10000,
     .one_processor = true},
    {.name = "context_cancel_all",
     .what = "the same on all processors",
     .metrics = {{"", "ns/op"}, {"_call", "ns/op"}},
     .measure = measure_cancel,
     .size = 10000},
    {.name = NULL},
};
