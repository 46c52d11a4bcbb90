/*
 * weft/fd.h: waiting for a descriptor, so that libraries that know nothing of weft can be driven by it.
 *
 * A library that says "I would block on this descriptor" (EAGAIN, SSL_ERROR_WANT_READ, a PGconn's
 * socket, curl's) is driven by a loop: call it, and when it would block, weft_fd_wait. A fiber parks
 * meanwhile, and its thread runs others; a thread blocks. Sockets of weft's own (weft/net.h) do this by
 * themselves.
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

/* Waits until the descriptor is ready for one of `events`, at most until the deadline, and not beyond the
 * end of the caller's context. Anything that poll(2) can wait for will do: sockets, pipes, terminals,
 * eventfds, timerfds, pidfds, inotify; a regular file is always ready. It need not be non-blocking. It is
 * not changed, and nothing of it is kept after the call: it may be closed, and its number used for
 * something else, before the next. Any number of fibers and threads may wait for the same descriptor; each
 * that waits for what it is ready for then is told, whatever the others do with it.
 *
 * Returns those of `events` that it is ready for, which is more than 0; after an error or a hang-up, those
 * are all that were asked for, and the next read or write tells more. -ETIMEDOUT; -ECANCELED; -EBADF if it
 * is not open; -EINVAL if `events` is neither of the two nor both; -ENOMEM, -ENOSPC (the limit of epoll)
 * if it cannot be watched; what the start of the runtime may return (weft/base.h); -ECHILD if it would
 * have to wait in a forked child. WEFT_NOW asks without waiting; and a wait that ends by its deadline or
 * its context looks once more.
 *
 * A descriptor that is closed while it is waited for is the caller's mistake: the wait may not end before
 * its deadline.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_fd_wait(int fd, int events, int64_t deadline);

WEFT_END

#endif
