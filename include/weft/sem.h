/*
 * weft/sem.h: counting semaphore: a number of units, to be acquired and released, several at a time
 * if need be.
 *
 *     weft_sem sem = WEFT_SEM_INIT(10);
 *     weft_sem_acquire(&sem, 3);
 *     weft_sem_release(&sem, 3);
 *
 * A zero-initialised semaphore is ready, with no units. Requests are served in the order in which
 * they came: a request for many units that waits is not overtaken by later ones for few. If it
 * gives up, the requests behind it that now fit are served.
 *
 * A semaphore knows no maximum but WEFT_SEM_MAX, since any release may bring new units. So it does
 * not refuse a request for more units than there will ever be. Such a request waits like any other,
 * for ever or until its deadline, and all requests behind it wait as well, even if there are units
 * for them.
 */
#ifndef WEFT_SEM_H
#define WEFT_SEM_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* The largest number of units. */
#define WEFT_SEM_MAX INT64_MAX

/* The fields are weft's own. */
typedef struct weft_sem {
    uint32_t latch;
    int64_t available;
    void *first, *last;
} weft_sem;

/* A semaphore with n units, for static objects. */
/* clang-format off */
#define WEFT_SEM_INIT(n) { 0, (n), 0, 0 }
/* clang-format on */

/* Makes a semaphore with n units.
 * Returns 0; -EINVAL if sem is NULL or n is negative.
 * Contexts: fiber, thread.
 * Undefined: while the semaphore is in use. */
WEFT_API int weft_sem_init(weft_sem *sem, int64_t n);

/* Acquires n units; waits as long as it takes, also if the caller's context is cancelled. If there
 * will never be n units, the call and all requests behind it wait for ever; the deadlock check
 * reports that if nothing else is left to run. A NULL, an n below 1, and having to wait in a forked
 * child are reported, and the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_sem_acquire(weft_sem *sem, int64_t n);

/* Acquires n units; waits at most until `deadline`. WEFT_NOW asks without waiting. If there will
 * never be n units, the call waits until the deadline all the same, and so do all requests behind
 * it.
 * Returns 0 if the units were acquired; -ETIMEDOUT if the deadline has passed; -ECANCELED or
 * -ETIMEDOUT if the caller's context is cancelled and the call would have to wait; -EINVAL if sem
 * is NULL or n is below 1; -ECHILD if it would have to wait in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_sem_acquire_until(weft_sem *sem, int64_t n, int64_t deadline);

/* Acquires n units if that needs no waiting.
 * Returns 0; -EAGAIN if there are fewer, now or ever, or other requests wait already; -EINVAL if
 * sem is NULL or n is below 1.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_sem_try_acquire(weft_sem *sem, int64_t n);

/* Gives n units back, or adds new ones. The caller that acquires them sees all that was written
 * before. A NULL, an n below 1 and a sum above WEFT_SEM_MAX are bugs of the program: they are
 * reported, and the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_sem_release(weft_sem *sem, int64_t n);

/* The number of units that are not acquired, as it was a moment ago; 0 for NULL. It may be above 0
 * while a request waits for more.
 * Contexts: fiber, thread, signal handler. */
WEFT_API int64_t weft_sem_available(const weft_sem *sem);

/* Ends the life of a semaphore; after it the semaphore is as new, without units. A NULL, and a
 * semaphore that is waited for, are reported, and the process aborts. A semaphore that is no longer
 * used need not be destroyed: it holds no memory.
 * Contexts: fiber, thread.
 * Undefined: while the semaphore is in use. */
WEFT_API void weft_sem_destroy(weft_sem *sem);

WEFT_END

#endif
