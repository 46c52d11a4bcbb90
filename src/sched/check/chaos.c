/*
 * chaos.c: the common scheduler with forced yields (WEFT_CHAOS): each call of weft is a place where others go first.
 *
 * Between two calls a fiber mostly runs on undisturbed, and an order of events in which it does not is rare: most
 * bugs that need one hide for long. With chaos such orders are the rule. The points are those of test runs
 * (seeded.c): all entries into the runtime, by a bit of `requests` that stays set, and the test_points of calls
 * that do not enter it. So the common mode pays nothing that it does not pay for test runs already.
 *
 * Unlike a test run this has all processors, all machines and the real clock: it is not repeatable, but has races
 * of threads as well. It does not change who is chosen; who yields goes to the end of its processor's ring.
 *
 * A fiber that holds a weft_spin is left alone: it must not yield.
 *
 * Rejected: a point when the runtime is left, as test runs have: it hangs on wake_wanted, which here stands for
 * machines that must be woken. The next entry is as good, since in between there is only the user's code.
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

/* In fiber code, outside the runtime. To enter it is all that is needed: that is a point. */
void weft__chaos_point(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL || thread->fiber == NULL || thread->spins != 0)
        return;
    must(!atomic_u32_load_relaxed(&thread->inside));
    runtime_leave(runtime_enter(thread));
}
