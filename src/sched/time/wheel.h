/*
 * wheel.h: a hierarchical timing wheel: arming, disarming and firing a timer cost the same with
 * ten timers and with a million. See wheel.c.
 */
#ifndef WEFT_SCHED_TIME_WHEEL_H
#define WEFT_SCHED_TIME_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "os/latch.h"

enum {
    WHEEL_SHIFT = 12, /* a tick is 4.096 us */
    WHEEL_BITS = 6,
    WHEEL_SLOTS = 1 << WHEEL_BITS,
    WHEEL_PREFETCH = 8, /* a timer prefetches the one that was armed so many after it */
    WHEEL_LEVELS = 9,   /* 54 bits of ticks: all of an int64_t of nanoseconds */
    WHEEL_WORK = 128,   /* timers that one hold of the latch moves, plus slots that it begins */
    WHEEL_WAITS = 8,    /* holds for which the hand waits for a slot that cascades */
};

#define WHEEL_EMPTY INT64_MAX

/* A timer, embedded in a larger object, which must live until the timer has fired or is disarmed. A
 * zero-initialised timer is disarmed. */
struct timer {
    struct timer *next;
    struct timer **link; /* the pointer that points at this timer; NULL: not armed */
    struct wheel *wheel; /* where it is armed, or was last */
    int64_t deadline;
    uint16_t slot;  /* level * WHEEL_SLOTS + index; stale when the timer is due */
    uint8_t kind;   /* enum timer_kind (firing.h): what the timer is part of */
    uint8_t recent; /* its index in wheel->recent */
    /* Distance in cache lines to the timer that was armed WHEEL_PREFETCH later; 0: none. */
    int32_t prefetch;
};

struct wheel {
    struct latch latch;
    atomic_i64 next; /* no firing is needed before this time; WHEEL_EMPTY: no timer is armed */
    uint64_t tick;   /* the hand: all slots that begin up to this tick have begun */
    uint32_t waited; /* holds of the latch for which the hand has waited for a cascade */
    /* Bit set of the levels whose slot at the hand is not cascaded completely. */
    uint32_t cascading;
    struct timer *due, **due_end;         /* timers whose tick has come, in order */
    struct timer *recent[WHEEL_PREFETCH]; /* the last to be armed, as a ring; NULL: disarmed */
    uint32_t recent_next;
    uint64_t occupied[WHEEL_LEVELS]; /* bit sets of the slots that are not empty */
    struct wheel_slot {
        struct timer *first, **end; /* in the order of arming */
        uint64_t earliest;          /* a tick; no timer in the slot has an earlier one */
    } slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void weft__wheel_init(struct wheel *wheel, int64_t now);

/* Arms a timer that is not armed. Takes the latch. */
void weft__wheel_arm(struct wheel *wheel, struct timer *timer, int64_t deadline);

/* Arms a timer that is not armed, under the wheel's latch. */
void weft__wheel_arm_locked(struct wheel *wheel, struct timer *timer, int64_t deadline);

/* Disarms the timer on the wheel that it is armed on. True: it will not fire. False: it was not
 * armed, or its firing is over. Only one thread at a time may arm or disarm a timer. */
bool weft__wheel_disarm(struct timer *timer);

/* Fires at most `budget` of the timers that are due at `now`: calls fire(timer, context) under the
 * latch, with the timer disarmed. `fire` must not touch any wheel. Returns the number of timers
 * fired. */
uint32_t weft__wheel_fire(struct wheel *wheel, int64_t now, uint32_t budget,
                          void (*fire)(struct timer *timer, void *context), void *context);

/* Fires like weft__wheel_fire, but to the nanosecond, for a virtual clock that only moves by jumps
 * (seeded.c). If no timer is due at *now, and `jump` is set, *now becomes the earliest deadline. */
uint32_t weft__wheel_fire_exact(struct wheel *wheel, int64_t *now, bool jump, uint32_t budget,
                                void (*fire)(struct timer *timer, void *context), void *context);

#endif
