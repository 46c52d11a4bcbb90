/*
 * ring.h: operations on files that the kernel does while the thread goes on. Rules of all calls:
 * os/os.h.
 *
 * Entries are pushed, submitted to the kernel together, and popped when they are complete, in any
 * order. The memory of an operation is the kernel's from the submit to the completion. A ring is
 * used by one thread at a time. Linux: io_uring; a system without one returns -ENOSYS from
 * weft__os_ring_open, and no other call is made.
 */
#ifndef WEFT_OS_RING_H
#define WEFT_OS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/file.h"

/* For its user: `fd` is readable while a completion waits, `capacity` operations may be in flight
 * with a cancellation for each, and `pushed` entries are not submitted. The rest is the
 * implementation's. */
struct weft__os_ring {
    int fd;
    void *memory, *entries;
    size_t memory_size, entries_size;
    uint32_t *submit_head, *submit_tail, *submit_array, *complete_head, *complete_tail;
    void *completions;
    uint32_t submit_mask, complete_mask;
    uint32_t capacity;
    uint32_t pushed;
};

/* Opens a ring that takes `entries` (a power of two) between two submits. -ENOSYS, -EPERM and such
 * where the system lacks it, forbids it, or has less than weft uses. [OS_RING, OS_MAP] */
int weft__os_ring_open(struct weft__os_ring *ring, uint32_t entries);

/* Closes it. Nothing may be in flight. */
void weft__os_ring_close(struct weft__os_ring *ring);

/* Pushes an operation; `tag` comes back with its completion. False if there is no room before the
 * next submit. *io is read at once, what it points to is the kernel's. */
bool weft__os_ring_push(struct weft__os_ring *ring, const struct weft__os_io *io, uint64_t tag);

/* Pushes a request to cancel the operation of tag `which`, with a completion of its own. A
 * cancelled operation completes with -ECANCELED or -EINTR. A request may come too late, or miss an
 * operation that is about to begin: then that completes as ever. False if there is no room. */
bool weft__os_ring_push_cancel(struct weft__os_ring *ring, uint64_t which, uint64_t tag);

/* Pushes an entry that does nothing but complete. False if there is no room. */
bool weft__os_ring_push_empty(struct weft__os_ring *ring, uint64_t tag);

/* Submits what was pushed: how many entries the kernel took, oldest first; or an error, and it took
 * none. What it can do at once is complete when this returns. [OS_RING] */
int weft__os_ring_submit(struct weft__os_ring *ring);

/* Takes back the entry that was pushed last and not submitted: its tag. False if there is none. */
bool weft__os_ring_unpush(struct weft__os_ring *ring, uint64_t *tag);

/* Takes the next completion: what weft__os_io would have returned; besides -EINTR, or -ECANCELED
 * also unasked, if the thread that submitted the operation has ended. False if there is none.
 * [OS_FILE] */
bool weft__os_ring_pop(struct weft__os_ring *ring, uint64_t *tag, int32_t *result);

#endif
