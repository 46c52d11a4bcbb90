/*
 * seeded.h: the scheduler of test runs, which a seed decides: see seeded.c.
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

/* The clock of the program: deadlines are points on it. What is between weft and the kernel is measured by
 * weft__os_now. */
int64_t weft__seeded_now(void);
static inline int64_t weft__now(void)
{
    return seeded() ? weft__seeded_now() : weft__os_now();
}
/* A point of the program's clock as one of the kernel's, for threads. */
int64_t weft__seeded_deadline(int64_t deadline);

/* Decides in a test run what otherwise depends on how long something took: true once in `times`.
 * Never on a thread, whose calls come when they come. */
bool weft__seeded_chance(uint32_t times);

/* In a fiber that has just entered the runtime, which may go on on another thread. */
struct thread *weft__seeded_enter(struct thread *thread);
/* Instead of waking a machine. True: there is none to wake. */
bool weft__seeded_wake(void);
/* The next fiber to run; NULL: only the system, or a thread, can wake one. */
struct weft_fiber *weft__seeded_choose(struct machine *machine);
/* A panic was reported. */
void weft__seeded_panicked(void);
/* What the processor's own generator begins with. */
uint64_t weft__seeded_prng_seed(void);
/* Threads that were there when the run began and still are, but for the one that runs it. One that ended just before
 * may have been among them: so they are known by number, not by how many they were. */
uint32_t weft__seeded_other_threads(void);

/* A run, for test_run.c. */
int weft__seeded_begin(uint64_t seed, bool chaos);
struct seeded_result {
    uint64_t trace; /* a hash over all that was decided */
    uint32_t panics;
};
struct seeded_result weft__seeded_end(void);
/* A test_point, which the seed decides. */
void weft__seeded_point(void);

#endif
