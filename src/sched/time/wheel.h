/*
 * wheel.h: a hierarchical timing wheel: add, remove and fire cost the same with ten timers and with
 * a million.
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
    WHEEL_AHEAD = 8,
    WHEEL_LEVELS = 9, /* 54 bits of ticks: all of an int64_t of nanoseconds */
    WHEEL_WORK = 128, /* timers that one hold of the latch moves, and slots that it begins */
    WHEEL_WAITS = 8,  /* holds for which the hand waits for a slot that has more */
};

#define WHEEL_EMPTY INT64_MAX

/* A timer; part of something larger. The one who arms it keeps it alive until it has fired or is
 * disarmed. Zero-initialised is disarmed. */
struct timer {
    struct timer *next;
    struct timer **link; /* what points at this timer; NULL: not armed */
    struct wheel *wheel; /* where it is armed, or was last */
    int64_t deadline;
    uint16_t slot; /* level * WHEEL_SLOTS + index; of no use when it is due */
    uint8_t kind;  /* the owner's, to know what it is when it fires */
    uint8_t noted; /* its place among wheel->armed */
    int32_t ahead; /* lines from here to the one armed WHEEL_AHEAD after it: for fetching */
};

struct wheel {
    struct latch latch;
    atomic_i64 next; /* no timer needs attention before this time; WHEEL_EMPTY if there is none */
    uint64_t tick;   /* the hand: all slots that begin up to this tick have begun */
    uint32_t
        waited; /* holds of the latch for which the hand has waited for a slot to be dealt out */
    uint32_t dealing; /* levels whose slot has begun and is not dealt out yet: a bit for each */
    struct timer *due, **due_end;     /* first come, first served */
    struct timer *armed[WHEEL_AHEAD]; /* last, in turn; NULL: not any more */
    uint32_t armed_next;
    uint64_t occupied[WHEEL_LEVELS]; /* a bit for each slot that is not empty */
    struct wheel_slot {
        struct timer *first, **end; /* first come, first served */
        uint64_t earliest;          /* tick; no timer in the slot is earlier */
    } slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void weft__wheel_init(struct wheel *wheel, int64_t now);

/* Arms a timer that is not armed. */
void weft__wheel_arm(struct wheel *wheel, struct timer *timer, int64_t deadline);

/* The same, under the wheel's latch. */
void weft__wheel_arm_locked(struct wheel *wheel, struct timer *timer, int64_t deadline);

/* Disarms the timer wherever it is armed. True if that came before its firing; if not, its firing
 * is over when this returns. The caller must be the only one to arm or disarm it. */
bool weft__wheel_disarm(struct timer *timer);

/* Fires what is due at `now`, at most `budget` timers: calls fire(timer, context) with the wheel
 * locked and the timer disarmed. It must not touch any wheel. Returns the number fired. */
uint32_t weft__wheel_fire(struct wheel *wheel, int64_t now, uint32_t budget,
                          void (*fire)(struct timer *timer, void *context), void *context);

/* The same to the nanosecond, for a clock that moves by jumps only (seeded.c): if nothing is due at
 * *now, and `jump`, *now becomes the earliest deadline that there is. */
uint32_t weft__wheel_fire_exact(struct wheel *wheel, int64_t *now, bool jump, uint32_t budget,
                                void (*fire)(struct timer *timer, void *context), void *context);

#endif
