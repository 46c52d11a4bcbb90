/*
 * cancel.h: the part of a context (sync/context.c) that waits know of: whether it is cancelled, and who
 * is bound to it.
 *
 * A bond ties one fiber or thread to one canceler. It is made when the fiber is bound, not for each
 * wait, so that a wait of a bound fiber touches no line that others write:
 *
 *     cancel                                 wait of a bound fiber, its context saved
 *     reason = ... (seq_cst)                 state = OPEN (seq_cst)
 *     for each bond:                         if reason: claim itself, and be made ready
 *         if state is OPEN: claim, wake
 *
 * One of them sees the other, or both do, and then one claim fails. A waiter that is OPEN may be
 * claimed at any time while the latch is held: the bond cannot go away, and any open wait of that
 * fiber, this or the next, is one that the cancellation ends.
 *
 * A fiber's bond always points at its waiter. A thread's waiter lives in the call that waits, so its
 * bond points there only during a wait, and that is set under the latch.
 */
#ifndef WEFT_SCHED_CORE_CANCEL_H
#define WEFT_SCHED_CORE_CANCEL_H

#include "base/atomic.h"
#include "os/latch.h"

struct weft_fiber;

struct bond {
    struct bond *next, **link; /* link: what points at this bond */
    struct canceler *canceler; /* NULL: not bound */
    struct waiter *waiter;
    bool *bound; /* of a fiber: tells its waits that there is a bond; NULL for a thread */
};

/* The first member of a weft_context. */
struct canceler {
    struct latch latch;
    atomic_u32 reason; /* 0, or a positive errno: ECANCELED or ETIMEDOUT */
    struct bond *bonds;
    struct bond *told; /* bonds that the cancellation has come to */
    /* A bond is tied to it, or has left it; after the latter it may be gone. */
    void (*hold)(struct canceler *);
    void (*drop)(struct canceler *);
};

/* The caller's bond; NULL without memory. Only the caller changes it. */
struct bond *weft__bond_self(void);
/* Ties the caller's bond to a canceler, or to none, and unties it from the one before. */
void weft__bond_set(struct bond *bond, struct canceler *canceler);
/* The same for a fiber that has extras and does not run yet. */
void weft__bond_begin(struct weft_fiber *fiber, struct canceler *canceler);

/* Cancels, and wakes all who wait bound to it; false if it was cancelled before. A fiber must have
 * entered the runtime. */
bool weft__cancel(struct canceler *canceler, uint32_t reason);

/* What the caller is bound to, or NULL. */
struct canceler *weft__canceler_self(void);
/* The error of the context that the caller is bound to; 0 if it is not cancelled, or not bound. */
int weft__cancelled(void);

/* 0, -ECANCELED or -ETIMEDOUT. */
static inline int canceler_error(const struct canceler *canceler)
{
    return -(int)atomic_u32_load_acquire(&canceler->reason); /* pairs with the cancel */
}

#endif
