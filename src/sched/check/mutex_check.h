/*
 * mutex_check.h: debug builds report a fiber that parks or yields with a pthread mutex held: see
 * mutex_check.c.
 */
#ifndef WEFT_SCHED_CHECK_MUTEX_CHECK_H
#define WEFT_SCHED_CHECK_MUTEX_CHECK_H

#include "base/compiler.h"
#include "sched/fiber/fiber.h"

/* Reports that the fiber holds pthread mutexes. `does` says what it is about to do: "yields". */
#ifdef WEFT_DEBUG
void weft__held_report(struct weft_fiber *fiber, const char *does);
#endif
/* Called before a switch: reports the fiber if it holds a pthread mutex. */
static inline void check_held_mutexes(struct weft_fiber *fiber, const char *does)
{
#ifdef WEFT_DEBUG
    if (unlikely(fiber->mutex_count + fiber->mutexes_other != 0))
        weft__held_report(fiber, does);
#else
    (void)fiber, (void)does;
#endif
}

#endif
