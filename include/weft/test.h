/*
 * weft/test.h: tests of concurrent code that fail the same way each time.
 *
 *     static void transfer(void *arg) { ... spawn, lock, send, sleep, assert ... }
 *
 *     int main(void)
 *     {
 *         return weft_test_seeds(&(weft_test_options){.seeds = 1000}, transfer, NULL) != 0;
 *     }
 *
 * A run calls the function as a fiber, in a runtime of its own with one processor:
 *
 *   schedule  Which ready fiber goes on next, and whether a fiber goes on after a call of weft or
 *             others run first, is drawn at random, and the seed decides the draws. The same seed
 *             gives the same schedule, another seed another one.
 *   time      The clock stands still while any fiber can run, and jumps to the next deadline when
 *             all wait: a sleep of an hour takes microseconds, and weft_now() shows that exactly an
 *             hour has passed. It begins at the same value in each run. (It also jumps when each
 *             fiber that can run has only called weft_yield a thousand times in a row: they wait in
 *             a loop. Without any deadline it moves by a millisecond then.)
 *   end       A run is over when all fibers have ended and all timers are closed.
 *
 * Failures. If no fiber can go on, that is a deadlock, or a timer that was left open: the report
 * says what each fiber waits for, and the process aborts. A panic that is not recovered is
 * reported, and the run fails. If the process ends during a run (abort, assert, a fault, a
 * sanitizer, exit, but not _exit), the seed is written to stderr:
 *
 *     weft: this was seed 42 of a test run (WEFT_TEST_SEED=42 runs it alone)
 *
 * The seed does not decide what comes from outside. Threads that the test starts, descriptors that
 * it waits for and the duration of weft_blocking work as always, at their own time. While a fiber
 * is in weft_blocking the clock stands still, and a wait for a descriptor gets a millisecond of
 * real time before the clock jumps to its deadline. A fiber that blocks its thread without
 * weft_blocking holds all others up. Deadlines of threads are in real time.
 *
 * docs/testing.md shows how to use it. This header is not part of weft/weft.h.
 */
#ifndef WEFT_TEST_H
#define WEFT_TEST_H

#include <weft/base.h>

WEFT_BEGIN

/* Runs function(arg) as a fiber under the seed, and waits for the end of the run. The runtime is
 * stopped before and after the run. The configuration (weft/runtime.h) applies, except that there
 * is one processor and the deadlock check is on.
 * Returns 0; -EOWNERDEAD if weft had to report a panic: one that was neither recovered nor taken by
 * weft_join_panic or a handler; -EBUSY from a fiber, if another run is in progress, or if fibers or
 * timers from before still exist after two seconds; -EINVAL if function is NULL; -ECHILD in a
 * forked child; or why the runtime could not start (-ENOMEM, -EAGAIN, -EMFILE and the like).
 * Contexts: thread.
 * Undefined: any use of weft during the run by threads that the run has not started; after it, any
 * use of a handle from before. */
WEFT_API WEFT_MUST_USE int weft_test_run(uint64_t seed, void (*function)(void *), void *arg);

/* Zero means default in every field. */
typedef struct weft_test_options {
    uint64_t first; /* the first seed */
    uint64_t seeds; /* how many; default 100 */
    int chaos;      /* not zero: with every seed, other fibers run first at every call of weft */
    int twice;      /* not zero: each seed runs twice, and the schedules are compared */
    uintptr_t reserved[8];
} weft_test_options;

/* Runs function(arg) under the seeds `first`, `first` + 1, and so on, until one fails. `options`
 * may be NULL: all defaults. The environment overrides them: WEFT_TEST_SEED=n runs that seed alone,
 * WEFT_TEST_SEEDS=n that many.
 * Returns 0, or the result of weft_test_run for the first seed that failed, which is written to
 * stderr; -EPROTO if two runs of a seed differed: the test depends on more than the seed, such as
 * real time, threads, addresses, or state that an earlier run has left; -EINVAL also if a reserved
 * field is set.
 * Contexts: as weft_test_run. */
WEFT_API WEFT_MUST_USE int weft_test_seeds(const weft_test_options *options,
                                           void (*function)(void *), void *arg);

/* Stores the seed of the run in progress, for tests that write reports of their own.
 * Returns 0; -EINVAL if seed is NULL; -EAGAIN if no run is in progress.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_test_seed(uint64_t *seed);

WEFT_END

#endif
