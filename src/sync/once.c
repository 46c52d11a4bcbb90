/*
 * once.c: runs a function once.
 *
 *     0 <---> RUNNING ----> DONE
 *               |  ^
 *               v  |
 *     RUNNING | QUEUE   the list of waiters is being changed; WAITERS is set from then on
 *
 * The caller that brings the word to RUNNING owns the object and calls the function. DONE and the
 * release of the list are one store, the last access of the owner. So a caller that sees DONE knows
 * that no other one still accesses the object, and a waiter that was woken does not look at it
 * again.
 *
 * A function that panics does not count: the word goes back to 0, the waiters are woken to try
 * again, and one of them calls the function. Rejected: what Go does, which counts it as done; its
 * callers go on without what the function was to make.
 */
#include <weft/once.h>

#include "base/assert.h"
#include "sched/check/test_point.h"
#include "sched/core/park.h"
#include "sched/fiber/panic.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/caller.h"
#include "sync/spin_wait.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_once, .text = "waits for a once");

enum { RUNNING = 1, DONE = 2, QUEUE = 4, WAITERS = 8 };

static atomic_u32 *word_of(weft_once *once)
{
    return (atomic_u32 *)(void *)&once->word;
}

/* Written by the owner alone, read by all. */
static atomic_u64 *owner_of(weft_once *once)
{
    return (atomic_u64 *)(void *)&once->owner;
}

static void queue_unlock(void *once)
{
    atomic_u32_and_release(word_of(once), ~(uint32_t)QUEUE); /* pairs with queue_lock */
}

/* Takes the latch of the list while the function runs; false if it does not run. */
static bool queue_lock(weft_once *once)
{
    struct backoff backoff = {0};
    for (;;) {
        uint32_t before = atomic_u32_load_acquire(word_of(once)); /* pairs with finish */
        if (!(before & RUNNING))
            return false;
        if (!(before & QUEUE) &&
            atomic_u32_cas_acquire(word_of(once), &before, before | QUEUE | WAITERS))
            return true;
        spin_wait(&backoff);
    }
}

/* What a waiter is woken with. */
enum { COMPLETED, TRY_AGAIN };

/* Sets the word to DONE or 0 and wakes the waiters; the last access of the owner. */
static void finish(weft_once *once, uint32_t state)
{
    atomic_u64_store_relaxed(owner_of(once), 0);
    uint32_t running = RUNNING;
    /* Release: what the function wrote is visible to callers that see DONE; pairs with the
     * loads. */
    if (atomic_u32_cas_acq_rel(word_of(once), &running, state))
        return;
    if (weft__runtime_forked()) {
        atomic_u32_store_release(word_of(once), state); /* the waiters are in the parent */
        return;
    }
    struct woken woken;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    must(queue_lock(once));
    (void)waiters_claim_all(&once->waiters, state == DONE ? COMPLETED : TRY_AGAIN, &woken);
    atomic_u32_store_release(word_of(once), state);
    woken_wake(&woken);
    leave_if_fiber(fiber);
}

/* Waits until the function has ended. True if it is done; false if the caller is to try again. */
static bool wait_until_done(weft_once *once)
{
    if (atomic_u64_load_relaxed(owner_of(once)) == caller_id())
        fatal("weft_once_do was called from inside the function that it calls: it would wait for "
              "itself");
    if (weft__runtime_forked())
        fatal("weft_once_do was under way when the process was forked: no thread ends it in the "
              "child");
    struct waiter own;
    int result = TRY_AGAIN;
    bool fiber = enter_if_fiber();
    if (queue_lock(once)) {
        struct waiter *waiter = weft__waiter_begin(&own);
        waiters_add_last(&once->waiters, waiter);
        result =
            weft__park(waiter, wait_id(&wait_once) | WAIT_FIRM, queue_unlock, once, WEFT_NEVER);
    }
    leave_if_fiber(fiber);
    return result == COMPLETED;
}

static void call(weft_once *once, void (*function)(void *), void *arg)
{
    struct guard guard;
    atomic_u64_store_relaxed(owner_of(once), caller_id());
    bool panicked = weft__guarded(&guard, function, arg);
    finish(once, panicked ? 0 : DONE);
    if (panicked)
        weft__panic_resume(guard.panic);
}

static noinline void do_slow(weft_once *once, void (*function)(void *), void *arg)
{
    test_point();
    for (;;) {
        uint32_t before = 0;
        if (atomic_u32_cas_acq_rel(word_of(once), &before, RUNNING)) {
            call(once, function, arg);
            return;
        }
        if (before & DONE || wait_until_done(once))
            return;
    }
}

void weft_once_do(weft_once *once, void (*function)(void *), void *arg)
{
    if (unlikely(once == NULL || function == NULL))
        fatal("weft_once_do was given no weft_once or no function");
    if (unlikely(atomic_u32_load_acquire(word_of(once)) != DONE)) /* pairs with finish */
        do_slow(once, function, arg);
}
