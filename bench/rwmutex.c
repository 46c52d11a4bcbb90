/*
 * rwmutex.c: the cost of a critical section that mostly reads.
 *
 * An operation is one lock and one unlock: for reading, with a load of a counter between, and every
 * hundredth for writing, which adds one to it. The figure is wall time divided by the operations of
 * all fibers. With eight fibers on all processors readers overlap, and a writer has to wait for
 * them.
 */
#include <errno.h>
#include <weft/weft.h>

#include "bench.h"

enum { FIBERS = 8, WRITE_EVERY = 100 };

struct contest {
    weft_rwmutex rwmutex;
    int64_t each; /* operations per fiber */
    int64_t counter;
};

static void read_mostly(void *arg)
{
    struct contest *contest = arg;
    int64_t last = 0;
    for (int64_t i = 0; i < contest->each; i++) {
        if (i % WRITE_EVERY == 0) {
            weft_rwmutex_write_lock(&contest->rwmutex);
            contest->counter++;
            weft_rwmutex_write_unlock(&contest->rwmutex);
            continue;
        }
        weft_rwmutex_read_lock(&contest->rwmutex);
        int64_t now = contest->counter;
        weft_rwmutex_read_unlock(&contest->rwmutex);
        if (now < last)
            bench_check(-EIO, "the counter");
        last = now;
    }
}

static void measure(struct bench *bench, int64_t fibers)
{
    int64_t operations = bench_amount(bench, 8 * 1000 * 1000);
    struct contest contest = {.rwmutex = WEFT_RWMUTEX_INIT, .each = operations / fibers};
    int64_t elapsed = bench_in_fibers((int)fibers, read_mostly, &contest);
    if (contest.counter != fibers * (contest.each / WRITE_EVERY))
        bench_check(-EIO, "the counter");
    bench->values[0] = (double)elapsed / (double)(fibers * contest.each);
    bench_params(bench, "fibers=%ld operations=%ld writes=1/%d", (long)fibers,
                 (long)(fibers * contest.each), WRITE_EVERY);
}

const struct bench_case bench_rwmutex_cases[] = {
    {.name = "rwmutex",
     .what = "lock and unlock by one fiber, alone, 99 of 100 for reading",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1,
     .one_processor = true},
    {.name = "rwmutex_all",
     .what = "the same by eight fibers on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = FIBERS},
    {.name = NULL},
};
