/*
 * sem.c: the cost of acquiring and releasing a unit of a semaphore.
 *
 * An operation is one acquire and one release of one unit; the figure is wall time divided by the
 * operations of all fibers. Contended: eight fibers for two units. On one processor fibers do not
 * interrupt each other; in the _yield case each yields while it has its unit, so six others wait.
 */
#include <errno.h>
#include <weft/weft.h>

#include "bench.h"

enum { FIBERS = 8, UNITS = 2 };

struct contest {
    weft_sem sem;
    int64_t each; /* operations per fiber */
};

static void take(void *arg)
{
    struct contest *contest = arg;
    for (int64_t i = 0; i < contest->each; i++) {
        weft_sem_acquire(&contest->sem, 1);
        weft_sem_release(&contest->sem, 1);
    }
}

static void take_and_yield(void *arg)
{
    struct contest *contest = arg;
    for (int64_t i = 0; i < contest->each; i++) {
        weft_sem_acquire(&contest->sem, 1);
        weft_yield();
        weft_sem_release(&contest->sem, 1);
    }
}

static void run(struct bench *bench, int fibers, int64_t full, void (*loop)(void *))
{
    int64_t operations = bench_amount(bench, full);
    struct contest contest = {.sem = WEFT_SEM_INIT(UNITS), .each = operations / fibers};
    int64_t elapsed = bench_in_fibers(fibers, loop, &contest);
    if (weft_sem_available(&contest.sem) != UNITS)
        bench_check(-EIO, "the units");
    bench->values[0] = (double)elapsed / (double)(fibers * contest.each);
    bench_params(bench, "fibers=%d units=%d operations=%ld", fibers, UNITS,
                 (long)(fibers * contest.each));
}

static void measure(struct bench *bench, int64_t fibers)
{
    run(bench, (int)fibers, 8 * 1000 * 1000, take);
}

static void measure_yield(struct bench *bench, int64_t fibers)
{
    run(bench, (int)fibers, 2 * 1000 * 1000, take_and_yield);
}

const struct bench_case bench_sem_cases[] = {
    {.name = "sem",
     .what = "acquire and release of a unit by one fiber, alone",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1,
     .one_processor = true},
    {.name = "sem_contended",
     .what = "the same by eight fibers for two units on all processors",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = FIBERS},
    {.name = "sem_yield_one",
     .what = "acquire, yield and release by eight fibers for two units on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_yield,
     .size = FIBERS,
     .one_processor = true},
    {.name = NULL},
};
