/*
 * weft/fd.h: waits for a descriptor, for libraries that do not know weft.
 *
 * A library that reports "would block on this descriptor" (EAGAIN, SSL_ERROR_WANT_READ, a PGconn's
 * socket, curl's) is driven by a loop: call it, and weft_fd_wait when it would block. A fiber parks
 * meanwhile and its thread runs others; a thread blocks. weft's own sockets (weft/net.h) need no
 * such loop.
 *
 *     while ((got = read(fd, buffer, sizeof buffer)) < 0 && read_would_block())
 *         if (weft_fd_wait(fd, WEFT_READABLE, weft_after(5 * WEFT_S)) < 0)
 *             return -1;
 */
#ifndef WEFT_FD_H
#define WEFT_FD_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* What to wait for. */
#define WEFT_READABLE 1 /* a read (accept, receive) would not block */
#define WEFT_WRITABLE 2 /* a write (or the end of a connect) would not block */

/* Waits until the descriptor is ready for one of `events`, at most until the deadline or the end of
 * the caller's context. WEFT_NOW asks without waiting. A wait that ends by its deadline or its
 * context checks once more before it returns.
 *
 * Everything that poll(2) can wait for is allowed: sockets, pipes, terminals, eventfds, timerfds,
 * pidfds, inotify; a regular file is always ready. The descriptor need not be non-blocking. The
 * call does not change it and keeps nothing of it: it may be closed, and its number reused, before
 * the next call. Any number of fibers and threads may wait for one descriptor; each of them that
 * waits for an event that happens returns, whatever the others do with the descriptor.
 *
 * Returns those of `events` that it is ready for, which is more than 0; after an error or a hang-up
 * these are all of `events`, and the next read or write returns the error. -ETIMEDOUT; -ECANCELED;
 * -EBADF if the descriptor is not open; -EINVAL if `events` is neither of the two nor both;
 * -ENOMEM, -ENOSPC (the limit of epoll) if it cannot be watched; an error of the start of the
 * runtime (weft/base.h); -ECHILD if the call would have to wait in a forked child.
 * Contexts: fiber, thread.
 * Undefined: closing the descriptor during the call: it may then wait until its deadline. */
WEFT_API WEFT_MUST_USE int weft_fd_wait(int fd, int events, int64_t deadline);

WEFT_END

#endif
