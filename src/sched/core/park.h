/*
 * park.h: how anything waits. Built so that every primitive of the upper floors is a lock, a list
 * of waiters, and three calls.
 *
 *     lock object
 *     waiter = weft__waiter_begin(&own)   the running fiber's, or on a thread, own
 *     put waiter in the object's list
 *     result = weft__park(waiter, what, unlock, object, deadline)
 *     if (wait_gave_up(result))           lost to the clock or a context: it is still in the list
 *         lock object; take waiter out, if it is still there; unlock
 *
 *     lock object                         and the other side
 *     take a waiter out of the list
 *     won = waiter_claim(waiter, 0)
 *     unlock object
 *     if (won)
 *         weft__wake(waiter)
 *
 * Invariants:
 *  - A waiter is claimed by exactly one party: the object's waker, the clock, or the context that
 *    its fiber is bound to (sched/core/cancel.h). The winner, and only it, wakes it.
 *  - A waiter is claimed by a waker only under the lock of the object whose list it is in, by the
 *    clock only under the lock of the wheel, by a context only under its latch (or, if that was
 *    cancelled before, by whoever finishes the park). One that gave up takes the object's lock before
 *    it returns. So nobody holds a pointer to a waiter that has moved on to its next wait; but for a
 *    context, which may claim any wait that is open to it.
 *  - `unlock` runs after the fiber's context is saved: whoever can find the waiter can also run it.
 *    Nobody finds it before: the object is locked, the deadline is armed and the state that a context
 *    may claim is set only then.
 *
 * States. How a waiter may be claimed decides what a claim costs:
 *
 *     SOLE     only by the object, under its lock, or if there is none, by the clock: a plain store
 *     SHARED   by the clock, or by one of several objects, as well: a compare-and-swap
 *     OPEN     by a context as well
 *     CLAIMED  won by somebody, who will wake it
 *     WOKEN    threads only: what the futex waits for
 *
 * A fiber's waiter is part of its record, never on its stack: a fiber waits for one thing at a
 * time. A thread's is a local variable of the call that waits, so that waiting needs no memory and
 * cannot fail.
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
 * The linker puts all of them in one table, and a waiter has the index: it has no room for an
 * address. So this floor need not know what the floors above wait for. */
struct wait_kind {
    char text[62];  /* completes a sentence: "fiber 17 ..." */
    bool anonymous; /* the address of the object says nothing to a reader */
    bool external;  /* ended from outside of weft: a thread in it is no part of a deadlock */
};
_Static_assert(sizeof(struct wait_kind) == 64, "no gaps between those of different files");
extern const struct wait_kind weft__wait_kinds[] __asm__("__start_weft_wait_kinds");
#define WAIT_KIND(name, ...) \
    const struct wait_kind name __attribute__((section("weft_wait_kinds"), used)) = {__VA_ARGS__}

static inline uint32_t wait_id(const struct wait_kind *kind)
{
    return (uint32_t)(((uintptr_t)kind - (uintptr_t)weft__wait_kinds) / sizeof *kind);
}

/* To be added to the index of the kind. */
enum {
    WAIT_KIND_MASK = 0xff,
    WAIT_FIRM = 0x100,     /* no context ends this wait */
    WAIT_SHARED = 0x200,   /* more than one object may wake it */
    WAIT_NOTIFIED = 0x400, /* before_park (fiber.h) has been called, and must not be again */
};

struct waiter {
    struct waiter *next, *previous; /* the object's */
    atomic_u32 state;
    int16_t result; /* what the park returns; the winner's */
    bool is_fiber;  /* part of a fiber, else of a foreign thread */
    uint8_t what;   /* index of its kind */
};

/* Parks the caller until it is woken, the deadline has passed, or (if the wait is not firm) the
 * context that it is bound to is cancelled. `unlock` may be NULL; it is called with `object`, in
 * any case. Returns the winner's result; or -ETIMEDOUT or -ECANCELED, which no waker gives. Must
 * follow the weft__waiter_begin that gave `waiter`; a fiber must have entered the runtime. */
int weft__park(struct waiter *waiter, uint32_t what, void (*unlock)(void *object), void *object,
               int64_t deadline);

/* True if the wait ended without the object. */
static inline bool wait_gave_up(int result)
{
    return result == -ETIMEDOUT || result == -ECANCELED;
}

/* Under the lock of what the waiter waits for. */
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

/* Wakes a waiter that the caller has claimed. A fiber must have entered the runtime. */
void weft__wake(struct waiter *waiter);
/* Wakes a waiter that the caller has claimed, behind all that is ready on this processor. */
void weft__wake_behind(struct waiter *waiter);

static inline const struct wait_kind *wait_kind_of(const struct waiter *waiter)
{
    return &weft__wait_kinds[waiter->what];
}

#endif
