/*
 * barrier.c: the barrier: a latch, a count of arrivals, and a list of waiters.
 *
 * A round ends under the latch, when its last party arrives: the count goes back to zero, and all
 * waiters are taken out of the list. They all belong to this round, also a waiter whose deadline
 * has passed, which cannot be claimed any more. A waiter that gave up finds out under the latch:
 *
 *     still in the list     the round goes on without it: it withdraws its arrival
 *     out of the list       the round has ended with it: it returns as if it had been woken
 *
 * So each round has all its parties.
 *
 * A waiter that was woken does not touch the barrier again. A waiter that gave up and was taken out
 * has yet to take the latch: `leaving` counts these, and destroy waits until there are none.
 */
#include <errno.h>
#include <weft/barrier.h>

#include "base/assert.h"
#include "sched/core/park.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/object_latch.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_barrier, .text = "waits at a barrier");

int weft_barrier_init(weft_barrier *barrier, int64_t parties)
{
    if (barrier == NULL || parties < 1 || parties > WEFT_BARRIER_MAX)
        return -EINVAL;
    *barrier = (weft_barrier){.parties = (uint32_t)parties};
    return 0;
}

/* Ends the round. The latch is held, and released. */
static void end_round(weft_barrier *barrier)
{
    struct woken woken;
    woken_begin(&woken);
    barrier->arrived = 0;
    barrier->leaving += waiters_claim_all(&barrier->waiters, 0, &woken);
    object_latch_release(&barrier->latch);
    woken_wake(&woken);
}

/* Waits for the end of the round. The latch is held, and released. */
static int wait_for_others(weft_barrier *barrier, int64_t deadline)
{
    struct waiter own, *waiter = weft__waiter_begin(&own);
    barrier->arrived++;
    waiters_add_last(&barrier->waiters, waiter);
    int result =
        weft__park(waiter, wait_id(&wait_barrier), object_latch_unlock, &barrier->latch, deadline);
    if (wait_gave_up(result)) {
        object_latch_acquire(&barrier->latch);
        if (waiters_remove(&barrier->waiters, waiter)) {
            barrier->arrived--;
        } else {
            barrier->leaving--;
            result = 0;
        }
        object_latch_release(&barrier->latch);
    }
    return result;
}

int weft_barrier_wait_until(weft_barrier *barrier, int64_t deadline)
{
    if (barrier == NULL || barrier->parties == 0)
        return -EINVAL;
    if (weft__runtime_forked())
        return barrier->parties == 1 ? 1 : -ECHILD;
    int result = 1;
    bool fiber = enter_if_fiber();
    object_latch_acquire(&barrier->latch);
    if (barrier->arrived + 1 == barrier->parties) {
        end_round(barrier);
    } else if (deadline <= WEFT_NOW) {
        object_latch_release(&barrier->latch);
        result = -ETIMEDOUT;
    } else {
        result = wait_for_others(barrier, deadline);
    }
    leave_if_fiber(fiber);
    return result;
}

int weft_barrier_wait(weft_barrier *barrier)
{
    return weft_barrier_wait_until(barrier, WEFT_NEVER);
}

/* True if no waiter has yet to take the latch; aborts if a caller waits. */
static bool all_left(weft_barrier *barrier)
{
    object_latch_acquire(&barrier->latch);
    bool waited_for = barrier->arrived != 0, leaving = barrier->leaving != 0;
    object_latch_release(&barrier->latch);
    if (waited_for)
        fatal("a barrier is destroyed that a caller waits for");
    return !leaving;
}

void weft_barrier_destroy(weft_barrier *barrier)
{
    if (barrier == NULL)
        fatal("weft_barrier_destroy was given no barrier");
    if (!weft__runtime_forked())
        while (!all_left(barrier))
            weft_yield(); /* the waiters that are leaving have been made ready */
    *barrier = (weft_barrier){.parties = 0};
}
