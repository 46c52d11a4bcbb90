/*
 * run_queue.c: the order in which the ready fibers of a processor run.
 *
 *     head                                due_end                     mark                     tail
 *      | due; every fourth place another's | have not had their turn   | came since, or had it |
 *
 * Due fibers go first. A fiber whose timer has fired, or whose descriptor is ready, goes before
 * those in the ring that are new, have yielded, or were woken by another fiber; and behind those
 * that were due earlier. Every fourth place is left to another fiber, so that no fiber starves,
 * however many are due. If there is no other fiber in the ring, some are taken from the inject
 * queue for that. While fibers are due, a streak of runnext ends after a few turns. A fiber that
 * another fiber wakes is not due and keeps its place: a parent to which its children report finds
 * all reports at its turn, and does not need a turn for each.
 *
 * Yielding fibers have equal turns. The ring holds the group that runs in turn, the inject queue
 * the rest. At a turn-over the two change places: all fibers that have had a turn since the last
 * turn-over, and have yielded, go to the tail of the inject queue, in their order, and the ring is
 * filled from its head. So all fibers have one turn after the other, as in one queue, but in
 * groups. A turn-over moves FILL fibers, whose data is then not in the cache, so it must not come
 * too often if turns are short. A look around (machine.c) leads to one if the monitor says that
 * turns are long, or if the group has had its part of the time that a round of all groups may take
 * (ROUND times weft__ticks.defer). With few groups each fiber has many short turns in a row; with
 * very many each has one.
 *
 * New fibers, and fibers that were woken, stay in the ring: trees are walked depth first only if
 * their branches wait. If no fiber has yielded, a look around takes one fiber from the inject
 * queue, and more only when the monitor says that turns are long.
 *
 * Overflow: a full ring gives the older half of its fibers that are not due to the inject queue.
 *
 * All of this is only an order of the private ring and of the inject queue. There is no further
 * place for a ready fiber, nothing more that a thief or the watcher must know, and no further
 * check when the next fiber is taken.
 *
 * Rejected, with figures in docs/bench/tried.md: a second ring for all fibers that were woken;
 * groups that change after a fixed time.
 */
#include "sched/core/run_queue.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/chain.h"
#include "sched/fiber/fiber.h"
#include "sched/poll/poller.h"
#include "sched/time/ticks.h"

enum {
    SHARE_MOST = 32,          /* fibers from the inject queue when the ring is empty */
    FILL = RING_SIZE / 2,     /* fibers in the ring after a turn-over; leaves room for others */
    ROUND = 2,                /* times weft__ticks.defer: a round of all groups */
    DUE_MOST = RING_SIZE / 2, /* due fibers in the ring; further ones stay in their wheel */
    DUE_ROW = 3,              /* due fibers in a row while others wait */
    DUE_ROOM = (RING_SIZE + 15) / 16, /* with less room for due fibers, others leave the ring */
    DUE_STREAK = STREAK_LOOK - 3,     /* streak of runnext while fibers are due: it ends soon */
};

/* The ring. */

static uint32_t due_count(const struct processor *processor)
{
    uint32_t count = processor->due_end - atomic_u32_load_relaxed(&processor->head);
    return count <= ring_length(processor) ? count : 0; /* due_end is stale: no fiber is due */
}

bool weft__due_wait(const struct processor *processor)
{
    return due_count(processor) > 0;
}

static struct weft_fiber **place(struct processor *processor, uint32_t index)
{
    return &processor->ring[index % RING_SIZE];
}

/* Moves the older half of a nearly full ring, without the due fibers, to the chain. */
static void take_older(struct processor *processor, struct chain *chain)
{
    uint32_t head = atomic_u32_load_relaxed(&processor->head), due = due_count(processor);
    uint32_t count = ring_length(processor) - due;
    if (count > RING_SIZE / 2)
        count = RING_SIZE / 2;
    for (uint32_t i = 0; i < count; i++)
        chain_add(chain, *place(processor, head + due + i));
    for (uint32_t i = due; i-- > 0;)
        *place(processor, head + count + i) = *place(processor, head + i);
    if (due > 0)
        processor->due_end += count;
    atomic_u32_store_relaxed(&processor->head, head + count);
}

static noinline void overflow(struct processor *processor, struct weft_fiber *fiber)
{
    struct chain chain = {NULL, NULL, 0};
    take_older(processor, &chain);
    chain_add(&chain, fiber);
    weft__inject_push_any(chain);
}

void weft__enqueue(struct processor *processor, struct weft_fiber *fiber)
{
    if (unlikely(!ring_push_owner(processor, fiber)))
        overflow(processor, fiber);
}

/* Puts fibers from the inject queue into the ring, which has room for them. */
static void keep(struct processor *processor, struct chain chain)
{
    for (struct weft_fiber *fiber; (fiber = chain_take(&chain)) != NULL;)
        must(ring_push_owner(processor, fiber));
    processor->mark = atomic_u32_load_relaxed(&processor->tail);
}

/* Due fibers. */

static uint32_t due_room(const struct processor *processor)
{
    uint32_t length = ring_length(processor), due = due_count(processor);
    /* To be moved before other fibers they need as much room again: weft__due_done. */
    uint32_t room = length > due ? (RING_SIZE - length) / 2 : RING_SIZE - length;
    return room < DUE_MOST - due ? room : DUE_MOST - due;
}

uint32_t weft__due_begin(struct processor *processor)
{
    uint32_t due = due_count(processor), length = ring_length(processor);
    if (due >= DUE_MOST)
        return 0;
    if (length == due && processor->due_row >= DUE_ROW && weft__inject_length() > 0) {
        /* fetch some other fibers, to have every fourth place */
        keep(processor, weft__inject_take_any(DUE_ROOM));
        wake_if_idle(); /* ring and inject queue may both have been seen as empty */
    } else if (unlikely(RING_SIZE - length < 2 * DUE_ROOM)) {
        struct chain chain = {NULL, NULL, 0};
        take_older(processor, &chain);
        weft__inject_push_any(chain);
    }
    return due_room(processor);
}

void weft__due_done(struct processor *processor, uint32_t count)
{
    uint32_t head = atomic_u32_load_relaxed(&processor->head);
    uint32_t tail = atomic_u32_load_relaxed(&processor->tail), first = tail - count;
    uint32_t due = processor->due_end - head;
    if (due > first - head) {
        due = 0;
        processor->due_row = 0; /* another fiber has had its turn since */
    }
    uint32_t to = head - count, from = first, other = head + due;
    if (other == first) { /* there is no other fiber */
        processor->due_row += count;
        processor->due_end = tail;
        return;
    }
    for (uint32_t i = 0; i < due; i++)
        *place(processor, to++) = *place(processor, head + i);
    while (from != tail) {
        bool leave = processor->due_row >= DUE_ROW && other != first;
        processor->due_row = leave ? 0 : processor->due_row + 1;
        *place(processor, to++) = *place(processor, leave ? other++ : from++);
    }
    processor->due_end = to;
    atomic_u32_store_relaxed(&processor->head, head - count);
    atomic_u32_store_relaxed(&processor->tail, first);
    if (processor->streak < DUE_STREAK)
        processor->streak = DUE_STREAK;
}

void weft__due_put(struct processor *processor, struct chain *fibers)
{
    while (fibers->count > 0) {
        uint32_t room = weft__due_begin(processor), count = 0;
        if (room == 0)
            break;
        for (; count < room && fibers->count > 0; count++)
            must(ring_push_owner(processor, chain_take(fibers)));
        weft__due_done(processor, count);
    }
    while (fibers->count > 0)
        weft__enqueue(processor, chain_take(fibers));
}

/* Fork and join: see machine.c. */

static bool is_deferrable(const struct weft_fiber *fiber)
{
    return fiber->deferrable && fiber->stack == NULL;
}

void weft__expedite(struct processor *processor, struct weft_fiber *fiber)
{
    uint32_t found = ring_find_owner(processor, fiber);
    if (found == atomic_u32_load_relaxed(&processor->tail) || !is_deferrable(fiber))
        return;
    ring_remove_owner(processor, found);
    struct weft_fiber *before = runnext_swap_owner(processor, fiber);
    if (before == NULL)
        return;
    weft__enqueue(processor, before);
    wake_if_idle(); /* the ring may have been seen as empty */
}

static bool streak_ends(struct processor *processor)
{
    uint32_t head = atomic_u32_load_relaxed(&processor->head);
    if (ring_length(processor) == 0 || !is_deferrable(*place(processor, head)))
        return true;
    uint64_t ticks = weft__os_ticks(); /* not the monitor's epoch: there may be no monitor */
    ticks_learn();
    if (processor->streak == STREAK_LOOK)
        processor->streak_since = ticks;
    return ticks - processor->streak_since > atomic_u64_load_relaxed(&weft__ticks.defer);
}

noinline struct weft_fiber *weft__streak_look(struct processor *processor, struct weft_fiber *fiber)
{
    if (!streak_ends(processor))
        return fiber;
    weft__enqueue(processor, fiber);
    fiber = ring_pop_owner(processor);
    processor->streak = due_count(processor) > 0 ? DUE_STREAK : 0;
    return fiber;
}

/* The inject queue. */

/* Returns the first fiber of the chain, and puts the rest into the ring. */
static struct weft_fiber *keep_rest(struct processor *processor, struct chain chain)
{
    struct weft_fiber *first = chain_take(&chain);
    keep(processor, chain);
    return first;
}

/* This processor's share of the inject queue. */
static uint32_t share(void)
{
    return weft__inject_length() / processors_in_use() + 1;
}

struct weft_fiber *weft__take_injected(struct processor *processor)
{
    if (weft__inject_length() == 0)
        return NULL;
    uint32_t most = share(), room = RING_SIZE - ring_length(processor) + 1;
    if (most > SHARE_MOST)
        most = SHARE_MOST;
    return keep_rest(processor, weft__inject_take_any(most < room ? most : room));
}

/* Moves the fibers that have had their turn, and have yielded, to the inject queue. */
static void send_yielded(struct processor *processor)
{
    uint32_t head = atomic_u32_load_relaxed(&processor->head);
    uint32_t tail = atomic_u32_load_relaxed(&processor->tail);
    uint32_t from = processor->mark, first = head + due_count(processor), to;
    struct chain chain = {NULL, NULL, 0};
    if (from - first > tail - first)
        from = first; /* mark is stale: all have had their turn */
    for (to = from; from != tail; from++) {
        struct weft_fiber *fiber = *place(processor, from);
        if (fiber->state == FIBER_YIELDED)
            chain_add(&chain, fiber);
        else
            *place(processor, to++) = fiber;
    }
    atomic_u32_store_relaxed(&processor->tail, to);
    weft__inject_push_any(chain);
    processor->yielded = false;
}

static struct weft_fiber *turn_over(struct processor *processor, uint64_t ticks)
{
    processor->turn_over_ticks = ticks;
    if (processor->yielded)
        send_yielded(processor);
    uint32_t length = ring_length(processor), most = length < FILL ? FILL - length : 1;
    uint32_t part = share(); /* read once: other threads change it */
    struct weft_fiber *first =
        keep_rest(processor, weft__inject_take_any(most < part ? most : part));
    wake_if_idle();
    return first;
}

/* Whether a fiber from the inject queue goes back there: it is deferrable, and the turns of runnext
 * go on. */
static bool defer_again(struct processor *processor, const struct weft_fiber *fiber)
{
    if (fiber == NULL || !is_deferrable(fiber) || processor->streak < STREAK_LOOK ||
        processor->deferred == DEFER_MOST) {
        processor->deferred = 0;
        return false;
    }
    processor->deferred++;
    return true;
}

static struct weft_fiber *take_one(struct processor *processor)
{
    struct chain chain = weft__inject_take_any(1);
    if (!defer_again(processor, chain.first))
        return chain.first;
    weft__inject_push_any(chain); /* behind fibers that may not be deferrable */
    wake_if_idle();               /* the queue may have been seen as empty */
    return NULL;
}

/* Whether the group in the ring has had its part of the time of a round. */
static bool round_is_due(const struct processor *processor, uint64_t ticks)
{
    uint64_t defer = atomic_u64_load_relaxed(&weft__ticks.defer);
    return (ticks - processor->turn_over_ticks) * share() > ROUND * defer * FILL;
}

/* The poller first: the inject queue may never be empty. */
struct weft_fiber *weft__look_around(struct processor *processor)
{
    uint32_t epoch = atomic_u32_load_relaxed(&weft__sched.epoch);
    bool late = epoch != processor->epoch;
    if (poller_used())
        weft__poller_look(processor);
    /* While fibers are due, a fiber from the inject queue goes to the tail of the ring: there must
     * be room for it, and for more due fibers. */
    if (due_count(processor) > 0 && ring_length(processor) > RING_SIZE - 2 * DUE_ROOM &&
        weft__inject_length() > 0)
        return NULL;
    processor->epoch = epoch;
    if (weft__inject_length() == 0)
        return NULL;
    uint64_t ticks = weft__os_ticks();
    struct weft_fiber *fiber = late || (processor->yielded && round_is_due(processor, ticks))
                                   ? turn_over(processor, ticks)
                                   : take_one(processor);
    if (fiber == NULL || due_count(processor) == 0)
        return fiber;
    weft__enqueue(processor, fiber);
    return NULL;
}
