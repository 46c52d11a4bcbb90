/*
 * wg.c: the wait group.
 *
 * One word holds all state that decides: the count, whether there are waiters, and the lock of the
 * list of waiters:
 *
 *     bits 32 to 63   count
 *     bit 1           WAITERS: the list is not empty
 *     bit 0           LOCK: of the list
 *
 * A wait group may be gone as soon as all waits have returned, one of them with 0. Done must not
 * access it after that:
 *
 *  - A wait returns at once only if the whole word is zero: no count, and no done that is about to
 *    wake waiters.
 *  - A done that brings the count to zero and sees no WAITERS is over with that one atomic
 *    operation.
 *  - A done that brings it to zero and sees WAITERS takes the lock, claims all waiters, and clears
 *    LOCK and WAITERS in one operation, its last access. No wait can return before it:
 *
 *        a waiter that it claims       is woken after that operation
 *        a waiter that gave up         waits on if it finds the count at zero and itself still in
 *                                      the list, since that done is yet to come
 *        a new wait                    finds that the word is not zero, and waits
 */
#include <errno.h>
#include <weft/fiber.h>
#include <weft/wg.h>

#include "base/assert.h"
#include "sched/check/test_point.h"
#include "sched/core/park.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/panic.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/spin_wait.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_wg, .text = "waits for a wait group");

enum { LOCK = 1, WAITERS = 2, COUNT_SHIFT = 32 };

static atomic_u64 *word_of(const weft_wg *wg)
{
    return (atomic_u64 *)(uintptr_t)&wg->word;
}

static int64_t count_of(uint64_t word)
{
    return (int64_t)word >> COUNT_SHIFT;
}

static void lock(weft_wg *wg)
{
    atomic_u64 *word = word_of(wg);
    struct backoff backoff = {0};
    for (;;) {
        uint64_t before = atomic_u64_load_relaxed(word);
        if (!(before & LOCK) && atomic_u64_cas_acquire(word, &before, before | LOCK))
            return;
        spin_wait(&backoff);
    }
}

static void unlock(void *arg)
{
    atomic_u64_and_release(word_of(arg), ~(uint64_t)LOCK);
}

int weft_wg_init(weft_wg *wg, int64_t count)
{
    if (wg == NULL || count < 0 || count > WEFT_WG_MAX)
        return -EINVAL;
    wg->waiters = NULL;
    atomic_u64_store_release(word_of(wg), (uint64_t)count << COUNT_SHIFT);
    return 0;
}

/* The count has become zero and there are waiters. */
static noinline void wake_all(weft_wg *wg)
{
    if (weft__runtime_forked())
        return; /* the waiters are in the parent */
    bool fiber = enter_if_fiber();
    lock(wg);
    struct woken woken;
    woken_begin(&woken);
    uint64_t clear = LOCK;
    /* It may have been raised again meanwhile: then a later done does this. */
    if (count_of(atomic_u64_load_relaxed(word_of(wg))) == 0) {
        clear = LOCK | WAITERS;
        (void)waiters_claim_all(&wg->waiters, 0, &woken);
    }
    atomic_u64_and_release(word_of(wg), ~clear);
    woken_wake(&woken);
    leave_if_fiber(fiber);
}

_Noreturn static void below_zero(void)
{
    fatal("a wait group was driven below zero: more weft_wg_done than were added");
}

int weft_wg_add(weft_wg *wg, int64_t count)
{
    if (wg == NULL || count > WEFT_WG_MAX)
        return -EINVAL;
    if (count < -WEFT_WG_MAX)
        below_zero();
    test_point();
    atomic_u64 *word = word_of(wg);
    uint64_t before = atomic_u64_load_relaxed(word), after;
    do {
        int64_t sum = count_of(before) + count;
        if (sum > WEFT_WG_MAX)
            return -EINVAL;
        if (sum < 0)
            below_zero();
        after = before + ((uint64_t)count << COUNT_SHIFT);
        /* Release: what was done is visible after a wait; pairs with the acquire in wait. */
    } while (!atomic_u64_cas_acq_rel(word, &before, after));
    if (count < 0 && count_of(after) == 0 && (after & WAITERS))
        wake_all(wg);
    return 0;
}

void weft_wg_done(weft_wg *wg)
{
    if (unlikely(wg == NULL))
        fatal("weft_wg_done was given no wait group");
    uint64_t one = (uint64_t)1 << COUNT_SHIFT;
    uint64_t after = atomic_u64_sub_acq_rel(word_of(wg), one) - one; /* pairs as in add */
    if (unlikely(count_of(after) < 0))
        below_zero();
    if (count_of(after) == 0 && (after & WAITERS))
        wake_all(wg);
    test_point();
}

/* Starting fibers. */

struct start {
    weft_wg *wg;
    void (*function)(void *);
    void *arg;
};

static void run(void *arg)
{
    struct start start = *(struct start *)arg;
    weft__os_free(arg);
    (void)weft__call_safely(start.function,
                            start.arg); /* a panic counts as the end, so no wait lasts for ever */
    weft_wg_done(start.wg);
}

static int spawn(struct start *start, void *site)
{
    struct weft_fiber *fiber;
    bool entered = enter_if_fiber();
    int error = weft__fiber_make(&fiber, run, start, site);
    if (error == 0)
        weft__fiber_start(fiber, true);
    leave_if_fiber(entered);
    return error;
}

int weft_wg_go(weft_wg *wg, void (*function)(void *), void *arg)
{
    if (wg == NULL || function == NULL)
        return -EINVAL;
    compact_check(wg, "the wait group of a fiber", "have it in the heap or static");
    compact_check(arg, "the argument of a fiber", "have it in the heap");
    struct start *start = weft__os_alloc(sizeof *start);
    if (start == NULL)
        return -ENOMEM;
    *start = (struct start){wg, function, arg};
    int error = weft_wg_add(wg, 1);
    if (error == 0 && (error = spawn(start, __builtin_return_address(0))) != 0)
        weft_wg_done(wg);
    if (error != 0)
        weft__os_free(start);
    return error;
}

/* Waiting. */

/* Takes a waiter that gave up out of the list, and unlocks; true. If a done that reached zero is on
 * its way to wake the waiter, it stays in the list and the lock stays held; false. Then the wait
 * has to go on, since that done will access the wait group. Called with the lock held. */
static bool leave_list(weft_wg *wg, struct waiter *waiter)
{
    bool listed = waiter_listed(waiter);
    uint64_t before = atomic_u64_load_relaxed(word_of(wg)), after;
    if (listed && count_of(before) == 0)
        return false;
    (void)waiters_remove(&wg->waiters, waiter);
    do {
        if (listed && count_of(before) == 0) {
            waiters_add_last(&wg->waiters, waiter);
            return false;
        }
        after = before & ~(uint64_t)(wg->waiters == NULL ? LOCK | WAITERS : LOCK);
    } while (!atomic_u64_cas_acq_rel(word_of(wg), &before, after));
    return true;
}

/* Waits in the list. The caller is inside the runtime if it is a fiber. */
static int wait_listed(weft_wg *wg, int64_t deadline)
{
    struct waiter own, *waiter = weft__waiter_begin(&own);
    lock(wg);
    /* After this exchange a done that reaches zero sees WAITERS; a done that reached it before is
     * visible here. WAITERS must not be set if there is nothing to wait for: a later done would
     * come to wake, and the wait group may be gone. */
    uint64_t before = atomic_u64_load_relaxed(word_of(wg)), after;
    bool over;
    do {
        over = count_of(before) == 0 && wg->waiters == NULL;
        after = over ? before & ~(uint64_t)(LOCK | WAITERS) : before | WAITERS;
    } while (!atomic_u64_cas_acq_rel(word_of(wg), &before, after));
    if (over)
        return 0;
    waiters_add_last(&wg->waiters, waiter);
    int result = weft__park(waiter, wait_id(&wait_wg), unlock, wg, deadline);
    if (wait_gave_up(result)) {
        lock(wg);
        bool woken = !waiter_listed(waiter); /* by a done, which found that it had given up */
        if (!leave_list(wg, waiter)) {
            (void)weft__waiter_begin(&own);
            result = weft__park(waiter, wait_id(&wait_wg) | WAIT_FIRM, unlock, wg, WEFT_NEVER);
        } else if (woken) {
            result = 0;
        }
    }
    return result;
}

int weft_wg_wait_until(weft_wg *wg, int64_t deadline)
{
    if (wg == NULL)
        return -EINVAL;
    test_point();
    uint64_t word = atomic_u64_load_acquire(word_of(wg)); /* pairs with the release in done */
    if (word == 0)
        return 0;
    if (weft__runtime_forked())
        return -ECHILD;
    if (deadline <= WEFT_NOW && count_of(word) != 0)
        return -ETIMEDOUT;
    bool fiber = enter_if_fiber();
    int result = wait_listed(wg, deadline);
    leave_if_fiber(fiber);
    return result;
}

int weft_wg_wait(weft_wg *wg)
{
    return weft_wg_wait_until(wg, WEFT_NEVER);
}

int64_t weft_wg_count(const weft_wg *wg)
{
    return wg != NULL ? count_of(atomic_u64_load_relaxed(word_of(wg))) : 0;
}
