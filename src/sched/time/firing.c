/*
 * firing.c: firing the wheels, and making sure that a machine wakes up for them.
 *
 * Each processor has a wheel (wheel.h). Its owner fires it between fibers; a machine that has
 * nothing to do fires all of them; the watcher (idle.c) sleeps until the earliest of them.
 *
 * Who wakes up for a new timer? If all processors are busy, their owners look. If a machine
 * watches, and would sleep past the deadline, it is poked. If some processor is idle and no
 * machine watches, a machine is woken, finds nothing, and becomes the watcher. The order (arm,
 * barrier_light, look at sleep_until against: store sleep_until, barrier_heavy, look at the wheels)
 * leaves no gap.
 */
#include "sched/time/firing.h"

#include <errno.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/membarrier.h"
#include "os/os.h"
#include "sched/check/test_point.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/park.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/fiber.h"
#include "sched/poll/poller.h"
#include "sched/runtime/thread.h"
#include "sched/time/ticks.h"
#include "sched/time/timer.h"
#include "sched/time/wheel.h"

/* Fewer do not fire as long as some that did wait for their turn. */
enum { BATCH_LEAST = (RING_SIZE + 7) / 8 };

/* A wheel that has many timers to deal out may need several holds of its latch before one fires: so many in a row, some
 * 100 us in all, then the caller looks at other things first. */
enum { HOLDS_MOST = 8 };

/* Under the wheel's lock: the fiber that the timer makes ready, or NULL. */
static inline struct weft_fiber *expire(struct timer *timer)
{
    struct weft_fiber *fiber;
    if (timer->kind == TIMER_WAIT) {
        fiber = container_of(timer, struct weft_fiber, timer);
        if (!waiter_claim(&fiber->waiter, -ETIMEDOUT))
            return NULL;
        fiber->state = FIBER_READY;
    } else {
        fiber = weft__timer_expired(timer);
        if (fiber != NULL)
            fiber->state = FIBER_READY;
    }
    return fiber;
}

/* The ring has room. */
static void fire(struct timer *timer, void *context)
{
    struct weft_fiber *fiber = expire(timer);
    if (fiber != NULL)
        must(ring_push_owner(context, fiber));
}

static void fire_into_chain(struct timer *timer, void *context)
{
    struct weft_fiber *fiber = expire(timer);
    if (fiber != NULL)
        chain_add(context, fiber);
}

/* Has the CPU fetch the frames of those that were made ready: in one go, with no locked operation in between, which would
 * wait for each fetch to have found its page. What a compact one keeps is fetched shortly before its turn (machine.c). */
static void prefetch_ready(const struct processor *processor, uint32_t first)
{
    for (uint32_t i = first; i != atomic_u32_load_relaxed(&processor->tail); i++) {
        const struct weft_fiber *fiber = processor->ring[i % RING_SIZE];
        if (likely(!fiber->compact))
            fetch_line(fiber->context.sp);
    }
}

static bool is_due(const struct processor *from, int64_t now)
{
    return atomic_i64_load_relaxed(&from->wheel.next) <= now;
}

bool weft__timers_fire(struct processor *processor, struct processor *from, int64_t now)
{
    if (!is_due(from, now))
        return false;
    uint32_t room = weft__due_begin(processor);
    if (room == 0 || (room < BATCH_LEAST && weft__due_wait(processor)))
        return false;
    uint32_t before = atomic_u32_load_relaxed(&processor->tail), fired = 0;
    for (int holds = 0; fired == 0 && holds < HOLDS_MOST && is_due(from, now); holds++)
        fired = weft__wheel_fire(&from->wheel, now, room, fire, processor);
    uint32_t count = atomic_u32_load_relaxed(&processor->tail) - before;
    if (count == 0)
        return false;
    prefetch_ready(processor, before);
    weft__due_done(processor, count);
    /* More than this machine will run next: beside what it holds and what goes before the ring. */
    if (ring_length(processor) + (atomic_ptr_load_relaxed(&processor->runnext) != NULL) +
            (thread_self()->fiber != NULL) >
        1)
        wake_if_idle();
    return true;
}

int64_t weft__timers_fire_retired(int64_t now)
{
    struct chain fibers = {NULL, NULL, 0};
    int64_t next = WHEEL_EMPTY;
    for (uint32_t i = 0; i < processor_count(); i++) {
        struct processor *processor = &weft__sched.processors[i];
        if (!atomic_u32_load_relaxed(&processor->retired))
            continue;
        for (int holds = 0; holds < HOLDS_MOST && is_due(processor, now); holds++)
            (void)weft__wheel_fire(&processor->wheel, now, RING_SIZE, fire_into_chain, &fibers);
        int64_t one = atomic_i64_load_relaxed(&processor->wheel.next);
        next = one < next ? one : next;
    }
    if (fibers.count > 0) {
        weft__inject_push_woken_any(fibers);
        atomic_u32_add_relaxed(&weft__sched.epoch, 1); /* so that they are looked for at once */
        wake_if_idle();
    }
    return next;
}

uint32_t weft__timers_fire_exact(struct processor *processor, int64_t *now, bool jump)
{
    return weft__wheel_fire_exact(&processor->wheel, now, jump, RING_SIZE - ring_length(processor),
                                  fire, processor);
}

void weft__timers_look(struct processor *processor, int64_t clock)
{
    should(!seeded()); /* the clock of a test run moves elsewhere */
    /* Cheaper than the counter is a fiber that has read the clock before it left, to sleep: where many do the counter is not
     * read at all. */
    if (clock != 0) {
        if (clock - processor->timer_look_time < TIME_LOOK && ring_length(processor) > 0)
            return;
    } else {
        uint64_t ticks = weft__os_ticks();
        if (ticks - processor->timer_look_ticks < atomic_u64_load_relaxed(&weft__ticks.look) &&
            ring_length(processor) > 0)
            return;
        ticks_learn();
        processor->timer_look_ticks = ticks;
        clock = weft__os_now();
    }
    processor->timer_look_time = clock;
    (void)weft__timers_fire(processor, processor, clock);
}

int64_t weft__timers_next(void)
{
    int64_t next = WHEEL_EMPTY;
    for (uint32_t i = 0; i < processor_count(); i++) {
        int64_t one = atomic_i64_load_relaxed(&weft__sched.processors[i].wheel.next);
        if (one < next)
            next = one;
    }
    return seeded() && next != WHEEL_EMPTY ? 0 : next;
}

void weft__timers_notify(int64_t deadline)
{
    barrier_light();
    int64_t until = atomic_i64_load_relaxed(&weft__sched.sleep_until);
    if (until == NO_WATCHER)
        wake_if_idle();
    else if (deadline < until)
        weft__poller_wake();
}
