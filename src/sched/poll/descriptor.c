/*
 * descriptor.c: waiting for descriptors: a record for each number, with the list of its waits.
 *
 * The records are in a table that is indexed by the number and only grows. So an event of the
 * poller finds its record by the number, whatever has become of the descriptor meanwhile. The tag
 * of an event is the number and the generation of the record; an event with a stale generation is
 * ignored.
 *
 * A number is in one of two states:
 *
 *     unowned  Code that knows nothing of weft may close it at any time, and the number may then
 *              name another file. So nothing is kept from one wait to the next. Each wait arms the
 *              set for one event (OS_ONESHOT), level-triggered, under a new generation. If the
 *              descriptor is ready already, the event comes at once.
 *     owned    A socket of weft, closed only by way of this file. It is added to the set once, at
 *              its first wait, edge-triggered, for reading and writing. Each event is counted in
 *              the record, and a wait passes the count that was read before the failed try.
 *
 * What could be lost, and why it is not. All of the following happens under the latch of the
 * record, which a parking fiber releases after its context is saved:
 *
 *     event | about to park    Owned: the count was read before the try. If the event is later than
 *                              the try, either the count differs when the wait begins, or the event
 *                              finds the waiter. Unowned: the set is armed after the waiter is
 *                              listed, and is level-triggered.
 *     event | deadline, cancel Each claims the waiter, and one wins (park.h). If the event loses,
 *                              the waiter leaves the list by itself. The event is not lost: it
 *                              ends all other waits for it as well, and for an owned number it is
 *                              counted.
 *     event | second waiter    Unowned: the second wait arms the set again for the events of both,
 *                              under a new generation. An event of the first arming is ignored
 *                              then, and level-triggering sends another. After an event that does
 *                              not end all waits, the set is armed again for the rest.
 *     event | shut             Shut ends all waits and lets no other begin. Both claim; one wins.
 *     event | number reused    Disown changes the generation and removes the number from the set
 *                              before it is closed. If an unowned number is closed, the kernel
 *                              removes it, or (if it has duplicates) may send one event with a
 *                              stale generation.
 *
 * A wait for an unowned number that is closed meanwhile may never end. If the number then names
 * another descriptor, for which another fiber waits, the events of that end both waits.
 *
 * Lock order: the latch of a record, then the locks of processor queues. The system call under the
 * latch (epoll_ctl) takes some hundred nanoseconds, which is acceptable for a latch.
 *
 * Rejected:
 *  - one-shot arming for sockets too: a system call for each wait
 *  - edge-triggered registration for unowned numbers: the set loses a number that is closed and
 *    reused, and weft does not learn of it
 *  - a sticky "ready" bit instead of the count: what one reader consumes is lost to another one
 *  - records inside the sockets: an event may be on its way to a record that was freed
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

_Static_assert(WEFT_READABLE == OS_READABLE && WEFT_WRITABLE == OS_WRITABLE,
               "passed to the set as they are");

enum { CHUNK_BITS = 12, CHUNK_SIZE = 1 << CHUNK_BITS, CHUNKS_MOST = 1 << 14 };
enum { BOTH = OS_READABLE | OS_WRITABLE };

/* A wait in the list of a record; on the stack of the call, see wait_begin. */
struct fd_wait {
    struct fd_wait *next, **link; /* link: the pointer that points at it; NULL: in no list */
    struct waiter *waiter;
    uint32_t events;
};

struct descriptor {
    struct latch latch; /* guards the rest */
    uint32_t generation;
    atomic_u32 readable, writable; /* counts of events; also read without the latch */
    struct fd_wait *waits;
    bool owned;
    bool shut;
    bool watched; /* in the set; only a guess if the number is not owned */
};

static struct {
    atomic_ptr chunks[CHUNKS_MOST]; /* each an array of CHUNK_SIZE descriptors */
    struct lock lock;               /* held to make a chunk */
    atomic_i64 threads;             /* waits of threads; processors count those of fibers */
} table;

/* The table. */

static size_t chunk_bytes(void)
{
    return CHUNK_SIZE * sizeof(struct descriptor);
}

/* The record of a number; NULL if none was ever needed. */
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

/* The list of waits. Under the latch. */

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

/* Adds a claimed waiter to `ready`: it is made ready after the latch is released. */
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

/* Ends the waits for any of `events`, with the events that each waits for; if `error` is not 0,
 * ends all waits with it. A waiter that cannot be claimed has given up, and leaves the list by
 * itself. */
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

/* Adds a number to the set, or changes it there. If it is not owned, `watched` may be wrong: then
 * the other operation is tried as well. */
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

/* Arms the set for all waits of an unowned number. */
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
    must(descriptor != NULL); /* a watched number has a record while the runtime runs */
    latch_acquire(&descriptor->latch);
    if (tag == tag_of(fd, descriptor)) {
        /* Release: a thread that reads the count and then tries sees what made it ready. */
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

/* Parks a listed wait; called with the latch, returns without it. */
static int park(struct descriptor *descriptor, struct fd_wait *wait, int64_t deadline)
{
    weft__poller_used_now();
    count_wait(1);
    int result = weft__park(wait->waiter, wait_id(&wait_descriptor), unlatch, descriptor, deadline);
    count_wait(-1);
    if (wait_gave_up(result)) {
        latch_acquire(&descriptor->latch);
        must(wait->link != NULL); /* only the party that claims it unlists it (end_waits) */
        unlist_wait(wait);
        latch_release(&descriptor->latch);
        if (!wait->waiter->is_fiber)
            weft__deadlock_recheck(); /* while this wait lasted there was no check */
    }
    return result;
}

static void make_ready(struct ready *ready)
{
    if (ready->fibers.count + (ready->threads != NULL) > 0)
        weft__poller_make_ready(ready);
}

/* Unowned numbers. */

/* The events that the descriptor is ready for now, asked of the kernel; `error` if none. */
static int poll_once(int fd, uint32_t events, int error)
{
    int found = weft__os_fd_events(fd, events);
    return found != 0 ? found : error;
}

/* The result of a wait for a descriptor that cannot be added to the set. */
static int not_watched(uint32_t events, int error)
{
    return error == -EPERM ? (int)events : error; /* regular files and folders are always ready */
}

/* Waits for an unowned number, inside the runtime. Sets *owned, and does nothing else, if it is
 * owned. */
static int wait_unowned(int fd, struct descriptor *descriptor, struct fd_wait *wait,
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

/* Waits for an owned number, inside the runtime, unless it has become ready for one of the wait's
 * events more often than `seen`. Returns 0 when it is ready. */
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

/* Reads both counts; must come before the try. */
static void read_counts(const struct descriptor *descriptor, uint32_t *seen)
{
    /* These pair with the release of the counts. */
    seen[0] = atomic_u32_load_acquire(&descriptor->readable);
    seen[1] = atomic_u32_load_acquire(&descriptor->writable);
}

/* weft_fd_wait for an owned number: waits beside the owner, which shares its counts. */
static int wait_beside_owner(int fd, struct descriptor *descriptor, struct fd_wait *wait,
                             int64_t deadline)
{
    for (;;) {
        uint32_t seen[2];
        read_counts(descriptor, seen);
        int result = weft__os_fd_events(fd, wait->events);
        if (result != 0)
            return result;
        result = wait_owned(fd, descriptor, wait, seen, deadline);
        if (result != 0)
            return result == -ESHUTDOWN ? -EBADF : result;
    }
}

/* Initialises a wait: `own`, or for a compact fiber one in its stash, since its stack moves. NULL
 * without memory. */
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
        return poll_once(fd, wanted, -ETIMEDOUT);
    if (weft__runtime_forked())
        return poll_once(fd, wanted, -ECHILD);
    int error = runtime_ensure();
    struct descriptor *descriptor = error == 0 ? find_or_make(fd) : NULL;
    if (descriptor == NULL)
        return error != 0 ? error : -ENOMEM;
    struct fd_wait own, *wait = wait_begin(&own, wanted);
    if (wait == NULL)
        return -ENOMEM;
    bool fiber = enter_if_fiber(), owned;
    int result = wait_unowned(fd, descriptor, wait, deadline, &owned);
    if (owned)
        result = wait_beside_owner(fd, descriptor, wait, deadline);
    leave_if_fiber(fiber);
    wait_end(wait, &own);
    return wait_gave_up(result) ? poll_once(fd, wanted, result) : result;
}

/* Owned numbers. */

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
        return 0; /* the wait fails */
    /* Pairs with the release of the count. */
    return atomic_u32_load_acquire(event == OS_READABLE ? &descriptor->readable
                                                        : &descriptor->writable);
}

int weft__descriptor_wait(int fd, uint32_t event, uint32_t seen, int64_t deadline)
{
    struct descriptor *descriptor = find(fd);
    const uint32_t both[2] = {seen, seen}; /* only the count of the event is compared */
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
