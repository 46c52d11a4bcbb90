/*
 * timer.c: timers that call a function (weft/timer.h).
 *
 * A timer owns a node for the wheel and a fiber in which its function is called; both are made
 * when the timer is opened. The fiber runs anew for each call (or row of calls), and rests in
 * between without a stack.
 *
 *     armed   the node is in a wheel
 *     due     the wheel has fired and the call has not begun. The party that takes `due` from 1
 *             to 0 decides: the fiber calls the function; a stop or a new start forgets the call.
 *             So no stale call can begin.
 *     active  the fiber is ready, running, or not completely at rest
 *
 *     fire (under the wheel's latch)        rest (on the machine's stack, the fiber has ended)
 *     due = 1                               active = 0
 *     active 0 -> 1: make the fiber ready   due and active 0 -> 1: run it again
 *
 * Both sides use seq_cst exchanges, so at least one of them sees the other: no firing is lost, and
 * the fiber is never made ready twice.
 *
 * The fiber arms a periodic timer again before it calls the function, for the first multiple of
 * the period that lies in the future. So there is no drift, and calls that were missed become one.
 *
 * `lock` orders start, stop, close and re-arming. Lock order: timer, then wheel. A firing happens
 * under the wheel's latch alone and touches only the atomics.
 *
 * Close. The closer stops the timer. If the fiber is at rest the closer frees the timer; else it
 * waits for the rest, which wakes it. If the closer is the timer's own function, the rest frees
 * the timer instead. A start from the function in the meantime arms nothing: otherwise the wheel
 * would keep a timer that is freed.
 */
#include "sched/time/timer.h"

#include <errno.h>
#include <weft/timer.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/check/seeded.h"
#include "sched/core/park.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"

static WAIT_KIND(wait_timer_close, .text = "closes a timer");

struct weft_timer {
    struct timer node;
    struct lock lock;
    bool closing;             /* lock */
    bool orphan;              /* closed from inside its own function: the rest frees it; lock */
    int64_t deadline, period; /* lock */
    atomic_u32 due, active;
    void (*function)(void *);
    void *arg;
    struct weft_fiber *fiber;
    struct waiter *closer; /* lock */
};

static atomic_u64 opened, closed;

uint64_t weft__timers_opened(void)
{
    return atomic_u64_load_acquire(&opened);
}

uint64_t weft__timers_closed(void)
{
    return atomic_u64_load_acquire(&closed); /* pairs with free_timer */
}

/* Arms the timer on the caller's processor; on a thread without one, on any. The lock is held. */
static void arm(struct weft_timer *timer, int64_t deadline)
{
    struct thread *thread = thread_self();
    struct processor *processor = thread != NULL ? thread->processor : NULL;
    if (processor == NULL)
        processor = &weft__sched.processors[timer->fiber->id % processor_count()];
    timer->deadline = deadline;
    timer->node.kind = TIMER_CALL;
    weft__wheel_arm(&processor->wheel, &timer->node, deadline);
    weft__timers_notify(deadline);
}

/* Disarms the timer and forgets a call that is due; true if it was armed or due. The lock is
 * held. */
static bool disarm(struct weft_timer *timer)
{
    bool armed = weft__wheel_disarm(&timer->node);
    bool due = atomic_u32_exchange_seq_cst(&timer->due, 0) != 0;
    return armed || due;
}

struct weft_fiber *weft__timer_expired(struct timer *node)
{
    struct weft_timer *timer = container_of(node, struct weft_timer, node);
    atomic_u32_exchange_seq_cst(&timer->due, 1);
    return atomic_u32_exchange_seq_cst(&timer->active, 1) == 0 ? timer->fiber : NULL;
}

/* The function of the timer's fiber: makes the calls that are due. */
static void call(void *arg)
{
    struct weft_timer *timer = arg;
    for (;;) {
        struct thread *thread = runtime_enter(thread_self());
        lock_acquire(&timer->lock);
        bool begin = atomic_u32_exchange_seq_cst(&timer->due, 0) != 0;
        if (begin && timer->period != 0) {
            int64_t late = weft__now() - timer->deadline;
            int64_t next = timer->deadline + (late > 0 ? late / timer->period * timer->period : 0);
            if (!__builtin_add_overflow(next, timer->period, &next) && next != WEFT_NEVER)
                arm(timer, next);
        }
        lock_release(&timer->lock);
        runtime_leave(thread);
        if (!begin)
            return;
        timer->function(timer->arg);
        if (fiber_extra(timer->fiber) != NULL)
            weft__fiber_end_extra(timer->fiber); /* no values or binding for the next call */
        if (weft__runtime_forked())
            return; /* in a child that the function has forked */
    }
}

static void free_timer(struct weft_timer *timer)
{
    weft__fiber_discard(timer->fiber);
    weft__os_free(timer);
    /* seq_cst: pairs with a drain, which sets draining and then counts. */
    atomic_u64_add_seq_cst(&closed, 1);
    if (atomic_u32_load_seq_cst(&weft__sched.draining))
        weft__runtime_quiet();
}

bool weft__timer_rest(struct weft_fiber *fiber)
{
    struct weft_timer *timer = fiber->arg;
    struct waiter *closer = NULL;
    lock_acquire(&timer->lock);
    bool again = false, orphan = timer->orphan;
    if (!timer->closing) {
        atomic_u32_exchange_seq_cst(&timer->active, 0);
        again = atomic_u32_load_seq_cst(&timer->due) &&
                atomic_u32_exchange_seq_cst(&timer->active, 1) == 0;
    } else if (timer->closer != NULL) {
        closer = timer->closer;
        must(waiter_claim(closer, 0)); /* no other party can end its wait */
    }
    lock_release(&timer->lock);
    if (closer != NULL)
        weft__wake(closer);
    if (orphan)
        free_timer(timer);
    return again;
}

int weft_timer_open(weft_timer **out, void (*function)(void *), void *arg)
{
    if (out == NULL || function == NULL)
        return -EINVAL;
    compact_check(arg, "the argument of a timer", "have it in the heap");
    struct weft_timer *timer = weft__os_alloc_zeroed(sizeof *timer);
    if (timer == NULL)
        return -ENOMEM;
    bool fiber = enter_if_fiber();
    int error = weft__fiber_make(&timer->fiber, call, timer, (void *)(uintptr_t)function);
    leave_if_fiber(fiber);
    if (error != 0) {
        weft__os_free(timer);
        return error;
    }
    timer->function = function;
    timer->arg = arg;
    timer->fiber->owner = OWNER_TIMER;
    atomic_u64_add_relaxed(&opened, 1);
    *out = timer;
    return 0;
}

int weft_timer_start(weft_timer *timer, int64_t deadline, int64_t period)
{
    if (timer == NULL || period < 0)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    bool fiber = enter_if_fiber();
    lock_acquire(&timer->lock);
    bool before = disarm(timer);
    timer->period = period;
    if (deadline != WEFT_NEVER && !timer->closing)
        arm(timer, deadline > 0 ? deadline : weft__now());
    lock_release(&timer->lock);
    leave_if_fiber(fiber);
    return before;
}

int weft_timer_stop(weft_timer *timer)
{
    return weft_timer_start(timer, WEFT_NEVER, 0);
}

static void unlock_timer(void *lock)
{
    lock_release(lock);
}

/* Waits until the fiber is at rest; takes over the lock and releases it. The rest unlocks before it
 * wakes the closer, so afterwards only the closer touches the timer. */
static void wait_for_rest(struct weft_timer *timer)
{
    struct waiter own;
    timer->closer = weft__waiter_begin(&own);
    (void)weft__park(timer->closer, wait_id(&wait_timer_close) | WAIT_FIRM, unlock_timer,
                     &timer->lock, WEFT_NEVER);
}

int weft_timer_close(weft_timer *timer)
{
    if (timer == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    bool own = weft_self() == timer->fiber;
    bool fiber = enter_if_fiber();
    lock_acquire(&timer->lock);
    (void)disarm(timer);
    timer->period = 0;
    timer->closing = true;
    timer->orphan = own;
    if (!own && atomic_u32_load_seq_cst(&timer->active))
        wait_for_rest(timer);
    else
        lock_release(&timer->lock);
    if (!own)
        free_timer(timer);
    leave_if_fiber(fiber);
    return 0;
}
