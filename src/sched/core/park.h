/*
 * park.h: how a fiber or thread waits. Every primitive of the upper floors is a lock, a list of
 * waiters, and four calls: begin and park; on the side of the waker, claim and wake.
 *
 *     lock object
 *     waiter = weft__waiter_begin(&own)   the running fiber's waiter; on a thread, own
 *     put waiter in the object's list
 *     result = weft__park(waiter, what, unlock, object, deadline)
 *     if (wait_gave_up(result))           the clock or a context ended the wait: the waiter is
 *         lock object                     still in the list, unless a waker has taken it out
 *         take waiter out, if it is still there
 *         unlock object
 *
 *     lock object                         the waker
 *     take a waiter out of the list
 *     won = waiter_claim(waiter, 0)
 *     unlock object
 *     if (won)
 *         weft__wake(waiter)
 *
 * Invariants:
 *  - Exactly one party claims a waiter: the waker of the object, the clock, or the context that
 *    the waiter's fiber or thread is bound to (sched/core/cancel.h). The party that wins, and only
 *    it, wakes the waiter.
 *  - A waker claims a waiter only under the lock of the object whose list the waiter is in; the
 *    clock only under the lock of the wheel; a context only under its latch. (If the context was
 *    cancelled before, the code that finishes the park claims the waiter.) A wait that gave up
 *    takes the object's lock before it returns. So no waker and no clock holds a pointer to a
 *    waiter that has begun its next wait. A context may, since it may claim any wait that is open
 *    to it.
 *  - `unlock` runs after the fiber's context is saved, because a thread that can find the waiter
 *    can also run the fiber. No thread can find it before: only then is the object unlocked, the
 *    deadline armed, and the state set that a context may claim.
 *
 * States. Which parties may claim a waiter decides what a claim costs:
 *
 *     SOLE     one party: the object, under its lock, or without an object the clock: a plain store
 *     SHARED   the clock too, or one of several objects: a compare-and-swap
 *     OPEN     a context too
 *     CLAIMED  a party has won, and will wake the waiter
 *     WOKEN    threads only: what the futex waits for
 *
 * A fiber's waiter is part of its record, never on its stack: a fiber waits for one thing at a
 * time. A thread's waiter is a local variable of the call that waits, so waiting needs no memory
 * and cannot fail.
 */
#ifndef WEFT_SCHED_CORE_PARK_H
#define WEFT_SCHED_CORE_PARK_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

enum waiter_state {
    WAITER_SOLE = 1,
    WAITER_SHARED,
    WAITER_OPEN,
    WAITER_CLAIMED,
    WAITER_WOKEN,
};

/* What a wait is for, as reports say it. Each file that waits defines its own kinds:
 *
 *     static WAIT_KIND(wait_mutex, .text = "locks a mutex");
 *     ...
 *     weft__park(waiter, wait_id(&wait_mutex) | WAIT_FIRM, ...);
 *
 * The linker puts all kinds in one table. A waiter has room for an index into it, not for an
 * address. So this floor need not know what the floors above wait for. */
struct wait_kind {
    char text[62];  /* completes a sentence: "fiber 17 ..." */
    bool anonymous; /* the address of the object says nothing to a reader */
    bool external;  /* ended from outside of weft: a thread in this wait is no part of a deadlock */
};
_Static_assert(sizeof(struct wait_kind) == 64, "no gaps between the kinds of different files");
extern const struct wait_kind weft__wait_kinds[] __asm__("__start_weft_wait_kinds");
#define WAIT_KIND(name, ...) \
    const struct wait_kind name __attribute__((section("weft_wait_kinds"), used)) = {__VA_ARGS__}

static inline uint32_t wait_id(const struct wait_kind *kind)
{
    return (uint32_t)(((uintptr_t)kind - (uintptr_t)weft__wait_kinds) / sizeof *kind);
}

/* Flags, added to the index of the kind. */
enum {
    WAIT_KIND_MASK = 0xff,
    WAIT_FIRM = 0x100,     /* no context ends this wait */
    WAIT_SHARED = 0x200,   /* more than one object may wake it */
    WAIT_NOTIFIED = 0x400, /* before_park (fiber.h) has been called, and must not be again */
};

struct waiter {
    struct waiter *next, *previous; /* for the object's list */
    atomic_u32 state;
    int16_t result; /* what the park returns; set by the party that claims */
    bool is_fiber;  /* part of a fiber's record; else a thread's */
    uint8_t what;   /* index of the wait's kind */
};

/* Parks the caller until it is woken, the deadline has passed, or (unless WAIT_FIRM is set) the
 * context that it is bound to is cancelled. `unlock` may be NULL; else it is called with `object`,
 * in any case. Returns the result that the waker has given, or -ETIMEDOUT or -ECANCELED, which no
 * waker gives. `waiter` comes from weft__waiter_begin. A calling fiber must have entered the
 * runtime. */
int weft__park(struct waiter *waiter, uint32_t what, void (*unlock)(void *object), void *object,
               int64_t deadline);

/* True if the clock or a context ended the wait, not a waker of the object. */
static inline bool wait_gave_up(int result)
{
    return result == -ETIMEDOUT || result == -ECANCELED;
}

/* Claims a waiter and sets its result; false if another party has claimed it. Called under the lock
 * of the object that the waiter waits for. */
static inline bool waiter_claim(struct waiter *waiter, int result)
{
    uint32_t state = atomic_u32_load_relaxed(&waiter->state);
    if (state == WAITER_SOLE)
        atomic_u32_store_relaxed(&waiter->state, WAITER_CLAIMED);
    else if (state >= WAITER_CLAIMED ||
             !atomic_u32_cas_acq_rel(&waiter->state, &state, WAITER_CLAIMED))
        return false; /* only one compare-and-swap succeeds, and the state only grows to CLAIMED */
    waiter->result = (int16_t)result;
    return true;
}

/* Wakes a waiter that the caller has claimed; a fiber runs next on this processor. A calling fiber
 * must have entered the runtime. */
void weft__wake(struct waiter *waiter);
/* Wakes a waiter that the caller has claimed; a fiber goes to the end of this processor's ring. */
void weft__wake_behind(struct waiter *waiter);

static inline const struct wait_kind *wait_kind_of(const struct waiter *waiter)
{
    return &weft__wait_kinds[waiter->what];
}

#endif
