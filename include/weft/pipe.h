/*
 * weft/pipe.h: pipes, and reading and writing descriptors that do not block.
 *
 *     int ends[2];
 *     if (weft_pipe_make(ends) != 0)
 *         return 1;
 *     put = weft_pipe_write(ends[1], "hello", 5, WEFT_NEVER);                      // in one fiber
 *     got = weft_pipe_read(ends[0], memory, sizeof memory, weft_after(WEFT_S));    // in another
 *
 * A fiber that has to wait parks; a thread blocks. The calls are for any descriptor that can be waited for
 * (weft/fd.h) and is non-blocking: pipes, FIFOs, terminals, sockets, eventfds. One that blocks holds the
 * thread while it does.
 *
 * Writing to a pipe that nobody reads raises SIGPIPE, which ends the process unless it is ignored, as ever:
 * signal(SIGPIPE, SIG_IGN).
 */
#ifndef WEFT_PIPE_H
#define WEFT_PIPE_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* Makes a pipe: ends[0] to read from, ends[1] to write to; non-blocking, and closed on exec. Close them by
 * close(2) when nobody waits for them.
 * Returns 0; -EMFILE, -ENFILE; -EINVAL if ends is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pipe_make(int ends[2]);

/* Reads what is there, up to `size` bytes; waits while there is nothing.
 * Returns the number of bytes, 0 at the end (nobody has the other end open for writing); what read(2) may
 * say, negative; -ETIMEDOUT; -ECANCELED; and as weft_fd_wait. With an error nothing was read.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE ssize_t weft_pipe_read(int fd, void *memory, size_t size, int64_t deadline);

/* Writes all of it; waits while there is no room.
 * Returns `size`; or if something came in between (an error, the deadline, a cancelled context), the number
 * of bytes written before, if any were; else what it was: what write(2) may say, negative, -ETIMEDOUT,
 * -ECANCELED, and as weft_fd_wait.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE ssize_t weft_pipe_write(int fd, const void *memory, size_t size,
                                               int64_t deadline);

WEFT_END

#endif
