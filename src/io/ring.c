/*
 * ring.c: file operations of many fibers through one io_uring.
 *
 * A fiber puts a record of what it wants in a list. The first one there yields once, so that the fibers
 * that are ready now get to put their records in the list too, and then *serves*: moves the records to the
 * ring, hands them to the kernel in one system call, and wakes the fibers whose operations are complete.
 * What the kernel can do at once (cached reads, most writes) is complete when that call returns, so that
 * nobody has to be woken from outside. Only if operations are in flight after that, and nobody watches the
 * ring, a fiber is started as its *watcher*: it waits until the ring's descriptor is readable, serves, and
 * ends when nothing flies. One wake-up from the poller serves all that is complete by then.
 *
 * So there is no thread for it, an idle process has no fiber here, and weft_shutdown waits for exactly those
 * operations that are not complete.
 *
 * States of an operation, changed under the latch:
 *
 *     LISTED   in the list                            its fiber may take it out and leave
 *     FLYING   the kernel has it, and its memory      its fiber must stay
 *     DONE     complete, or refused by the ring
 *
 * Invariants:
 *  - The record, and often the memory, stands on the fiber's stack: the fiber returns only when the
 *    operation is DONE or never was FLYING, and no cancellation of it is in the ring.
 *  - Only the servant (`serving`) touches the ring itself. Who finds a servant at work sets `again`, and the
 *    servant looks at the lists once more before it stops being that. So no latch is held during a
 *    system call.
 *  - While anything is LISTED there is a servant, or a fiber on its way to serve (`called`), or the ring is
 *    full: what has no room stays listed, and a completion makes room. (So only operations that end by
 *    themselves should come here, as those on files do.) While anything is FLYING there is a servant or a
 *    watcher.
 *  - There is always room for the cancellation of what flies.
 *  - While the watcher waits something flies, or a nudge is in the ring. (Another servant may take out the
 *    last completion, and the ring's descriptor is readable no more. It then puts an empty operation in the
 *    ring, whose completion is for the watcher; a servant that takes that out as well puts in another.)
 *  - A cancellation waits only while its operation is FLYING.
 *
 * Giving up (deadline, context): what is LISTED is taken out. What is FLYING is cancelled in the kernel
 * (IORING_OP_ASYNC_CANCEL) and waited for. A cancellation can miss an operation that is just between two
 * states in the kernel, so it is repeated, ever more rarely. A read of a disk cannot be cancelled: there
 * the call ends when the read does. If the operation completes none the less, its result counts: what was
 * read was read.
 *
 * The kernel cancels operations on its own when the thread that submitted them ends; these are listed
 * again.
 *
 * Refused: if the kernel does not take what is in the ring (no memory), it is taken back and done by
 * hand-off. Nothing is lost.
 *
 * Rejected: a ring per processor (a thread that is stuck in C code would hold back the operations of its
 * fibers, and each ring is memory of the kernel's); a thread of the kernel's that polls the ring (it takes a
 * whole CPU); each fiber making its own system call (a hundred calls where one does); an eventfd for the
 * completions (the ring's descriptor can be waited for itself); a fiber started for each batch (it wakes
 * another processor, for nothing if all is complete at once).
 *
 * Lock order: `opening`; the latch. Neither with anything else.
 */
#include "io/ring.h"

#include <errno.h>
#include <weft/fd.h>
#include <weft/fiber.h>

#include "sched/core/park.h"
#include "sched/core/scheduler.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/waiters.h"

enum { ENTRIES = 256, REAP_MOST = 64 };
/* Tags of entries that are no operation: operations are aligned to more than these. */
enum { TAG_CANCEL = 1, TAG_NUDGE = 2 };
#define CANCEL_AGAIN_FIRST (1 * WEFT_MS)
#define CANCEL_AGAIN_MOST (1 * WEFT_S)

enum operation_state { LISTED, FLYING, DONE };

struct operation {
    struct operation *next, *previous; /* in the list; LISTED only */
    struct operation *next_cancel;
    struct waiter *waiter; /* NULL: its fiber does not wait now */
    const struct weft__os_io *io;
    int32_t result;
    uint8_t state;
    bool refused;      /* DONE without having been begun */
    bool cancelled;    /* its fiber has given up */
    bool cancel_waits; /* in the list of cancellations */
    bool cancel_flies; /* a cancellation of it is in the ring */
};

enum { RING_UNKNOWN, RING_WORKS, RING_NONE };

static struct {
    struct lock opening;
    atomic_u32 works; /* RING_...; changes under `opening` */
    atomic_u64 submits, operations;

    struct latch latch;
    struct operation *first, *last; /* LISTED */
    struct operation *cancels;
    bool called;         /* a fiber is on its way to serve */
    bool serving;        /* there is a servant */
    bool again;          /* the servant is to look once more */
    bool watching;       /* there is a watcher, or it is being started */
    uint32_t flying;     /* operations in the ring that are not complete */
    uint32_t cancelling; /* and cancellations, at most one for each */

    struct weft__os_ring ring; /* the servant's */
} ring;

/* The ring itself. */

/* No fiber is left, so nothing flies. */
static void stop(void)
{
    if (atomic_u32_load_relaxed(&ring.works) == RING_WORKS)
        weft__os_ring_close(&ring.ring);
    atomic_u32_store_relaxed(&ring.works, RING_UNKNOWN);
}

static bool is_transient(int error)
{
    return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -EAGAIN;
}

static noinline bool open_ring(void)
{
    static bool registered;
    lock_acquire(&ring.opening);
    if (!registered)
        weft__runtime_at_stop(stop);
    registered = true;
    if (atomic_u32_load_relaxed(&ring.works) == RING_UNKNOWN) {
        int error = weft__sched.io_uring ? weft__os_ring_open(&ring.ring, ENTRIES) : -ENOSYS;
        /* For a lack of memory or descriptors it is tried again the next time. */
        if (error == 0)
            atomic_u32_store_release(&ring.works, RING_WORKS); /* pairs with ring_works */
        else if (!is_transient(error))
            atomic_u32_store_release(&ring.works, RING_NONE);
    }
    bool works = atomic_u32_load_relaxed(&ring.works) == RING_WORKS;
    lock_release(&ring.opening);
    return works;
}

static bool ring_works(void)
{
    uint32_t works = atomic_u32_load_acquire(&ring.works); /* pairs with open_ring */
    return likely(works != RING_UNKNOWN) ? works == RING_WORKS : open_ring();
}

/* The lists; under the latch. */

static void list_add(struct operation *operation)
{
    operation->state = LISTED;
    operation->next = NULL;
    operation->previous = ring.last;
    if (ring.last != NULL)
        ring.last->next = operation;
    else
        ring.first = operation;
    ring.last = operation;
}

static void list_remove(struct operation *operation)
{
    if (operation->previous != NULL)
        operation->previous->next = operation->next;
    else
        ring.first = operation->next;
    if (operation->next != NULL)
        operation->next->previous = operation->previous;
    else
        ring.last = operation->previous;
}

static void cancel_add(struct operation *operation)
{
    if (operation->cancel_waits || operation->cancel_flies)
        return;
    operation->cancel_waits = true;
    operation->next_cancel = ring.cancels;
    ring.cancels = operation;
}

/* The kernel and the ring know nothing of it; under the latch. */
static bool is_over(const struct operation *operation)
{
    should(operation->state == FLYING || !operation->cancel_waits);
    return operation->state == DONE && !operation->cancel_flies;
}

static uint64_t tag_of(const struct operation *operation)
{
    return (uint64_t)(uintptr_t)operation;
}

/* Serving. */

/* Its fiber goes on when the operation is done and nothing in the ring names it any more. Under the
 * latch. */
static void settle(struct operation *operation, struct woken *woken)
{
    if (!is_over(operation))
        return;
    struct waiter *waiter = operation->waiter;
    operation->waiter = NULL;
    if (waiter != NULL && waiter_claim(waiter, 0))
        woken_add(woken, waiter);
}

static void cancel_remove(struct operation *done)
{
    struct operation **link = &ring.cancels;
    for (; *link != done; link = &(*link)->next_cancel)
        must(*link != NULL); /* it waits: it is in the list */
    *link = done->next_cancel;
    done->cancel_waits = false;
}

static void finish(struct operation *operation, int32_t result, bool refused, struct woken *woken)
{
    if (operation->cancelled && result == -EINTR)
        result = -ECANCELED; /* so a thread of the kernel's tells it */
    /* -ECANCELED that nobody asked for: the thread that had submitted it has ended. */
    if (result == -EINTR || (result == -ECANCELED && !operation->cancelled)) {
        list_add(operation);
        return;
    }
    operation->state = DONE;
    operation->result = result;
    operation->refused = refused;
    if (operation->cancel_waits)
        cancel_remove(operation);
    settle(operation, woken);
}

/* One entry of the ring is complete, or was not taken by the kernel; under the latch. */
static void entry_ends(uint64_t tag, int32_t result, bool refused, struct woken *woken)
{
    struct operation *operation = (struct operation *)(uintptr_t)(tag & ~(uint64_t)TAG_CANCEL);
    if (tag == TAG_NUDGE)
        return;
    if (!(tag & TAG_CANCEL)) {
        ring.flying--;
        finish(operation, result, refused, woken);
        return;
    }
    ring.cancelling--;
    operation->cancel_flies =
        false; /* whether it worked shows in the operation; or it is repeated */
    settle(operation, woken);
}

/* What the servant has in hand. */
struct batch {
    struct operation *operations, *cancels;
};

/* Takes from the lists what has room; under the latch. All that was pushed before has left the ring. */
static struct batch take(void)
{
    struct batch batch = {NULL, NULL};
    struct operation **end = &batch.operations, *operation;
    uint32_t entries = ENTRIES;
    for (; entries > 0 && (operation = ring.cancels) != NULL; entries--) {
        ring.cancelling++;
        ring.cancels = operation->next_cancel;
        operation->cancel_waits = false;
        operation->cancel_flies = true;
        operation->next_cancel = batch.cancels;
        batch.cancels = operation;
    }
    for (; entries > 0 && ring.flying < ring.ring.capacity && (operation = ring.first) != NULL;
         entries--) {
        ring.flying++;
        list_remove(operation);
        operation->state = FLYING;
        operation->next = NULL;
        *end = operation;
        end = &operation->next;
    }
    return batch;
}

/* Hands the batch to the kernel; false if that does not take all. */
static bool submit(struct batch batch)
{
    for (struct operation *o = batch.cancels; o != NULL; o = o->next_cancel)
        must(weft__os_ring_push_cancel(&ring.ring, tag_of(o), tag_of(o) | TAG_CANCEL));
    for (struct operation *o = batch.operations; o != NULL; o = o->next)
        must(weft__os_ring_push(&ring.ring, o->io, tag_of(o)));
    while (ring.ring.pushed > 0) {
        int taken = weft__os_ring_submit(&ring.ring);
        if (taken <= 0)
            return false;
        atomic_u64_add_relaxed(&ring.submits, 1);
        atomic_u64_add_relaxed(&ring.operations, (uint64_t)taken);
    }
    return true;
}

/* Ends up to REAP_MOST entries; false if there were none. `refused`: those that the kernel did not take. */
static bool reap(bool refused)
{
    uint64_t tags[REAP_MOST];
    int32_t results[REAP_MOST] = {0};
    uint32_t count = 0;
    struct woken woken;
    woken_begin(&woken);
    while (count < REAP_MOST &&
           (refused ? weft__os_ring_unpush(&ring.ring, &tags[count])
                    : weft__os_ring_pop(&ring.ring, &tags[count], &results[count])))
        count++;
    if (count == 0)
        return false;
    bool fiber = enter_if_fiber();
    latch_acquire(&ring.latch);
    for (uint32_t i = 0; i < count; i++)
        entry_ends(tags[i], results[i], refused, &woken);
    latch_release(&ring.latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
    return true;
}

/* True if the servant has to go on; under the latch. */
static bool is_needed(void)
{
    return ring.again || ring.cancels != NULL ||
           (ring.first != NULL && ring.flying < ring.ring.capacity);
}

/* Nothing will be complete by itself; under the latch. */
static bool is_still(void)
{
    return ring.flying + ring.cancelling == 0;
}

/* Lets the watcher wait no longer; with the latch held, which is given back meanwhile. If the kernel does not
 * take it, the servant goes on, and comes back here. */
static void nudge(void)
{
    uint64_t tag;
    struct batch none = {NULL, NULL};
    latch_release(&ring.latch);
    must(weft__os_ring_push_empty(&ring.ring, TAG_NUDGE));
    bool refused = !submit(none);
    if (refused) {
        must(weft__os_ring_unpush(&ring.ring, &tag));
        weft_yield();
    }
    latch_acquire(&ring.latch);
    ring.again |= refused;
}

/* With the latch held; it is held again at the end. */
static void serve(bool watcher)
{
    if (ring.serving) {
        ring.again = true;
        return;
    }
    ring.serving = true;
    do {
        ring.again = false;
        struct batch batch = take();
        latch_release(&ring.latch);
        bool refused = !submit(batch);
        while (refused && reap(true))
            continue;
        while (reap(false))
            continue;
        latch_acquire(&ring.latch);
        if (!is_needed() && !watcher && ring.watching && is_still())
            nudge();
    } while (is_needed());
    ring.serving = false;
}

/* Until nothing flies. */
static void watcher(void *arg)
{
    (void)arg;
    bool needed;
    do {
        int ready = weft_fd_wait(ring.ring.fd, WEFT_READABLE, WEFT_NEVER);
        if (ready < 0)
            (void)weft_sleep(WEFT_MS); /* no memory to wait with: look again by the clock */
        latch_acquire(&ring.latch);
        serve(true);
        needed = ring.watching = !is_still();
        latch_release(&ring.latch);
    } while (needed);
}

/* There is no memory for a watcher: the calling fiber does what it can until there is, or until nothing
 * flies. */
static noinline void watch_by_clock(void)
{
    bool needed;
    do {
        if (weft_sleep(WEFT_MS) != 0)
            weft_yield();
        latch_acquire(&ring.latch);
        serve(true);
        needed = ring.watching = !is_still();
        latch_release(&ring.latch);
    } while (needed && weft_go(watcher, NULL) != 0);
}

/* Sees to it that what is listed gets served; with the latch held, which is given back. */
static void call(void)
{
    bool first = !ring.called;
    ring.called = true;
    latch_release(&ring.latch);
    if (!first)
        return;
    weft_yield();
    latch_acquire(&ring.latch);
    ring.called = false;
    serve(false);
    bool watch = !is_still() && !ring.watching;
    ring.watching |= watch;
    latch_release(&ring.latch);
    if (watch && unlikely(weft_go(watcher, NULL) != 0))
        watch_by_clock();
}

/* The fiber's side. */

static void unlatch(void *latch)
{
    latch_release(latch);
}

/* Parks until the operation is over, or the wait is. */
static int await(struct operation *operation, uint32_t what, int64_t deadline)
{
    int result = 0;
    struct waiter own; /* not used: the caller is a fiber */
    bool fiber = enter_if_fiber();
    latch_acquire(&ring.latch);
    if (is_over(operation)) {
        latch_release(&ring.latch);
    } else {
        operation->waiter = weft__waiter_begin(&own);
        result = weft__park(operation->waiter, what, unlatch, &ring.latch, deadline);
        if (wait_gave_up(result)) {
            latch_acquire(&ring.latch);
            operation->waiter = NULL;
            if (is_over(operation))
                result = 0;
            latch_release(&ring.latch);
        } else {
            operation->waiter = NULL; /* as who woke it has left it */
        }
    }
    leave_if_fiber(fiber);
    return result;
}

/* The fiber has given up: returns when the operation is over. */
static noinline void give_up(struct operation *operation)
{
    int64_t pause = CANCEL_AGAIN_FIRST;
    int result;
    do {
        latch_acquire(&ring.latch);
        operation->cancelled = true;
        if (operation->state == LISTED) {
            list_remove(operation);
            operation->state = DONE;
            operation->result = -ECANCELED;
        }
        if (is_over(operation)) {
            latch_release(&ring.latch);
            return;
        }
        cancel_add(operation); /* it flies, or that does already */
        call();
        result = await(operation, WAIT_FILE | WAIT_FIRM, weft_after(pause));
        if (pause < CANCEL_AGAIN_MOST)
            pause *= 2;
    } while (result != 0);
}

bool weft__ring_run(const struct weft__os_io *io, int64_t deadline, int64_t *result)
{
    if (!ring_works())
        return false;
    struct operation operation = {.io = io};
    latch_acquire(&ring.latch);
    list_add(&operation);
    call();
    int gave_up = await(&operation, WAIT_FILE, deadline);
    if (unlikely(gave_up != 0))
        give_up(&operation);
    bool ended_early = gave_up != 0 && operation.result == -ECANCELED;
    *result = ended_early ? gave_up : operation.result;
    return !operation.refused;
}

uint64_t weft__ring_submits(void)
{
    return atomic_u64_load_relaxed(&ring.submits);
}

uint64_t weft__ring_operations(void)
{
    return atomic_u64_load_relaxed(&ring.operations);
}
