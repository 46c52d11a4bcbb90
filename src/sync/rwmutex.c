/*
 * rwmutex.c: the readers-writer mutex.
 *
 * Everything is under the latch. `active` is the number of readers that have the mutex, or -1: a
 * writer has it. The policy:
 *
 *     a reader comes             it enters if no writer has the mutex and none waits
 *     a writer comes             it enters if the mutex is free
 *     a writer unlocks           all waiting readers are admitted; if there are none, the first
 *                                waiting writer
 *     the last reader unlocks    the first waiting writer is admitted; if there is none, all
 *                                waiting readers
 *     the last waiting writer    all waiting readers are admitted, unless a writer has the mutex
 *     gives up
 *
 * The mutex is handed over: a waiter that is admitted is counted in `active` before it is woken, so
 * no newcomer can slip in between. So neither side starves: after a writer the readers that waited
 * are admitted, after them the next writer.
 *
 * Invariants. Readers wait only if a writer has the mutex or waits. If the mutex is free, both
 * lists are empty, except for waiters that have given up and not left yet. Admission passes over
 * those, and turns to the other list if it finds only such.
 *
 * The latch is a word of its own: its release is the last access of an unlock. A lock for reading
 * costs one atomic operation, and so does its unlock, as they would with a counter.
 */
#include <errno.h>
#include <weft/rwmutex.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "sched/check/test_point.h"
#include "sched/core/park.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/caller.h"
#include "sync/lock_order.h"
#include "sync/object_latch.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_read, .text = "locks a read-write mutex for reading");
static WAIT_KIND(wait_write, .text = "locks a read-write mutex for writing");

enum { WRITER = -1 };

/* The writer, in debug builds. Written by the writer alone, read by all. */

#ifdef WEFT_DEBUG

static atomic_u64 *owner_of(weft_rwmutex *rwmutex)
{
    return (atomic_u64 *)(void *)&rwmutex->owner;
}

static void lock_wanted(weft_rwmutex *rwmutex, void *site)
{
    if (atomic_u64_load_relaxed(owner_of(rwmutex)) == caller_id())
        fatal("a readers-writer mutex is locked by its writer: it would wait for itself");
    weft__lock_order_wanted(rwmutex, &rwmutex->number, site);
}

static void writer_set(weft_rwmutex *rwmutex)
{
    atomic_u64_store_relaxed(owner_of(rwmutex), caller_id());
}

static void writer_clear(weft_rwmutex *rwmutex)
{
    /* In a forked child a fiber is a thread, and may unlock what it held as a fiber. */
    if (atomic_u64_load_relaxed(owner_of(rwmutex)) != caller_id() && !weft__runtime_forked())
        fatal("a readers-writer mutex is unlocked by another than its writer");
    atomic_u64_store_relaxed(owner_of(rwmutex), 0);
}

#else

static inline void lock_wanted(weft_rwmutex *rwmutex, void *site)
{
    (void)rwmutex;
    (void)site;
}

static inline void writer_set(weft_rwmutex *rwmutex)
{
    (void)rwmutex;
}

static inline void writer_clear(weft_rwmutex *rwmutex)
{
    (void)rwmutex;
}

#endif

/* Entering and admission; under the latch. In a forked child there are no waiters. */

static bool has_waiters(const weft_rwmutex *rwmutex)
{
    return (rwmutex->readers != NULL || rwmutex->writers != NULL) && !weft__runtime_forked();
}

static bool read_enter(weft_rwmutex *rwmutex)
{
    if (rwmutex->active < 0 || (rwmutex->writers != NULL && !weft__runtime_forked()))
        return false;
    rwmutex->active++;
    return true;
}

static bool write_enter(weft_rwmutex *rwmutex)
{
    if (rwmutex->active != 0)
        return false;
    rwmutex->active = WRITER;
    return true;
}

static bool admit_readers(weft_rwmutex *rwmutex, struct woken *woken)
{
    (void)waiters_claim_all(&rwmutex->readers, 0, woken);
    rwmutex->active += woken->count;
    return woken->count > 0;
}

static bool admit_writer(weft_rwmutex *rwmutex, struct woken *woken)
{
    struct waiter *writer = waiters_claim_first(&rwmutex->writers, 0);
    if (writer == NULL)
        return false;
    rwmutex->active = WRITER;
    woken_add(woken, writer);
    return true;
}

/* Locking. */

static bool (*const try_enter[])(weft_rwmutex *) = {read_enter, write_enter};

enum role { READ, WRITE };

/* Takes a waiter that gave up out of its list, and admits the readers that it held back. */
static void leave_list(weft_rwmutex *rwmutex, struct waiter *waiter, enum role role)
{
    struct woken woken;
    woken_begin(&woken);
    object_latch_acquire(&rwmutex->latch);
    (void)waiters_remove(role == READ ? &rwmutex->readers : &rwmutex->writers, waiter);
    if (rwmutex->writers == NULL && rwmutex->active >= 0)
        (void)admit_readers(rwmutex, &woken);
    object_latch_release(&rwmutex->latch);
    woken_wake(&woken);
}

static noinline int lock_slow(weft_rwmutex *rwmutex, enum role role, uint32_t firm,
                              int64_t deadline)
{
    struct waiter own;
    int result = 0;
    bool fiber = enter_if_fiber();
    object_latch_acquire(&rwmutex->latch);
    if (try_enter[role](rwmutex)) {
        object_latch_release(&rwmutex->latch);
    } else {
        struct waiter *waiter = weft__waiter_begin(&own);
        waiters_add_last(role == READ ? &rwmutex->readers : &rwmutex->writers, waiter);
        result =
            weft__park(waiter, (role == READ ? wait_id(&wait_read) : wait_id(&wait_write)) | firm,
                       object_latch_unlock, &rwmutex->latch, deadline);
        if (wait_gave_up(result))
            leave_list(rwmutex, waiter, role);
    }
    leave_if_fiber(fiber);
    return result;
}

static bool take_if_free(weft_rwmutex *rwmutex, enum role role)
{
    object_latch_acquire(&rwmutex->latch);
    bool taken = try_enter[role](rwmutex);
    object_latch_release(&rwmutex->latch);
    return taken;
}

static void lock_taken(weft_rwmutex *rwmutex, enum role role, void *site)
{
    if (role == WRITE)
        writer_set(rwmutex);
    weft__lock_order_taken(rwmutex, &rwmutex->number, site);
}

static inline int lock_until(weft_rwmutex *rwmutex, enum role role, uint32_t firm, int64_t deadline,
                             void *site)
{
    int result = 0;
    if (deadline > WEFT_NOW)
        lock_wanted(rwmutex, site);
    if (unlikely(!take_if_free(rwmutex, role))) {
        if (weft__runtime_forked())
            return -ECHILD;
        result = deadline <= WEFT_NOW ? -ETIMEDOUT : lock_slow(rwmutex, role, firm, deadline);
    }
    if (result == 0)
        lock_taken(rwmutex, role, site);
    return result;
}

static inline void lock(weft_rwmutex *rwmutex, enum role role, void *site)
{
    if (unlikely(rwmutex == NULL))
        fatal("weft_rwmutex_read_lock or weft_rwmutex_write_lock was given no mutex");
    if (unlikely(lock_until(rwmutex, role, WAIT_FIRM, WEFT_NEVER, site) != 0))
        fatal("a readers-writer mutex was locked when the process was forked: no thread unlocks "
              "it in the child");
}

/* In a test run, or in chaos; apart, so that the common path keeps nothing across the point. */
static noinline void lock_at_point(weft_rwmutex *rwmutex, enum role role, void *site)
{
    weft__test_point();
    lock(rwmutex, role, site);
}

static inline int try_lock(weft_rwmutex *rwmutex, enum role role, void *site)
{
    if (rwmutex == NULL)
        return -EINVAL;
    test_point();
    if (!take_if_free(rwmutex, role))
        return -EBUSY;
    lock_taken(rwmutex, role, site);
    return 0;
}

void weft_rwmutex_read_lock(weft_rwmutex *rwmutex)
{
    if (test_points())
        lock_at_point(rwmutex, READ, __builtin_return_address(0));
    else
        lock(rwmutex, READ, __builtin_return_address(0));
}

int weft_rwmutex_read_lock_until(weft_rwmutex *rwmutex, int64_t deadline)
{
    if (rwmutex == NULL)
        return -EINVAL;
    test_point();
    return lock_until(rwmutex, READ, 0, deadline, __builtin_return_address(0));
}

int weft_rwmutex_try_read_lock(weft_rwmutex *rwmutex)
{
    return try_lock(rwmutex, READ, __builtin_return_address(0));
}

void weft_rwmutex_write_lock(weft_rwmutex *rwmutex)
{
    if (test_points())
        lock_at_point(rwmutex, WRITE, __builtin_return_address(0));
    else
        lock(rwmutex, WRITE, __builtin_return_address(0));
}

int weft_rwmutex_write_lock_until(weft_rwmutex *rwmutex, int64_t deadline)
{
    if (rwmutex == NULL)
        return -EINVAL;
    test_point();
    return lock_until(rwmutex, WRITE, 0, deadline, __builtin_return_address(0));
}

int weft_rwmutex_try_write_lock(weft_rwmutex *rwmutex)
{
    return try_lock(rwmutex, WRITE, __builtin_return_address(0));
}

/* Unlocking. */

/* The last reader, or the writer, unlocks: admits the waiters that are next. Under the latch. */
static void admit_next(weft_rwmutex *rwmutex, enum role role, struct woken *woken)
{
    rwmutex->active = 0;
    if (role == WRITE) {
        if (!admit_readers(rwmutex, woken))
            (void)admit_writer(rwmutex, woken);
    } else {
        if (!admit_writer(rwmutex, woken))
            (void)admit_readers(rwmutex, woken);
    }
}

/* Unlocks if no waiter is to be admitted; true if it has. Under the latch. */
static bool unlock_without_wake(weft_rwmutex *rwmutex)
{
    if (rwmutex->active > 1) {
        rwmutex->active--;
        return true;
    }
    if (has_waiters(rwmutex))
        return false;
    rwmutex->active = 0;
    return true;
}

static noinline void unlock_slow(weft_rwmutex *rwmutex, enum role role)
{
    struct woken woken;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    object_latch_acquire(&rwmutex->latch);
    if (!unlock_without_wake(rwmutex))
        admit_next(rwmutex, role, &woken);
    object_latch_release(&rwmutex->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
}

static inline void unlock(weft_rwmutex *rwmutex, enum role role)
{
    object_latch_acquire(&rwmutex->latch);
    if (unlikely(role == READ ? rwmutex->active < 1 : rwmutex->active != WRITER))
        fatal("a readers-writer mutex is unlocked for %s that is not locked for it",
              role == READ ? "reading" : "writing");
    if (role == WRITE)
        writer_clear(rwmutex);
    bool left = unlock_without_wake(rwmutex);
    object_latch_release(&rwmutex->latch);
    if (unlikely(!left))
        unlock_slow(rwmutex, role);
}

/* Apart for the reason of lock_at_point. */
static noinline void unlock_at_point(weft_rwmutex *rwmutex, enum role role)
{
    unlock(rwmutex, role);
    weft__test_point();
}

void weft_rwmutex_read_unlock(weft_rwmutex *rwmutex)
{
    if (unlikely(rwmutex == NULL))
        fatal("weft_rwmutex_read_unlock was given no mutex");
    weft__lock_order_released(&rwmutex->number);
    if (test_points())
        unlock_at_point(rwmutex, READ);
    else
        unlock(rwmutex, READ);
}

void weft_rwmutex_write_unlock(weft_rwmutex *rwmutex)
{
    if (unlikely(rwmutex == NULL))
        fatal("weft_rwmutex_write_unlock was given no mutex");
    weft__lock_order_released(&rwmutex->number);
    if (test_points())
        unlock_at_point(rwmutex, WRITE);
    else
        unlock(rwmutex, WRITE);
}

void weft_rwmutex_destroy(weft_rwmutex *rwmutex)
{
    if (rwmutex == NULL)
        fatal("weft_rwmutex_destroy was given no mutex");
    object_latch_acquire(&rwmutex->latch);
    bool locked = rwmutex->active != 0;
    must(locked || !has_waiters(rwmutex)); /* an unlock admits a waiter */
    object_latch_release(&rwmutex->latch);
    if (locked)
        fatal("a readers-writer mutex is destroyed that is locked");
    weft__lock_order_forget(&rwmutex->number);
    *rwmutex = (weft_rwmutex)WEFT_RWMUTEX_INIT;
}
