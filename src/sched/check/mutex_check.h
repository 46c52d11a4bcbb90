/*
 * mutex_check.h: in debug builds, refuses a switch of a fiber that holds a pthread mutex: see
 * mutex_check.c.
 */
#ifndef WEFT_SCHED_CHECK_MUTEX_CHECK_H
#define WEFT_SCHED_CHECK_MUTEX_CHECK_H

#include "base/compiler.h"
#include "sched/fiber/fiber.h"

/* Says that the fiber holds a pthread mutex, which it should not. */
#ifdef WEFT_DEBUG
void weft__held_report(struct weft_fiber *fiber, const char *does);
#endif
static inline void held_check(struct weft_fiber *fiber, const char *does)
{
#ifdef WEFT_DEBUG
    if (unlikely(fiber->mutex_count + fiber->mutexes_other != 0))
        weft__held_report(fiber, does);
#else
    (void)fiber, (void)does;
#endif
}

#endif
