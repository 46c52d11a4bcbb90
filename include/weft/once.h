/*
 * weft/once.h: call a function once, by the first of any number of callers.
 *
 *     static weft_once once = WEFT_ONCE_INIT;
 *     weft_once_do(&once, load_table, NULL);
 *
 * A zero-initialised weft_once is ready. After the function has returned, a call costs one load.
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

/* A weft_once whose function has not been called, for static objects. */
/* clang-format off */
#define WEFT_ONCE_INIT { 0, 0, 0, 0 }
/* clang-format on */

/* Calls function(arg) if this is the first call for this weft_once. Any other call waits, as long
 * as it takes, until the function of the first call has returned; its own function is not called.
 * When the call returns, the caller sees all that the function wrote.
 *
 * If the function panics (weft/panic.h) the panic goes on in the call that ran it, and the
 * weft_once is as new: one of the waiting calls, or the next one, calls its own function.
 *
 * A NULL, a call from inside the function, which would wait for itself, and having to wait in a
 * forked child are reported, and the process aborts.
 * Contexts: fiber, thread.
 * Undefined: leaving the function by longjmp. */
WEFT_API void weft_once_do(weft_once *once, void (*function)(void *), void *arg);

WEFT_END

#endif
