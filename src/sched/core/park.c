/*
 * park.c: how a fiber or thread waits. park.h has the protocol and its invariants.
 *
 * A fiber that parks switches straight to the next fiber of its processor, if there is one and the
 * machine has nothing else to do first; else to its machine. The code that runs there then arms
 * the deadline, opens the wait to the fiber's context, and unlocks (machine.c). A foreign thread
 * unlocks, and sleeps on the state of its waiter:
 *
 *     thread                                   party that claims
 *     state = SHARED (or such), listed         claim: SHARED -> CLAIMED
 *     unlock                                   result = ...
 *     while state != WOKEN: futex wait         state = WOKEN (release), futex wake
 *     at the deadline: claim the waiter;
 *     if that fails, another party is about to wake it
 *
 * The futex wake may come after the thread has returned and its waiter is gone. Then it at worst
 * wakes another futex wait at the same address for no reason, and every futex wait is in a loop.
 */
#include "sched/core/park.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/latch.h"
#include "os/os.h"
#include "sched/check/deadlock.h"
#include "sched/check/mutex_check.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/cancel.h"
#include "sched/core/machine.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/switch.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/cxx.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"

static const char *text_of(uint32_t what)
{
    return weft__wait_kinds[what & WAIT_KIND_MASK].text;
}

/* Threads. */

static int sleep_thread(struct waiter *waiter, int64_t deadline)
{
    for (;;) {
        uint32_t state = atomic_u32_load_acquire(&waiter->state); /* pairs with weft__wake */
        if (state == WAITER_WOKEN)
            return waiter->result;
        int64_t until = state != WAITER_CLAIMED ? deadline : WEFT_NEVER;
        if (weft__os_futex_wait(&waiter->state, state, until) == -ETIMEDOUT &&
            waiter_claim(waiter, -ETIMEDOUT))
            return -ETIMEDOUT;
    }
}

/* Publishes the waiter to the thread's context, or with NULL withdraws it. False: the context is
 * cancelled, and the waiter is not published. */
static bool publish_to_context(struct bond *bond, struct waiter *waiter)
{
    latch_acquire(&bond->canceler->latch);
    bool open = waiter == NULL || canceler_error(bond->canceler) == 0;
    if (open)
        bond->waiter = waiter;
    latch_release(&bond->canceler->latch);
    return open;
}

static noinline int park_thread(struct waiter *waiter, uint32_t what, void (*unlock)(void *),
                                void *object, int64_t deadline)
{
    struct foreign *self = (struct foreign *)thread_self();
    struct bond *bond =
        self != NULL && self->bond.canceler != NULL && !(what & WAIT_FIRM) ? &self->bond : NULL;
    struct thread_wait wait = {.waiter = waiter, .object = object};
    bool sole = bond == NULL && deadline == WEFT_NEVER && !(what & WAIT_SHARED);
    uint32_t state = bond != NULL ? WAITER_OPEN : sole ? WAITER_SOLE : WAITER_SHARED;
    waiter->what = (uint8_t)what;
    /* Relaxed: published by the unlock that lets others find the waiter, or by the latch. */
    atomic_u32_store_relaxed(&waiter->state, state);
    bool open = bond == NULL || publish_to_context(bond, waiter);
    if (!open)
        atomic_u32_store_relaxed(&waiter->state, WAITER_CLAIMED); /* so that no waker claims it */
    if (unlock != NULL)
        unlock(object);
    if (!open)
        return weft__cancelled();
    bool listed = deadline == WEFT_NEVER && !wait_kind_of(waiter)->external;
    if (listed)
        weft__thread_wait_begin(&wait);
    int result = sleep_thread(waiter, seeded() ? weft__seeded_deadline(deadline) : deadline);
    if (listed)
        weft__thread_wait_end(&wait);
    if (bond == NULL)
        return result;
    (void)publish_to_context(bond, NULL);
    return result == -ECANCELED ? canceler_error(bond->canceler) : result;
}

/* Fibers. */

/* Switches straight to the next fiber, if the processor has one and nothing else comes first.
 * False: the fiber must park by way of its machine. */
static bool park_directly(struct machine *machine, struct weft_fiber *self)
{
    struct processor *processor = machine->thread.processor;
    uint32_t turn = atomic_u32_load_relaxed(&processor->turn);
    should(!self->compact);
    if (looks_around(processor, turn))
        return false;
    timers_look(&machine->thread);
    struct weft_fiber *next = dequeue(processor);
    if (next == NULL)
        return false;
    if (unlikely(!fiber_has_stack(next) && !weft__machine_prepare(processor, next))) {
        next = runnext_swap_owner(processor, next); /* the machine puts it aside */
        must(next == NULL);
        return false;
    }
    self->parked_at = processor->stamp;
    next->state = FIBER_RUNNING;
    machine->thread.fiber = next;
    machine->parked = self;
    atomic_u32_store_relaxed(&processor->turn, turn + 1);
    switch_fibers_plain(machine, self, next);
    return true;
}

/* Parks a fiber that has C++ exceptions in progress: they belong to the thread as C++ sees it, and
 * go with the fiber. */
static noinline int park_with_exceptions(struct waiter *waiter, uint32_t what,
                                         void (*unlock)(void *), void *object, int64_t deadline)
{
    struct cxx_state cxx = cxx_leave((struct machine *)thread_self());
    int result = weft__park(waiter, what, unlock, object, deadline);
    *thread_self()->cxx = cxx;
    return result;
}

/* Calls the hook, and does the checks that come before a park. */
static noinline void before_park(struct weft_fiber *fiber, uint32_t what, void *object)
{
    if (fiber->notify_park) {
        must(!(what & WAIT_NOTIFIED)); /* the caller holds a lock that the hook may take */
        weft__fiber_hooks->before_park(fiber->object);
    }
    check_held_mutexes(fiber, text_of(what));
    if (fiber->compact)
        weft__compact_refuse(object, "what a fiber waits for", "have it in the heap or static");
}

static always_inline bool needs_before_park(const struct weft_fiber *fiber)
{
#ifdef WEFT_DEBUG
    (void)fiber;
    return true; /* for the locks that it holds */
#else
    return unlikely(fiber->notify_park || fiber->compact);
#endif
}

/* Inlined once for each kind of wait, so that each has a small frame of its own, in which nothing
 * lives across the switch: the stack of a compact fiber is copied at each park. */
static always_inline int park_fiber(struct waiter *waiter, uint32_t what, void (*unlock)(void *),
                                    void *object, int64_t deadline, bool timed, bool direct)
{
    struct weft_fiber *fiber =
        container_of(waiter, struct weft_fiber, waiter); /* the running one */
    struct machine *machine = (struct machine *)thread_self();
    bool open = fiber->bound && !(what & WAIT_FIRM);
    /* Without an object and a context only the clock may claim. */
    bool sole = !open && (!timed || unlock == NULL) && !(what & WAIT_SHARED);
    /* Relaxed: published by the unlock that lets others find the waiter. */
    atomic_u32_store_relaxed(&waiter->state, sole ? WAITER_SOLE : WAITER_SHARED);
    waiter->what = (uint8_t)what;
    fiber->object = object;
    machine->unlock = unlock;
    machine->object = object;
    machine->deadline = deadline;
    machine->open = open;
    if (!direct || !park_directly(machine, fiber)) {
        machine->action = ACTION_PARK;
        switch_to_machine_plain(machine, fiber, false);
    }
    fiber = thread_self()->fiber; /* the same fiber, not kept on its stack across the switch */
    int result = fiber->waiter.result;
    if (timed && result != -ETIMEDOUT)
        (void)weft__wheel_disarm(&fiber->timer);
    return unlikely(result == -ECANCELED) ? weft__cancelled() : result;
}

static noinline int park_until(struct waiter *waiter, uint32_t what, void (*unlock)(void *),
                               void *object, int64_t deadline)
{
    return park_fiber(waiter, what, unlock, object, deadline, true, false);
}

/* Parks a compact fiber without a deadline. It switches to its machine, which has the hot stack
 * cleared. */
static noinline int park_compact(struct waiter *waiter, uint32_t what, void (*unlock)(void *),
                                 void *object)
{
    return park_fiber(waiter, what, unlock, object, WEFT_NEVER, false, false);
}

static noinline int park_for_good(struct waiter *waiter, uint32_t what, void (*unlock)(void *),
                                  void *object)
{
    return park_fiber(waiter, what, unlock, object, WEFT_NEVER, false, true);
}

static always_inline int park_now(struct waiter *waiter, uint32_t what, void (*unlock)(void *),
                                  void *object, int64_t deadline)
{
    return deadline != WEFT_NEVER ? park_until(waiter, what, unlock, object, deadline)
                                  : park_for_good(waiter, what, unlock, object);
}

/* Does what only some fibers need before they park, in a frame that is gone by then. */
static noinline int park_checked(struct waiter *waiter, uint32_t what, void (*unlock)(void *),
                                 void *object, int64_t deadline)
{
    struct weft_fiber *fiber = container_of(waiter, struct weft_fiber, waiter);
    if (cxx_is_busy((struct machine *)thread_self()))
        return park_with_exceptions(waiter, what, unlock, object, deadline);
    if (needs_before_park(fiber))
        before_park(fiber, what, object);
    if (fiber->bound && !(what & WAIT_FIRM) && weft__cancelled() != 0) {
        atomic_u32_store_relaxed(&waiter->state, WAITER_CLAIMED); /* so that no waker claims it */
        thread_self()->clock = 0;
        if (unlock != NULL)
            unlock(object);
        return weft__cancelled();
    }
    if (fiber->compact && deadline == WEFT_NEVER)
        return park_compact(waiter, what, unlock, object);
    return park_now(waiter, what, unlock, object, deadline);
}

int weft__park(struct waiter *waiter, uint32_t what, void (*unlock)(void *), void *object,
               int64_t deadline)
{
    const struct thread *thread = thread_self();
    if (unlikely(thread != NULL && thread->spins != 0))
        fatal("a weft_spin is held by a caller that %s: others would spin until it is woken",
              text_of(what));
    if (unlikely(!waiter->is_fiber))
        return park_thread(waiter, what, unlock, object, deadline);
    const struct weft_fiber *fiber = container_of(waiter, struct weft_fiber, waiter);
    should(fiber == thread->fiber); /* the running one */
    if (unlikely(fiber->bound || needs_before_park(fiber) ||
                 cxx_is_busy((const struct machine *)thread)))
        return park_checked(waiter, what, unlock, object, deadline);
    return park_now(waiter, what, unlock, object, deadline);
}

static void wake(struct waiter *waiter, bool next)
{
    if (likely(waiter->is_fiber)) {
        struct weft_fiber *fiber = container_of(waiter, struct weft_fiber, waiter);
        fiber->state = FIBER_READY;
        weft__ready(fiber, next);
        return;
    }
    atomic_u32_store_release(&waiter->state, WAITER_WOKEN); /* pairs with sleep_thread */
    weft__os_futex_wake(&waiter->state, 1);
}

void weft__wake(struct waiter *waiter)
{
    wake(waiter, true);
}

void weft__wake_behind(struct waiter *waiter)
{
    wake(waiter, false);
}
