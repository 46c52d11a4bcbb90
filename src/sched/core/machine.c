/*
 * machine.c: the loop of a machine: choose a fiber, run it, finish what it asked for.
 *
 * A machine has a stack of its own (its thread's) and runs fibers on theirs. A fiber leaves its
 * processor in one of these ways. What follows happens when the fiber's context is saved: here, on
 * the machine's stack; or, if the fiber switched straight to the next fiber, in that fiber when it
 * arrives (switch.h).
 *
 *     yield   the fiber goes to the end of the ring
 *     park    arm the deadline, open the wait to the fiber's context, unlock what it waits for;
 *             from then on other threads may make it ready
 *     end     give the stack back, tell the joiner, free the record
 *     queue   the fiber came back to the runtime and its processor was gone (handoff.c): it goes to
 *             the inject queue, and the machine sleeps until it gets a processor
 *     move    the fiber has left its hot stack, with what was there, for one of this processor's;
 *             it begins anew (compact.c)
 *     crash   the fiber faulted and was abandoned (crash.c)
 *
 * The five invariants of the scheduler, and where each is kept:
 *
 *  1. A ready fiber is in exactly one place: a runnext, a ring, the inject queue, the list of
 *     starved fibers (which return to the inject queue), the line of a hot stack (compact.c), or
 *     in transit, known to one thread only. Fibers move only by enqueue, dequeue, the inject calls
 *     and a claim (steal.c), and each of these takes a fiber out of one place before it puts it
 *     into another.
 *  2. If a fiber is ready and a processor is idle, some machine searches or is being woken:
 *     idle.c. A fiber in a runnext is about to run; if it does not, the watcher finds it.
 *  3. Only the owner touches the private state of a processor: steal.c. A fiber's context is saved
 *     before another thread can see the fiber as ready: the switch comes first, then the finish.
 *     (A fiber that yields straight to the next one puts itself into the ring before its context
 *     is saved. The ring is private until the next fiber leaves the runtime, and that is after the
 *     save.)
 *  4. Nothing is read through thread-local storage across a switch: instructions of our own read
 *     the thread-local word (arch/stack_switch.h), each time anew; errno is carried by address.
 *  5. An idle process uses no CPU: idle.c and poller.c.
 *
 * Order of choice. Timers that are due go to the front of the ring. Every 61st turn, or when 10 ms
 * have passed, the poller and the inject queue come first. Then come: runnext, at most 32 times in
 * a row while fibers wait in the ring that are not deferrable; the ring, in the order of
 * run_queue.c; a share of the inject queue; the poller; and what idle.c and steal.c find.
 *
 * Fork and join. A fiber that joins one which has not begun, and which is among the last in the
 * ring of its processor, has that fiber run next. So a tree of fibers that join those they spawned
 * is walked depth first, and a processor has as many started fibers as the tree is deep. For that,
 * fairness must not start fibers that are to be joined and have not begun: each of them spawns
 * more, and leaves another branch open. Such fibers are deferrable. At the head of the ring they
 * do not end the turns of runnext before 0.4 ms. Out of the inject queue they do not come first
 * while those turns last, except at every 33rd look. Both bounds hold for any mix of fibers; a
 * fiber behind a deferrable one waits with it.
 */
#include "sched/core/machine.h"

#include <errno.h>

#include "arch/stack_switch.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/latch.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/check/deadlock.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/cancel.h"
#include "sched/core/handoff.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/park.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/core/steal.h"
#include "sched/core/switch.h"
#include "sched/fiber/chain.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/crash.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/panic.h"
#include "sched/poll/poller.h"
#include "sched/runtime/maintenance.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"
#include "stack/stack.h"

enum { MAINTENANCE_EVERY = INJECT_EVERY * 16, FRAME_LINES = 6, PAGE = 4096 };

struct sched weft__sched;

/* Ready fibers. */

/* Makes a fiber ready from a thread that has no processor. */
static void inject_one(struct weft_fiber *fiber)
{
    struct chain chain = {NULL, NULL, 0};
    bool woken = fiber->state != FIBER_NEW;
    chain_add(&chain, fiber);
    if (woken)
        weft__inject_push_woken_any(chain);
    else
        weft__inject_push_any(chain);
    wake_if_idle();
}

/* Wakes a machine for a fiber in runnext, unless that has been wasted too often: the fiber has
 * usually run here before another machine can take it. See idle.c. */
static void wake_for_runnext(struct processor *processor)
{
    if (runnext_wakes_off(processor) || !wake_if_idle())
        return;
    atomic_u32_add_owner(&processor->wasted_wakes,
                         1); /* take_claimed clears it if a thief takes the fiber */
    if (runnext_wakes_off(processor))
        weft__poller_wake(); /* from now on the watcher looks after runnext */
}

void weft__ready(struct weft_fiber *fiber, bool next)
{
    const struct thread *thread = thread_self();
    if (unlikely(thread == NULL || thread->processor == NULL)) {
        inject_one(fiber);
        return;
    }
    struct processor *processor = thread->processor;
    should(atomic_u32_load_relaxed(&thread->inside) &&
           atomic_ptr_load_relaxed(&processor->owner) == thread);
    if (next && (fiber = runnext_swap_owner(processor, fiber)) == NULL) {
        wake_for_runnext(processor);
        return;
    }
    weft__enqueue(processor, fiber);
    (void)wake_if_idle();
}

/* Fibers. */

/* Ends the running fiber, whose function has returned. */
_Noreturn static always_inline void end_fiber(struct weft_fiber *fiber)
{
    if (unlikely(fiber_extra(fiber) != NULL))
        weft__fiber_end_extra(fiber);
    struct thread *thread = thread_self();
    if (unlikely(thread == NULL || thread->fiber == NULL))
        weft__os_exit_now(0); /* a forked child: its only thread has ended */
    if (unlikely(thread->spins != 0))
        fatal("fiber %llu ended while it holds a weft_spin", (unsigned long long)fiber->id);
#ifdef WEFT_DEBUG
    if (fiber->held_locks != NULL && !fiber->left_locked)
        fatal("fiber %llu ended while it holds a lock", (unsigned long long)fiber->id);
    fiber->held_locks = NULL; /* a panic that left locks here has been reported */
    fiber->left_locked = false;
#endif
    if (unlikely((atomic_u32_load_relaxed(&fiber->outside) & ~(uint32_t)OUTSIDE_LOST) != 0))
        fatal("fiber %llu ended between weft_blocking_enter and weft_blocking_exit",
              (unsigned long long)fiber->id);
    thread = runtime_enter(thread);
    weft__machine_switch((struct machine *)thread, ACTION_END);
    must(!"an ended fiber was resumed");
}

/* The first function of every fiber. */
static void fiber_main(void *arg)
{
    struct weft_fiber *fiber = arg;
    switch_arrive_first(fiber);
    struct thread *thread = thread_self();
    runtime_leave(thread);
    fiber->function(fiber->arg);
    if (unlikely(fiber->defers))
        weft__deferred_run_all(fiber_scope(fiber));
    end_fiber(fiber);
}

/* The first function of a fiber that a panic has ended: at the top of its stack, whose frames are
 * forgotten. In a fiber with a client the panic has ended only what it ran for that client. */
static void fiber_main_again(void *arg)
{
    struct weft_fiber *fiber = arg;
    struct panic *panic = weft__panic_arrived(fiber);
    if (fiber_client(fiber) != NULL) {
        fiber->panic_count = 0;
        weft__fiber_hooks->landed(fiber_client(fiber), panic);
        end_fiber(fiber);
    }
    weft__fiber_keep_panic(fiber, panic);
    if (unlikely(fiber->panic_count == PANIC_COUNT_MOST)) {
        struct extra *extra = fiber_extra(fiber);
        must(extra != NULL && extra->locals != NULL); /* only destructors panic more than once */
        weft__warn(
            "fiber %llu: destructors of its fiber-local values panic again and again, and are left",
            (unsigned long long)fiber->id);
        weft__os_free(extra->locals);
        extra->locals = NULL;
    }
    end_fiber(fiber);
}

void weft__machine_land(struct weft_fiber *fiber)
{
    struct context gone;
    struct scope *scope = fiber_scope(fiber), kept = *scope;
    context_make(&fiber->context, weft__stack_start_at(fiber->stack), fiber_main_again, fiber);
    *scope = kept;
    ASAN_ONLY(__asan_handle_no_return());
    context_switch(&gone, &fiber->context);
    must(!"a frame was resumed that a panic has left");
}

void weft__machine_begin(struct weft_fiber *fiber)
{
    fiber->defers = false;
    fiber->panic_count = 0;
    context_make(&fiber->context, weft__stack_start_at(fiber->stack), fiber_main, fiber);
    switch_fiber_made(fiber);
}

bool weft__machine_prepare(struct processor *processor, struct weft_fiber *fiber)
{
    if (unlikely(fiber->compact))
        return false;
    fiber->stack = weft__stack_get(&processor->stacks, fiber->stack_class);
    if (unlikely(fiber->stack == NULL))
        return false;
    weft__machine_begin(fiber);
    return true;
}

void *weft__machine_front(struct weft_fiber *fiber, size_t size)
{
    struct thread *thread = thread_self();
    bool has_cache = thread != NULL && thread->processor != NULL;
    must(!fiber->compact && fiber->stack == NULL);
    fiber->stack =
        weft__stack_get(has_cache ? &thread->processor->stacks : NULL, fiber->stack_class);
    if (unlikely(fiber->stack == NULL))
        return NULL;
    void *front = weft__stack_front(fiber->stack, size);
    weft__machine_begin(fiber);
    return front;
}

void weft__finish_direct(struct machine *machine, struct weft_fiber *arrived)
{
    struct weft_fiber *fiber = machine->parked;
    machine->parked = NULL;
    if (unlikely(fiber == arrived)) {
        weft__deadlock_read_frames(machine); /* the fiber was resumed only to read its frames */
    } else if (unlikely(machine->open || machine->unlock == NULL)) {
        weft__finish_park(machine, fiber);
    } else { /* weft__finish_park without a deadline and a context */
        fiber->state = FIBER_PARKED;
        machine->unlock(machine->object);
    }
}

/* Puts a fiber for whose stack there is no memory aside, until another fiber ends or some time has
 * passed. */
static noinline void starve(struct weft_fiber *fiber)
{
    lock_acquire(&weft__sched.lock);
    chain_add(&weft__sched.starved, fiber);
    bool first = !(atomic_u32_or_relaxed(&weft__sched.starving, STARVING_FIBERS) & STARVING_FIBERS);
    lock_release(&weft__sched.lock);
    static atomic_u32 warned;
    if (atomic_u32_exchange_acq_rel(&warned, 1) == 0)
        weft__warn("no memory for the stack of a fiber: it waits until another one ends");
    if (first)
        weft__retry_soon();
}

/* Opens the wait to the fiber's context. True: the context is cancelled, and the wait was claimed
 * for it. */
static bool open_wait(struct weft_fiber *fiber, const struct canceler *canceler)
{
    uint32_t open = WAITER_OPEN;
    /* seq_cst, both: pairs with weft__cancel, see cancel.h. */
    atomic_u32_exchange_seq_cst(&fiber->waiter.state, WAITER_OPEN);
    if (likely(atomic_u32_load_seq_cst(&canceler->reason) == 0) ||
        !atomic_u32_cas_acq_rel(&fiber->waiter.state, &open, WAITER_CLAIMED))
        return false;
    fiber->waiter.result = -ECANCELED;
    return true;
}

/* As soon as the timer is armed, the wait open or the object unlocked, the fiber may run elsewhere.
 * But it does not return from its wait before it has taken the lock of the wheel, if there is a
 * deadline, and of the object, if there is one. So the fiber and its context may be touched until
 * those locks are released. If there is neither, the latch of the context has this role: the fiber
 * cannot leave the context without it. */
noinline void weft__finish_park(struct machine *machine, struct weft_fiber *fiber)
{
    void (*unlock)(void *) = machine->unlock;
    int64_t deadline = machine->deadline;
    bool bound = machine->open, claimed = false, far = false;
    struct canceler *canceler = bound ? fiber_extra(fiber)->bond.canceler : NULL;
    fiber->state = FIBER_PARKED;
    if (deadline != WEFT_NEVER) {
        struct processor *home = machine->thread.processor;
        if (unlikely(fiber->compact))
            home = weft__compact_home(fiber);
        far = home != machine->thread.processor;
        machine->notify_timer |= !far;
        fiber->timer.kind = TIMER_WAIT;
        latch_acquire(&home->wheel.latch);
        weft__wheel_arm_locked(&home->wheel, &fiber->timer, deadline);
        claimed = bound && open_wait(fiber, canceler);
        latch_release(&home->wheel.latch);
    } else if (bound) {
        if (unlock == NULL)
            latch_acquire(&canceler->latch);
        claimed = open_wait(fiber, canceler);
        if (unlock == NULL)
            latch_release(&canceler->latch);
    }
    if (unlock != NULL)
        unlock(machine->object);
    if (unlikely(far))
        weft__timers_notify(deadline);
    if (unlikely(claimed))
        weft__wake(&fiber->waiter);
}

static void finish_end(struct machine *machine, struct weft_fiber *fiber)
{
    fiber->state = FIBER_ENDED;
    switch_fiber_gone(fiber);
    if (likely(!fiber->compact)) {
        weft__stack_put(&machine->thread.processor->stacks, fiber->stack);
        fiber->stack = NULL;
    }
    weft__fiber_retire(fiber);
    unstarve_one(); /* its stack is free now */
}

/* Fetches the frames of a fiber that waits, and as many bytes below them for the functions that it
 * will call, within one page. A fetch from another page would wait for a walk of the page table,
 * and that page may not be mapped. */
static void prefetch_frames(const char *sp)
{
    const char *page = sp - (uintptr_t)sp % PAGE;
    const char *end = sp + FRAME_LINES * FETCH_LINE, *at = sp - FRAME_LINES * FETCH_LINE;
    if (unlikely(at < page))
        at = page;
    if (unlikely(end > page + PAGE))
        end = page + PAGE;
    for (; at < end; at += FETCH_LINE)
        fetch_line(at);
}

/* Prefetches what the next fibers of the ring need: with many fibers each of them is a cache
 * miss. */
static void prefetch_next(const struct processor *processor)
{
    uint32_t head = atomic_u32_load_relaxed(&processor->head);
    uint32_t length = ring_length(processor);
    if (processor->streak != 0)
        return; /* runnext has its turns first */
    if (length > 1) {
        const struct weft_fiber *next = processor->ring[head % RING_SIZE];
        if (!next->compact && fiber_has_stack(next)) /* else it is new and has no frames */
            prefetch_frames(next->context.sp);
    }
    if (length > 4) {
        const struct weft_fiber *next = processor->ring[(head + 3) % RING_SIZE];
        if (next->compact)
            weft__compact_prefetch(next);
    }
    if (length > 8)
        fetch_line(&processor->ring[(head + 7) % RING_SIZE]->context);
}

/* Gives the fiber a stack; a compact fiber gets a hot stack, *hot. False: there is none, and the
 * fiber will be made ready later, or is ready again already. */
static bool find_stack(struct processor *processor, struct weft_fiber *fiber,
                       struct hot_stack **hot)
{
    bool starves = false, found = true;
    if (fiber->compact) {
        note_compact_owner(processor);
        *hot = weft__compact_enter(processor, fiber, &starves);
        found = *hot != NULL;
    } else {
        found = weft__machine_prepare(processor, fiber);
        starves = !found;
    }
    if (likely(found))
        unstarve_one(); /* there may be memory for more stacks */
    else if (starves)
        starve(fiber);
    return found;
}

static uint32_t stamp(const struct machine *machine)
{
    int64_t now = machine->thread.clock != 0 ? machine->thread.clock : weft__os_now_coarse();
    return (uint32_t)(now >> STAMP_SHIFT);
}

/* Runs the fiber, and the fibers that it switches to directly, until one of them needs the
 * machine. */
static void run(struct machine *machine, struct weft_fiber *fiber)
{
    struct processor *processor = machine->thread.processor;
    struct hot_stack *hot = NULL;
    if (!fiber_has_stack(fiber) && unlikely(!find_stack(processor, fiber, &hot)))
        return;
    should(fiber->state == FIBER_NEW || fiber->state == FIBER_READY ||
           fiber->state == FIBER_YIELDED);
    atomic_u32_add_owner(&processor->turn, 1);
    fiber->state = FIBER_RUNNING;
    machine->thread.fiber = fiber;
    machine->thread.clock = 0;
    prefetch_next(processor);
    switch_to_fiber(machine, fiber);
    fiber = machine->thread.fiber;
    machine->thread.fiber = NULL;
    if (unlikely(machine->action == ACTION_CRASH))
        weft__crash_attend(machine);
    processor = machine->thread.processor; /* it may be another one, or gone */
    if (unlikely(hot != NULL))
        weft__compact_leave(hot, fiber, machine->action);
    switch (machine->action) {
    case ACTION_YIELD:
        fiber->state = FIBER_YIELDED;
        processor->yielded = true;
        weft__enqueue(processor, fiber);
        break;
    case ACTION_PARK:
        fiber->parked_at = processor->stamp = stamp(machine);
        weft__finish_park(machine, fiber);
        break;
    case ACTION_END:
        finish_end(machine, fiber);
        break;
    case ACTION_QUEUE:
        fiber->state = FIBER_READY;
        weft__lost_queue(fiber);
        break;
    case ACTION_MOVE:
        switch_fiber_gone(fiber);
        fiber->state = FIBER_NEW;
        weft__ready(fiber, true);
        break;
    default:
        must(machine->action == ACTION_CRASH);
        weft__crash_retire(fiber);
    }
}

noinline void weft__machine_switch(struct machine *machine, enum action action)
{
    struct weft_fiber *fiber = machine->thread.fiber;
    machine->action = action;
    switch_to_machine(machine, fiber, action == ACTION_END);
}

/* The loop. */

static struct weft_fiber *choose(struct machine *machine)
{
    struct processor *processor = machine->thread.processor;
    uint32_t turn = atomic_u32_load_relaxed(&processor->turn);
    struct weft_fiber *fiber;
    if (unlikely(atomic_u32_load_acquire(&machine->thread.requests) != 0)) {
        (void)weft__handle_requests(&machine->thread);
        if (machine->thread.processor == NULL)
            return NULL;
        if (seeded())
            return weft__seeded_choose(machine);
    }
    if (unlikely(turn % MAINTENANCE_EVERY == 0)) {
        weft__maintenance_plan();
        if (atomic_i64_load_relaxed(&weft__sched.maintenance_time) != WEFT_NEVER)
            weft__maintenance_run(weft__os_now());
    }
    timers_look(&machine->thread);
    if (looks_around(processor, turn)) {
        if (unlikely(processors_too_many()) && !machine->spinning) {
            weft__processor_retire(machine);
            return NULL;
        }
        if ((fiber = weft__look_around(processor)) != NULL)
            return fiber;
    }
    if ((fiber = dequeue(processor)) != NULL)
        return fiber;
    return weft__take_injected(processor);
}

static bool holds_processor(const struct machine *machine)
{
    return likely(machine->thread.processor != NULL);
}

/* The next fiber to run; NULL if the machine must end. */
static struct weft_fiber *next_fiber(struct machine *machine)
{
    for (;;) {
        if (unlikely(machine->thread.wake_wanted)) {
            machine->thread.wake_wanted = false; /* set by the fiber that has just parked */
            weft__wake_one();
        }
        /* At each look the machine may find that its processor is gone (handoff.c). */
        struct weft_fiber *fiber = holds_processor(machine) ? choose(machine) : NULL;
        if (fiber == NULL && holds_processor(machine) && poller_used() && weft__poller_poll())
            fiber = choose(machine);
        if (fiber == NULL && holds_processor(machine) && weft__idle_may_spin(machine))
            fiber = weft__steal(machine);
        if (fiber != NULL) {
            if (unlikely(machine->spinning))
                weft__idle_found(machine);
            if (machine->notify_timer) {
                machine->notify_timer = false;
                weft__timers_notify(
                    atomic_i64_load_relaxed(&machine->thread.processor->wheel.next));
            }
            return fiber;
        }
        if (!weft__idle_retire(machine))
            return NULL;
    }
}

void weft__machine_loop(struct machine *machine)
{
    for (struct weft_fiber *fiber; (fiber = next_fiber(machine)) != NULL;)
        run(machine, fiber);
}
