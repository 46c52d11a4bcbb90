/*
 * weft/rwmutex.h: readers-writer mutex: many readers, or one writer.
 *
 * Zero-initialised is ready, and unlocked. Fibers and threads may share one in any mix. Nobody
 * starves: a writer that waits holds new readers back, and when a writer unlocks, the readers that
 * wait then go before the next writer. Writers go in the order in which they came.
 *
 * So a reader must not lock it for reading once more: a writer that came in between would make it
 * wait for itself.
 *
 * As a weft_mutex, it may be part of an object that the last user frees, and debug builds check owner
 * and lock order.
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

/* An unlocked one, for static objects. */
/* clang-format off */
#define WEFT_RWMUTEX_INIT { 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/* Lock it for reading; wait as long as it takes, whatever becomes of the fiber's context. In a forked
 * child waiting is reported and the process aborts, as it does for a NULL.
 * Contexts: fiber, thread. Undefined (debug builds report it): if the caller has it already. */
WEFT_API void weft_rwmutex_read_lock(weft_rwmutex *rwmutex);

/* The same, at most until the deadline, and not beyond the end of the fiber's context.
 * Returns 0; -ETIMEDOUT; -ECANCELED; -EINVAL if rwmutex is NULL; -ECHILD if it would have to wait in
 * a forked child. WEFT_NOW asks without waiting. */
WEFT_API WEFT_MUST_USE int weft_rwmutex_read_lock_until(weft_rwmutex *rwmutex, int64_t deadline);

/* The same if it needs no waiting.
 * Returns 0; -EBUSY if a writer has it or waits for it; -EINVAL if rwmutex is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_rwmutex_try_read_lock(weft_rwmutex *rwmutex);

/* Ends a lock for reading. If there is none, that is reported and the process aborts.
 * Contexts: fiber, thread: the one that locked it (debug builds report it when that one ends). */
WEFT_API void weft_rwmutex_read_unlock(weft_rwmutex *rwmutex);

/* Lock it for writing: alone; as weft_rwmutex_read_lock and its kin in all else. */
WEFT_API void weft_rwmutex_write_lock(weft_rwmutex *rwmutex);
WEFT_API WEFT_MUST_USE int weft_rwmutex_write_lock_until(weft_rwmutex *rwmutex, int64_t deadline);

/* The same if it needs no waiting.
 * Returns 0; -EBUSY if anybody has it; -EINVAL if rwmutex is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_rwmutex_try_write_lock(weft_rwmutex *rwmutex);

/* Ends the lock for writing. If there is none, that is reported and the process aborts.
 * Contexts: fiber, thread: the one that locked it (debug builds report another). */
WEFT_API void weft_rwmutex_write_unlock(weft_rwmutex *rwmutex);

/* Ends its life. One that is locked or waited for is reported and the process aborts. After it, it is
 * as new. One that is simply not used any more need not be destroyed.
 * Contexts: fiber, thread. Undefined: while somebody uses it. */
WEFT_API void weft_rwmutex_destroy(weft_rwmutex *rwmutex);

WEFT_END

#endif
