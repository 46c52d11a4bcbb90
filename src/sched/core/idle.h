/*
 * idle.h: how idle processors and machines sleep and are woken. See idle.c for the protocol.
 */
#ifndef WEFT_SCHED_CORE_IDLE_H
#define WEFT_SCHED_CORE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/membarrier.h"
#include "sched/core/scheduler.h"

/* Wakes a machine for an idle processor, unless one spins. In fiber code it only notes the wake-up,
 * which happens when the thread leaves the runtime: the woken machine may take this CPU at once,
 * and could not reach the fibers of the processor until the thread has left. Returns whether a
 * machine is woken. */
bool weft__wake_if_idle(void);
/* Must follow each publication of a ready fiber: keeps invariant 2 of the scheduler (machine.c).
 * False: no processor is idle, or a machine spins. */
static inline bool wake_if_idle(void)
{
    barrier_light(); /* pairs with barrier_heavy in idle.c: see there */
    return unlikely(atomic_u32_load_relaxed(&weft__sched.idle_count) > 0) && weft__wake_if_idle();
}
/* Makes the machine, which calls this, the owner of a processor that has none. */
void weft__processor_acquire(struct machine *machine, struct processor *processor);
/* Called on the machine's thread when it has been assigned a processor: acquires that, and runs the
 * hook if this was asked for. */
void weft__idle_begin(struct machine *machine);
/* Gives a processor that has no owner, and that only the caller knows, to an idle machine, or
 * starts one for it. False: no machine could be had, and the processor is still the caller's. */
bool weft__idle_assign(struct processor *processor, bool run_hook);
/* Push to, and pop from, the list of idle processors; under the scheduler's lock. */
void weft__idle_push(struct processor *processor);
struct processor *weft__idle_pop(void);
/* Must follow a push, without the lock, unless the calling machine sleeps next: looks for work that
 * the processor could do. */
void weft__idle_pushed(void);
/* Takes an idle processor for a machine that is awake; NULL if none is idle. */
struct processor *weft__idle_take(void);
/* Puts a processor that has no fibers into the idle list, without a machine. */
void weft__idle_give(struct processor *processor);
/* How long a machine is idle before it ends, while there are more machines than processors. */
extern int64_t weft__idle_surplus_after;
/* Must be called by a spinning machine that has found a fiber. */
void weft__idle_found(struct machine *machine);
/* Whether the machine may spin; counts it as spinning if so. At most half as many spin as are
 * busy. */
bool weft__idle_may_spin(struct machine *machine);
/* The machine has found no fiber: gives its processor up, if it has one, and sleeps. True: it has a
 * processor again. False: the runtime stops, or the machine is surplus. */
bool weft__idle_retire(struct machine *machine);
/* Whether the inject queue and all rings are empty. */
bool weft__idle_queues_empty(void);
/* Sets the hooks of a floor above. The watcher calls `look` from time to time while some processor
 * is busy and another idle; the monitor calls it while none is idle. If it returns true, `act` is
 * called by a machine that has a processor. `act` is also called on a processor that was retaken
 * from a stuck machine. */
void weft__idle_set_hooks(bool (*look)(void), void (*act)(void));
/* Calls `look`; false without hooks. */
bool weft__idle_hook_pending(void);
/* Calls `act`, on the stack of a machine that has a processor. Clears the bits of starving first: a
 * user of the hooks that fails for lack of memory again sets them again. */
void weft__idle_run_hook(void);
/* Wakes all machines to end: the runtime stops. */
void weft__idle_stop(void);
/* Wakes a machine for an idle processor, now: the wake-up that wake_if_idle has put off. */
void weft__wake_one(void);

#endif
