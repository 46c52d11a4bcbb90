/*
 * weft/spin.h: spin lock: mutual exclusion for a few instructions at a time.
 *
 * A zero-initialised spin lock is ready, and unlocked. A caller that waits for it keeps its CPU
 * busy, with growing pauses, and gives the CPU up only after some microseconds, since the holder
 * must have lost its own by then. A fiber that waits keeps its thread.
 *
 * So hold it for tens of nanoseconds, and never across a call that can wait: parking or yielding
 * with a spin lock held is reported, and the process aborts. For anything longer there is
 * weft/mutex.h.
 */
#ifndef WEFT_SPIN_H
#define WEFT_SPIN_H

#include <weft/base.h>

WEFT_BEGIN

/* The field is weft's own. */
typedef struct weft_spin {
    uint32_t word;
} weft_spin;

/* An unlocked spin lock, for static objects. */
/* clang-format off */
#define WEFT_SPIN_INIT { 0 }
/* clang-format on */

/* Locks the spin lock; waits as long as it takes. A NULL, and a lock that was held when this
 * process was forked, are reported, and the process aborts. Contexts: fiber, thread. Undefined:
 * locking a spin lock that the caller holds. */
WEFT_API void weft_spin_lock(weft_spin *spin);

/* Locks the spin lock if it is free.
 * Returns 0; -EBUSY if it is locked; -EINVAL if spin is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_spin_try_lock(weft_spin *spin);

/* Unlocks the spin lock; does not touch it once another caller can have it. A NULL, and a lock that
 * is not locked, are reported, and the process aborts. Contexts: the fiber or thread that locked
 * it. */
WEFT_API void weft_spin_unlock(weft_spin *spin);

WEFT_END

#endif
