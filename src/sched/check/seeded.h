/*
 * seeded.h: the scheduler of test runs, in which a seed makes all decisions: see seeded.c.
 */
#ifndef WEFT_SCHED_CHECK_SEEDED_H
#define WEFT_SCHED_CHECK_SEEDED_H

#include <stdbool.h>

#include "os/os.h"
#include "sched/check/test_point.h"

struct machine;
struct processor;
struct thread;
struct weft_fiber;

/* The clock of the program, on which deadlines are points: virtual in a test run. Waits between
 * weft and the kernel are measured by weft__os_now. */
int64_t weft__seeded_now(void);
static inline int64_t weft__now(void)
{
    return seeded() ? weft__seeded_now() : weft__os_now();
}
/* Converts a deadline on the virtual clock to one on the clock of the kernel, for threads. */
int64_t weft__seeded_deadline(int64_t deadline);

/* Decides by the seed what otherwise depends on how long something took: true once in `times`. On a
 * thread always false: the calls of threads do not follow the seed. */
bool weft__seeded_chance(uint32_t times);

/* The test point in a fiber that has just entered the runtime. Returns the thread that the fiber is
 * on after it. */
struct thread *weft__seeded_enter(struct thread *thread);
/* Called instead of waking a machine. True: there is none to wake. */
bool weft__seeded_wake(void);
/* Returns the next fiber to run; NULL: only the kernel or another thread can make one ready. */
struct weft_fiber *weft__seeded_choose(struct machine *machine);
/* Counts a panic that was reported. */
void weft__seeded_panicked(void);
/* The seed of the processor's own random numbers. */
uint64_t weft__seeded_prng_seed(void);
/* Returns how many threads from before the run still exist, without the one that runs it. They are
 * known by thread id, not by their number: a thread that was just ending may have been among
 * them. */
uint32_t weft__seeded_other_threads(void);

/* Begin and end of a run, for test_run.c. */
int weft__seeded_begin(uint64_t seed, bool chaos);
struct seeded_result {
    uint64_t trace; /* a hash of all decisions */
    uint32_t panics;
};
struct seeded_result weft__seeded_end(void);
/* The part of test_point in a test run. */
void weft__seeded_point(void);

#endif
