/*
 * weft/wg.h: wait group: wait until a number of things are done.
 *
 * A zero-initialised wait group is ready, with a count of zero. weft_wg_add raises the count (or
 * weft_wg_init sets it), weft_wg_done lowers it, and the waiting callers go on when it is zero.
 *
 *     weft_wg wg = WEFT_WG_INIT;
 *     for (int i = 0; i < count && error == 0; i++)
 *         error = weft_wg_go(&wg, work, &items[i]);
 *     weft_wg_wait(&wg);
 *
 * A wait group may live on the stack of a caller that waits for it: when all waits have returned,
 * one of them with 0, no done touches it any more.
 */
#ifndef WEFT_WG_H
#define WEFT_WG_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* The largest count. */
#define WEFT_WG_MAX INT32_MAX

/* The fields are weft's own. */
typedef struct weft_wg {
    uint64_t word;
    void *waiters;
} weft_wg;

/* A wait group with a count of zero, for static objects. */
/* clang-format off */
#define WEFT_WG_INIT { 0, 0 }
/* clang-format on */

/* Makes a wait group with a count.
 * Returns 0; -EINVAL if wg is NULL or the count is negative or above WEFT_WG_MAX.
 * Contexts: fiber, thread.
 * Undefined: while the wait group is in use. */
WEFT_API int weft_wg_init(weft_wg *wg, int64_t count);

/* Adds to the count; a negative number takes away, as that many calls of weft_wg_done would. A
 * count below zero is a bug of the program: it is reported, and the process aborts.
 * Returns 0; -EINVAL if wg is NULL or the sum would be above WEFT_WG_MAX: then nothing is added.
 * Contexts: fiber, thread.
 * Undefined: raising the count from zero while a caller waits. */
WEFT_API int weft_wg_add(weft_wg *wg, int64_t count);

/* Adds one and starts a fiber that calls function(arg) and then takes one away, also if the
 * function panics.
 * Returns 0; -EINVAL if wg or function is NULL or the count would be above WEFT_WG_MAX; or as
 * weft_go. On an error nothing was added.
 * Contexts: fiber, thread.
 * Undefined: as weft_wg_add. */
WEFT_API WEFT_MUST_USE int weft_wg_go(weft_wg *wg, void (*function)(void *), void *arg);

/* Takes one away. A caller whose wait ends by that sees all that was written before. A NULL, and a
 * count below zero, are bugs of the program: they are reported, and the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_wg_done(weft_wg *wg);

/* Waits until the count is zero.
 * Returns 0; -ECANCELED or -ETIMEDOUT if the caller's context is cancelled first; -EINVAL if wg is
 * NULL; -ECHILD if it would have to wait in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_wg_wait(weft_wg *wg);

/* Waits until the count is zero, at most until `deadline`. WEFT_NOW asks without waiting.
 * Returns as weft_wg_wait; -ETIMEDOUT also if the deadline has passed and the count is not zero.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_wg_wait_until(weft_wg *wg, int64_t deadline);

/* The count, as it was a moment ago; 0 for NULL.
 * Contexts: fiber, thread, signal handler. */
WEFT_API int64_t weft_wg_count(const weft_wg *wg);

WEFT_END

#endif
