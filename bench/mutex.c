/*
 * mutex.c: the cost of a critical section.
 *
 * An operation is one lock and one unlock around a section that adds one to a counter; the figure
 * is wall time divided by the operations of all fibers. Contended: eight fibers that do nothing
 * else. On one processor fibers do not interrupt each other, so the mutex is never found locked,
 * unless its holder yields inside the section: it does in the _yield cases, so that all others
 * wait.
 */
#include <errno.h>
#include <weft/weft.h>

#include "bench.h"

enum { FIBERS = 8 };

struct contest {
    weft_mutex mutex;
    int64_t each; /* operations per fiber */
    int64_t counter;
};

static void add(void *arg)
{
    struct contest *contest = arg;
    for (int64_t i = 0; i < contest->each; i++) {
        weft_mutex_lock(&contest->mutex);
        contest->counter++;
        weft_mutex_unlock(&contest->mutex);
    }
}

static void add_and_yield(void *arg)
{
    struct contest *contest = arg;
    for (int64_t i = 0; i < contest->each; i++) {
        weft_mutex_lock(&contest->mutex);
        contest->counter++;
        weft_yield();
        weft_mutex_unlock(&contest->mutex);
    }
}

static void run(struct bench *bench, int fibers, int64_t full, void (*loop)(void *))
{
    int64_t operations = bench_amount(bench, full);
    struct contest contest = {.mutex = WEFT_MUTEX_INIT, .each = operations / fibers};
    int64_t elapsed = bench_in_fibers(fibers, loop, &contest);
    if (contest.counter != fibers * contest.each)
        bench_check(-EIO, "the counter");
    bench->values[0] = (double)elapsed / (double)contest.counter;
    bench_params(bench, "fibers=%d operations=%ld", fibers, (long)contest.counter);
}

static void measure(struct bench *bench, int64_t fibers)
{
    run(bench, (int)fibers, 2 * 1000 * 1000, add);
}

static void measure_yield(struct bench *bench, int64_t fibers)
{
    run(bench, (int)fibers, 2 * 1000 * 1000, add_and_yield);
}

const struct bench_case bench_mutex_cases[] = {
    {.name = "mutex_alone",
     .what = "lock and unlock by one fiber, alone",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1,
     .one_processor = true},
    {.name = "mutex_one",
     .what = "lock and unlock by eight fibers on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = FIBERS,
     .one_processor = true},
    {.name = "mutex",
     .what = "the same on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = FIBERS},
    {.name = "mutex_yield_one",
     .what = "lock, yield and unlock by eight fibers on one processor: everyone has to wait",
     .metrics = {{"", "ns/op"}},
     .measure = measure_yield,
     .size = FIBERS,
     .one_processor = true},
    {.name = "mutex_yield_all",
     .what = "the same on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure_yield,
     .size = FIBERS},
    {.name = NULL},
};
