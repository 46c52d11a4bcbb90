/*
 * firing.h: fires the timers of the wheels, and makes machines wake up for them. See firing.c.
 */
#ifndef WEFT_SCHED_TIME_FIRING_H
#define WEFT_SCHED_TIME_FIRING_H

#include "base/atomic.h"
#include "sched/core/processor.h"
#include "sched/runtime/thread.h"
#include "sched/time/wheel.h"

/* What a timer is part of: a fiber that waits with a deadline, or a weft_timer. */
enum timer_kind { TIMER_WAIT, TIMER_CALL };
/* Fires the timers that are due on the wheel of `from`, and puts their fibers into the ring of
 * `processor`, which the caller owns. True if any fiber became ready. */
bool weft__timers_fire(struct processor *processor, struct processor *from, int64_t now);
/* Fires the timers of the processor's own wheel that are due at *now to the nanosecond, for a
 * virtual clock: see weft__wheel_fire_exact. Returns the number fired. */
uint32_t weft__timers_fire_exact(struct processor *processor, int64_t *now, bool jump);
/* Fires the processor's own timers, if enough time has passed since the last look. `clock`: the
 * time, if the caller knows it; else 0. */
void weft__timers_look(struct processor *processor, int64_t clock);
/* Calls weft__timers_look if the wheel of the thread's processor has timers. */
static inline void timers_look(struct thread *thread)
{
    int64_t clock = thread->clock;
    thread->clock = 0;
    if (atomic_i64_load_relaxed(&thread->processor->wheel.next) != WHEEL_EMPTY)
        weft__timers_look(thread->processor, clock);
}
/* Fires the wheels of retired processors into the inject queue; returns when to do so again. */
int64_t weft__timers_fire_retired(int64_t now);
/* The earliest time at which any wheel must be fired, WHEEL_EMPTY if none; in a seeded run 0 in
 * place of a time. */
int64_t weft__timers_next(void);
/* Must follow when a timer with this deadline was armed: makes sure that a machine wakes up for
 * it. */
void weft__timers_notify(int64_t deadline);

#endif
