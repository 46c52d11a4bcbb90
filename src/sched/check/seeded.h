/*
 * seeded.h: the scheduler of test runs, which a seed decides: see seeded.c; and chaos: see chaos.c.
 */
#ifndef WEFT_SCHED_CHECK_SEEDED_H
#define WEFT_SCHED_CHECK_SEEDED_H

#include <stdbool.h>

#include "base/compiler.h"
#include "os/os.h"

struct machine;
struct processor;
struct thread;
struct weft_fiber;

/* Whether a test run is under way, or the common scheduler works with forced yields. Written while no machine
 * exists. */
enum { TESTING_NOT = 0, TESTING_SEEDED, TESTING_CHAOS };
extern atomic_u32 weft__testing;
static inline bool seeded(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__testing) == TESTING_SEEDED);
}
/* Whether there is anything to do at the points below. */
static inline bool test_points(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__testing) != TESTING_NOT);
}

/* The clock of the program: deadlines are points on it. What is between weft and the kernel is measured by
 * weft__os_now. */
int64_t weft__seeded_now(void);
static inline int64_t weft__now(void)
{
    return seeded() ? weft__seeded_now() : weft__os_now();
}
/* A point of the program's clock as one of the kernel's, for threads. */
int64_t weft__seeded_deadline(int64_t deadline);

/* A place where the seed, or chaos, may let others go first. Calls of weft that enter the runtime are such places by
 * themselves; this is for those that do not, if they need not wait. For callers outside the runtime. */
void weft__test_point(void);
static inline void test_point(void)
{
    if (test_points())
        weft__test_point();
}

/* Decides in a test run what otherwise depends on how long something took: true once in `times`.
 * Never on a thread, whose calls come when they come. */
bool weft__seeded_chance(uint32_t times);

/* In a fiber that has just entered the runtime, which may go on on another thread. */
struct thread *weft__test_enter(struct thread *thread);
struct thread *weft__seeded_enter(struct thread *thread);
struct thread *weft__chaos_enter(struct thread *thread);
/* Instead of waking a machine. True: there is none to wake. */
bool weft__seeded_wake(void);
/* The next fiber to run; NULL: only the system, or a thread, can wake one. */
struct weft_fiber *weft__seeded_choose(struct machine *machine);
/* A panic was reported. */
void weft__seeded_panicked(void);
/* What the processor's own generator begins with. */
uint64_t weft__seeded_lots(void);
/* Threads that were there when the run began and still are, but for the one that runs it. One that ended just before
 * may have been among them: so they are known by number, not by how many they were. */
uint32_t weft__seeded_strangers(void);

/* A run, for test_run.c. */
int weft__seeded_begin(uint64_t seed, bool chaos);
struct seeded_result {
    uint64_t trace; /* a hash over all that was decided */
    uint32_t panics;
};
struct seeded_result weft__seeded_end(void);
/* Beside the seed: the points of the two ways. */
void weft__seeded_point(void);
void weft__chaos_point(void);
/* Of a hundred points, at so many others go first; 0: there is no chaos. Called when the runtime starts. */
void weft__chaos_begin(int percent);

#endif
