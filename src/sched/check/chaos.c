/*
 * chaos.c: the ordinary scheduler with forced yields (WEFT_CHAOS).
 *
 * Between two calls of weft a fiber mostly runs undisturbed, so an order of events in which it does
 * not is rare, and a bug that needs one stays hidden for long. Chaos makes such orders common: each
 * call of weft is a point at which the fiber may yield. The points are those of test runs
 * (seeded.c): entries into the runtime, by a bit of `requests` that stays set, and the test_points
 * of calls that do not enter it. So the ordinary mode pays nothing beyond what it pays for test
 * runs.
 *
 * Unlike a test run, chaos has all processors, all machines and the real clock. It is not
 * repeatable, but it also has the races of threads. It does not change the choice of the next
 * fiber: a fiber that yields goes to the end of its processor's ring.
 *
 * A fiber that holds a weft_spin is left alone: it must not yield.
 *
 * Rejected: a point when the fiber leaves the runtime, as in test runs. That one uses wake_wanted,
 * which here stands for machines that must be woken. The next entry is as good: only the program's
 * own code lies in between.
 */
#include "sched/check/chaos.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/prng.h"
#include "sched/check/test_point.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/runtime/thread.h"

static uint32_t percent; /* written while no machine exists */

void weft__chaos_begin(int rate)
{
    percent = (uint32_t)rate;
    atomic_u32_store_relaxed(&weft__testing, rate > 0 ? TESTING_CHAOS : TESTING_NOT);
}

/* In fiber code, inside the runtime: the processor is the caller's. */
struct thread *weft__chaos_enter(struct thread *thread)
{
    if (thread->spins != 0 || prng_below(&thread->processor->prng, 100) >= percent)
        return thread;
    weft__machine_switch((struct machine *)thread, ACTION_YIELD);
    return thread_self();
}

/* In fiber code, outside the runtime. Entering the runtime is a point. */
void weft__chaos_point(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL || thread->fiber == NULL || thread->spins != 0)
        return;
    must(!atomic_u32_load_relaxed(&thread->inside));
    runtime_leave(runtime_enter(thread));
}
