/*
 * firing.h: fires the timers of the wheels: see firing.c.
 */
#ifndef WEFT_SCHED_TIME_FIRING_H
#define WEFT_SCHED_TIME_FIRING_H

#include "base/atomic.h"
#include "sched/core/processor.h"
#include "sched/runtime/thread.h"
#include "sched/time/wheel.h"

enum timer_kind { TIMER_WAIT, TIMER_CALL };
/* Fires what is due on the wheel of `from` into the ring of `processor`, or its runnext; true if
 * that made any ready. */
bool weft__timers_fire(struct processor *processor, struct processor *from, int64_t now);
/* The same on its own wheel to the nanosecond, for a clock that jumps: see weft__wheel_fire_exact.
 */
uint32_t weft__timers_fire_exact(struct processor *processor, int64_t *now, bool jump);
/* Fires the processor's own timers, if it has any that may be due. `clock`: the time, if it is
 * known; else 0. */
void weft__timers_look(struct processor *processor, int64_t clock);
static inline void timers_look(struct thread *thread)
{
    int64_t clock = thread->clock;
    thread->clock = 0;
    if (atomic_i64_load_relaxed(&thread->processor->wheel.next) != WHEEL_EMPTY)
        weft__timers_look(thread->processor, clock);
}
/* Fires the wheels of retired processors into the inject queue; returns when to do so again. */
int64_t weft__timers_fire_retired(int64_t now);
/* The earliest time that any wheel needs; in a test run one that has passed. */
int64_t weft__timers_next(void);
/* A timer with this deadline was armed: makes sure that somebody wakes up for it. */
void weft__timers_notify(int64_t deadline);

#endif
