/*
 * weft/once.h: do something once, whoever comes first.
 *
 *     static weft_once once = WEFT_ONCE_INIT;
 *     weft_once_do(&once, load_table, NULL);
 *
 * Zero-initialised is ready. Once it is done, asking costs one load.
 */
#ifndef WEFT_ONCE_H
#define WEFT_ONCE_H

#include <weft/base.h>

WEFT_BEGIN

/* The fields are weft's own. */
typedef struct weft_once {
    uint32_t word;
    uint32_t reserved;
    uint64_t owner;
    void *waiters;
} weft_once;

/* clang-format off */
#define WEFT_ONCE_INIT { 0, 0, 0, 0 }
/* clang-format on */

/* Calls function(arg) if this is the first call with this weft_once; else waits, as long as it takes,
 * until the first call's function has returned. What it wrote is visible when this returns. The
 * function may wait for anything but itself: a call from inside the function is a bug of the program,
 * is reported and the process aborts; as for a NULL, and for waiting in a forked child.
 * If the function panics (weft/panic.h) it has not been done: the panic goes on in this caller, and one of those
 * who wait, or the next who comes, calls its function.
 * Contexts: fiber, thread. Undefined: leaving the function by longjmp. */
WEFT_API void weft_once_do(weft_once *once, void (*function)(void *), void *arg);

WEFT_END

#endif
