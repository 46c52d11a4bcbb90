/*
 * ring.h: file operations of fibers through one io_uring.
 */
#ifndef WEFT_IO_RING_H
#define WEFT_IO_RING_H

#include "os/os.h"

/* Does the operation, parking the calling fiber. True: *result is the result of weft__os_io,
 * -ETIMEDOUT or -ECANCELED; the kernel no longer uses its memory. False: it was not begun, since
 * there is no ring or the kernel did not accept it. Called in a fiber with a stack of its own,
 * outside the runtime. */
bool weft__ring_run(const struct weft__os_io *io, int64_t deadline, int64_t *result);

/* For tests: the system calls that have submitted operations, and those operations, since the
 * process began. */
uint64_t weft__ring_submits(void);
uint64_t weft__ring_operations(void);

#endif
