/*
 * weft/rwmutex.h: readers-writer mutex: many readers, or one writer.
 *
 * A zero-initialised readers-writer mutex is ready, and unlocked. Fibers and threads may share one
 * in any mix. Neither side starves: a writer that waits holds new readers back, and when a writer
 * unlocks, the readers that wait go before the next writer. Writers go in the order in which they
 * came.
 *
 * So a reader must not lock for reading once more: a writer that came in between would make it wait
 * for itself.
 *
 * As a weft_mutex, it may be part of an object that its last user frees, and debug builds check its
 * owner and the order of locks.
 */
#ifndef WEFT_RWMUTEX_H
#define WEFT_RWMUTEX_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* The fields are weft's own. */
typedef struct weft_rwmutex {
    uint32_t latch;
    uint32_t number;
    int64_t active;
    uint64_t owner;
    void *readers, *writers;
} weft_rwmutex;

/* An unlocked readers-writer mutex, for static objects. */
/* clang-format off */
#define WEFT_RWMUTEX_INIT { 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/* Locks the mutex for reading; waits as long as it takes, also if the caller's context is
 * cancelled. A NULL, and having to wait in a forked child, are reported, and the process aborts.
 * Contexts: fiber, thread. Undefined (debug builds report it): if the caller holds the mutex
 * already, for reading or writing. */
WEFT_API void weft_rwmutex_read_lock(weft_rwmutex *rwmutex);

/* Locks the mutex for reading; waits at most until `deadline`. WEFT_NOW asks without waiting.
 * Returns 0 if the mutex is locked; -ETIMEDOUT if the deadline has passed; -ECANCELED or -ETIMEDOUT
 * if the caller's context is cancelled and the call would have to wait; -EINVAL if rwmutex is NULL;
 * -ECHILD if it would have to wait in a forked child. Contexts: fiber, thread. Undefined (debug
 * builds report it): if the caller holds the mutex already, with a deadline other than WEFT_NOW. */
WEFT_API WEFT_MUST_USE int weft_rwmutex_read_lock_until(weft_rwmutex *rwmutex, int64_t deadline);

/* Locks the mutex for reading if that needs no waiting.
 * Returns 0; -EBUSY if a writer has it or waits for it; -EINVAL if rwmutex is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_rwmutex_try_read_lock(weft_rwmutex *rwmutex);

/* Ends a lock for reading. A NULL, and a mutex that is not locked for reading, are reported, and
 * the process aborts.
 * Contexts: the fiber or thread that locked it. */
WEFT_API void weft_rwmutex_read_unlock(weft_rwmutex *rwmutex);

/* Locks the mutex for writing; waits as long as it takes, also if the caller's context is
 * cancelled. A NULL, and having to wait in a forked child, are reported, and the process aborts.
 * Contexts: fiber, thread. Undefined (debug builds report it): if the caller holds the mutex
 * already, for reading or writing. */
WEFT_API void weft_rwmutex_write_lock(weft_rwmutex *rwmutex);

/* Locks the mutex for writing; waits at most until `deadline`. WEFT_NOW asks without waiting.
 * Returns 0 if the mutex is locked; -ETIMEDOUT if the deadline has passed; -ECANCELED or -ETIMEDOUT
 * if the caller's context is cancelled and the call would have to wait; -EINVAL if rwmutex is NULL;
 * -ECHILD if it would have to wait in a forked child. Contexts: fiber, thread. Undefined (debug
 * builds report it): if the caller holds the mutex already, with a deadline other than WEFT_NOW. */
WEFT_API WEFT_MUST_USE int weft_rwmutex_write_lock_until(weft_rwmutex *rwmutex, int64_t deadline);

/* Locks the mutex for writing if that needs no waiting.
 * Returns 0; -EBUSY if a reader or a writer has it; -EINVAL if rwmutex is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_rwmutex_try_write_lock(weft_rwmutex *rwmutex);

/* Ends the lock for writing. A NULL, and a mutex that is not locked for writing, are reported,
 * and the process aborts.
 * Contexts: the fiber or thread that locked it (debug builds report any other). */
WEFT_API void weft_rwmutex_write_unlock(weft_rwmutex *rwmutex);

/* Ends the life of a readers-writer mutex; after it the mutex is as new. A NULL, and a mutex that
 * is locked or waited for, are reported, and the process aborts. A mutex that is no longer used
 * need not be destroyed: it holds no memory. Contexts: fiber, thread. Undefined: while the mutex is
 * in use. */
WEFT_API void weft_rwmutex_destroy(weft_rwmutex *rwmutex);

WEFT_END

#endif
