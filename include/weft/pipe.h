/*
 * weft/pipe.h: pipes, and reading from and writing to non-blocking descriptors.
 *
 *     int ends[2];
 *     if (weft_pipe_make(ends) != 0)
 *         return 1;
 *     put = weft_pipe_write(ends[1], "hello", 5, WEFT_NEVER);                      // in one fiber
 *     got = weft_pipe_read(ends[0], memory, sizeof memory, weft_after(WEFT_S));    // in another
 *
 * A fiber that has to wait parks; a thread blocks. The calls are for any non-blocking descriptor
 * that can be waited for (weft/fd.h): pipes, FIFOs, terminals, sockets, eventfds. A descriptor that
 * blocks holds the thread while it does.
 *
 * A write to a pipe without a reader raises SIGPIPE, which ends the process unless the program
 * ignores it: signal(SIGPIPE, SIG_IGN).
 */
#ifndef WEFT_PIPE_H
#define WEFT_PIPE_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* Makes a pipe: ends[0] reads what ends[1] writes. Both are non-blocking and close-on-exec, and
 * closed by close(2) while no call uses them.
 * Returns 0; -EMFILE, -ENFILE; -EINVAL if ends is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_pipe_make(int ends[2]);

/* Reads what there is, up to `size` bytes; waits while there is nothing. What can be read at once
 * is read, also after the deadline and in a cancelled context.
 * Returns the number of bytes, 0 at the end (no process has the other end open for writing); an
 * error of read(2), negative; -ETIMEDOUT; -ECANCELED; an error of weft_fd_wait. On an error nothing
 * was read.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE ssize_t weft_pipe_read(int fd, void *memory, size_t size, int64_t deadline);

/* Writes `size` bytes; waits while there is no room. What can be written at once is written, also
 * after the deadline and in a cancelled context.
 * Returns `size`; fewer if the deadline, a cancelled context or an error ended the call after a
 * part was written; that error if nothing was: an error of write(2), negative, -ETIMEDOUT,
 * -ECANCELED, or an error of weft_fd_wait.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE ssize_t weft_pipe_write(int fd, const void *memory, size_t size,
                                               int64_t deadline);

WEFT_END

#endif
