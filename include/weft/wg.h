/*
 * weft/wg.h: wait group: wait until a number of things are done.
 *
 * Zero-initialised is ready, with a count of zero. The count is raised by weft_wg_add (or set by
 * weft_wg_init), lowered by weft_wg_done; those who wait go on when it is zero. A wait group may
 * live on the stack of the one who waits: when all waits have returned, one of them with 0, nobody
 * touches it any more.
 */
#ifndef WEFT_WG_H
#define WEFT_WG_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* At most this much may be in a wait group. */
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
 * Contexts: fiber, thread. Undefined: while somebody uses it. */
WEFT_API int weft_wg_init(weft_wg *wg, int64_t count);

/* Adds to the count; a negative number takes away. A count below zero is a bug of the program: it
 * is reported and the process aborts.
 * Returns 0; -EINVAL if wg is NULL or the sum would be above WEFT_WG_MAX (nothing is added).
 * Contexts: fiber, thread. Undefined: raising the count from zero while somebody waits. */
WEFT_API int weft_wg_add(weft_wg *wg, int64_t count);

/* Adds one and starts a fiber that calls function(arg) and then takes one away.
 * Returns 0; -EINVAL if wg or function is NULL or the count would be above WEFT_WG_MAX; or as weft_go.
 * On failure nothing was added.
 * Contexts: fiber, thread. Undefined: as for weft_wg_add. */
WEFT_API WEFT_MUST_USE int weft_wg_go(weft_wg *wg, void (*function)(void *), void *arg);

/* Takes one away. Everything written before it is visible to those who waited. A NULL is reported as
 * the bug that it is, as is a count below zero.
 * Contexts: fiber, thread. */
WEFT_API void weft_wg_done(weft_wg *wg);

/* Waits until the count is zero.
 * Returns 0; -ECANCELED or -ETIMEDOUT if the fiber's context ends first; -EINVAL if wg is NULL;
 * -ECHILD if it would have to wait in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_wg_wait(weft_wg *wg);

/* The same with a deadline. Returns also -ETIMEDOUT. WEFT_NOW asks without waiting. */
WEFT_API WEFT_MUST_USE int weft_wg_wait_until(weft_wg *wg, int64_t deadline);

/* The count, as it was a moment ago; 0 for NULL.
 * Contexts: fiber, thread, signal handler. */
WEFT_API int64_t weft_wg_count(const weft_wg *wg);

WEFT_END

#endif
