/*
 * cancel.c: bonds, and the cancellation of waits. cancel.h has the protocol.
 *
 * A cancellation takes the bonds in batches: it claims waiters under the latch and wakes them
 * outside it. It moves each bond that it has seen from `bonds` to `cancelled`. A bond that is tied
 * later sees the reason by itself.
 *
 * Lock order: an object's lock, then the latch of a canceler (only in the wait of a thread).
 */
#include "sched/core/cancel.h"

#include "base/atomic.h"
#include "os/latch.h"
#include "sched/core/park.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/runtime/thread.h"

enum { BATCH = 32 };

/* Under the latch. */

static void link_bond(struct bond **list, struct bond *bond)
{
    bond->next = *list;
    bond->link = list;
    if (bond->next != NULL)
        bond->next->link = &bond->next;
    *list = bond;
}

static void unlink_bond(struct bond *bond)
{
    *bond->link = bond->next;
    if (bond->next != NULL)
        bond->next->link = bond->link;
}

static void tie(struct bond *bond, struct canceler *canceler)
{
    canceler->hold(canceler);
    latch_acquire(&canceler->latch);
    link_bond(&canceler->bonds, bond);
    bond->canceler = canceler;
    latch_release(&canceler->latch);
    if (bond->bound != NULL)
        *bond->bound = true;
}

static void begin_bond(struct weft_fiber *fiber)
{
    if (fiber_extra(fiber)->bond.waiter != NULL)
        return; /* it may be tied already, and read by a cancellation */
    fiber_extra(fiber)->bond.waiter = &fiber->waiter;
    fiber_extra(fiber)->bond.bound = &fiber->bound;
}

struct bond *weft__bond_self(void)
{
    struct thread *thread = thread_self();
    if (thread != NULL && thread->fiber != NULL) {
        if (weft__fiber_extra(thread->fiber) == NULL)
            return NULL;
        begin_bond(thread->fiber);
        return &fiber_extra(thread->fiber)->bond;
    }
    struct foreign *foreign = weft__foreign_self();
    return foreign != NULL ? &foreign->bond : NULL;
}

struct canceler *weft__canceler_self(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL)
        return NULL;
    if (thread->fiber != NULL)
        return thread->fiber->bound ? fiber_extra(thread->fiber)->bond.canceler : NULL;
    return ((struct foreign *)thread)->bond.canceler;
}

int weft__cancelled(void)
{
    struct canceler *canceler = weft__canceler_self();
    return canceler != NULL ? canceler_error(canceler) : 0;
}

void weft__bond_set(struct bond *bond, struct canceler *canceler)
{
    struct canceler *before = bond->canceler;
    if (before != NULL) {
        if (bond->bound != NULL)
            *bond->bound = false;
        latch_acquire(&before->latch);
        unlink_bond(bond);
        bond->canceler = NULL;
        latch_release(&before->latch);
        before->drop(before);
    }
    if (canceler != NULL)
        tie(bond, canceler);
}

void weft__bond_begin(struct weft_fiber *fiber, struct canceler *canceler)
{
    begin_bond(fiber);
    tie(&fiber_extra(fiber)->bond, canceler);
}

static bool claim_open(struct waiter *waiter)
{
    uint32_t open = WAITER_OPEN;
    /* seq_cst: after the store of the reason; pairs with open_wait in machine.c. */
    if (waiter == NULL || atomic_u32_load_seq_cst(&waiter->state) != WAITER_OPEN ||
        !atomic_u32_cas_acq_rel(&waiter->state, &open, WAITER_CLAIMED))
        return false;
    waiter->result = -ECANCELED;
    return true;
}

bool weft__cancel(struct canceler *canceler, uint32_t reason)
{
    uint32_t none = 0;
    if (!atomic_u32_cas_seq_cst(&canceler->reason, &none, reason))
        return false;
    bool more = true;
    while (more) {
        struct waiter *claimed[BATCH];
        uint32_t count = 0;
        latch_acquire(&canceler->latch);
        for (uint32_t i = 0; i < BATCH && canceler->bonds != NULL; i++) {
            struct bond *bond = canceler->bonds;
            unlink_bond(bond);
            link_bond(&canceler->cancelled, bond);
            if (claim_open(bond->waiter))
                claimed[count++] = bond->waiter;
        }
        more = canceler->bonds != NULL;
        latch_release(&canceler->latch);
        for (uint32_t i = 0; i < count; i++)
            weft__wake(claimed[i]);
    }
    return true;
}
