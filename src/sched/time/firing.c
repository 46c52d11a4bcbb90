/*
 * firing.c: fires the timing wheels, and makes sure that a machine wakes up for them.
 *
 * Each processor has a wheel (wheel.h). Its owner fires it between fibers. A machine without work
 * fires all wheels. The watcher (idle.c) sleeps until the earliest timer of any wheel.
 *
 * What wakes up for a new timer. If all processors are busy, their owners look at the wheels
 * between fibers. If there is a watcher that would sleep past the deadline, it is poked. If a
 * processor is idle and there is no watcher, a machine is woken, finds no work, and becomes the
 * watcher. No timer is forgotten, because of the order
 *
 *     arm:    arm the timer;  barrier_light;  look at sleep_until
 *     sleep:  store sleep_until;  barrier_heavy;  look at the wheels
 *
 * by which at least one side sees the other.
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

/* A smaller batch does not fire while fibers of earlier firings wait for their turn. */
enum { BATCH_LEAST = (RING_SIZE + 7) / 8 };

/* A wheel that cascades many timers may need several holds of its latch before one fires. After so
 * many in a row, some 100 us in all, the caller looks at other things first. */
enum { HOLDS_MOST = 8 };

/* The fiber that an expired timer makes ready, or NULL. Under the wheel's latch. */
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

/* Puts the fiber into the ring of the processor `context`, which has room. */
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

/* Prefetches the frames of the fibers that were made ready. All at once, with no locked instruction
 * in between, which would wait until the page of each prefetch is found. What a compact fiber keeps
 * is prefetched shortly before its turn (machine.c). */
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
    /* More fibers than this machine runs next, counting the running one and runnext. */
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
        atomic_u32_add_relaxed(&weft__sched.epoch, 1); /* processors look around at once */
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
    should(!seeded()); /* a seeded run moves its clock in seeded.c */
    /* A fiber that has gone to sleep has just read the clock, which saves reading the counter. With
     * many sleepers the counter is not read at all. */
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
