/*
 * weft/spin.h: spin lock, for a few instructions at a time.
 *
 * Zero-initialised is ready, and unlocked. Who waits burns its CPU, with growing pauses, and gives the
 * CPU up if it takes long: the holder must have lost its own then. A fiber that waits keeps its thread.
 * So hold it for tens of nanoseconds and never across a call that can wait: parking or yielding with a
 * spin lock held is reported and the process aborts. For anything longer there is weft/mutex.h.
 */
#ifndef WEFT_SPIN_H
#define WEFT_SPIN_H

#include <weft/base.h>

WEFT_BEGIN

/* The field is weft's own. */
typedef struct weft_spin {
    uint32_t word;
} weft_spin;

/* clang-format off */
#define WEFT_SPIN_INIT { 0 }
/* clang-format on */

/* Locks it; waits as long as it takes. A NULL is reported and the process aborts.
 * Contexts: fiber, thread. Undefined: locking it twice. */
WEFT_API void weft_spin_lock(weft_spin *spin);

/* Locks it if it is free.
 * Returns 0; -EBUSY; -EINVAL if spin is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_spin_try_lock(weft_spin *spin);

/* Unlocks it; does not touch it any more once somebody else can have it. Unlocking one that is not
 * locked is reported and the process aborts.
 * Contexts: fiber, thread: the one that locked it. */
WEFT_API void weft_spin_unlock(weft_spin *spin);

WEFT_END

#endif
