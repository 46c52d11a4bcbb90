/*
 * weft/time.h: durations, deadlines, the clock, and sleep.
 *
 * A duration is a number of nanoseconds in an int64_t: 10 * WEFT_MS. A deadline is a point on the
 * monotonic clock (CLOCK_MONOTONIC) in nanoseconds; every call that can wait has a form that takes
 * one. WEFT_NOW never waits, WEFT_NEVER waits forever, weft_after(10 * WEFT_MS) is in between.
 * No wait ever ends early because of its deadline.
 */
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/base.h>

#define WEFT_NS ((int64_t)1)
#define WEFT_US ((int64_t)1000)
#define WEFT_MS ((int64_t)1000000)
#define WEFT_S ((int64_t)1000000000)

/* Deadlines: one that has always passed, one that never will. */
#define WEFT_NOW ((int64_t)0)
#define WEFT_NEVER INT64_MAX

WEFT_BEGIN

/* The monotonic clock, in nanoseconds.
 * Contexts: fiber, thread, signal handler. */
WEFT_API int64_t weft_now(void);

/* The deadline `duration` from now. A duration of zero or less gives a deadline that has passed;
 * one too large for the clock gives WEFT_NEVER.
 * Contexts: fiber, thread, signal handler. */
WEFT_API int64_t weft_after(int64_t duration);

/* Sleeps for `duration`, never less. A fiber parks: its thread runs others meanwhile. A thread
 * blocks. A duration of zero or less only yields.
 * Returns 0; -ECANCELED or -ETIMEDOUT if the caller's context (weft/context.h) is cancelled before;
 * -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_sleep(int64_t duration);

/* Sleeps until the clock reaches `deadline`; WEFT_NEVER sleeps forever.
 * Returns as weft_sleep.
 * Contexts: fiber, thread. */
WEFT_API int weft_sleep_until(int64_t deadline);

WEFT_END

#endif
