/*
 * weft/mutex.h: mutex: mutual exclusion of fibers and threads.
 *
 *     static weft_mutex mutex = WEFT_MUTEX_INIT;
 *     weft_mutex_lock(&mutex);
 *     count++;
 *     weft_mutex_unlock(&mutex);
 *
 * A zero-initialised mutex is ready, and unlocked. Fibers and threads may share one in any mix: a
 * fiber that has to wait parks, and its thread runs other fibers meanwhile; a thread blocks.
 * Without contention, lock and unlock cost one atomic operation each.
 *
 * A mutex is fair in the long run. Normally the first caller that finds it free takes it, which is
 * fastest. A waiter that has waited for more than a millisecond gets it next, before all that come
 * later.
 *
 * A mutex may be part of an object that its last user frees: unlock does not touch the mutex once
 * another caller can have it. (A caller that waits in a lock call is a user as well.)
 *
 * Debug builds of weft find these bugs, report them and abort: unlocking by another caller than the
 * owner, locking a mutex that the caller holds already, and taking locks in an order that can
 * deadlock, even if it did not deadlock this time.
 */
#ifndef WEFT_MUTEX_H
#define WEFT_MUTEX_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* The fields are weft's own. */
typedef struct weft_mutex {
    uint32_t word;
    uint32_t number;
    uint64_t owner;
    uint32_t spin;
    uint32_t reserved;
    void *waiters;
} weft_mutex;

/* An unlocked mutex, for static objects. */
/* clang-format off */
#define WEFT_MUTEX_INIT { 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/* Locks the mutex; waits as long as it takes, also if the caller's context is cancelled. A NULL,
 * and having to wait in a forked child, where no thread would unlock it, are reported, and the
 * process aborts.
 * Contexts: fiber, thread.
 * Undefined (debug builds report it): locking a mutex that the caller holds. */
WEFT_API void weft_mutex_lock(weft_mutex *mutex);

/* Locks the mutex; waits at most until `deadline`. WEFT_NOW asks without waiting.
 * Returns 0 if the mutex is locked; -ETIMEDOUT if the deadline has passed; -ECANCELED or
 * -ETIMEDOUT if the caller's context is cancelled and the call would have to wait; -EINVAL if mutex
 * is NULL; -ECHILD if it would have to wait in a forked child.
 * Contexts: fiber, thread.
 * Undefined (debug builds report it): locking a mutex that the caller holds, with a deadline other
 * than WEFT_NOW. */
WEFT_API WEFT_MUST_USE int weft_mutex_lock_until(weft_mutex *mutex, int64_t deadline);

/* Locks the mutex if that needs no waiting.
 * Returns 0; -EBUSY if it is locked, or is about to be handed to a waiter; -EINVAL if mutex is
 * NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_mutex_try_lock(weft_mutex *mutex);

/* Unlocks the mutex. The next owner sees all that was written before. A NULL, and a mutex that is
 * not locked, are bugs of the program: they are reported, and the process aborts.
 * Contexts: fiber, thread.
 * Undefined (debug builds report it): unlocking by another caller than the owner. */
WEFT_API void weft_mutex_unlock(weft_mutex *mutex);

/* Ends the life of a mutex; after it the mutex is as new. A NULL, and a mutex that is locked or
 * waited for, are reported, and the process aborts. A mutex that is no longer used need not be
 * destroyed: it holds no memory.
 * Contexts: fiber, thread.
 * Undefined: while the mutex is in use. */
WEFT_API void weft_mutex_destroy(weft_mutex *mutex);

WEFT_END

#endif
