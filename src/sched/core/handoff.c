/*
 * handoff.c: a processor leaves a machine that is stuck in C code, and the way back.
 *
 *                      the monitor retakes it, or the fiber gives it up
 *     machine with a  --------------------------------------> machine without a processor, outside
 *     processor                                               the runtime: its fiber runs C code
 *         ^                                                       |
 *         |  an idle processor                                    | the fiber calls weft
 *         +-------------------------------------------------------+ (runtime_enter)
 *         ^                                                       | no processor is idle
 *         |  any processor, from the inject queue                 v
 *         +--------- the fiber, on any machine <------ the fiber is in the inject queue; its
 *                                                      machine is idle
 *
 * The processor goes to an idle machine, or to a new thread, with its ring, its timers and its
 * caches. The machine that lost it keeps only the fiber that it runs, and must not touch any
 * processor before it has one again. It learns of the loss from the bit GONE in its own
 * `requests`, which each entry into the runtime checks anyway; so the common path costs nothing.
 * Only the machine itself writes its thread.processor.
 *
 * To retake a processor is to claim it (steal.c) and not to give the claim back:
 *
 *     monitor                                     owner
 *     requests |= CLAIMED                         inside = 1
 *     barrier_heavy                               barrier_light
 *     owner->inside: give the claim back          requests & CLAIMED: wait
 *     the turn has changed: give the claim back
 *     processor->owner = NULL
 *     assign it to a machine                      (that machine runs already)
 *     requests: CLAIMED becomes GONE              GONE: has no processor
 *
 * If no machine can be had (no thread, no memory, or max_machines exist), the claim is given back
 * with nothing changed, and the monitor tries again later. An owner that comes back meanwhile
 * waits for the few microseconds in which a thread is started.
 *
 * A fiber that gives its processor up itself (weft_blocking_enter) does the same inside the
 * runtime, where no other thread can claim it. If nothing waits on the processor, it goes to the
 * idle list without a machine, and a machine is woken only if there is something to do or there is
 * no watcher (idle.c).
 *
 * The way back through the inject queue is a switch like a yield: errno goes with the fiber, and
 * so does the count of spin locks that it holds, which is kept by thread. A fiber never holds a
 * lock of the runtime when it enters.
 *
 * Rejected: a machine that comes back waits for a processor with its fiber on it. The fiber would
 * keep its thread, but each return costs two thread switches instead of one, and if more machines
 * come back than there are processors they queue up in the kernel. Also rejected:
 * weft_blocking_enter only marks the fiber and leaves the processor in place, for other machines
 * to take. While no processor is idle, only the monitor would look for it.
 */
#include "sched/core/handoff.h"

#include <weft/blocking.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "sched/check/mutex_check.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/machine.h"
#include "sched/core/park.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/core/steal.h"
#include "sched/fiber/chain.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "stack/stack.h"

/* Marks or unmarks the fiber that runs on a machine without a processor, and counts it in
 * weft__sched.lost. */
static void mark_lost(struct weft_fiber *fiber, bool lost)
{
    if (fiber == NULL)
        return;
    uint32_t before = lost ? atomic_u32_or_seq_cst(&fiber->outside, OUTSIDE_LOST)
                           : atomic_u32_and_acq_rel(&fiber->outside, ~(uint32_t)OUTSIDE_LOST);
    if (((before & OUTSIDE_LOST) != 0) != lost)
        atomic_u32_add_seq_cst(&weft__sched.lost, lost ? 1 : (uint32_t)-1);
}

/* The count falls after the push: a thread that sees no lost fiber finds this one in the queue. */
void weft__lost_queue(struct weft_fiber *fiber)
{
    uint32_t before = atomic_u32_and_acq_rel(&fiber->outside, ~(uint32_t)OUTSIDE_LOST);
    struct chain chain = {NULL, NULL, 0};
    must(before & OUTSIDE_LOST); /* set when its processor was taken */
    chain_add(&chain, fiber);
    weft__inject_push_any(chain); /* from here on the fiber may run elsewhere */
    atomic_u32_add_seq_cst(&weft__sched.lost, (uint32_t)-1);
    wake_if_idle(); /* a processor may have become idle since its thread looked for one */
}

void weft__lost_no_more(struct weft_fiber *fiber)
{
    mark_lost(fiber, false);
}

enum retaken weft__retake(struct processor *processor, uint32_t turn)
{
    struct thread *owner = weft__claim(processor);
    if (owner == NULL)
        return NOT_STUCK;
    if (atomic_u32_load_relaxed(&processor->turn) != turn) {
        weft__claim_end(owner);
        return NOT_STUCK;
    }
    atomic_ptr_store_release(&processor->owner,
                             NULL); /* no other thread claims it while it moves */
    mark_lost(owner->fiber, true);
    if (!weft__idle_assign(processor, true)) {
        mark_lost(owner->fiber, false);
        atomic_ptr_store_release(&processor->owner, owner);
        weft__claim_end(owner);
        return NO_MACHINE;
    }
    /* CLAIMED becomes GONE in one step; pairs with weft__handle_requests. */
    (void)atomic_u32_add_acq_rel(&owner->requests, REQUEST_GONE - REQUEST_CLAIMED);
    return RETAKEN;
}

/* The machine has no processor any more. */
static void forget_processor(struct thread *thread)
{
    thread->processor = NULL;
    thread->fibers = NULL;
}

struct thread *weft__processor_gone(struct thread *thread)
{
    struct machine *machine = (struct machine *)thread;
    (void)atomic_u32_and_acq_rel(&thread->requests, ~(uint32_t)(REQUEST_GONE | REQUEST_SHED));
    forget_processor(thread);
    if (thread->fiber == NULL)
        return thread; /* between two fibers: the loop of the machine handles it */
    struct processor *processor = weft__idle_take();
    if (processor != NULL) {
        weft__processor_acquire(machine, processor);
        mark_lost(thread->fiber, false);
        atomic_u32_add_owner(&processor->turn, 1);
        return thread;
    }
    check_held_mutexes(thread->fiber, "calls weft after it blocked for long,");
    uint32_t spins = thread->spins;
    thread->spins = 0;
    weft__machine_switch(machine, ACTION_QUEUE);
    thread = thread_self();
    thread->spins = spins;
    return thread;
}

/* True if another machine should run the processor at once. */
static bool has_work(const struct processor *processor)
{
    return has_fibers(processor) || weft__inject_length() > 0;
}

/* The owner gives its processor up, inside the runtime. */
static void give_up(struct thread *thread)
{
    struct processor *processor = thread->processor;
    if (thread->fiber->notify_park)
        weft__fiber_hooks->before_park(thread->fiber->object);
    atomic_ptr_store_release(&processor->owner, NULL);
    mark_lost(thread->fiber, true);
    if (!has_work(processor)) {
        weft__stack_cache_flush(&processor->stacks);
        weft__idle_give(processor);
    } else if (!weft__idle_assign(processor, false)) {
        mark_lost(thread->fiber, false);
        atomic_ptr_store_release(&processor->owner, thread);
        return; /* the monitor will find the processor and try again */
    }
    forget_processor(thread);
    (void)atomic_u32_or_seq_cst(&thread->requests, REQUEST_GONE);
}

/* The number of calls of weft_blocking_enter that are not undone. */
static uint32_t depth(uint32_t outside)
{
    return outside & ~(uint32_t)OUTSIDE_LOST;
}

noinline void weft_blocking_enter(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL || thread->fiber == NULL)
        return;
    if (unlikely(thread->spins != 0))
        fatal("a weft_spin is held by a fiber that is about to block: others would spin until it "
              "is back");
    if (depth(atomic_u32_add_relaxed(&thread->fiber->outside, 1)) != 0)
        return;
    thread = runtime_enter(thread);
    give_up(thread);
    runtime_leave(thread);
}

noinline void weft_blocking_exit(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL || thread->fiber == NULL)
        return;
    atomic_u32 *outside = &thread->fiber->outside;
    if (unlikely(depth(atomic_u32_load_relaxed(outside)) == 0))
        fatal("weft_blocking_exit without weft_blocking_enter");
    if (depth(atomic_u32_add_relaxed(outside, (uint32_t)-1)) != 1)
        return;
    runtime_leave(runtime_enter(thread));
}

uint32_t weft__blocking_depth(void)
{
    weft_fiber *fiber = weft_self();
    return fiber != NULL ? depth(atomic_u32_load_relaxed(&fiber->outside)) : 0;
}

void weft__blocking_unwind(uint32_t to)
{
    while (weft__blocking_depth() > to)
        weft_blocking_exit();
}

void *weft_blocking(void *(*function)(void *), void *arg)
{
    if (unlikely(function == NULL))
        fatal("weft_blocking was given no function");
    weft_blocking_enter();
    void *result = function(arg);
    weft_blocking_exit();
    return result;
}
