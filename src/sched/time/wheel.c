/*
 * wheel.c: the timing wheel.
 *
 * Time is divided into ticks of 4.096 us. A timer's tick is its deadline rounded up, so it never
 * fires early, and at most a tick late. Level 0 has a slot for each of the next 63 ticks, level 1
 * a slot for each of the next 63 rounds of 64 ticks, and so on. The hand is the tick up to which
 * all slots have begun. A timer goes to the level of its distance from the hand; or to the next
 * level, if its slot would be the one that the hand is in. So the occupied slots of a level are 1
 * to 63 steps ahead of the hand, and one bit scan from the hand finds the next one.
 *
 * Advancing jumps from one occupied slot to the next over any distance. When the hand reaches the
 * beginning of a slot of level 0, the slot is due. A slot of a higher level is cascaded: its
 * timers move to lower levels, the highest level first if several begin there. So each timer moves
 * at most once a level, and only over the levels that its distance spans.
 *
 * Prefetch. With many sleeping fibers a cascade touches their records for the first time in a
 * while, along a list, and each is a cache miss. So each timer knows the one that was armed
 * WHEEL_PREFETCH after it, which is as far down the list if all sleep equally long. That timer,
 * and the line of its fiber's context, are prefetched while this one moves. When a timer is armed,
 * its distance is stored in the one armed before, if that is still armed: `recent` holds the last
 * few, and a timer that is disarmed or fires leaves it.
 *
 * Parts. A slot may hold a million timers, and to move one that is not in the cache takes up to a
 * microsecond. So one hold of the latch moves at most WHEEL_WORK timers, and in between other
 * threads get the latch, and other fibers the processor. A slot above level 0 is in one of three
 * states:
 *
 *     ahead      1 to 63 steps from the hand: timers are added and removed
 *     cascading  the hand is in it, it is not empty, and its bit in `cascading` is set. Timers are
 *                only removed. wheel->next is 0, so that some machine continues the cascade.
 *     empty      timers that were left when the hand moved on are due, since all of the slot's time
 *                is over: one splice moves them
 *
 * The hand waits for a slot that cascades, so that all timers fire in the order of their ticks;
 * but for at most WHEEL_WAITS holds, or about a thousand timers. Then it moves on; otherwise a
 * ticker beside a million timers would miss 30 ms. From then on each firing first moves the hand,
 * and last cascades what is left, the lowest level (the soonest timers) first. Timers of that slot
 * which become due meanwhile are late by the time of the cascade, as they would be if it were done
 * at once, and come behind others that were due after them.
 *
 * A list does not tell in which slot its last timer is. But that timer's `next` is either what
 * `due_end` points at, or the end of the slot that the timer has stored.
 *
 * Order: timers of the same slot keep the order in which they were armed, through all levels and
 * parts.
 *
 * A wheel belongs to a processor, but any thread may lock it: a fiber that was woken elsewhere
 * disarms its timer, an idle machine fires the timers of a busy processor. Firing happens under
 * the latch. So after weft__wheel_disarm the timer either never fires or has fired completely.
 *
 * Lock order: the lock of the object that a waiter waits for, then the wheel. No lock is taken
 * under that of a wheel.
 *
 * Rejected:
 *  - a heap: 20 cache misses a timer with a million timers in it
 *  - a wheel that does not cascade (Linux): late by an eighth of the distance
 *  - a hand that never waits for a slot that cascades in parts: 64 timers that were late together
 *    fired in the wrong order
 *  - one wheel for all processors: its latch would be taken by every sleep
 *  - the level of the highest bits in which tick and hand differ: one scan finds the first slot of
 *    all levels, but most sleeps of 10 ms cross the end of a round of rounds, and move once more
 *    then, cold, with all others that do: 1.1 times the time of a million sleeps
 */
#include "sched/time/wheel.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/latch.h"

enum { BEFORE = 64 }; /* bytes: in a fiber's record the context is a line before the timer */

static uint64_t tick_of_deadline(int64_t deadline)
{
    if (deadline <= 0)
        return 0;
    return ((uint64_t)deadline + (1u << WHEEL_SHIFT) - 1) >> WHEEL_SHIFT;
}

static int64_t time_of_tick(uint64_t tick)
{
    return tick > (uint64_t)INT64_MAX >> WHEEL_SHIFT ? INT64_MAX - 1
                                                     : (int64_t)(tick << WHEEL_SHIFT);
}

void weft__wheel_init(struct wheel *wheel, int64_t now)
{
    *wheel = (struct wheel){.tick = (uint64_t)now >> WHEEL_SHIFT};
    wheel->due_end = &wheel->due;
    atomic_i64_store_relaxed(&wheel->next, WHEEL_EMPTY);
}

static void link_last(struct timer ***end, struct timer *timer)
{
    timer->next = NULL;
    timer->link = *end;
    **end = timer;
    *end = &timer->next;
}

static struct wheel_slot *slot_of(struct wheel *wheel, const struct timer *timer)
{
    return &wheel->slots[timer->slot / WHEEL_SLOTS][timer->slot % WHEEL_SLOTS];
}

static void take_out(struct wheel *wheel, struct timer *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL)
        timer->next->link = timer->link;
    else if (wheel->due_end == &timer->next)
        wheel->due_end = timer->link;
    else
        slot_of(wheel, timer)->end = timer->link;
    timer->link = NULL;
    if (wheel->recent[timer->recent] == timer)
        wheel->recent[timer->recent] = NULL;
}

/* Puts the timer into the slot of its tick, or among the due timers. */
static void place(struct wheel *wheel, struct timer *timer, uint64_t tick)
{
    if (tick <= wheel->tick) {
        link_last(&wheel->due_end, timer);
        return;
    }
    unsigned level = (63 - (unsigned)__builtin_clzll(tick - wheel->tick)) / WHEEL_BITS;
    unsigned shift = level * WHEEL_BITS;
    if (unlikely((tick >> shift) - (wheel->tick >> shift) == WHEEL_SLOTS))
        shift = ++level * WHEEL_BITS; /* the hand is in its slot there */
    unsigned index = (unsigned)(tick >> shift) % WHEEL_SLOTS;
    struct wheel_slot *slot = &wheel->slots[level][index];
    if (slot->first == NULL) {
        wheel->occupied[level] |= (uint64_t)1 << index;
        slot->end = &slot->first;
        slot->earliest = tick;
    } else if (tick < slot->earliest) {
        slot->earliest = tick;
    }
    timer->slot = (uint16_t)(level * WHEEL_SLOTS + index);
    link_last(&slot->end, timer);
}

/* The index of the slot of a level that the hand is in. */
static unsigned index_of_hand(const struct wheel *wheel, unsigned level)
{
    return (unsigned)(wheel->tick >> (level * WHEEL_BITS)) % WHEEL_SLOTS;
}

/* The next occupied slot of a level, or NULL; *start is the tick at which it begins. */
static struct wheel_slot *next_slot(struct wheel *wheel, unsigned level, uint64_t *start)
{
    uint64_t occupied = wheel->occupied[level];
    if (occupied == 0)
        return NULL;
    unsigned shift = level * WHEEL_BITS;
    uint64_t after = (wheel->tick >> shift) + 1;
    unsigned turn = after % WHEEL_SLOTS;
    occupied = occupied >> turn | occupied << (-turn % WHEEL_SLOTS);
    occupied &= UINT64_MAX >> 1; /* not the slot that the hand is in, which has begun */
    if (occupied == 0)
        return NULL;
    uint64_t position = after + (unsigned)__builtin_ctzll(occupied);
    *start = position << shift;
    return &wheel->slots[level][position % WHEEL_SLOTS];
}

/* The tick at which the first of all occupied slots begins; UINT64_MAX if there is none. */
static uint64_t first_start(struct wheel *wheel)
{
    uint64_t first = UINT64_MAX, start;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        if (next_slot(wheel, level, &start) != NULL && start < first)
            first = start;
    return first;
}

static void publish_next(struct wheel *wheel)
{
    uint64_t start, earliest = UINT64_MAX;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        const struct wheel_slot *slot = next_slot(wheel, level, &start);
        if (slot != NULL && slot->earliest < earliest)
            earliest = slot->earliest;
    }
    int64_t next = wheel->due != NULL || wheel->cascading != 0 ? 0 : WHEEL_EMPTY;
    if (next != 0 && earliest != UINT64_MAX)
        next = time_of_tick(earliest);
    atomic_i64_store_relaxed(&wheel->next, next);
}

static void prefetch_later(const struct timer *timer)
{
    uintptr_t ahead = (uintptr_t)timer + (uintptr_t)((intptr_t)timer->prefetch * FETCH_LINE);
    fetch_line((const void *)ahead);
    fetch_line((const void *)(ahead - BEFORE));
}

static void note_empty(struct wheel *wheel, unsigned level, unsigned index)
{
    wheel->slots[level][index].first = NULL;
    wheel->occupied[level] &= ~((uint64_t)1 << index);
}

/* Makes all timers of a slot due. */
static void add_due(struct wheel *wheel, unsigned level, unsigned index)
{
    struct wheel_slot *slot = &wheel->slots[level][index];
    slot->first->link = wheel->due_end;
    *wheel->due_end = slot->first;
    wheel->due_end = slot->end;
    note_empty(wheel, level, index);
}

/* Cascades the slot of a level that the hand is in, as far as *work allows. */
static void cascade(struct wheel *wheel, unsigned level, uint32_t *work)
{
    unsigned index = index_of_hand(wheel, level);
    struct wheel_slot *slot = &wheel->slots[level][index];
    struct timer *timer = slot->first;
    for (struct timer *next; timer != NULL && *work > 0; timer = next, --*work) {
        next = timer->next;
        prefetch_later(timer);
        place(wheel, timer, tick_of_deadline(timer->deadline));
    }
    if (timer == NULL) {
        note_empty(wheel, level, index);
        wheel->cascading &= ~(1u << level);
    } else {
        slot->first = timer;
        timer->link = &slot->first;
        wheel->cascading |= 1u << level;
    }
}

/* Moves the hand. The timers that are left in a slot that it leaves are due. */
static void move_hand(struct wheel *wheel, uint64_t tick)
{
    for (uint32_t rest = wheel->cascading; rest != 0; rest &= rest - 1) {
        unsigned level = (unsigned)__builtin_ctz(rest), shift = level * WHEEL_BITS;
        if (wheel->tick >> shift == tick >> shift)
            break; /* nor does it leave a slot of a higher level */
        add_due(wheel, level, index_of_hand(wheel, level));
        wheel->cascading &= ~(1u << level);
    }
    wheel->tick = tick;
}

static bool is_occupied(const struct wheel *wheel, unsigned level)
{
    return (wheel->occupied[level] >> index_of_hand(wheel, level) & 1) != 0;
}

/* Moves the hand to the beginning of one or more slots, and cascades them, the highest level
 * first. */
static void begin_slots(struct wheel *wheel, uint64_t start, uint32_t *work)
{
    move_hand(wheel, start);
    for (unsigned level = WHEEL_LEVELS; level-- > 1;)
        if (is_occupied(wheel, level) && !(wheel->cascading >> level & 1))
            cascade(wheel, level, work);
    if (is_occupied(wheel, 0))
        add_due(wheel, 0, index_of_hand(wheel, 0));
}

static void cascade_rest(struct wheel *wheel, uint32_t *work)
{
    while (wheel->cascading != 0 && *work > 0)
        cascade(wheel, (unsigned)__builtin_ctz(wheel->cascading), work);
}

/* Moves the hand to `tick`, or as far as `work` allows; timers whose tick it passes become due. */
static void advance(struct wheel *wheel, uint64_t tick, uint32_t work)
{
    uint64_t start;
    if (wheel->cascading != 0 && wheel->waited < WHEEL_WAITS) {
        wheel->waited++;
        cascade_rest(wheel, &work);
        if (wheel->cascading != 0)
            return;
    }
    if (wheel->cascading == 0)
        wheel->waited = 0;
    while ((start = first_start(wheel)) <= tick && work > 0) {
        work--;
        begin_slots(wheel, start, &work);
        if (wheel->cascading != 0 && wheel->waited < WHEEL_WAITS)
            return;
    }
    if (start > tick && wheel->tick < tick)
        move_hand(wheel, tick);
    cascade_rest(wheel, &work);
}

/* Stores the distance to this timer in the one that was armed WHEEL_PREFETCH before. */
static void note_recent(struct wheel *wheel, struct timer *timer)
{
    uint8_t place = (uint8_t)(wheel->recent_next++ % WHEEL_PREFETCH);
    struct timer *before = wheel->recent[place];
    if (before != NULL)
        before->prefetch =
            (int32_t)((uintptr_t)timer / FETCH_LINE - (uintptr_t)before / FETCH_LINE);
    wheel->recent[place] = timer;
    timer->recent = place;
    timer->prefetch = 0;
}

void weft__wheel_arm_locked(struct wheel *wheel, struct timer *timer, int64_t deadline)
{
    should(timer->link == NULL);
    uint64_t tick = tick_of_deadline(deadline);
    timer->deadline = deadline;
    timer->wheel = wheel;
    note_recent(wheel, timer);
    place(wheel, timer, tick);
    int64_t time = time_of_tick(tick);
    if (time < atomic_i64_load_relaxed(&wheel->next))
        atomic_i64_store_relaxed(&wheel->next, time);
}

void weft__wheel_arm(struct wheel *wheel, struct timer *timer, int64_t deadline)
{
    latch_acquire(&wheel->latch);
    weft__wheel_arm_locked(wheel, timer, deadline);
    latch_release(&wheel->latch);
}

bool weft__wheel_disarm(struct timer *timer)
{
    struct wheel *wheel = timer->wheel;
    if (wheel == NULL)
        return false;
    latch_acquire(&wheel->latch);
    bool armed = timer->link != NULL;
    if (armed) {
        take_out(wheel, timer);
        unsigned level = timer->slot / WHEEL_SLOTS, index = timer->slot % WHEEL_SLOTS;
        if ((wheel->occupied[level] >> index & 1) && wheel->slots[level][index].first == NULL) {
            note_empty(wheel, level, index);
            if (index == index_of_hand(wheel, level))
                wheel->cascading &= ~(1u << level);
            publish_next(wheel);
        }
    }
    latch_release(&wheel->latch);
    return armed;
}

uint32_t weft__wheel_fire(struct wheel *wheel, int64_t now, uint32_t budget,
                          void (*fire)(struct timer *timer, void *context), void *context)
{
    uint32_t fired = 0;
    latch_acquire(&wheel->latch);
    advance(wheel, (uint64_t)now >> WHEEL_SHIFT, WHEEL_WORK);
    while (wheel->due != NULL && fired < budget) {
        struct timer *timer = wheel->due;
        prefetch_later(timer);
        take_out(wheel, timer);
        fire(timer, context);
        fired++;
    }
    publish_next(wheel);
    latch_release(&wheel->latch);
    return fired;
}

/* The earliest deadline of the due timers; INT64_MAX if there are none. */
static int64_t earliest_due(const struct wheel *wheel)
{
    int64_t earliest = INT64_MAX;
    for (const struct timer *timer = wheel->due; timer != NULL; timer = timer->next)
        if (timer->deadline < earliest)
            earliest = timer->deadline;
    return earliest;
}

uint32_t weft__wheel_fire_exact(struct wheel *wheel, int64_t *now, bool jump, uint32_t budget,
                                void (*fire)(struct timer *timer, void *context), void *context)
{
    uint32_t fired = 0;
    latch_acquire(&wheel->latch);
    /* The hand is ahead of the clock by less than a tick, so no timer due by the clock is
     * missed. */
    advance(wheel, tick_of_deadline(*now), UINT32_MAX);
    if (jump && earliest_due(wheel) > *now) {
        for (uint64_t start; wheel->due == NULL && (start = first_start(wheel)) != UINT64_MAX;)
            advance(wheel, start, UINT32_MAX);
        if (wheel->due != NULL)
            *now = earliest_due(wheel);
    }
    for (struct timer *timer = wheel->due, *next; timer != NULL && fired < budget; timer = next) {
        next = timer->next;
        if (timer->deadline > *now)
            continue;
        take_out(wheel, timer);
        fire(timer, context);
        fired++;
    }
    publish_next(wheel);
    latch_release(&wheel->latch);
    return fired;
}
