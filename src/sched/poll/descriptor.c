/*
 * descriptor.c: waiting for descriptors: a record for each number, and who waits for it.
 *
 * The record of a number lies in a table that only grows, so that an event of the poller finds it by the
 * number, whatever has become of the descriptor meanwhile. Its tag is the number and the generation of
 * the record; an event with another generation is one of the past, and ignored.
 *
 * A number is in one of two states:
 *
 *   anybody's  It may be closed at any time by code that knows nothing of weft, and then be something
 *              else. So nothing is kept from one wait to the next: each wait arms the set for one event
 *              (OS_ONESHOT), level-triggered, under a new generation. If it is ready already, the event
 *              comes at once.
 *   owned      A socket of weft's own, closed only through here. It is put in the set once, when it is
 *              first waited for, edge-triggered, for reading and writing. Each event is counted in the
 *              record; who waits says which count it saw before it tried in vain.
 *
 * What could be lost, and why it is not. Everything below happens under the record's latch, which a
 * parking fiber gives back when its context is saved:
 *
 *   event | about to park    Owned: the try came after the count was read. If the event is later than the
 *                            try, the count differs by the time of the wait, or the event finds the
 *                            waiter. Anybody's: armed after the waiter is listed, level-triggered.
 *   event | deadline, cancel They claim the waiter, and one wins (park.h). If it was not the event, the
 *                            waiter takes itself out. An event spent on it is lost to nobody: all others
 *                            who wait for the same are told by the same event, and an owned one counts it.
 *   event | second waiter    Anybody's: the second one arms again for the sum of both, under a new
 *                            generation. If the first's event is on its way it is ignored, and level-
 *                            triggering sends another. After an event that some still wait on from, it is
 *                            armed again for the rest.
 *   event | shut             Shut lets all waits end and no other begin. Both claim; one wins.
 *   event | number reused    Disowning changes the generation, and takes it out of the set before the
 *                            number is closed. If somebody closes anybody's number, the kernel takes it
 *                            out, or (if there are duplicates) may send one event of a past generation.
 *
 * Whoever waits for a number that anybody may close, while somebody does, may wait for ever; if the number
 * then becomes a descriptor that another waits for, its events wake both.
 *
 * Lock order: an object's latch comes before those of a processor's queues; the system call under it
 * (epoll_ctl) takes some hundred nanoseconds, as long as a latch may be held.
 *
 * Rejected: one-shot for sockets too (a system call for each wait); edge-triggered for anybody's (a number
 * that is closed and reused behind our back is in the set only in our eyes); a sticky "ready" bit instead
 * of the count (what one reader consumes is lost to a second one); records in the sockets (an event on its
 * way to one that was freed).
 */
#include "sched/poll/descriptor.h"

#include <weft/fd.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/latch.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/check/deadlock.h"
#include "sched/core/park.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/chain.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/fiber.h"
#include "sched/poll/poller.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

static WAIT_KIND(wait_descriptor, .text = "waits for a descriptor", .external = true);

_Static_assert(WEFT_READABLE == OS_READABLE && WEFT_WRITABLE == OS_WRITABLE, "handed through");

enum { CHUNK_BITS = 12, CHUNK_SIZE = 1 << CHUNK_BITS, CHUNKS_MOST = 1 << 14 };
enum { BOTH = OS_READABLE | OS_WRITABLE };

/* One who waits; on the stack of the call. */
struct fd_wait {
    struct fd_wait *next, **link; /* link: what points at it; NULL: in no list */
    struct waiter *waiter;
    uint32_t events;
};

struct descriptor {
    struct latch latch; /* guards the rest */
    uint32_t generation;
    atomic_u32 readable, writable; /* how often; also read without the latch */
    struct fd_wait *waits;
    bool owned;
    bool shut;
    bool watched; /* in the set: surely, if owned; else probably */
};

static struct {
    atomic_ptr chunks[CHUNKS_MOST]; /* each an array of CHUNK_SIZE descriptors */
    struct lock lock;               /* for making one */
    atomic_i64 threads;             /* that wait; fibers are counted by the processors */
} table;

/* The table. */

static size_t chunk_bytes(void)
{
    return CHUNK_SIZE * sizeof(struct descriptor);
}

/* NULL if no record of that number was ever needed. */
static struct descriptor *find(int fd)
{
    uint32_t number = (uint32_t)fd >> CHUNK_BITS;
    struct descriptor *chunk =
        number < CHUNKS_MOST ? atomic_ptr_load_acquire(&table.chunks[number]) : NULL;
    return chunk != NULL ? &chunk[fd & (CHUNK_SIZE - 1)] : NULL;
}

static noinline struct descriptor *make(int fd)
{
    uint32_t number = (uint32_t)fd >> CHUNK_BITS;
    if (number >= CHUNKS_MOST)
        return NULL;
    lock_acquire(&table.lock);
    if (atomic_ptr_load_relaxed(&table.chunks[number]) == NULL)
        atomic_ptr_store_release(&table.chunks[number], weft__os_map(chunk_bytes()));
    lock_release(&table.lock);
    return find(fd);
}

static struct descriptor *find_or_make(int fd)
{
    struct descriptor *descriptor = find(fd);
    return likely(descriptor != NULL) ? descriptor : make(fd);
}

void weft__descriptors_stop(void)
{
    for (uint32_t i = 0; i < CHUNKS_MOST; i++) {
        void *chunk = atomic_ptr_load_relaxed(&table.chunks[i]);
        if (chunk == NULL)
            continue;
        atomic_ptr_store_relaxed(&table.chunks[i], NULL);
        weft__os_unmap(chunk, chunk_bytes());
    }
}

/* Who waits. Under the latch. */

static void list_wait(struct descriptor *descriptor, struct fd_wait *wait)
{
    wait->next = descriptor->waits;
    wait->link = &descriptor->waits;
    if (wait->next != NULL)
        wait->next->link = &wait->next;
    descriptor->waits = wait;
}

static void unlist_wait(struct fd_wait *wait)
{
    *wait->link = wait->next;
    if (wait->next != NULL)
        wait->next->link = wait->link;
    wait->link = NULL;
}

/* Claimed: to be made ready, when the latch is given back. */
static void add_ready(struct ready *ready, struct waiter *waiter)
{
    if (waiter->is_fiber) {
        struct weft_fiber *fiber = container_of(waiter, struct weft_fiber, waiter);
        fiber->state = FIBER_READY;
        chain_add(&ready->fibers, fiber);
    } else {
        waiter->next = ready->threads;
        ready->threads = waiter;
    }
}

/* Ends the waits for one of `events`, with those of its events; or all, with `error`, if that is not 0. One that
 * cannot be claimed has given up and takes itself out. */
static void end_waits(struct descriptor *descriptor, uint32_t events, int error,
                      struct ready *ready)
{
    for (struct fd_wait *wait = descriptor->waits, *next; wait != NULL; wait = next) {
        uint32_t got = wait->events & events;
        next = wait->next;
        if ((got == 0 && error == 0) || !waiter_claim(wait->waiter, error != 0 ? error : (int)got))
            continue;
        unlist_wait(wait);
        add_ready(ready, wait->waiter);
    }
}

/* The set. Under the latch. */

static uint64_t tag_of(int fd, const struct descriptor *descriptor)
{
    return (uint64_t)descriptor->generation << 32 | (uint32_t)fd;
}

/* Whether it is in the set is known only of an owned one: the other way is tried as well. */
static int watch(int fd, struct descriptor *descriptor, uint32_t events)
{
    uint64_t tag = tag_of(fd, descriptor);
    bool add = !descriptor->watched;
    int error = weft__poller_watch(fd, events, tag, add);
    if (error == (add ? -EEXIST : -ENOENT))
        error = weft__poller_watch(fd, events, tag, !add);
    descriptor->watched = error == 0;
    return error;
}

/* For all who wait for anybody's number. */
static int arm(int fd, struct descriptor *descriptor)
{
    uint32_t events = 0;
    for (const struct fd_wait *wait = descriptor->waits; wait != NULL; wait = wait->next)
        events |= wait->events;
    descriptor->generation++;
    return watch(fd, descriptor, events | OS_ONESHOT);
}

void weft__descriptor_event(uint64_t tag, uint32_t events, struct ready *ready)
{
    int fd = (int)(uint32_t)tag;
    struct descriptor *descriptor = find(fd);
    must(descriptor != NULL); /* what is watched has one, as long as the runtime runs */
    latch_acquire(&descriptor->latch);
    if (tag == tag_of(fd, descriptor)) {
        /* Release: who reads the count, and then tries, sees what made it ready. */
        if (events & OS_READABLE)
            atomic_u32_store_release(&descriptor->readable,
                                     atomic_u32_load_relaxed(&descriptor->readable) + 1);
        if (events & OS_WRITABLE)
            atomic_u32_store_release(&descriptor->writable,
                                     atomic_u32_load_relaxed(&descriptor->writable) + 1);
        end_waits(descriptor, events, 0, ready);
        int error = 0;
        if (!descriptor->owned && descriptor->waits != NULL)
            error = arm(fd, descriptor);
        if (error != 0)
            end_waits(descriptor, BOTH, error, ready);
    }
    latch_release(&descriptor->latch);
}

/* Waiting. */

static void unlatch(void *descriptor)
{
    latch_release(&((struct descriptor *)descriptor)->latch);
}

static void count_wait(int64_t change)
{
    struct thread *thread = thread_self();
    if (thread != NULL && thread->processor != NULL)
        atomic_i64_add_owner(&thread->processor->fd_waits, change);
    else
        atomic_i64_add_seq_cst(&table.threads, change);
}

bool weft__descriptor_thread_waits(void)
{
    return atomic_i64_load_seq_cst(&table.threads) != 0;
}

int64_t weft__descriptor_waits(void)
{
    int64_t waits = atomic_i64_load_seq_cst(&table.threads);
    for (uint32_t i = 0; i < processor_count(); i++)
        waits += atomic_i64_load_relaxed(&weft__sched.processors[i].fd_waits);
    return waits;
}

/* Called with the latch, which it gives back; `wait` is listed. */
static int park(struct descriptor *descriptor, struct fd_wait *wait, int64_t deadline)
{
    weft__poller_used_now();
    count_wait(1);
    int result = weft__park(wait->waiter, wait_id(&wait_descriptor), unlatch, descriptor, deadline);
    count_wait(-1);
    if (wait_gave_up(result)) {
        latch_acquire(&descriptor->latch);
        must(wait->link != NULL); /* only who has claimed it takes it out (end_waits) */
        unlist_wait(wait);
        latch_release(&descriptor->latch);
        if (!wait->waiter->is_fiber)
            weft__deadlock_ask(); /* this wait has kept it silent */
    }
    return result;
}

static void make_ready(struct ready *ready)
{
    if (ready->fibers.count + (ready->threads != NULL) > 0)
        weft__poller_make_ready(ready);
}

/* Anybody's number. */

/* A wait that did not get what it wants; as a last resort it looks itself. */
static int look(int fd, uint32_t events, int error)
{
    int found = weft__os_fd_events(fd, events);
    return found != 0 ? found : error;
}

/* What is to be said of a descriptor that cannot be put in the set. */
static int not_watched(uint32_t events, int error)
{
    return error == -EPERM ? (int)events : error; /* a regular file or a folder */
}

/* Inside the runtime. *owned: it belongs to a socket of ours; nothing was done. */
static int wait_anybodys(int fd, struct descriptor *descriptor, struct fd_wait *wait,
                         int64_t deadline, bool *owned)
{
    struct waiter own;
    latch_acquire(&descriptor->latch);
    *owned = descriptor->owned;
    if (*owned) {
        latch_release(&descriptor->latch);
        return 0;
    }
    wait->waiter = weft__waiter_begin(&own);
    list_wait(descriptor, wait);
    int error = arm(fd, descriptor);
    if (likely(error == 0))
        return park(descriptor, wait, deadline);
    unlist_wait(wait);
    wait->waiter = NULL;
    latch_release(&descriptor->latch);
    return not_watched(wait->events, error);
}

/* Inside the runtime. Waits for `events` of an owned number if it was not ready for them more often than
 * seen; 0 if it was, or is now. */
static int wait_owned(int fd, struct descriptor *descriptor, struct fd_wait *wait,
                      const uint32_t *seen, int64_t deadline)
{
    uint32_t events = wait->events;
    struct waiter own;
    int result = 0;
    latch_acquire(&descriptor->latch);
    if (descriptor->shut || !descriptor->owned)
        result = -ESHUTDOWN;
    else if (!descriptor->watched)
        result = watch(fd, descriptor, BOTH | OS_EDGE);
    bool missed =
        (events & OS_READABLE && atomic_u32_load_relaxed(&descriptor->readable) != seen[0]) ||
        (events & OS_WRITABLE && atomic_u32_load_relaxed(&descriptor->writable) != seen[1]);
    if (result != 0 || missed) {
        latch_release(&descriptor->latch);
        return result;
    }
    wait->waiter = weft__waiter_begin(&own);
    list_wait(descriptor, wait);
    result = park(descriptor, wait, deadline);
    return result > 0 ? 0 : result;
}

static void see(const struct descriptor *descriptor, uint32_t *seen)
{
    /* Pair with the release of the count. */
    seen[0] = atomic_u32_load_acquire(&descriptor->readable);
    seen[1] = atomic_u32_load_acquire(&descriptor->writable);
}

/* For a socket's number by way of weft_fd_wait: its owner shares it. */
static int wait_as_guest(int fd, struct descriptor *descriptor, struct fd_wait *wait,
                         int64_t deadline)
{
    for (;;) {
        uint32_t seen[2];
        see(descriptor, seen);
        int result = weft__os_fd_events(fd, wait->events);
        if (result != 0)
            return result;
        result = wait_owned(fd, descriptor, wait, seen, deadline);
        if (result != 0)
            return result == -ESHUTDOWN ? -EBADF : result;
    }
}

/* Where a wait is listed: a compact fiber has it elsewhere than on its stack. NULL without memory. */
static struct fd_wait *wait_begin(struct fd_wait *own, uint32_t events)
{
    struct fd_wait *wait = likely(!on_compact()) ? own : weft__stash(sizeof *wait);
    if (likely(wait != NULL))
        *wait = (struct fd_wait){.events = events};
    return wait;
}

static void wait_end(struct fd_wait *wait, const struct fd_wait *own)
{
    if (unlikely(wait != own))
        weft__unstash(wait);
}

int weft_fd_wait(int fd, int events, int64_t deadline)
{
    uint32_t wanted = (uint32_t)events;
    if (wanted == 0 || (wanted & ~(uint32_t)BOTH) != 0)
        return -EINVAL;
    if (fd < 0)
        return -EBADF;
    if (deadline <= WEFT_NOW)
        return look(fd, wanted, -ETIMEDOUT);
    if (weft__runtime_forked())
        return look(fd, wanted, -ECHILD);
    int error = runtime_ensure();
    struct descriptor *descriptor = error == 0 ? find_or_make(fd) : NULL;
    if (descriptor == NULL)
        return error != 0 ? error : -ENOMEM;
    struct fd_wait own, *wait = wait_begin(&own, wanted);
    if (wait == NULL)
        return -ENOMEM;
    bool fiber = enter_if_fiber(), owned;
    int result = wait_anybodys(fd, descriptor, wait, deadline, &owned);
    if (owned)
        result = wait_as_guest(fd, descriptor, wait, deadline);
    leave_if_fiber(fiber);
    wait_end(wait, &own);
    return wait_gave_up(result) ? look(fd, wanted, result) : result;
}

/* An owner's number. */

int weft__descriptor_own(int fd)
{
    int error = runtime_ensure();
    struct descriptor *descriptor = error == 0 ? find_or_make(fd) : NULL;
    if (descriptor == NULL)
        return error != 0 ? error : -ENOMEM;
    latch_acquire(&descriptor->latch);
    bool owned = descriptor->owned;
    if (!owned) {
        descriptor->generation++;
        descriptor->owned = true;
        descriptor->shut = descriptor->watched = false;
    }
    latch_release(&descriptor->latch);
    return owned ? -EBUSY : 0;
}

void weft__descriptor_shut(int fd)
{
    struct ready ready = {.threads = NULL};
    struct descriptor *descriptor = find(fd);
    if (descriptor == NULL)
        return;
    latch_acquire(&descriptor->latch);
    descriptor->shut = true;
    end_waits(descriptor, BOTH, -ESHUTDOWN, &ready);
    latch_release(&descriptor->latch);
    make_ready(&ready);
}

void weft__descriptor_disown(int fd)
{
    struct descriptor *descriptor = find(fd);
    if (descriptor == NULL)
        return;
    latch_acquire(&descriptor->latch);
    descriptor->generation++;
    if (descriptor->owned && descriptor->watched)
        weft__poller_unwatch(fd);
    descriptor->owned = descriptor->shut = descriptor->watched = false;
    latch_release(&descriptor->latch);
}

uint32_t weft__descriptor_seen(int fd, uint32_t event)
{
    const struct descriptor *descriptor = find(fd);
    if (unlikely(descriptor == NULL))
        return 0; /* the wait will tell */
    /* Pairs with the release of the count. */
    return atomic_u32_load_acquire(event == OS_READABLE ? &descriptor->readable
                                                        : &descriptor->writable);
}

int weft__descriptor_wait(int fd, uint32_t event, uint32_t seen, int64_t deadline)
{
    struct descriptor *descriptor = find(fd);
    const uint32_t both[2] = {seen, seen}; /* only that of the event counts */
    if (unlikely(descriptor == NULL || weft__runtime_forked()))
        return -ECHILD;
    if (deadline <= WEFT_NOW)
        return -ETIMEDOUT;
    struct fd_wait own, *wait = wait_begin(&own, event);
    if (wait == NULL)
        return -ENOMEM;
    bool fiber = enter_if_fiber();
    int result = wait_owned(fd, descriptor, wait, both, deadline);
    leave_if_fiber(fiber);
    wait_end(wait, &own);
    return result;
}
