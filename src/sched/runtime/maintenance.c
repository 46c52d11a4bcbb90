/*
 * maintenance.c: planned maintenance, and retries of what starves.
 *
 * Maintenance is work that has a time: giving stacks back, reaping threads that have ended,
 * retries. weft__sched holds the next time; the machine that finds it passed does the work, one at
 * a time.
 *
 * Starving means waiting for memory or for the end of another fiber:
 *  - A fiber without a stack tries again when another fiber ends, and every 10 ms.
 *  - A floor above (pools) that could not make a fiber is called again by the machine on which the
 *    next fiber ends. If memory was lacking, a machine also wakes up for it every 10 ms. If the
 *    number of fibers is limited (max_fibers) there is no such timer: only the end of a fiber can
 *    help, and a timer would keep a deadlock from being reported.
 */
#include "sched/runtime/maintenance.h"
#include "base/atomic.h"
#include "os/lock.h"
#include "os/membarrier.h"
#include "os/os.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/chain.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "stack/stack.h"

enum { STARVED_BATCH = 64 };

void weft__maintenance_by(int64_t time)
{
    int64_t planned = atomic_i64_load_relaxed(&weft__sched.maintenance_time);
    while (time < planned && !atomic_i64_cas_acq_rel(&weft__sched.maintenance_time, &planned, time))
        continue;
}

void weft__maintenance_plan(void)
{
    if (weft__stack_trim_wanted() &&
        atomic_i64_load_relaxed(&weft__sched.maintenance_time) == WEFT_NEVER)
        weft__maintenance_by(weft__os_now() + WEFT_MS);
}

void weft__unstarve(uint32_t most)
{
    struct chain fed = {NULL, NULL, 0};
    lock_acquire(&weft__sched.lock);
    while (fed.count < most && weft__sched.starved.first != NULL)
        chain_add(&fed, chain_take(&weft__sched.starved));
    /* Queued before the flag is cleared: the deadlock check must find them in one place or the
     * other. */
    weft__inject_push_any(fed);
    if (weft__sched.starved.first == NULL)
        (void)atomic_u32_and_acq_rel(&weft__sched.starving, ~(uint32_t)STARVING_FIBERS);
    lock_release(&weft__sched.lock);
    if (fed.count > 0)
        wake_if_idle();
    if ((atomic_u32_load_relaxed(&weft__sched.starving) & ~(uint32_t)STARVING_FIBERS) != 0 &&
        thread_self()->processor != NULL)
        weft__idle_run_hook();
}

void weft__retry_soon(void)
{
    int64_t retry = weft__os_now() + STARVED_RETRY;
    weft__maintenance_by(retry);
    weft__timers_notify(retry);
}

void weft__starve_outside(void)
{
    (void)atomic_u32_or_relaxed(&weft__sched.starving, STARVING_LIMITED);
    barrier_heavy(); /* a fiber that ends sees the flag, or this caller sees that there is room */
    if (weft__sched.max_fibers != 0 &&
        atomic_i64_load_relaxed(&weft__sched.limited) >= weft__sched.max_fibers)
        return;
    (void)atomic_u32_or_relaxed(&weft__sched.starving, STARVING_OTHERS);
    weft__retry_soon();
}

void weft__maintenance_run(int64_t now)
{
    static atomic_u32 working;
    if (atomic_i64_load_relaxed(&weft__sched.maintenance_time) > now ||
        atomic_u32_exchange_acquire(&working, 1) != 0)
        return;
    atomic_i64_exchange_acq_rel(&weft__sched.maintenance_time, WEFT_NEVER);
    weft__maintenance_by(weft__stack_trim(now));
    weft__maintenance_by(weft__machine_reap_ended(now));
    atomic_u32_store_release(&working, 0); /* pairs with the exchange above */
    if (atomic_u32_load_relaxed(&weft__sched.starving) & STARVING_TIMED) {
        weft__maintenance_by(now + STARVED_RETRY);
        weft__unstarve(STARVED_BATCH);
    }
}
