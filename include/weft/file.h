/*
 * weft/file.h: read and write files without holding a processor.
 *
 * A file is a plain descriptor. A fiber that has to wait for the disk parks, and others run meanwhile; a
 * thread blocks. What is in the page cache is read at once, without any detour. Otherwise the operations
 * on files of all fibers go through one io_uring, many with one system call. Where the kernel has none (before 5.7)
 * or forbids it (containers), each is handed to a thread of its own (weft/blocking.h); the calls are the
 * same.
 *
 *     int fd = weft_file_open("data", O_RDONLY, 0);
 *     if (fd < 0)
 *         return fd;
 *     ssize_t got = weft_file_pread(fd, block, sizeof block, 0, weft_after(WEFT_S));
 *     ...
 *     weft_file_close(fd);
 *
 * Counts are as those of read and write: fewer bytes than asked for may be read at the end of a file, or
 * from a pipe or terminal, and written where the space ends. Signals do not interrupt (no -EINTR).
 *
 * Deadline and context. An operation that is under way when the deadline passes, or when the caller's context
 * (weft/context.h) is cancelled, is cancelled in the kernel, and the call returns -ETIMEDOUT or -ECANCELED as
 * soon as the kernel no longer touches the memory: never before, so the memory may be on the caller's stack.
 * Waits for pipes, terminals and sockets end at once. What a disk has begun cannot be cancelled: the call
 * returns when that is done, with its result. The same holds for a hand-off, and on a plain thread. After
 * an error nothing was read or written as far as the kernel can tell; a write that was cancelled may
 * still have changed the file if the kernel was in the middle of it. WEFT_NOW does what needs no waiting.
 *
 * The calls also serve pipes, terminals and sockets, blocking or not; weft/fd.h has what is made for those.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <sys/types.h>
#include <weft/base.h>
#include <weft/time.h>

struct iovec;
struct stat;

WEFT_BEGIN

/* Opens a file: path, flags and mode as for open(2). It is always closed on exec. A FIFO that waits for its other
 * end cannot be cancelled: open it with O_NONBLOCK.
 * Returns a descriptor; what open(2) may say, negative; -EINVAL if path is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_file_open(const char *path, int flags, unsigned mode);

/* Reads up to `size` bytes from where the file stands, or from `offset`.
 * Returns the number of bytes, 0 at the end of the file; what read(2) may say, negative; -ETIMEDOUT;
 * -ECANCELED; -EINVAL also for a negative offset.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_read(int fd, void *memory, size_t size, int64_t deadline);
WEFT_API WEFT_MUST_USE ssize_t weft_file_pread(int fd, void *memory, size_t size, int64_t offset,
                                               int64_t deadline);

/* Writes up to `size` bytes to where the file stands, or to `offset`.
 * Returns the number of bytes; what write(2) may say, negative (-EPIPE comes with SIGPIPE, as ever);
 * -ETIMEDOUT; -ECANCELED; -EINVAL also for a negative offset.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_write(int fd, const void *memory, size_t size,
                                               int64_t deadline);
WEFT_API WEFT_MUST_USE ssize_t weft_file_pwrite(int fd, const void *memory, size_t size,
                                                int64_t offset, int64_t deadline);

/* The same with up to IOV_MAX pieces of memory (<sys/uio.h>), in their order. An offset of -1 is where the
 * file stands.
 * Returns and contexts: as above. */
WEFT_API WEFT_MUST_USE ssize_t weft_file_preadv(int fd, const struct iovec *pieces, int count,
                                                int64_t offset, int64_t deadline);
WEFT_API WEFT_MUST_USE ssize_t weft_file_pwritev(int fd, const struct iovec *pieces, int count,
                                                 int64_t offset, int64_t deadline);

/* Waits until what was written is on the disk: all of it, or the data and what is needed to find it.
 * Returns 0; what fsync(2) may say, negative; -ETIMEDOUT and -ECANCELED if it had not begun.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_file_sync(int fd, int64_t deadline);
WEFT_API WEFT_MUST_USE int weft_file_sync_data(int fd, int64_t deadline);

/* Closes the descriptor, asks for, removes and renames a file: close, stat, unlink, rename, which do not hold
 * a processor while they wait for a disk or a network. They cannot be cancelled.
 * Return 0, or what those calls say, negative; -EINVAL if a pointer is NULL. After close the descriptor is gone
 * in any case.
 * Contexts: fiber, thread. Undefined: closing a descriptor that somebody waits for. */
WEFT_API int weft_file_close(int fd);
WEFT_API WEFT_MUST_USE int weft_file_stat(const char *path, struct stat *status);
WEFT_API WEFT_MUST_USE int weft_file_unlink(const char *path);
WEFT_API WEFT_MUST_USE int weft_file_rename(const char *from, const char *to);

WEFT_END

#endif
