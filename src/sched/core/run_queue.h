/*
 * run_queue.h: the order in which the ready fibers of a processor run: see run_queue.c.
 *
 * Only the owner of the processor may call functions whose names end in _owner; the same holds for
 * all functions declared without a body here. The others only read, as hints, and may be called
 * anywhere.
 */
#ifndef WEFT_SCHED_CORE_RUN_QUEUE_H
#define WEFT_SCHED_CORE_RUN_QUEUE_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"

static inline uint32_t ring_length(const struct processor *processor)
{
    return atomic_u32_load_relaxed(&processor->tail) - atomic_u32_load_relaxed(&processor->head);
}

static inline bool ring_push_owner(struct processor *processor, struct weft_fiber *fiber)
{
    uint32_t tail = atomic_u32_load_relaxed(&processor->tail);
    if (unlikely(tail - atomic_u32_load_relaxed(&processor->head) == RING_SIZE))
        return false;
    processor->ring[tail % RING_SIZE] = fiber;
    atomic_u32_store_relaxed(&processor->tail, tail + 1);
    return true;
}

static inline struct weft_fiber *ring_pop_owner(struct processor *processor)
{
    uint32_t head = atomic_u32_load_relaxed(&processor->head);
    if (head == atomic_u32_load_relaxed(&processor->tail))
        return NULL;
    atomic_u32_store_relaxed(&processor->head, head + 1);
    return processor->ring[head % RING_SIZE];
}

/* The place of the fiber in the ring if it is one of the last JOIN_LOOK; else the tail. */
static inline uint32_t ring_find_owner(const struct processor *processor,
                                       const struct weft_fiber *fiber)
{
    uint32_t tail = atomic_u32_load_relaxed(&processor->tail), length = ring_length(processor);
    for (uint32_t distance = 1; distance <= JOIN_LOOK && distance <= length; distance++)
        if (processor->ring[(tail - distance) % RING_SIZE] == fiber)
            return tail - distance;
    return tail;
}

static inline void ring_remove_owner(struct processor *processor, uint32_t place)
{
    uint32_t last = atomic_u32_load_relaxed(&processor->tail) - 1;
    for (; place != last; place++)
        processor->ring[place % RING_SIZE] = processor->ring[(place + 1) % RING_SIZE];
    atomic_u32_store_relaxed(&processor->tail, last);
}

/* Whether fibers wait in the ring or runnext. */
static inline bool has_fibers(const struct processor *processor)
{
    return ring_length(processor) > 0 || atomic_ptr_load_relaxed(&processor->runnext) != NULL;
}

/* True if no machine is woken for runnext alone; the watcher looks after it instead (idle.c). */
static inline bool runnext_wakes_off(const struct processor *processor)
{
    return atomic_u32_load_relaxed(&processor->wasted_wakes) >= WASTED_WAKES_MOST;
}

static inline struct weft_fiber *runnext_swap_owner(struct processor *processor,
                                                    struct weft_fiber *fiber)
{
    struct weft_fiber *before = atomic_ptr_load_relaxed(&processor->runnext);
    atomic_ptr_store_relaxed(&processor->runnext, fiber);
    return before;
}

/* Puts a ready fiber into the ring, or what the ring cannot hold into the inject queue. Wakes no
 * machine. */
void weft__enqueue(struct processor *processor, struct weft_fiber *fiber);
/* Makes a deferrable fiber that has not begun, and is among the last in the ring, the next to
 * run. */
void weft__expedite(struct processor *processor, struct weft_fiber *fiber);
/* Called after STREAK_LOOK turns of runnext in a row, with the fiber from runnext. Returns the next
 * fiber to run: this one, or one from the ring, behind which this one then waits. */
struct weft_fiber *weft__streak_look(struct processor *processor, struct weft_fiber *fiber);
/* The next fiber of runnext or the ring, or NULL. runnext goes first, but at most STREAK_LOOK times
 * in a row while fibers wait that are not deferrable. Owner only. */
static inline struct weft_fiber *dequeue(struct processor *processor)
{
    struct weft_fiber *fiber = atomic_ptr_load_relaxed(&processor->runnext);
    if (fiber != NULL) {
        atomic_ptr_store_relaxed(&processor->runnext, NULL);
        if (likely(++processor->streak % STREAK_LOOK != 0))
            return fiber;
        return weft__streak_look(processor, fiber);
    }
    processor->streak = 0;
    return ring_pop_owner(processor);
}
/* Whether the inject queue and the poller come before the processor's own fibers now: every 61st
 * turn, and, if turns are long, when the monitor says so. Owner only. */
static inline bool looks_around(const struct processor *processor, uint32_t turn)
{
    return unlikely(turn % INJECT_EVERY == 0 ||
                    atomic_u32_load_relaxed(&weft__sched.epoch) != processor->epoch);
}
/* Takes a share of the inject queue: returns the first fiber, or NULL, and puts the rest into the
 * ring. */
struct weft_fiber *weft__take_injected(struct processor *processor);
/* Looks at the poller and at the inject queue, and may change the group of fibers in the ring
 * (turn-over). Returns the next fiber to run, or NULL. */
struct weft_fiber *weft__look_around(struct processor *processor);
/* Makes fibers due. weft__due_begin returns for how many there is room. The caller pushes up to so
 * many into the ring, and nothing else, and passes their number to weft__due_done, which moves them
 * before the fibers that are not due. */
uint32_t weft__due_begin(struct processor *processor);
void weft__due_done(struct processor *processor, uint32_t count);
/* Makes the fibers of a chain due, as far as there is room; the rest go to the end of the ring.
 * Leaves the chain empty. */
void weft__due_put(struct processor *processor, struct chain *fibers);
/* Whether due fibers wait in the ring. */
bool weft__due_wait(const struct processor *processor);

#endif
