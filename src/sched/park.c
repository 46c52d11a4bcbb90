/*
 * park.c: how anything waits: see park.h for the protocol and its invariants.
 *
 * A fiber that parks switches to its machine, which arms the deadline and unlocks. A foreign thread
 * unlocks and sleeps on its waiter's state:
 *
 *   thread                                   winner
 *   state = WAITING, listed                  claim: WAITING -> CLAIMED
 *   unlock                                   result = ...
 *   while state != WOKEN: futex wait         state = WOKEN (release), futex wake
 *   at the deadline: claim for itself;
 *   if that fails the winner is on its way
 *
 * The winner's futex wake may come after the thread has gone on and its waiter is gone: at worst it
 * wakes another futex wait at the same address for no reason, and all of those are loops.
 */
#include "sched/park.h"

#include <errno.h>

#include "sched/sched.h"

struct waiter *weft__waiter_begin(struct waiter *own)
{
    struct thread *thread = thread_self();
    struct waiter *waiter = own;
    if (likely(thread != NULL && thread->fiber != NULL))
        waiter = &thread->fiber->waiter;
    else
        own->is_fiber = false;
    waiter->result = 0;
    /* Relaxed: published by the unlock that lets others find the waiter. */
    atomic_u32_store_relaxed(&waiter->state, WAITER_WAITING);
    return waiter;
}

static int park_thread(struct waiter *waiter, int64_t deadline)
{
    for (;;) {
        uint32_t state = atomic_u32_load_acquire(&waiter->state); /* pairs with weft__wake */
        if (state == WAITER_WOKEN)
            return waiter->result;
        int64_t until = state == WAITER_WAITING ? deadline : WEFT_NEVER;
        if (weft__sys_futex_wait(&waiter->state, state, until) == -ETIMEDOUT &&
            waiter_claim(waiter, -ETIMEDOUT))
            return -ETIMEDOUT;
    }
}

int weft__park(struct waiter *waiter, void (*unlock)(void *), void *object, int64_t deadline)
{
    if (unlikely(!waiter->is_fiber)) {
        if (unlock != NULL)
            unlock(object);
        return park_thread(waiter, deadline);
    }
    struct machine *machine = (struct machine *)thread_self();
    struct weft_fiber *fiber = machine->thread.fiber;
    machine->unlock = unlock;
    machine->object = object;
    machine->deadline = deadline;
    weft__machine_switch(machine, ACTION_PARK);
    int result = waiter->result;
    if (deadline != WEFT_NEVER && result != -ETIMEDOUT)
        (void)weft__wheel_disarm(&fiber->timer);
    return result;
}

void weft__wake(struct waiter *waiter)
{
    if (likely(waiter->is_fiber)) {
        struct weft_fiber *fiber = container_of(waiter, struct weft_fiber, waiter);
        fiber->state = FIBER_READY;
        weft__ready(fiber, true);
        return;
    }
    atomic_u32_store_release(&waiter->state, WAITER_WOKEN); /* pairs with park_thread */
    weft__sys_futex_wake(&waiter->state, 1);
}
