/*
 * fiber.c: the life of a fiber, from spawn to join.
 *
 *   free ---- weft_go, weft_spawn ----> ready ----> running <----> parked
 *    ^                                    ^____________|  yield
 *    |__ detached: at its end             running ---- end ----> ended
 *    |__ joinable: by the join, or by a later detach
 *
 * A fiber counts as alive from spawn to end (fiber_alloc.c).
 *
 * Joining. `joinable`, `ended` and `joiner` are under join_lock. At the end of a joinable fiber its
 * machine sets `ended`, claims the joiner and unlocks, in this order, and does not touch the fiber
 * after that: the memory is then the joiner's, or that of the caller that detaches it.
 *
 * Lock order: join_lock, then a wheel.
 */
#include "sched/fiber/fiber.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/check/mutex_check.h"
#include "sched/core/cancel.h"
#include "sched/core/machine.h"
#include "sched/core/park.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/core/switch.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/fiber/local.h"
#include "sched/fiber/panic.h"
#include "sched/poll/poller.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/timer.h"
#include "stack/stack.h"

static WAIT_KIND(wait_join, .text = "joins a fiber", .anonymous = true);

const struct fiber_hooks *weft__fiber_hooks;

/* Spawning. */

static int limit_raise(void)
{
    if (likely(weft__sched.max_fibers == 0))
        return 0;
    if (atomic_i64_add_relaxed(&weft__sched.limited, 1) < weft__sched.max_fibers)
        return 0;
    atomic_i64_add_relaxed(&weft__sched.limited, -1);
    return -EAGAIN;
}

static void limit_lower(void)
{
    if (unlikely(weft__sched.max_fibers != 0))
        atomic_i64_add_relaxed(&weft__sched.limited, -1);
}

/* Sets the fields that a former fiber in this memory may have left changed. */
static always_inline void init(struct weft_fiber *fiber, void (*function)(void *), void *arg,
                               void *site)
{
    fiber->function = function;
    fiber->arg = arg;
    fiber->spawn_site = site;
    fiber->stack_class = weft__sched.stack_class;
    fiber->owner = OWNER_NONE;
    fiber->deferrable = false;
    fiber->joinable = false;
    fiber->ended = false;
    fiber->panicked = false;
    fiber->compact = false;
}

int weft__fiber_make(struct weft_fiber **out, void (*function)(void *), void *arg, void *site)
{
    struct thread *thread = thread_self();
    compact_check(arg, "the argument of a fiber", "allocate it");
    if (unlikely(thread == NULL || thread->processor == NULL)) {
        int error = runtime_ensure();
        if (error != 0)
            return error;
        thread = (struct thread *)weft__foreign_self();
        if (thread == NULL)
            return -ENOMEM;
    }
    int error = limit_raise();
    if (unlikely(error != 0))
        return error;
    struct weft_fiber *fiber = weft__fiber_new(thread->fibers);
    if (unlikely(fiber == NULL)) {
        limit_lower();
        return -ENOMEM;
    }
    init(fiber, function, arg, site);
    *out = fiber;
    return 0;
}

struct weft_fiber *weft__fiber_make_replacement(const struct weft_fiber *fiber,
                                                void (*function)(void *), void *arg)
{
    struct weft_fiber *replacement = weft__fiber_new(thread_self()->fibers);
    if (replacement == NULL)
        return NULL;
    struct extra *extra = weft__fiber_extra(replacement);
    if (extra == NULL) {
        weft__fiber_free_any(replacement);
        return NULL;
    }
    init(replacement, function, arg, fiber->spawn_site);
    replacement->stack_class = fiber->stack_class;
    replacement->compact = fiber->compact;
    memcpy(extra->name, weft_fiber_name(fiber), strlen(weft_fiber_name(fiber)));
    return replacement;
}

void weft__fiber_discard(struct weft_fiber *fiber)
{
    limit_lower();
    weft__fiber_free_any(fiber);
}

void weft__fiber_start(struct weft_fiber *fiber, bool next)
{
    struct thread *thread = thread_self();
    atomic_u64_add_owner(&thread->fibers->started, 1);
    weft__ready(fiber, next);
}

int weft_go(void (*function)(void *), void *arg)
{
    if (function == NULL)
        return -EINVAL;
    struct weft_fiber *fiber;
    bool entered = enter_if_fiber();
    int error = weft__fiber_make(&fiber, function, arg, __builtin_return_address(0));
    if (error == 0)
        weft__fiber_start(fiber, true);
    leave_if_fiber(entered);
    return error;
}

/* Gives a fiber that is not started yet its name, and binds it to its context. */
static int apply_options(struct weft_fiber *fiber, const weft_spawn_options *options)
{
    if (options->name == NULL && options->context == NULL)
        return 0;
    struct extra *extra = weft__fiber_extra(fiber);
    if (extra == NULL)
        return -ENOMEM;
    if (options->name != NULL) /* the rest of extra->name is zero */
        memcpy(extra->name, options->name, strnlen(options->name, FIBER_NAME_SIZE - 1));
    if (options->context != NULL)
        weft__bond_begin(fiber, (struct canceler *)options->context);
    return 0;
}

static int check_options(const weft_spawn_options *options, int *class)
{
    static const weft_spawn_options none;
    if (memcmp(options->reserved, none.reserved, sizeof none.reserved) != 0)
        return -EINVAL;
    if (options->stack_size == 0)
        return 0;
    *class = weft__stack_class(options->stack_size);
    return *class >= 0 ? 0 : -EINVAL;
}

int weft_spawn(weft_fiber **out, void (*function)(void *), void *arg,
               const weft_spawn_options *options)
{
    static const weft_spawn_options defaults;
    int class = 0;
    if (options == NULL)
        options = &defaults;
    if (function == NULL || check_options(options, &class) != 0)
        return -EINVAL;
    struct weft_fiber *fiber;
    bool entered = enter_if_fiber();
    int error = weft__fiber_make(&fiber, function, arg, __builtin_return_address(0));
    if (error == 0 && (error = apply_options(fiber, options)) != 0)
        weft__fiber_discard(fiber);
    if (error == 0) {
        if (options->stack_size != 0)
            fiber->stack_class = (uint8_t) class;
        fiber->compact = options->compact != 0 && weft__compact_works();
        if (out != NULL) {
            fiber->owner = OWNER_HANDLE;
            fiber->deferrable = entered;
            fiber->joinable = true;
            *out = fiber;
        }
        weft__fiber_start(fiber, true);
    }
    leave_if_fiber(entered);
    return error;
}

/* The end. */

void weft__fiber_end_extra(struct weft_fiber *fiber)
{
    struct extra *extra = fiber_extra(fiber);
    if (extra->locals != NULL)
        weft__locals_end(&extra->locals);
    if (extra->bond.canceler != NULL && !weft__runtime_forked())
        weft__bond_set(&extra->bond, NULL);
}

void weft__fiber_retire(struct weft_fiber *fiber)
{
    struct thread *thread = thread_self();
    if (unlikely(fiber->owner == OWNER_TIMER)) {
        /* Before weft__timer_rest: the next firing may make the fiber ready at once. */
        fiber->state = FIBER_READY;
        if (weft__timer_rest(fiber))
            weft__ready(fiber, false);
        return;
    }
    limit_lower();
    bool detached = true;
    if (fiber->owner == OWNER_HANDLE) {
        struct waiter *joiner = NULL;
        lock_acquire(&fiber->join_lock);
        fiber->ended = true;
        detached = !fiber->joinable;
        if (fiber->joiner != NULL && waiter_claim(fiber->joiner, 0))
            joiner = fiber->joiner;
        fiber->joiner = NULL;
        lock_release(&fiber->join_lock);
        if (joiner != NULL)
            weft__wake(joiner);
    }
    if (detached && unlikely(fiber->panicked)) /* it was detached after the panic */
        weft__panic_report(weft__fiber_take_panic(fiber));
    if (detached)
        weft__fiber_free(thread->fibers, fiber);
    /* Last; pairs with the acquire in weft__fiber_alive: a shut-down that sees this count may free
     * what was touched above. */
    atomic_u64_store_release(&thread->fibers->ended,
                             atomic_u64_load_relaxed(&thread->fibers->ended) + 1);
}

/* Panics. */

void weft__fiber_keep_panic(struct weft_fiber *fiber, struct panic *panic)
{
    bool wanted = false;
    if (fiber->owner == OWNER_HANDLE && !fiber->panicked) {
        lock_acquire(&fiber->join_lock);
        wanted = fiber->joinable;
        lock_release(&fiber->join_lock);
    }
    if (!wanted) {
        weft__panic_report(panic);
        return;
    }
    fiber->arg = panic;
    fiber->panicked = true;
}

struct panic *weft__fiber_take_panic(struct weft_fiber *fiber)
{
    struct panic *panic = fiber->panicked ? fiber->arg : NULL;
    fiber->panicked = false;
    return panic;
}

/* Joining. */

static void free_ended(struct weft_fiber *fiber)
{
    bool entered = enter_if_fiber();
    weft__fiber_free_any(fiber);
    leave_if_fiber(entered);
}

static void unlock_join(void *lock)
{
    lock_release(lock);
}

/* Waits as the joiner. Called with join_lock held; releases it. */
static int wait_for_end(struct weft_fiber *fiber, int64_t deadline)
{
    struct waiter own;
    struct thread *thread = thread_self();
    if (thread != NULL && thread->processor != NULL)
        weft__expedite(thread->processor, fiber);
    fiber->joiner = weft__waiter_begin(&own);
    int result =
        weft__park(fiber->joiner, wait_id(&wait_join), unlock_join, &fiber->join_lock, deadline);
    if (wait_gave_up(result)) {
        lock_acquire(&fiber->join_lock);
        fiber->joiner = NULL;
        if (fiber->ended)
            result = 0;
        lock_release(&fiber->join_lock);
    }
    return result;
}

/* Returns 0 if the fiber has ended; it is then the caller's. */
static int join(weft_fiber *fiber, int64_t deadline)
{
    if (fiber == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    if (fiber == weft_self())
        return -EDEADLK;
    int result = 0;
    bool entered = enter_if_fiber();
    lock_acquire(&fiber->join_lock);
    if (fiber->ended || fiber->joiner != NULL || deadline <= WEFT_NOW) {
        if (!fiber->ended)
            result = fiber->joiner != NULL ? -EBUSY : -ETIMEDOUT;
        lock_release(&fiber->join_lock);
    } else {
        result = wait_for_end(fiber, deadline);
    }
    leave_if_fiber(entered);
    return result;
}

int weft_join_until(weft_fiber *fiber, int64_t deadline)
{
    int result = join(fiber, deadline);
    if (result != 0)
        return result;
    struct panic *panic = weft__fiber_take_panic(fiber);
    free_ended(fiber);
    if (likely(panic == NULL))
        return 0;
    weft__panic_report(panic); /* this form of join does not return it */
    return -EOWNERDEAD;
}

int weft_join_panic(weft_fiber *fiber, weft_panic_info *info, int64_t deadline)
{
    int result = join(fiber, deadline);
    if (result != 0)
        return result;
    struct panic *panic = weft__fiber_take_panic(fiber);
    free_ended(fiber);
    if (likely(panic == NULL))
        return 0;
    weft__panic_give(panic, info);
    return -EOWNERDEAD;
}

int weft_join(weft_fiber *fiber)
{
    return weft_join_until(fiber, WEFT_NEVER);
}

int weft_detach(weft_fiber *fiber)
{
    if (fiber == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    lock_acquire(&fiber->join_lock);
    bool busy = fiber->joiner != NULL;
    bool ended = fiber->ended;
    if (!busy)
        fiber->joinable = false;
    lock_release(&fiber->join_lock);
    if (busy)
        return -EBUSY;
    if (!ended)
        return 0;
    struct panic *panic = weft__fiber_take_panic(fiber);
    free_ended(fiber);
    if (unlikely(panic != NULL))
        weft__panic_report(panic);
    return 0;
}

/* Yielding. */

/* Switches straight to the next fiber of this processor, if nothing else is due first. False: the
 * machine has to do the yield. */
static bool yield_directly(struct machine *machine)
{
    struct processor *processor = machine->thread.processor;
    struct weft_fiber *self = machine->thread.fiber;
    uint32_t turn = atomic_u32_load_relaxed(&processor->turn);
    if (looks_around(processor, turn) || self->compact)
        return false;
    timers_look(&machine->thread);
    struct weft_fiber *next = dequeue(processor);
    if (next == NULL)
        next = weft__take_injected(processor);
    if (next == NULL && poller_used()) {
        weft__poller_look(processor);
        next = dequeue(processor);
    }
    if (next == NULL)
        return true; /* no other fiber is ready: go on */
    if (unlikely(ring_length(processor) == RING_SIZE ||
                 (!fiber_has_stack(next) && !weft__machine_prepare(processor, next)))) {
        /* No room in the ring, no memory for a stack, or a compact fiber: cases for the machine. */
        next = runnext_swap_owner(processor, next);
        must(next == NULL);
        return false;
    }
    /* The ring is private until the next fiber leaves the runtime. So this fiber may be in it
     * before its context is saved. */
    must(ring_push_owner(processor, self));
    self->state = FIBER_YIELDED;
    processor->yielded = true;
    next->state = FIBER_RUNNING;
    machine->thread.fiber = next;
    atomic_u32_store_relaxed(&processor->turn, turn + 1);
    switch_fibers(machine, self, next);
    return true;
}

noinline void weft_yield(void)
{
    struct thread *thread = thread_self();
    if (unlikely(thread == NULL || thread->fiber == NULL)) {
        weft__os_yield();
        return;
    }
    if (unlikely(thread->spins != 0))
        fatal("a weft_spin is held by a fiber that yields: others would spin until it comes back");
    check_held_mutexes(thread->fiber, "yields");
    thread = runtime_enter(thread);
    if (!yield_directly((struct machine *)thread))
        weft__machine_switch((struct machine *)thread, ACTION_YIELD);
    runtime_leave(thread_self());
}

/* Inquiries. */

weft_fiber *weft_self(void)
{
    struct thread *thread = thread_self();
    return thread != NULL ? thread->fiber : NULL;
}

uint64_t weft_fiber_id(const weft_fiber *fiber)
{
    return fiber != NULL ? fiber->id : 0;
}

const char *weft_fiber_name(const weft_fiber *fiber)
{
    if (fiber == NULL)
        return "";
    const void *client = fiber_client(fiber);
    if (client != NULL)
        return weft__fiber_hooks->name(client);
    return fiber_extra(fiber) != NULL ? fiber_extra(fiber)->name : "";
}
