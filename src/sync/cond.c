/*
 * cond.c: the condition variable: a latch and a list of waiters.
 *
 *     wait                                          signal
 *     latch                                         latch
 *     add a waiter to the list                      take out the first waiter that can be claimed
 *     unlock the mutex                              unlatch
 *     park (unlatch)                                wake it
 *     gave up: latch, leave the list, unlatch
 *     lock the mutex
 *
 * The mutex is unlocked under the latch. So a caller that locks the mutex after that finds the
 * waiter in the list: no signal is missed. Lock order: the latch, then that of the mutex's list (to
 * unlock the mutex only, which waits for no other fiber).
 *
 * A waiter that gave up and finds itself out of the list was taken out by a signal that could not
 * claim it and went on to the next waiter. It reports the deadline, and the signal is not lost.
 *
 * A waiter that was woken does not touch the condition variable again. A waiter that gave up and
 * was taken out has yet to take the latch: `leaving` counts these, and destroy waits until there
 * are none.
 */
#include <errno.h>
#include <weft/cond.h>

#include "base/assert.h"
#include "sched/core/park.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/mutex.h"
#include "sync/object_latch.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_cond, .text = "waits for a condition");

static int wait(weft_cond *cond, weft_mutex *mutex, int64_t deadline, void *site)
{
    struct waiter own, *waiter = weft__waiter_begin(&own);
    object_latch_acquire(&cond->latch);
    waiters_add_last(&cond->waiters, waiter);
    weft__mutex_unlock_inside(mutex);
    int result =
        weft__park(waiter, wait_id(&wait_cond), object_latch_unlock, &cond->latch, deadline);
    if (wait_gave_up(result)) {
        object_latch_acquire(&cond->latch);
        if (!waiters_remove(&cond->waiters, waiter))
            cond->leaving--;
        object_latch_release(&cond->latch);
    }
    weft__mutex_lock_inside(mutex, site);
    return result;
}

static int cond_wait(weft_cond *cond, weft_mutex *mutex, int64_t deadline, void *site)
{
    if (cond == NULL || mutex == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    if (deadline <= WEFT_NOW)
        return -ETIMEDOUT;
    bool fiber = enter_if_fiber();
    int result = wait(cond, mutex, deadline, site);
    leave_if_fiber(fiber);
    return result;
}

int weft_cond_wait(weft_cond *cond, weft_mutex *mutex)
{
    return cond_wait(cond, mutex, WEFT_NEVER, __builtin_return_address(0));
}

int weft_cond_wait_until(weft_cond *cond, weft_mutex *mutex, int64_t deadline)
{
    return cond_wait(cond, mutex, deadline, __builtin_return_address(0));
}

/* Claims the first waiter that has not given up; under the latch. */
static void claim_one(weft_cond *cond, struct woken *woken)
{
    for (struct waiter *waiter; (waiter = waiters_take_first(&cond->waiters)) != NULL;) {
        if (waiter_claim(waiter, 0)) {
            woken_add(woken, waiter);
            return;
        }
        cond->leaving++;
    }
}

static void claim_all(weft_cond *cond, struct woken *woken)
{
    cond->leaving += waiters_claim_all(&cond->waiters, 0, woken);
}

static void wake_by(weft_cond *cond, void (*claim)(weft_cond *cond, struct woken *woken))
{
    if (cond == NULL)
        fatal("weft_cond_signal or weft_cond_broadcast was given no condition variable");
    if (weft__runtime_forked())
        return; /* the waiters are in the parent */
    struct woken woken;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    object_latch_acquire(&cond->latch);
    claim(cond, &woken);
    object_latch_release(&cond->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
}

void weft_cond_signal(weft_cond *cond)
{
    wake_by(cond, claim_one);
}

void weft_cond_broadcast(weft_cond *cond)
{
    wake_by(cond, claim_all);
}

/* True if no waiter has yet to take the latch; aborts if a caller waits. */
static bool all_left(weft_cond *cond)
{
    object_latch_acquire(&cond->latch);
    bool waited_for = cond->waiters != NULL, leaving = cond->leaving != 0;
    object_latch_release(&cond->latch);
    if (waited_for)
        fatal("a condition variable is destroyed that a caller waits for");
    return !leaving;
}

void weft_cond_destroy(weft_cond *cond)
{
    if (cond == NULL)
        fatal("weft_cond_destroy was given no condition variable");
    if (!weft__runtime_forked())
        while (!all_left(cond))
            weft_yield(); /* the waiters that are leaving have been made ready */
    *cond = (weft_cond)WEFT_COND_INIT;
}
