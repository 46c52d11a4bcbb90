/*
 * idle.h: idle processors and machines: how they sleep and are woken. See idle.c.
 */
#ifndef WEFT_SCHED_CORE_IDLE_H
#define WEFT_SCHED_CORE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/membarrier.h"
#include "sched/core/scheduler.h"

/* To be called after a fiber became ready: keeps invariant 2 of the scheduler. In fiber code the
 * waking itself waits until the thread leaves the runtime: the one who is woken may take its CPU at
 * once, and would find the processor's fibers out of reach for as long. */
bool weft__wake_if_idle(void);
/* True if one is called; false if there is none, or one looks around anyway. */
static inline bool wake_if_idle(void)
{
    barrier_light(); /* with barrier_heavy in idle.c: publish, look at idlers | idle, look at queues
                      */
    return unlikely(atomic_u32_load_relaxed(&weft__sched.idle_count) > 0) && weft__wake_if_idle();
}
void weft__processor_acquire(struct machine *machine, struct processor *processor);
/* The machine's thread begins, with the processor that it was started for. */
void weft__idle_begin(struct machine *machine);
/* Gives a processor that is in the caller's hand to another machine, or makes one for it. False:
 * there is none to be had, and the processor is still in the caller's hand. */
bool weft__idle_assign(struct processor *processor, bool run_hook);
/* The list of idle processors, under the scheduler's lock. */
void weft__idle_push(struct processor *processor);
struct processor *weft__idle_pop(void);
/* After a push by a machine or thread that does not sleep next. */
void weft__idle_pushed(void);
/* An idle processor, for a machine that is awake, or NULL. */
struct processor *weft__idle_take(void);
/* Puts a processor that has no fibers into the idle list, without a machine. */
void weft__idle_give(struct processor *processor);
/* How long a machine is idle before it ends, if there are more than processors. */
extern int64_t weft__idle_surplus_after;
/* The machine found a fiber while it was spinning. */
void weft__idle_found(struct machine *machine);
bool weft__idle_may_spin(struct machine *machine);
/* The machine found nothing: gives its processor up, if it has one, and sleeps. True: it has a
 * processor again; false: the runtime stops, or the machine is not needed any more. */
bool weft__idle_retire(struct machine *machine);
bool weft__idle_queues_empty(void);
/* What others do when a processor is busy and another idle. `look` is called by the watcher from
 * time to time, or by the monitor; if it says so, `act` is called by a machine with a processor.
 * Also by one that gets a processor which was taken from a machine that is stuck. */
void weft__idle_set_hooks(bool (*look)(void), void (*act)(void));
bool weft__idle_hook_pending(void);
/* Calls `act`, on a machine with a processor and its own stack. Who starves, and fails once
 * more, says so again. */
void weft__idle_run_hook(void);
void weft__idle_stop(void);
/* Does the waking that wake_if_idle put off: the caller has left the runtime. */
void weft__wake_one(void);

#endif
