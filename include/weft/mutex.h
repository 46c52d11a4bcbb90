/*
 * weft/mutex.h: mutex: one at a time.
 *
 * Zero-initialised is ready, and unlocked. Fibers and threads may share one in any mix: a fiber that
 * has to wait parks and its thread runs others meanwhile, a thread blocks. A mutex that is not
 * contended costs one atomic operation to lock and one to unlock.
 *
 * It is fair in the long run: normally whoever is there first takes it, which is fastest; one that
 * has waited for more than a millisecond gets it next, before all who come later.
 *
 * A mutex may be part of an object that the last user frees: unlock does not touch it any more once
 * somebody else can have it. (Who is inside a lock call, waiting, is a user as well.)
 *
 * Debug builds of weft find these, report them and abort: unlock by another than the owner, locking
 * a mutex that one holds already, and locks taken in an order that can deadlock, even if this time
 * it did not.
 *
 *     static weft_mutex mutex = WEFT_MUTEX_INIT;
 *     weft_mutex_lock(&mutex);
 *     count++;
 *     weft_mutex_unlock(&mutex);
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

/* Locks the mutex; waits as long as it takes, whatever becomes of the fiber's context. In a forked
 * child there is nobody to wait for: there, waiting is reported and the process aborts, as it does
 * for a NULL.
 * Contexts: fiber, thread. Undefined (debug builds report it): locking it twice. */
WEFT_API void weft_mutex_lock(weft_mutex *mutex);

/* Locks the mutex, waits at most until the deadline, and not beyond the end of the fiber's context.
 * Returns 0; -ETIMEDOUT; -ECANCELED; -EINVAL if mutex is NULL; -ECHILD if it would have to wait in a
 * forked child. It is locked only if 0 was returned. WEFT_NOW asks without waiting.
 * Contexts: fiber, thread. Undefined: as for weft_mutex_lock. */
WEFT_API WEFT_MUST_USE int weft_mutex_lock_until(weft_mutex *mutex, int64_t deadline);

/* Locks the mutex if that needs no waiting.
 * Returns 0; -EBUSY if somebody has it, or it is promised to one who waits; -EINVAL if mutex is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_mutex_try_lock(weft_mutex *mutex);

/* Unlocks the mutex. Everything written before it is visible to who locks it next. Unlocking one that
 * is not locked is a bug of the program: it is reported and the process aborts.
 * Contexts: fiber, thread. Undefined (debug builds report it): by another than who locked it. */
WEFT_API void weft_mutex_unlock(weft_mutex *mutex);

/* Ends the life of a mutex. One that is locked or waited for is reported and the process aborts.
 * After it the mutex is as new. A mutex that is simply not used any more need not be destroyed: it
 * holds no memory.
 * Contexts: fiber, thread. Undefined: while somebody uses it. */
WEFT_API void weft_mutex_destroy(weft_mutex *mutex);

WEFT_END

#endif
