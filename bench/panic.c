/*
 * panic.c: the cost of recover points, deferred clean-ups and panics.
 *
 * An operation of `recover` is a weft_recover whose function returns at once; of `defer`, a
 * WEFT_DEFER and the end of its block; of `panic_recover`, a weft_recover whose function panics
 * some calls further in, one of which has a deferred clean-up. There are no waits, so one fiber
 * does everything.
 */
#include <weft/weft.h>

#include "bench.h"

enum { DEEP = 8 };

static volatile int64_t sink;

static void nothing(void *arg)
{
    (void)arg;
    sink++;
}

static __attribute__((noinline)) void descend(int64_t depth)
{
    if (depth == 0 && sink >= 0)
        weft_panic("at the bottom");
    if (depth > 0)
        descend(depth - 1);
    sink++; /* no tail call */
}

static void panic_deep(void *arg)
{
    WEFT_DEFER(nothing, arg);
    descend(DEEP);
}

enum { RECOVER, DEFER, PANIC };

struct calls {
    struct bench *bench;
    int64_t what, count;
};

static __attribute__((noinline)) void defer_once(void)
{
    WEFT_DEFER(nothing, NULL);
    sink++;
}

static void call(void *arg)
{
    struct calls *calls = arg;
    int64_t start = weft_now();
    for (int64_t i = 0; i < calls->count; i++)
        if (calls->what == DEFER)
            defer_once();
        else if (weft_recover(calls->what == PANIC ? panic_deep : nothing, NULL, NULL) == 1)
            return;
    calls->bench->values[0] = (double)(weft_now() - start) / (double)calls->count;
}

static void measure(struct bench *bench, int64_t what)
{
    struct calls calls = {bench, what, bench_amount(bench, what == PANIC ? 100 * 1000 : 10000000)};
    bench_params(bench, "calls=%ld", (long)calls.count);
    bench_in_fiber(call, &calls);
}

const struct bench_case bench_panic_cases[] = {
    {.name = "recover",
     .what = "a recover point whose function returns",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = RECOVER,
     .one_processor = true},
    {.name = "defer",
     .what = "a deferred clean-up and its block's end",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = DEFER,
     .one_processor = true},
    {.name = "panic_recover",
     .what = "a panic ten calls deep, one clean-up, and its recover point",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = PANIC,
     .one_processor = true},
    {.name = NULL},
};
