/*
 * wheel.c: the timing wheel.
 *
 * Time is cut into ticks of 4.096 us. A timer's tick is its deadline rounded up, so it never fires
 * early, and a tick late at most. Level 0 has a slot for each of the next 63 ticks; level 1 a slot for
 * each of the next 63 rounds of 64 ticks; and so on. A timer goes to the level of its distance from the
 * hand, or, if its slot there is the one that the hand is in, to the next: so the occupied slots of a level
 * are 1 to 63 steps ahead of the hand, and one bit scan from the hand on finds the next.
 *
 * Advancing jumps from one occupied slot to the next over any distance. When the hand reaches the
 * beginning of a slot of level 0 that is due; a slot of a higher level is dealt out to the levels below it,
 * the highest first of those that begin there: each timer is moved at most once a level, and only over the
 * levels that its distance spans. With many fibers asleep that is when their records are first touched
 * again, one after the other along a list, each a cache miss. So a timer knows the one that was armed a few after it,
 * which is as far down the list if all sleep equally long: that one, and the line of its fiber's context, are fetched
 * while this one is moved. Who is armed tells that to the one before, if that is still armed: `armed` holds the last few, and
 * whoever is disarmed or fires leaves it.
 *
 * A slot may hold a million timers, and to move one that is not in the cache takes up to a microsecond. So one hold
 * of the latch moves WHEEL_WORK timers at most, and others get the latch and the processor in between. A slot above
 * level 0 is then one of three:
 *
 *     ahead     1 to 63 steps from the hand: timers are added and removed
 *     dealing   the hand is in it, and it is not empty: its bit in `dealing` is set. Timers are only taken out. `next`
 *               is 0: somebody goes on with it
 *     empty     whatever was left when the hand went on is due, since all of its time is over: one splice
 *
 * The hand waits for a slot that is being dealt out, so that all fire in the order of their ticks; but for WHEEL_WAITS
 * holds at most, some thousand timers. If that is not enough it goes on, or a ticker beside a million timers would
 * miss 30 ms: each firing then moves the hand first, and last deals out what is left, the lowest level (the soonest)
 * first. Timers of that slot which become due meanwhile are late by what the dealing takes, as they would be if it
 * were done in one go, and come behind others that were due after them.
 *
 * A list does not tell in which slot its last timer is, but that one's `next` is either what `due_end` points at, or
 * the end of the slot that the timer has noted.
 *
 * Order: timers of the same slot keep the order in which they were armed, through all levels and parts.
 *
 * A wheel belongs to a processor, but anyone may lock it: a fiber that was woken elsewhere disarms
 * its timer, an idle machine fires the timers of a busy processor. Firing happens under the lock,
 * so one who disarms knows afterwards that the timer either never fires or has fired completely.
 *
 * Lock order: whatever a parked waiter's object is locked by, then the wheel. Nothing is locked
 * under a wheel.
 *
 * Rejected: a heap (20 cache misses a timer with a million in it); a wheel that does not deal out
 * (Linux: late by an eighth of the distance); a hand that never waits for a slot that is
 * dealt out in parts (64 timers that are late together fired in the wrong order); one wheel for all processors (its lock is on every
 * sleep); the level of the highest bits in which tick and hand differ (one scan finds the first slot of
 * all levels, but most sleeps of 10 ms cross the end of a round of rounds, are moved once more, with all
 * others that do, and cold: 1.1 times the time of a million sleeps).
 */
#include "sched/time/wheel.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/latch.h"

enum { BEFORE = 64 }; /* bytes: the line before a fiber's timer has its context */

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
    if (wheel->armed[timer->noted] == timer)
        wheel->armed[timer->noted] = NULL;
}

/* Puts the timer where it belongs, given the wheel's tick. */
static void place(struct wheel *wheel, struct timer *timer, uint64_t tick)
{
    if (tick <= wheel->tick) {
        link_last(&wheel->due_end, timer);
        return;
    }
    unsigned level = (63 - (unsigned)__builtin_clzll(tick - wheel->tick)) / WHEEL_BITS;
    unsigned shift = level * WHEEL_BITS;
    if (unlikely((tick >> shift) - (wheel->tick >> shift) == WHEEL_SLOTS))
        shift = ++level * WHEEL_BITS; /* its slot there is where the hand is */
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

/* The next occupied slot of a level, or NULL; *start is the tick at which its time begins. */
static struct wheel_slot *next_slot(struct wheel *wheel, unsigned level, uint64_t *start)
{
    uint64_t occupied = wheel->occupied[level];
    if (occupied == 0)
        return NULL;
    unsigned shift = level * WHEEL_BITS;
    uint64_t after = (wheel->tick >> shift) + 1;
    unsigned turn = after % WHEEL_SLOTS;
    occupied = occupied >> turn | occupied << (-turn % WHEEL_SLOTS);
    occupied &= UINT64_MAX >> 1; /* not the one that the hand is in: it has begun */
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
    int64_t next = wheel->due != NULL || wheel->dealing != 0 ? 0 : WHEEL_EMPTY;
    if (next != 0 && earliest != UINT64_MAX)
        next = time_of_tick(earliest);
    atomic_i64_store_relaxed(&wheel->next, next);
}

static void fetch_ahead(const struct timer *timer)
{
    uintptr_t ahead = (uintptr_t)timer + (uintptr_t)((intptr_t)timer->ahead * FETCH_LINE);
    fetch_line((const void *)ahead);
    fetch_line((const void *)(ahead - BEFORE));
}

static void note_empty(struct wheel *wheel, unsigned level, unsigned index)
{
    wheel->slots[level][index].first = NULL;
    wheel->occupied[level] &= ~((uint64_t)1 << index);
}

/* The whole list of a slot is due. */
static void add_due(struct wheel *wheel, unsigned level, unsigned index)
{
    struct wheel_slot *slot = &wheel->slots[level][index];
    slot->first->link = wheel->due_end;
    *wheel->due_end = slot->first;
    wheel->due_end = slot->end;
    note_empty(wheel, level, index);
}

/* Deals out the slot of a level that the hand is in, as far as the work goes. */
static void deal(struct wheel *wheel, unsigned level, uint32_t *work)
{
    unsigned index = index_of_hand(wheel, level);
    struct wheel_slot *slot = &wheel->slots[level][index];
    struct timer *timer = slot->first;
    for (struct timer *next; timer != NULL && *work > 0; timer = next, --*work) {
        next = timer->next;
        fetch_ahead(timer);
        place(wheel, timer, tick_of_deadline(timer->deadline));
    }
    if (timer == NULL) {
        note_empty(wheel, level, index);
        wheel->dealing &= ~(1u << level);
    } else {
        slot->first = timer;
        timer->link = &slot->first;
        wheel->dealing |= 1u << level;
    }
}

/* The hand goes on. What is left in a slot that it leaves is due. */
static void move_hand(struct wheel *wheel, uint64_t tick)
{
    for (uint32_t rest = wheel->dealing; rest != 0; rest &= rest - 1) {
        unsigned level = (unsigned)__builtin_ctz(rest), shift = level * WHEEL_BITS;
        if (wheel->tick >> shift == tick >> shift)
            break; /* nor does it leave one of the higher levels */
        add_due(wheel, level, index_of_hand(wheel, level));
        wheel->dealing &= ~(1u << level);
    }
    wheel->tick = tick;
}

static bool is_occupied(const struct wheel *wheel, unsigned level)
{
    return (wheel->occupied[level] >> index_of_hand(wheel, level) & 1) != 0;
}

/* Moves the hand to where some slots begin, and deals those out, the highest first. */
static void begin_slots(struct wheel *wheel, uint64_t start, uint32_t *work)
{
    move_hand(wheel, start);
    for (unsigned level = WHEEL_LEVELS; level-- > 1;)
        if (is_occupied(wheel, level) && !(wheel->dealing >> level & 1))
            deal(wheel, level, work);
    if (is_occupied(wheel, 0))
        add_due(wheel, 0, index_of_hand(wheel, 0));
}

static void deal_rest(struct wheel *wheel, uint32_t *work)
{
    while (wheel->dealing != 0 && *work > 0)
        deal(wheel, (unsigned)__builtin_ctz(wheel->dealing), work);
}

/* Moves the hand to `tick`, or as far as the work goes; all that is due on the way goes to `due`. */
static void advance(struct wheel *wheel, uint64_t tick, uint32_t work)
{
    uint64_t start;
    if (wheel->dealing != 0 && wheel->waited < WHEEL_WAITS) {
        wheel->waited++;
        deal_rest(wheel, &work);
        if (wheel->dealing != 0)
            return;
    }
    if (wheel->dealing == 0)
        wheel->waited = 0;
    while ((start = first_start(wheel)) <= tick && work > 0) {
        work--;
        begin_slots(wheel, start, &work);
        if (wheel->dealing != 0 && wheel->waited < WHEEL_WAITS)
            return;
    }
    if (start > tick && wheel->tick < tick)
        move_hand(wheel, tick);
    deal_rest(wheel, &work);
}

/* Tells the one that was armed a few before. */
static void note_ahead(struct wheel *wheel, struct timer *timer)
{
    uint8_t place = (uint8_t)(wheel->armed_next++ % WHEEL_AHEAD);
    struct timer *before = wheel->armed[place];
    if (before != NULL)
        before->ahead = (int32_t)((uintptr_t)timer / FETCH_LINE - (uintptr_t)before / FETCH_LINE);
    wheel->armed[place] = timer;
    timer->noted = place;
    timer->ahead = 0;
}

void weft__wheel_arm_locked(struct wheel *wheel, struct timer *timer, int64_t deadline)
{
    should(timer->link == NULL);
    uint64_t tick = tick_of_deadline(deadline);
    timer->deadline = deadline;
    timer->wheel = wheel;
    note_ahead(wheel, timer);
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
                wheel->dealing &= ~(1u << level);
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
        fetch_ahead(timer);
        take_out(wheel, timer);
        fire(timer, context);
        fired++;
    }
    publish_next(wheel);
    latch_release(&wheel->latch);
    return fired;
}

/* The earliest deadline that is due by the hand; INT64_MAX if none is. */
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
    /* The hand is ahead of the clock by less than a tick: what is due by the clock is due by the hand. */
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
