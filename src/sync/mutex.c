/*
 * mutex.c: the mutex.
 *
 * All state that decides is in one word:
 *
 *     LOCKED     the mutex has an owner
 *     QUEUE      the latch of the list of waiters
 *     WAITERS    the list is not empty, or the holder of QUEUE is about to add a waiter
 *     WOKEN      a waiter was woken to try again and has not tried yet: no need to wake another
 *     STARVING   starvation mode; LOCKED is then set as well
 *
 * Normal mode. Unlock clears LOCKED and wakes the first waiter, which has to compete with
 * newcomers. They are on a CPU, and often win, which is why this mode is fast. A waiter that loses
 * goes back to the head of the list. If it has waited for more than STARVES_AFTER, it sets
 * STARVING.
 *
 * Starvation mode. Unlock leaves LOCKED set and hands the mutex over to the first waiter; newcomers
 * find it locked and go to the end of the list. The mode ends with a waiter that has waited for
 * less, or with the last waiter.
 *
 * After unlock. Once LOCKED is clear, or the next owner is awake, the mutex may be gone: the new
 * owner may be the last user, and free it. So the operation that clears LOCKED is the last access
 * of unlock. Two things follow:
 *
 *  - The latch of the list is a bit of the same word: LOCKED and QUEUE are cleared in one store. If
 *    they were two words, another caller could lock, find no waiter, unlock and free the mutex
 *    between the two stores.
 *  - Unlock may not clear LOCKED first and look at the list then, though that would be one exchange
 *    instead of a compare-and-swap.
 *
 * A waiter that unlock has claimed and not woken yet is inside its lock call, and the mutex must
 * not be freed before that has returned.
 *
 * What others may change. The word is stable under LOCKED and QUEUE together: to lock needs LOCKED
 * clear; to set WAITERS or STARVING, or to clear WAITERS, needs QUEUE; WOKEN is set by unlock, and
 * cleared by the waiter that was woken, when it locks or queues again.
 *
 * No wake-up is lost. A waiter joins the list by a compare-and-swap that takes QUEUE and sees
 * LOCKED; so there is an owner, which sees WAITERS when it unlocks. If that unlock wakes no waiter,
 * WOKEN was set: the waiter that it stands for has yet to lock, and unlock, or to queue again.
 *
 * Spinning pays if the owner runs on another CPU at this moment. That cannot be known; so `spin`
 * counts the failures in a row, and after SPIN_FAILURES of them spinning is tried only now and
 * then.
 */
#include "sync/mutex.h"

#include <errno.h>

#include "base/assert.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/park.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/caller.h"
#include "sync/lock_order.h"
#include "sync/spin_wait.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_mutex, .text = "locks a mutex");

enum { LOCKED = 1, QUEUE = 2, WAITERS = 4, WOKEN = 8, STARVING = 16 };

/* What a waiter is woken with. */
enum { TRY_AGAIN = 0, HANDED_OVER = 1 };

/* How a caller spins before it parks. Each look takes the cache line of the word away from the
 * owner: a section cost 124 ns with ten looks, and 70 ns with four that are further apart (eight
 * fibers on two processors). */
enum {
    SPIN_LOOKS = 4,
    SPIN_PAUSES = 16,  /* after the first look; twice as many after each further one */
    SPIN_FAILURES = 4, /* in a row, after which a caller spins only now and then: */
    SPIN_ANYWAY = 32,  /* once in so many times */
};

#define STARVES_AFTER WEFT_MS /* as in Go */

static atomic_u32 *word_of(const weft_mutex *mutex)
{
    return (atomic_u32 *)(uintptr_t)&mutex->word;
}

/* The owner, in debug builds. Written by the owner alone, read by all. */

#ifdef WEFT_DEBUG

static atomic_u64 *owner_of(weft_mutex *mutex)
{
    return (atomic_u64 *)(void *)&mutex->owner;
}

static void owner_wants(weft_mutex *mutex, void *site)
{
    if (atomic_u64_load_relaxed(owner_of(mutex)) == caller_id())
        fatal("a mutex is locked by the one that has it already: it would wait for itself");
    weft__lock_order_wanted(mutex, &mutex->number, site);
}

static void owner_set(weft_mutex *mutex, void *site)
{
    atomic_u64_store_relaxed(owner_of(mutex), caller_id());
    weft__lock_order_taken(mutex, &mutex->number, site);
}

static void owner_clear(weft_mutex *mutex)
{
    if (!(atomic_u32_load_relaxed(word_of(mutex)) & LOCKED))
        return; /* the unlock itself reports it */
    /* In a forked child a fiber is a thread, and may unlock what it held as a fiber. */
    if (atomic_u64_load_relaxed(owner_of(mutex)) != caller_id() && !weft__runtime_forked())
        fatal("a mutex is unlocked by another than the one that locked it");
    weft__lock_order_released(&mutex->number);
    atomic_u64_store_relaxed(owner_of(mutex), 0);
}

#else

static inline void owner_wants(weft_mutex *mutex, void *site)
{
    (void)mutex;
    (void)site;
}

static inline void owner_set(weft_mutex *mutex, void *site)
{
    (void)mutex;
    (void)site;
}

static inline void owner_clear(weft_mutex *mutex)
{
    (void)mutex;
}

#endif

/* The latch of the list. */

static void queue_lock(weft_mutex *mutex)
{
    struct backoff backoff = {0};
    for (;;) {
        uint32_t before = atomic_u32_load_relaxed(word_of(mutex));
        if (!(before & QUEUE) && atomic_u32_cas_acquire(word_of(mutex), &before, before | QUEUE))
            return;
        spin_wait(&backoff);
    }
}

static void queue_unlock(void *mutex)
{
    atomic_u32_and_release(word_of(mutex), ~(uint32_t)QUEUE); /* pairs with taking it */
}

/* Locking. */

static inline bool lock_fast(weft_mutex *mutex)
{
    uint32_t free = 0;
    return atomic_u32_cas_acquire(word_of(mutex), &free, LOCKED); /* pairs with unlock */
}

/* Takes the mutex if it has no owner; in starvation mode it always has one. */
static bool take_if_free(weft_mutex *mutex)
{
    uint32_t before = atomic_u32_load_relaxed(word_of(mutex));
    while (!(before & LOCKED))
        if (atomic_u32_cas_acquire(word_of(mutex), &before,
                                   before | LOCKED)) /* pairs with unlock */
            return true;
    return false;
}

static bool several_cpus(void)
{
    static atomic_u32 known;
    uint32_t cpus = atomic_u32_load_relaxed(&known);
    if (unlikely(cpus == 0)) {
        int count = weft__os_affinity_count();
        cpus = count > 0 ? (uint32_t)count : 1;
        atomic_u32_store_relaxed(&known, cpus);
    }
    return cpus > 1;
}

/* Spins for the mutex, if that has paid lately; true if it was taken. `woken`: the bit to clear
 * then. */
static bool spin(weft_mutex *mutex, uint32_t woken)
{
    atomic_u32 *failures = (atomic_u32 *)(void *)&mutex->spin;
    uint32_t failed = atomic_u32_load_relaxed(failures);
    if (!several_cpus())
        return false;
    if (failed >= SPIN_FAILURES && failed % SPIN_ANYWAY != 0) {
        atomic_u32_store_relaxed(failures, failed + 1);
        return false;
    }
    for (uint32_t round = 0; round < SPIN_LOOKS; round++) {
        uint32_t before = atomic_u32_load_relaxed(word_of(mutex));
        if (before & STARVING)
            return false; /* it is handed over to a waiter */
        /* Pairs with unlock. */
        if (!(before & LOCKED) &&
            atomic_u32_cas_acquire(word_of(mutex), &before, (before | LOCKED) & ~woken)) {
            /* Free at the first look says nothing about spinning. */
            if (failed != 0 && round != 0)
                atomic_u32_store_relaxed(failures, 0);
            return true;
        }
        for (uint32_t i = 0; i < (uint32_t)SPIN_PAUSES << round; i++)
            cpu_relax();
    }
    atomic_u32_store_relaxed(failures, failed + 1);
    return false;
}

/* Takes a waiter that gave up out of the list, if unlock has not done that. */
static void leave_list(weft_mutex *mutex, struct waiter *waiter)
{
    queue_lock(mutex);
    (void)waiters_remove(&mutex->waiters, waiter);
    uint32_t clear = mutex->waiters == NULL ? QUEUE | WAITERS | STARVING : QUEUE;
    atomic_u32_and_release(word_of(mutex), ~clear);
}

/* The mutex was handed over to the caller: ends starvation mode if this was the last waiter, or one
 * that has not waited for long. */
static void accept_handover(weft_mutex *mutex, bool long_enough)
{
    if (!long_enough || !(atomic_u32_load_relaxed(word_of(mutex)) & WAITERS))
        atomic_u32_and_acq_rel(word_of(mutex), ~(uint32_t)STARVING);
}

static bool waited_long(int64_t since)
{
    return weft__now() - since > STARVES_AFTER || (seeded() && weft__seeded_chance(4));
}

static int lock_contended(weft_mutex *mutex, uint32_t what, int64_t deadline)
{
    struct waiter own;
    struct backoff backoff = {0};
    int64_t since = 0;
    uint32_t woken = 0; /* WOKEN: the bit stands for this call */
    uint32_t starving = 0;
    if (spin(mutex, 0))
        return 0;
    for (;;) {
        uint32_t before = atomic_u32_load_relaxed(word_of(mutex));
        if (!(before & LOCKED)) {
            /* Pairs with unlock. */
            if (atomic_u32_cas_acquire(word_of(mutex), &before, (before | LOCKED) & ~woken))
                return 0;
            continue;
        }
        if (weft__runtime_forked())
            return -ECHILD;
        if (before & QUEUE) {
            spin_wait(&backoff);
            continue;
        }
        uint32_t after = (before | QUEUE | WAITERS | starving) & ~woken;
        if (!atomic_u32_cas_acquire(word_of(mutex), &before, after))
            continue;
        struct waiter *waiter = weft__waiter_begin(&own);
        if (since == 0) {
            since = weft__now();
            waiters_add_last(&mutex->waiters, waiter);
        } else {
            waiters_add_first(&mutex->waiters, waiter);
        }
        int result = weft__park(waiter, what, queue_unlock, mutex, deadline);
        if (wait_gave_up(result)) {
            leave_list(mutex, waiter);
            return result;
        }
        starving = waited_long(since) ? STARVING : 0;
        if (result == HANDED_OVER) {
            accept_handover(mutex, starving != 0);
            return 0;
        }
        woken = WOKEN;
        backoff = (struct backoff){0};
        if (!starving && spin(mutex, WOKEN))
            return 0;
    }
}

static noinline int lock_slow(weft_mutex *mutex, uint32_t what, int64_t deadline)
{
    bool fiber = enter_if_fiber();
    int result = lock_contended(mutex, what, deadline);
    leave_if_fiber(fiber);
    return result;
}

_Noreturn static void cannot_wait(void)
{
    fatal("a mutex was locked when the process was forked: no thread unlocks it in the child");
}

static always_inline void lock_firmly(weft_mutex *mutex, void *site)
{
    owner_wants(mutex, site);
    if (unlikely(!lock_fast(mutex)) && !take_if_free(mutex) &&
        unlikely(lock_slow(mutex, wait_id(&wait_mutex) | WAIT_FIRM, WEFT_NEVER) != 0))
        cannot_wait();
    owner_set(mutex, site);
}

/* In a test run, or in chaos; apart, so that the common path keeps nothing across the point. */
static noinline void lock_at_point(weft_mutex *mutex, void *site)
{
    weft__test_point();
    lock_firmly(mutex, site);
}

void weft_mutex_lock(weft_mutex *mutex)
{
    if (unlikely(mutex == NULL))
        fatal("weft_mutex_lock was given no mutex");
    if (test_points())
        lock_at_point(mutex, __builtin_return_address(0));
    else
        lock_firmly(mutex, __builtin_return_address(0));
}

void weft__mutex_lock_inside(weft_mutex *mutex, void *site)
{
    owner_wants(mutex, site);
    if (!lock_fast(mutex)) /* a forked child does not wait for a condition, so it is not here */
        must(lock_contended(mutex, wait_id(&wait_mutex) | WAIT_FIRM, WEFT_NEVER) == 0);
    owner_set(mutex, site);
}

int weft_mutex_lock_until(weft_mutex *mutex, int64_t deadline)
{
    if (mutex == NULL)
        return -EINVAL;
    test_point();
    int result = 0;
    if (deadline <= WEFT_NOW) {
        result = take_if_free(mutex) ? 0 : -ETIMEDOUT;
    } else {
        owner_wants(mutex, __builtin_return_address(0));
        if (unlikely(!lock_fast(mutex)) && !take_if_free(mutex))
            result = lock_slow(mutex, wait_id(&wait_mutex), deadline);
    }
    if (result == 0)
        owner_set(mutex, __builtin_return_address(0));
    return result;
}

int weft_mutex_try_lock(weft_mutex *mutex)
{
    if (mutex == NULL)
        return -EINVAL;
    test_point();
    if (!take_if_free(mutex))
        return -EBUSY;
    owner_set(mutex, __builtin_return_address(0));
    return 0;
}

/* Unlocking. */

static inline bool unlock_fast(weft_mutex *mutex)
{
    uint32_t locked = LOCKED;
    /* Release: what was done is visible to the next owner; pairs with the acquires of locking. */
    return atomic_u32_cas_acq_rel(word_of(mutex), &locked, 0);
}

/* Chooses the waiter that is next, and releases the latch and the mutex, or only the latch if the
 * mutex is handed over, in one store. The latch is held. Returns the waiter to be woken, or
 * NULL. */
static struct waiter *choose_next(weft_mutex *mutex)
{
    uint32_t word = atomic_u32_load_relaxed(word_of(mutex));
    bool hand_over = word & STARVING;
    struct waiter *next = waiters_claim_first(&mutex->waiters, hand_over ? HANDED_OVER : TRY_AGAIN);
    word &= ~(uint32_t)QUEUE;
    if (mutex->waiters == NULL)
        word &= ~(uint32_t)WAITERS;
    if (next == NULL)
        word &= ~(uint32_t)(LOCKED | STARVING);
    else if (!hand_over)
        word = (word & ~(uint32_t)LOCKED) | WOKEN;
    atomic_u32_store_release(word_of(mutex), word); /* pairs as in unlock_fast */
    return next;
}

/* Unlocks if no waiter has to be woken, since there is none or one is about to try; true if it
 * has. */
static bool unlock_without_wake(weft_mutex *mutex)
{
    uint32_t before = atomic_u32_load_relaxed(word_of(mutex));
    while (!(before & WAITERS) || (before & (WOKEN | STARVING)) == WOKEN)
        if (atomic_u32_cas_acq_rel(word_of(mutex), &before, before & ~(uint32_t)LOCKED))
            return true;
    return false;
}

static struct waiter *unlock_contended(weft_mutex *mutex)
{
    if (unlock_without_wake(mutex))
        return NULL;
    queue_lock(mutex);
    return choose_next(mutex);
}

static void check_locked(weft_mutex *mutex)
{
    if (!(atomic_u32_load_relaxed(word_of(mutex)) & LOCKED))
        fatal("a mutex is unlocked that is not locked");
}

void weft__mutex_unlock_inside(weft_mutex *mutex)
{
    owner_clear(mutex);
    if (unlock_fast(mutex))
        return;
    check_locked(mutex);
    struct waiter *next = unlock_contended(mutex);
    if (next != NULL)
        weft__wake(next);
}

static noinline void unlock_slow(weft_mutex *mutex)
{
    check_locked(mutex);
    /* Before the runtime is entered, since a contended unlock most often has no waiter to wake. */
    if (unlock_without_wake(mutex))
        return;
    if (weft__runtime_forked()) {
        /* The waiters, and the holder of the latch, are in the parent. */
        mutex->waiters = NULL;
        atomic_u32_store_release(word_of(mutex), 0);
        return;
    }
    bool fiber = enter_if_fiber();
    struct waiter *next = unlock_contended(mutex);
    if (next != NULL)
        weft__wake(next);
    leave_if_fiber(fiber);
}

static always_inline void unlock(weft_mutex *mutex)
{
    owner_clear(mutex);
    if (unlikely(!unlock_fast(mutex)))
        unlock_slow(mutex);
}

/* Apart for the reason of lock_at_point. */
static noinline void unlock_at_point(weft_mutex *mutex)
{
    unlock(mutex);
    weft__test_point();
}

void weft_mutex_unlock(weft_mutex *mutex)
{
    if (unlikely(mutex == NULL))
        fatal("weft_mutex_unlock was given no mutex");
    if (test_points())
        unlock_at_point(mutex);
    else
        unlock(mutex);
}

void weft_mutex_destroy(weft_mutex *mutex)
{
    if (mutex == NULL)
        fatal("weft_mutex_destroy was given no mutex");
    uint32_t word = atomic_u32_load_acquire(word_of(mutex)); /* pairs with unlock */
    if (word & LOCKED)
        fatal("a mutex is destroyed that is locked");
    if (word != 0 && !weft__runtime_forked())
        fatal("a mutex is destroyed that a caller waits for");
    weft__lock_order_forget(&mutex->number);
    *mutex = (weft_mutex)WEFT_MUTEX_INIT;
}
