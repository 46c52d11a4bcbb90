/*
 * ring.h: file operations of fibers through the kernel's ring.
 */
#ifndef WEFT_IO_RING_H
#define WEFT_IO_RING_H

#include "os/os.h"

/* Does the operation for the calling fiber. True: it was done, or given up, and *result says how; then the
 * kernel no longer touches its memory. False: there is no ring, or it has no room: it was not begun. */
bool weft__ring_run(const struct weft__os_io *io, int64_t deadline, int64_t *result);

/* For tests: system calls that handed operations to the kernel, and how many operations that were; since
 * the process began. */
uint64_t weft__ring_submits(void);
uint64_t weft__ring_operations(void);

#endif
