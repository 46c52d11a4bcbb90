/*
 * weft/cond.h: condition variable: wait, without the mutex, until somebody says that something has
 * changed.
 *
 * Zero-initialised is ready. Waiters are woken in the order in which they came, each by one signal
 * or a broadcast, never for nothing. The condition may still have changed again before the waiter has
 * the mutex back: wait in a loop.
 *
 *     weft_mutex_lock(&mutex);
 *     int error = 0;
 *     while (!ready && error == 0)
 *         error = weft_cond_wait(&cond, &mutex);
 *     ...                                             // the mutex is held here in any case
 *     weft_mutex_unlock(&mutex);
 */
#ifndef WEFT_COND_H
#define WEFT_COND_H

#include <weft/base.h>
#include <weft/mutex.h>
#include <weft/time.h>

WEFT_BEGIN

/* The fields are weft's own. */
typedef struct weft_cond {
    uint32_t latch;
    uint32_t leaving;
    void *waiters;
} weft_cond;

/* One that nobody waits for, for static objects. */
/* clang-format off */
#define WEFT_COND_INIT { 0, 0, 0 }
/* clang-format on */

/* Unlocks the mutex and waits, in one step: a signal that comes once the mutex is unlocked is not
 * missed. Whatever it returns, the caller has the mutex (again).
 * Returns 0 if it was woken by a signal or a broadcast; -ECANCELED or -ETIMEDOUT if the fiber's
 * context has ended; -EINVAL if cond or mutex is NULL; -ECHILD in a forked child. A signal is never
 * lost to a waiter that reports something else.
 * Contexts: fiber, thread: who holds the mutex. Undefined: waiting with two mutexes at a time. */
WEFT_API WEFT_MUST_USE int weft_cond_wait(weft_cond *cond, weft_mutex *mutex);

/* The same with a deadline. Returns also -ETIMEDOUT. It may return later than the deadline by as long
 * as others have the mutex. With WEFT_NOW it does not even unlock the mutex. */
WEFT_API WEFT_MUST_USE int weft_cond_wait_until(weft_cond *cond, weft_mutex *mutex,
                                                int64_t deadline);

/* Wakes the one that has waited longest, if there is one; or all who wait now. The mutex need not be
 * held. A NULL is reported and the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_cond_signal(weft_cond *cond);
WEFT_API void weft_cond_broadcast(weft_cond *cond);

/* Ends its life; that may be done right after a broadcast that woke all. One that is waited for is
 * reported and the process aborts. One that is simply not used any more need not be destroyed.
 * Contexts: fiber, thread. Undefined: while somebody else signals it. */
WEFT_API void weft_cond_destroy(weft_cond *cond);

WEFT_END

#endif
