/*
 * weft/cond.h: condition variable: wait, without the mutex, for a change of what the mutex
 * protects.
 *
 *     weft_mutex_lock(&mutex);
 *     int error = 0;
 *     while (!ready && error == 0)
 *         error = weft_cond_wait(&cond, &mutex);
 *     ...                                             // the mutex is held here in any case
 *     weft_mutex_unlock(&mutex);
 *
 * A zero-initialised condition variable is ready. Waiters are woken in the order in which they
 * came, each by one signal or a broadcast; there are no spurious wake-ups. The condition may have
 * changed again before the waiter has the mutex back: wait in a loop.
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

/* A condition variable without waiters, for static objects. */
/* clang-format off */
#define WEFT_COND_INIT { 0, 0, 0 }
/* clang-format on */

/* Unlocks the mutex, waits for a signal, and locks the mutex again. Unlocking and waiting are one
 * step: a signal that comes once the mutex is unlocked is not missed. Whatever the call returns,
 * the caller holds the mutex.
 * Returns 0 if a signal or a broadcast woke it; -ECANCELED or -ETIMEDOUT if the caller's context is
 * cancelled; -EINVAL if cond or mutex is NULL; -ECHILD in a forked child. A call that returns an
 * error has consumed no signal.
 * Contexts: fiber, thread: the owner of the mutex. (A mutex that is not locked is reported as by
 * weft_mutex_unlock.)
 * Undefined: waiting with two mutexes at a time. */
WEFT_API WEFT_MUST_USE int weft_cond_wait(weft_cond *cond, weft_mutex *mutex);

/* Waits for a signal as weft_cond_wait does, at most until `deadline`. It may return later than
 * that, by as long as other callers hold the mutex. With a deadline of WEFT_NOW or less it does not
 * even unlock the mutex.
 * Returns as weft_cond_wait; -ETIMEDOUT also if the deadline has passed.
 * Contexts: fiber, thread: the owner of the mutex.
 * Undefined: waiting with two mutexes at a time. */
WEFT_API WEFT_MUST_USE int weft_cond_wait_until(weft_cond *cond, weft_mutex *mutex,
                                                int64_t deadline);

/* Wakes the waiter that has waited longest, if there is one. The mutex need not be held. A NULL is
 * reported, and the process aborts. In a forked child, where no waiter is, the call does nothing.
 * Contexts: fiber, thread. */
WEFT_API void weft_cond_signal(weft_cond *cond);

/* Wakes all callers that wait at this moment. The mutex need not be held. A NULL is reported, and
 * the process aborts. In a forked child, where no waiter is, the call does nothing.
 * Contexts: fiber, thread. */
WEFT_API void weft_cond_broadcast(weft_cond *cond);

/* Ends the life of a condition variable; after it the object is as new. The call may come right
 * after a broadcast that woke all waiters; it then waits for woken callers whose deadline or
 * context ended their wait at the same moment. A NULL, and a condition variable that is waited for,
 * are reported, and the process aborts. An object all of whose calls have returned need not be
 * destroyed: it holds no memory. Contexts: fiber, thread. Undefined: while another caller signals
 * it. */
WEFT_API void weft_cond_destroy(weft_cond *cond);

WEFT_END

#endif
