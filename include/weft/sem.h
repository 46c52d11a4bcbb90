/*
 * weft/sem.h: counting semaphore: a number of units, to be acquired and released, several at a time
 * if need be.
 *
 * Zero-initialised is ready, with nothing available. First come, first served: who asks for much
 * and waits is not overtaken by those behind who ask for little. If it gives up, those behind that
 * now fit go on.
 *
 * A semaphore knows no maximum but WEFT_SEM_MAX, since any release may bring new units: it cannot
 * tell that a request is impossible. One for more units than there will ever be is therefore not
 * refused. It waits like any other, for ever or until its deadline, and meanwhile all behind it
 * wait as well, for units that may be there.
 *
 *     weft_sem sem = WEFT_SEM_INIT(10);
 *     weft_sem_acquire(&sem, 3);
 *     weft_sem_release(&sem, 3);
 */
#ifndef WEFT_SEM_H
#define WEFT_SEM_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* At most this much may be in a semaphore. */
#define WEFT_SEM_MAX INT64_MAX

/* The fields are weft's own. */
typedef struct weft_sem {
    uint32_t latch;
    int64_t available;
    void *first, *last;
} weft_sem;

/* One with n units, for static objects. */
/* clang-format off */
#define WEFT_SEM_INIT(n) { 0, (n), 0, 0 }
/* clang-format on */

/* Makes a semaphore with n units.
 * Returns 0; -EINVAL if sem is NULL or n is negative.
 * Contexts: fiber, thread. Undefined: while somebody uses it. */
WEFT_API int weft_sem_init(weft_sem *sem, int64_t n);

/* Acquires n units; waits as long as it takes, whatever becomes of the fiber's context. If there
 * will never be n units it waits for ever, and so do all behind it; the deadlock check reports that
 * if nothing else is left to run. A NULL, an n below 1, and waiting in a forked child are reported
 * and the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_sem_acquire(weft_sem *sem, int64_t n);

/* Acquires n units; waits at most until the deadline, and not beyond the end of the fiber's
 * context. If there will never be n units it waits until then all the same, and so do all behind
 * it.
 * Returns 0; -ETIMEDOUT; -ECANCELED; -EINVAL if sem is NULL or n below 1; -ECHILD if it would have
 * to wait in a forked child. Only 0 has taken anything. WEFT_NOW asks without waiting.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_sem_acquire_until(weft_sem *sem, int64_t n, int64_t deadline);

/* Acquires n units if that needs no waiting.
 * Returns 0; -EAGAIN if there are not as many, now or ever, or others wait already; -EINVAL if sem
 * is NULL or n below 1.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_sem_try_acquire(weft_sem *sem, int64_t n);

/* Gives n units back, or new ones. Everything written before it is visible to who acquires them. A
 * NULL, an n below 1 and a sum above WEFT_SEM_MAX are bugs of the program: they are reported and
 * the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_sem_release(weft_sem *sem, int64_t n);

/* The units that nobody has, as it was a moment ago; 0 for NULL. There may be some while somebody
 * waits for more.
 * Contexts: fiber, thread, signal handler. */
WEFT_API int64_t weft_sem_available(const weft_sem *sem);

/* Ends its life. One that is waited for is reported and the process aborts. One that is simply not
 * used any more need not be destroyed.
 * Contexts: fiber, thread. Undefined: while somebody uses it. */
WEFT_API void weft_sem_destroy(weft_sem *sem);

WEFT_END

#endif
