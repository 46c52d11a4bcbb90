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
 *   schedule  which of the fibers that are ready goes on is drawn by lot, and the seed decides the lots; so
 *             does it whether a fiber goes on after a call of weft, or others go first. The same seed gives the
 *             same schedule, another seed another one.
 *   time      stands still while any fiber can run, and jumps to the next deadline when all wait: a sleep of
 *             an hour takes microseconds, weft_now() shows that an hour has passed, to the nanosecond. It
 *             begins at the same value in each run. (It jumps too when all who can run did nothing
 *             but weft_yield for a thousand times each: they wait for something in a loop. Without any deadline
 *             it moves by a millisecond then.)
 *   end       a run is over when all fibers have ended and all timers are closed.
 *
 * What fails: if nobody can go on, that is a deadlock (or a timer that was left open), which is reported with
 * who waits for what, and the process aborts. A panic that nobody recovers is reported, and the run fails. Whatever
 * ends the process during a run (abort, assert, a fault, a sanitizer, exit, but not _exit) says the seed:
 *
 *     weft: this was seed 42 of a test run (WEFT_TEST_SEED=42 runs it alone)
 *
 * What the seed does not decide: threads that the test starts, descriptors that it waits for and the time that
 * weft_blocking takes work, but come when they come; while somebody is in weft_blocking time stands still,
 * and a wait for a descriptor is given a millisecond before its deadline jumps. A fiber that blocks its thread
 * without weft_blocking holds all others up. Deadlines of threads are kept in real time.
 *
 * docs/testing.md shows how to use it. This header is not part of weft/weft.h.
 */
#ifndef WEFT_TEST_H
#define WEFT_TEST_H

#include <weft/base.h>

WEFT_BEGIN

/* Runs function(arg) as a fiber under the seed, and waits for the end of the run. What is configured
 * (weft/runtime.h) holds, but for the number of processors and the deadlock check, which is on.
 * Returns 0; -EOWNERDEAD if a fiber ended by a panic that nobody recovered or joined for; -EBUSY from a fiber, if
 * fibers or timers from before are still there after two seconds, or if another run is under way; -EINVAL if function is NULL; -ECHILD in
 * a forked child; or why the runtime could not start (-ENOMEM, -EAGAIN, -EMFILE and the like).
 * Contexts: thread. The runtime is stopped before and after it. Undefined: that threads which the run has not
 * started use weft meanwhile, and any use of a handle from before the run after it. */
WEFT_API WEFT_MUST_USE int weft_test_run(uint64_t seed, void (*function)(void *), void *arg);

/* Zero means default in every field. */
typedef struct weft_test_options {
    uint64_t first; /* the first seed */
    uint64_t seeds; /* how many; default 100 */
    int chaos;      /* not zero: with every seed, others go first at every call of weft */
    int twice;      /* not zero: runs each seed twice, and compares the schedules */
    uintptr_t reserved[8];
} weft_test_options;

/* Runs function(arg) under the seeds `first`, `first` + 1, and so on, until one fails. The environment goes before
 * the options: WEFT_TEST_SEED=n runs that seed alone, WEFT_TEST_SEEDS=n so many.
 * Returns 0, or what weft_test_run returned for the first seed that failed, which is said on stderr; -EPROTO if two
 * runs of a seed differed: then the test depends on something else, such as real time, threads, addresses, or
 * what an earlier run has left; -EINVAL also if a reserved field is set.
 * Contexts: as weft_test_run. `options` may be NULL. */
WEFT_API WEFT_MUST_USE int weft_test_seeds(const weft_test_options *options,
                                           void (*function)(void *), void *arg);

/* The seed of the run that is under way, for those who report failures in their own way.
 * Returns 0; -EINVAL if seed is NULL; -EAGAIN if there is no run.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_test_seed(uint64_t *seed);

WEFT_END

#endif
