/*
 * ring.c: file operations of many fibers through one io_uring.
 *
 * A fiber queues its operation. The first one that does so yields once, so that the other ready
 * fibers queue theirs too, and then *drives* the ring: it moves the queue to the ring, submits it
 * to the kernel in one system call, and wakes the fibers whose operations are complete. What the
 * kernel can do at once (cached reads, most writes) is complete when that call returns, and needs
 * no wake-up from outside. Only if operations are in flight after that, and the ring is not
 * watched, a fiber is started as its *watcher*: it waits until the descriptor of the ring is
 * readable, drives, and ends when nothing is in flight. One event of the poller serves all that is
 * complete by then.
 *
 * So there is no thread for it, an idle process has no fiber here, and weft_shutdown waits for
 * exactly the operations that are not complete.
 *
 * States of an operation, changed under the latch:
 *
 *     QUEUED      in the queue                           its fiber may take it out and leave
 *     SUBMITTED   the kernel has it, and its memory      its fiber must stay
 *     DONE        complete, or refused by the ring
 *
 * Invariants:
 * - The operation, and often its memory, is on the stack of its fiber: the fiber returns only when
 * the
 *    operation is DONE or was never SUBMITTED, and no cancellation of it is in the ring.
 * - Only the driver (`driven`) touches the ring. A fiber that finds a driver at work sets
 * `look_again`,
 *    and the driver looks at the lists once more before it stops. So no latch is held during a
 *    system call.
 * - While an operation is QUEUED there is a driver, or a fiber about to become one
 * (`driver_coming`),
 *    or the ring is full: then it stays queued, and a completion makes room. (So only operations
 *    that end by themselves should come here, as those on files do.) While an operation is
 *    SUBMITTED there is a driver or a watcher.
 *  - There is always room to cancel what is in flight.
 * - While the watcher waits, an operation is in flight or a wake-up is in the ring. (Another driver
 * may
 *    take the last completion, and the descriptor of the ring is no longer readable. It then
 *    submits an empty operation, whose completion is for the watcher; a driver that takes that as
 *    well submits another.)
 *  - A cancellation is queued only while its operation is SUBMITTED.
 *
 * Giving up (deadline, context). A QUEUED operation is taken out. A SUBMITTED one is cancelled in
 * the kernel (IORING_OP_ASYNC_CANCEL), and its end waited for. A cancellation can miss an operation
 * that is just between two states in the kernel, so it is repeated, at growing intervals. A read of
 * a disk cannot be cancelled: there the call ends when the read does. If the operation completes
 * all the same, its result counts: the bytes were read.
 *
 * The kernel cancels operations by itself when the thread that submitted them ends; these are
 * queued again.
 *
 * Refusal. What the kernel does not accept (no memory) is taken out of the ring and done by
 * hand-off (io/file.c). Nothing is lost.
 *
 * Rejected: a ring per processor (a thread stuck in C code would hold back the operations of its
 * fibers, and each ring is kernel memory); a kernel thread that polls the ring (it takes a whole
 * CPU); a system call for each operation (a hundred calls where one does); an eventfd for
 * completions (the descriptor of the ring can be waited for itself); a fiber started for each batch
 * (it wakes another processor, wasted if all is complete at once).
 *
 * Lock order: `opening`; the latch. Neither with any other lock.
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

static WAIT_KIND(wait_file, .text = "waits for a file");

enum { ENTRIES = 256, REAP_MOST = 64 };
/* Tags of entries that are no operation; the addresses of operations, which are the other tags, are
 * multiples of more than these. */
enum { TAG_CANCEL = 1, TAG_WAKE = 2 };
/* The interval at which a cancellation is repeated. */
#define CANCEL_AGAIN_FIRST (1 * WEFT_MS)
#define CANCEL_AGAIN_MOST (1 * WEFT_S)

enum operation_state { QUEUED, SUBMITTED, DONE };

struct operation {
    struct operation *next, *previous; /* in the queue; QUEUED only */
    struct operation *next_cancel;
    struct waiter *waiter; /* NULL while its fiber does not wait */
    const struct weft__os_io *io;
    int32_t result;
    uint8_t state;
    bool refused;          /* DONE, and never begun */
    bool cancelled;        /* its fiber has given up */
    bool cancel_queued;    /* in ring.cancels */
    bool cancel_in_flight; /* a cancellation of it is in the ring */
};

enum { RING_UNKNOWN, RING_WORKS, RING_NONE };

static struct {
    struct lock opening;
    atomic_u32 works; /* RING_...; changes under `opening` */
    atomic_u64 submits, operations;

    struct latch latch;
    struct operation *first, *last; /* the queue */
    struct operation *cancels;
    bool driver_coming;         /* a fiber is about to drive */
    bool driven;                /* there is a driver */
    bool look_again;            /* the driver has to look at the lists again */
    bool watched;               /* there is a watcher, or one is being started */
    uint32_t in_flight;         /* operations that are SUBMITTED */
    uint32_t cancels_in_flight; /* cancellations, at most one for each of these */

    struct weft__os_ring ring; /* the driver's */
} ring;

/* Opening. */

/* Called when no fiber is left, so nothing is in flight. */
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
        /* A lack of memory or descriptors may end: the next operation tries again. */
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

/* The queue and the cancellations; under the latch. */

static void queue_add(struct operation *operation)
{
    operation->state = QUEUED;
    operation->next = NULL;
    operation->previous = ring.last;
    if (ring.last != NULL)
        ring.last->next = operation;
    else
        ring.first = operation;
    ring.last = operation;
}

static void queue_remove(struct operation *operation)
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
    if (operation->cancel_queued || operation->cancel_in_flight)
        return;
    operation->cancel_queued = true;
    operation->next_cancel = ring.cancels;
    ring.cancels = operation;
}

/* True if neither the kernel nor the ring refers to the operation; under the latch. */
static bool is_over(const struct operation *operation)
{
    should(operation->state == SUBMITTED || !operation->cancel_queued);
    return operation->state == DONE && !operation->cancel_in_flight;
}

static uint64_t tag_of(const struct operation *operation)
{
    return (uint64_t)(uintptr_t)operation;
}

/* Driving. */

/* Wakes the fiber of an operation that is done, once nothing in the ring refers to it. Under the
 * latch. */
static void wake_if_over(struct operation *operation, struct woken *woken)
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
        must(*link != NULL); /* it is queued, so it is in the list */
    *link = done->next_cancel;
    done->cancel_queued = false;
}

static void finish(struct operation *operation, int32_t result, bool refused, struct woken *woken)
{
    if (operation->cancelled && result == -EINTR)
        result = -ECANCELED; /* a kernel thread reports a cancellation so */
    /* -ECANCELED without a request: the thread that submitted the operation has ended. */
    if (result == -EINTR || (result == -ECANCELED && !operation->cancelled)) {
        queue_add(operation);
        return;
    }
    operation->state = DONE;
    operation->result = result;
    operation->refused = refused;
    if (operation->cancel_queued)
        cancel_remove(operation);
    wake_if_over(operation, woken);
}

/* An entry of the ring is complete, or was not accepted by the kernel; under the latch. */
static void end_entry(uint64_t tag, int32_t result, bool refused, struct woken *woken)
{
    struct operation *operation = (struct operation *)(uintptr_t)(tag & ~(uint64_t)TAG_CANCEL);
    if (tag == TAG_WAKE)
        return;
    if (!(tag & TAG_CANCEL)) {
        ring.in_flight--;
        finish(operation, result, refused, woken);
        return;
    }
    ring.cancels_in_flight--;
    operation->cancel_in_flight =
        false; /* the operation shows whether it worked; if not it is repeated */
    wake_if_over(operation, woken);
}

/* What the driver submits at once. */
struct batch {
    struct operation *operations, *cancels;
};

/* Takes from the lists as much as the ring has room for; under the latch. All entries pushed before
 * have left the ring. */
static struct batch take(void)
{
    struct batch batch = {NULL, NULL};
    struct operation **end = &batch.operations, *operation;
    uint32_t entries = ENTRIES;
    for (; entries > 0 && (operation = ring.cancels) != NULL; entries--) {
        ring.cancels_in_flight++;
        ring.cancels = operation->next_cancel;
        operation->cancel_queued = false;
        operation->cancel_in_flight = true;
        operation->next_cancel = batch.cancels;
        batch.cancels = operation;
    }
    for (; entries > 0 && ring.in_flight < ring.ring.capacity && (operation = ring.first) != NULL;
         entries--) {
        ring.in_flight++;
        queue_remove(operation);
        operation->state = SUBMITTED;
        operation->next = NULL;
        *end = operation;
        end = &operation->next;
    }
    return batch;
}

/* Submits the batch; false if the kernel does not accept all of it. */
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

/* Ends up to REAP_MOST entries that are complete, or that the kernel did not accept (`refused`);
 * false if there were none. */
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
        end_entry(tags[i], results[i], refused, &woken);
    latch_release(&ring.latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
    return true;
}

/* True if the driver has to go on; under the latch. */
static bool is_needed(void)
{
    return ring.look_again || ring.cancels != NULL ||
           (ring.first != NULL && ring.in_flight < ring.ring.capacity);
}

/* True if no completion will come; under the latch. */
static bool is_idle(void)
{
    return ring.in_flight + ring.cancels_in_flight == 0;
}

/* Ends the wait of the watcher. The latch is held, and released meanwhile. If the kernel does not
 * accept the entry, the driver goes on and comes back here. */
static void wake_watcher(void)
{
    uint64_t tag;
    struct batch none = {NULL, NULL};
    latch_release(&ring.latch);
    must(weft__os_ring_push_empty(&ring.ring, TAG_WAKE));
    bool refused = !submit(none);
    if (refused) {
        must(weft__os_ring_unpush(&ring.ring, &tag));
        weft_yield();
    }
    latch_acquire(&ring.latch);
    ring.look_again |= refused;
}

/* Drives the ring, unless another fiber does. The latch is held, and is again at the end. */
static void drive(bool watcher)
{
    if (ring.driven) {
        ring.look_again = true;
        return;
    }
    ring.driven = true;
    do {
        ring.look_again = false;
        struct batch batch = take();
        latch_release(&ring.latch);
        bool refused = !submit(batch);
        while (refused && reap(true))
            continue;
        while (reap(false))
            continue;
        latch_acquire(&ring.latch);
        if (!is_needed() && !watcher && ring.watched && is_idle())
            wake_watcher();
    } while (is_needed());
    ring.driven = false;
}

/* The watcher: drives whenever the ring is readable, until nothing is in flight. */
static void watcher(void *arg)
{
    (void)arg;
    bool needed;
    do {
        int ready = weft_fd_wait(ring.ring.fd, WEFT_READABLE, WEFT_NEVER);
        if (ready < 0)
            (void)weft_sleep(WEFT_MS); /* no memory for a wait: look again later */
        latch_acquire(&ring.latch);
        drive(true);
        needed = ring.watched = !is_idle();
        latch_release(&ring.latch);
    } while (needed);
}

/* No fiber could be started as watcher: the caller drives every millisecond, until one can be, or
 * nothing is in flight. */
static noinline void watch_by_clock(void)
{
    bool needed;
    do {
        if (weft_sleep(WEFT_MS) != 0)
            weft_yield();
        latch_acquire(&ring.latch);
        drive(true);
        needed = ring.watched = !is_idle();
        latch_release(&ring.latch);
    } while (needed && weft_go(watcher, NULL) != 0);
}

/* Has the queue driven, by the caller if no other fiber is about to. The latch is held, and is
 * released. */
static void drive_soon(void)
{
    bool first = !ring.driver_coming;
    ring.driver_coming = true;
    latch_release(&ring.latch);
    if (!first)
        return;
    weft_yield();
    latch_acquire(&ring.latch);
    ring.driver_coming = false;
    drive(false);
    bool watch = !is_idle() && !ring.watched;
    ring.watched |= watch;
    latch_release(&ring.latch);
    if (watch && unlikely(weft_go(watcher, NULL) != 0))
        watch_by_clock();
}

/* Operations. */

static void unlatch(void *latch)
{
    latch_release(latch);
}

/* Parks until the operation is over (0), or the wait is. */
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
            operation->waiter = NULL; /* as the fiber that woke this one left it */
        }
    }
    leave_if_fiber(fiber);
    return result;
}

/* After the wait has ended early: cancels, and returns when the operation is over. */
static noinline void give_up(struct operation *operation)
{
    int64_t pause = CANCEL_AGAIN_FIRST;
    int result;
    do {
        latch_acquire(&ring.latch);
        operation->cancelled = true;
        if (operation->state == QUEUED) {
            queue_remove(operation);
            operation->state = DONE;
            operation->result = -ECANCELED;
        }
        if (is_over(operation)) {
            latch_release(&ring.latch);
            return;
        }
        cancel_add(operation); /* without effect if a cancellation is on its way */
        drive_soon();
        result = await(operation, wait_id(&wait_file) | WAIT_FIRM, weft_after(pause));
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
    queue_add(&operation);
    drive_soon();
    int gave_up = await(&operation, wait_id(&wait_file), deadline);
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
