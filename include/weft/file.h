/*
 * weft/file.h: read and write files without holding a processor.
 *
 * A file is a plain descriptor. A fiber that has to wait for the disk parks, and other fibers run
 * meanwhile; a thread blocks. Data in the page cache is read at once. All other operations on
 * files, of all fibers, go through one io_uring, many with one system call. Where the kernel has no
 * io_uring (before 5.7) or forbids it (containers), each operation is handed to a thread of its own
 * (weft/blocking.h); the calls are the same.
 *
 *     int fd = weft_file_open("data", O_RDONLY, 0);
 *     if (fd < 0)
 *         return fd;
 *     ssize_t got = weft_file_pread(fd, block, sizeof block, 0, weft_after(WEFT_S));
 *     ...
 *     weft_file_close(fd);
 *
 * The calls also work on pipes, terminals and sockets, blocking or not; weft/pipe.h and weft/net.h
 * are made for those.
 *
 * Counts are those of read(2) and write(2): fewer bytes than asked for may be read at the end of a
 * file, or from a pipe or terminal, and written where the space ends. Signals do not interrupt a
 * call: -EINTR is never returned.
 *
 * Deadline and context. When the deadline passes, or the context of the caller (weft/context.h) is
 * cancelled:
 *  - A wait for a pipe, terminal or socket ends at once.
 *  - An operation that the kernel has begun is cancelled there. The call returns as soon as the
 *    kernel no longer uses the memory, and never before, so the memory may be on the stack of the
 *    caller.
 *  - A transfer that a disk has begun cannot be cancelled: the call returns when it is done, with
 *    its result. The same holds for a hand-off to a thread, and for a call made by a thread.
 * The call returns -ETIMEDOUT or -ECANCELED if nothing was transferred as far as the kernel can
 * tell. A write that was cancelled may still have changed the file. With WEFT_NOW a call does what
 * needs no waiting.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/time.h>

struct iovec;
struct stat;

WEFT_BEGIN

/* Opens a file: path, flags and mode as for open(2); always close-on-exec. The call cannot be
 * cancelled. In particular a FIFO waits for its other end: open it with O_NONBLOCK.
 * Returns a descriptor; an error of open(2), negative; -EINVAL if path is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_file_open(const char *path, int flags, unsigned mode);

/* Reads up to `size` bytes from the position of the file, which moves.
 * Returns the number of bytes, 0 at the end of the file; an error of read(2), negative; -ETIMEDOUT;
 * -ECANCELED.
 * Contexts: fiber, thread.
 * Undefined: closing the descriptor, or another use of the memory, during the call. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_read(int fd, void *memory, size_t size, int64_t deadline);

/* Reads up to `size` bytes from `offset`, without using or moving the position of the file.
 * Returns as weft_file_read; -EINVAL if the offset is negative; -ESPIPE for what has no offsets.
 * Contexts: fiber, thread.
 * Undefined: as for weft_file_read. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_pread(int fd, void *memory, size_t size, int64_t offset,
                                               int64_t deadline);

/* Writes up to `size` bytes at the position of the file, which moves. A pipe or socket without a
 * reader raises SIGPIPE, as write(2) does.
 * Returns the number of bytes; an error of write(2), negative; -ETIMEDOUT; -ECANCELED.
 * Contexts: fiber, thread.
 * Undefined: closing the descriptor, or changing the memory, during the call. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_write(int fd, const void *memory, size_t size,
                                               int64_t deadline);

/* Writes up to `size` bytes at `offset`, without using or moving the position of the file.
 * Returns as weft_file_write; -EINVAL if the offset is negative; -ESPIPE for what has no offsets.
 * Contexts: fiber, thread.
 * Undefined: as for weft_file_write. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_pwrite(int fd, const void *memory, size_t size,
                                                int64_t offset, int64_t deadline);

/* Reads into `count` pieces of memory (<sys/uio.h>), in their order, from `offset`; -1 is the
 * position of the file. `pieces` is not changed.
 * Returns as weft_file_pread; -EINVAL also if pieces is NULL, or count is negative or over IOV_MAX.
 * Contexts: fiber, thread.
 * Undefined: as for weft_file_read. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_preadv(int fd, const struct iovec *pieces, int count,
                                                int64_t offset, int64_t deadline);

/* Writes `count` pieces of memory, in their order, at `offset`; -1 is the position of the file.
 * `pieces` is not changed.
 * Returns as weft_file_pwrite; -EINVAL also if pieces is NULL, or count is negative or over
 * IOV_MAX.
 * Contexts: fiber, thread.
 * Undefined: as for weft_file_write. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_pwritev(int fd, const struct iovec *pieces, int count,
                                                 int64_t offset, int64_t deadline);

/* Waits until what was written to the file is on the disk, as fsync(2).
 * Returns 0; an error of fsync(2), negative; -ETIMEDOUT and -ECANCELED if it had not begun.
 * Contexts: fiber, thread.
 * Undefined: closing the descriptor during the call. */
WEFT_API WEFT_MUST_USE int weft_file_sync(int fd, int64_t deadline);

/* Waits until the data written to the file, and what is needed to find it, are on the disk, as
 * fdatasync(2).
 * Returns as weft_file_sync.
 * Contexts: fiber, thread.
 * Undefined: closing the descriptor during the call. */
WEFT_API WEFT_MUST_USE int weft_file_sync_data(int fd, int64_t deadline);

/* Closes the descriptor without holding a processor while a disk or file server is waited for.
 * Cannot be cancelled.
 * Returns 0, or an error of close(2), negative: earlier writes may be lost. The descriptor is
 * closed in either case.
 * Contexts: fiber, thread.
 * Undefined: closing a descriptor that another call uses. */
WEFT_API int weft_file_close(int fd);

/* Stores what is known of the file at the path, as stat(2), without holding a processor. Cannot be
 * cancelled.
 * Returns 0; an error of stat(2), negative; -EINVAL if an argument is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_file_stat(const char *path, struct stat *status);

/* Removes the path, as unlink(2), without holding a processor. Cannot be cancelled.
 * Returns 0; an error of unlink(2), negative; -EINVAL if path is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_file_unlink(const char *path);

/* Renames a file, as rename(2), without holding a processor. Cannot be cancelled.
 * Returns 0; an error of rename(2), negative; -EINVAL if an argument is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_file_rename(const char *from, const char *to);

WEFT_END

#endif
