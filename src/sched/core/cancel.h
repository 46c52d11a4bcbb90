/*
 * cancel.h: the part of a context (sync/context.c) that waits use: whether it is cancelled, and
 * the fibers and threads that are bound to it.
 *
 * A bond ties one fiber or thread to one canceler. It is made when the fiber is bound, not for
 * each wait, so a wait of a bound fiber touches no cache line that other threads write:
 *
 *     cancel                                 wait of a bound fiber, its context saved
 *     reason = ... (seq_cst)                 state = OPEN (seq_cst)
 *     for each bond:                         if reason: claim itself, and be made ready
 *         if state is OPEN: claim, wake
 *
 * At least one side sees the other; if both do, one of the two claims fails. While the latch is
 * held, a waiter that is OPEN may be claimed at any time: the bond cannot go away, and the
 * cancellation ends any open wait of that fiber, the present one and a later one alike.
 *
 * A fiber's bond always points at its waiter. A thread's waiter lives in the call that waits, so
 * its bond points there only during a wait; that pointer is set under the latch.
 */
#ifndef WEFT_SCHED_CORE_CANCEL_H
#define WEFT_SCHED_CORE_CANCEL_H

#include "base/atomic.h"
#include "os/latch.h"

struct weft_fiber;

struct bond {
    struct bond *next, **link; /* link: the pointer that points at this bond */
    struct canceler *canceler; /* NULL: not bound */
    struct waiter *waiter;
    bool *bound; /* the flag of the fiber that tells its waits of the bond; NULL: a thread's bond */
};

/* The first member of a weft_context. */
struct canceler {
    struct latch latch;
    atomic_u32 reason; /* 0, or a positive errno: ECANCELED or ETIMEDOUT */
    struct bond *bonds;
    struct bond *cancelled; /* bonds that the cancellation has reached */
    /* Count references: `hold` before a bond is tied, `drop` after it is untied. The canceler may
     * be freed in `drop`. */
    void (*hold)(struct canceler *);
    void (*drop)(struct canceler *);
};

/* The bond of the calling fiber or thread; NULL without memory. Only the caller changes it. */
struct bond *weft__bond_self(void);
/* Unties the caller's bond from its canceler, if it has one, and ties it to another; NULL: to
 * none. */
void weft__bond_set(struct bond *bond, struct canceler *canceler);
/* Ties the bond of a fiber that has extras (weft__fiber_extra) and has not started. */
void weft__bond_begin(struct weft_fiber *fiber, struct canceler *canceler);

/* Cancels with `reason`, a positive errno, and wakes all fibers and threads that wait bound to the
 * canceler. False: it was cancelled before. A calling fiber must have entered the runtime. */
bool weft__cancel(struct canceler *canceler, uint32_t reason);

/* The canceler that the caller is bound to, or NULL. */
struct canceler *weft__canceler_self(void);
/* -ECANCELED or -ETIMEDOUT if the context that the caller is bound to is cancelled; 0 if it is not,
 * or if the caller is not bound. */
int weft__cancelled(void);

/* -ECANCELED or -ETIMEDOUT if the canceler is cancelled, else 0. */
static inline int canceler_error(const struct canceler *canceler)
{
    return -(int)atomic_u32_load_acquire(&canceler->reason); /* pairs with the cancel */
}

#endif
