/*
 * file.c: files: weft/file.h.
 *
 * The ways, in this order:
 *
 *   now        the kernel is asked to do it only if that needs no waiting (RWF_NOWAIT). What is in the page
 *              cache costs what it costs without weft. Reads only: few file systems can tell for writes.
 *   ring       files of disks: the fiber parks, io/ring.c does it. These operations end by themselves,
 *              however slowly, so that the ring is never full for ever.
 *   readiness  what may wait for another party (pipes, terminals): the fiber waits until it is ready, and
 *              then it is "now", so that deadlines hold and no thread is held
 *   hand-off   where the kernel lacks what the others need: the fiber's thread makes the call, and its
 *              processor goes to others
 *
 * A thread makes the plain call; with a deadline, or bound to a context, it waits for readiness first.
 *
 * Short reads. "Now" reads what is there, and of a file that is half cached only the half; a program rightly
 * takes that for the end of the file. So what is missing is asked for again, until the kernel says 0 or
 * would have to wait, and that rest goes the other way. Not for pipes and such, where less than asked
 * for is all that may ever come.
 *
 * Rejected: opening by the ring (it opens a FIFO as if by O_NONBLOCK, and hands all that creates a file to a
 * thread anyway); pipes by the ring (some hundred readers that wait would keep all others out).
 */
#include <errno.h>
#include <sys/uio.h>
#include <weft/blocking.h>
#include <weft/fd.h>
#include <weft/file.h>

#include "io/ring.h"
#include "sched/core/cancel.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/compact.h"

enum { PIECES_MOST = 1024 }; /* IOV_MAX */

static bool is_read(const struct weft__os_io *io)
{
    return io->kind == IO_READ || io->kind == IO_READV;
}

static bool is_transfer(const struct weft__os_io *io)
{
    return io->kind <= IO_WRITEV;
}

/* Hand-off, and threads. */

struct call {
    const struct weft__os_io *io;
    int64_t result;
};

static void *make_call(void *arg)
{
    struct call *call = arg;
    call->result = weft__os_io(call->io);
    return NULL;
}

static int64_t call_now(const struct weft__os_io *io)
{
    struct call call = {.io = io};
    if (weft_self() != NULL)
        (void)weft_blocking(make_call, &call);
    else
        (void)make_call(&call);
    return call.result;
}

/* 0 when the descriptor is ready. */
static int wait_ready(const struct weft__os_io *io, int64_t deadline)
{
    int ready = weft_fd_wait(io->fd, is_read(io) ? WEFT_READABLE : WEFT_WRITABLE, deadline);
    return ready < 0 ? ready : 0;
}

static size_t bytes_of(const struct weft__os_io *io)
{
    if (io->kind != IO_READV && io->kind != IO_WRITEV)
        return io->length;
    const struct iovec *pieces = io->memory;
    size_t total = 0;
    for (size_t i = 0; i < io->length; i++)
        total += pieces[i].iov_len;
    return total;
}

/* What may wait for another party. All who wait are told that it is ready, and one is first: so it is tried
 * without waiting, if the kernel knows how. */
static int64_t by_readiness(const struct weft__os_io *io, int64_t deadline)
{
    if (io->offset >= 0 || bytes_of(io) == 0)
        return call_now(io); /* refused, or nothing to wait for */
    for (;;) {
        bool try = weft__sched.file_nowait || weft_self() == NULL;
        int64_t result = try ? weft__os_io_nowait(io) : -EOPNOTSUPP;
        if (result != -EAGAIN && result != -EOPNOTSUPP)
            return result;
        int error = wait_ready(io, deadline);
        if (error != 0)
            return error;
        if (result == -EOPNOTSUPP)
            result = call_now(io);
        if (result != -EAGAIN) /* a descriptor that does not block, and another was faster */
            return result;
    }
}

static int64_t by_waiting(const struct weft__os_io *io, int64_t deadline)
{
    int64_t result;
    int regular = is_transfer(io) ? weft__os_is_regular(io->fd) : 1;
    if (regular == 0)
        return by_readiness(io, deadline);
    if (regular < 0)
        return regular;
    if (deadline <= WEFT_NOW)
        return -ETIMEDOUT;
    /* A compact fiber's memory is not its own while it waits: its thread reads, as where there is no ring. */
    if (weft_self() != NULL && !on_compact() && weft__ring_run(io, deadline, &result))
        return result;
    int error = weft__cancelled();
    if (error == 0 && weft__os_now() >= deadline)
        error = -ETIMEDOUT;
    return error == 0 ? call_now(io) : error;
}

/* Reads what is there. True: that is all, and *result says how much; false: the rest of `io` has to be
 * waited for, and *result bytes were read before. */
static bool read_now(struct weft__os_io *io, int64_t *result)
{
    int64_t total = 0, got;
    do {
        got = weft__os_io_nowait(io);
        if (got <= 0)
            break;
        total += got;
        io->memory = (char *)io->memory + got;
        io->length -= (size_t)got;
        io->offset += io->offset >= 0 ? got : 0;
    } while (io->length > 0 && weft__os_is_regular(io->fd) == 1);
    *result = got < 0 && total == 0 ? got : total;
    return got != -EAGAIN && got != -EOPNOTSUPP;
}

/* The same for pieces: all, or nothing, which can be had by an offset only. */
static bool read_pieces_now(const struct weft__os_io *io, int64_t *result)
{
    if (io->offset < 0 && weft__os_is_regular(io->fd) == 1)
        return false;
    *result = weft__os_io_nowait(io);
    if (*result == -EAGAIN || *result == -EOPNOTSUPP)
        return false;
    return *result <= 0 || (size_t)*result == bytes_of(io) || weft__os_is_regular(io->fd) != 1;
}

static int64_t run(struct weft__os_io *io, int64_t deadline)
{
    bool fiber = weft_self() != NULL;
    int64_t before = 0;
    if (!fiber && deadline == WEFT_NEVER && weft__canceler_self() == NULL)
        return weft__os_io(io);
    if (!fiber || weft__sched.file_nowait) {
        if (io->kind == IO_READ && read_now(io, &before))
            return before;
        if (io->kind == IO_READV && read_pieces_now(io, &before))
            return before;
        if (io->kind != IO_READ || before < 0)
            before = 0;
        if (deadline <= WEFT_NOW && (io->kind == IO_WRITE || io->kind == IO_WRITEV)) {
            int64_t put = weft__os_io_nowait(io);
            if (put != -EAGAIN && put != -EOPNOTSUPP)
                return put;
        }
    }
    int64_t rest = by_waiting(io, deadline);
    return before > 0 ? before + (rest > 0 ? rest : 0) : rest;
}

static struct weft__os_io transfer(enum weft__os_io_kind kind, int fd, const void *memory,
                                   size_t length, int64_t offset)
{
    return (struct weft__os_io){.kind = kind,
                                .fd = fd,
                                .memory = (void *)(uintptr_t)memory,
                                .length = length,
                                .offset = offset};
}

ssize_t weft_file_read(int fd, void *memory, size_t size, int64_t deadline)
{
    struct weft__os_io io = transfer(IO_READ, fd, memory, size, -1);
    return (ssize_t)run(&io, deadline);
}

ssize_t weft_file_pread(int fd, void *memory, size_t size, int64_t offset, int64_t deadline)
{
    if (offset < 0)
        return -EINVAL;
    struct weft__os_io io = transfer(IO_READ, fd, memory, size, offset);
    return (ssize_t)run(&io, deadline);
}

ssize_t weft_file_write(int fd, const void *memory, size_t size, int64_t deadline)
{
    struct weft__os_io io = transfer(IO_WRITE, fd, memory, size, -1);
    return (ssize_t)run(&io, deadline);
}

ssize_t weft_file_pwrite(int fd, const void *memory, size_t size, int64_t offset, int64_t deadline)
{
    if (offset < 0)
        return -EINVAL;
    struct weft__os_io io = transfer(IO_WRITE, fd, memory, size, offset);
    return (ssize_t)run(&io, deadline);
}

static ssize_t run_pieces(enum weft__os_io_kind kind, int fd, const struct iovec *pieces, int count,
                          int64_t offset, int64_t deadline)
{
    if (pieces == NULL || count < 0 || count > PIECES_MOST || offset < -1)
        return -EINVAL;
    struct weft__os_io io = transfer(kind, fd, pieces, (size_t)count, offset);
    return (ssize_t)run(&io, deadline);
}

ssize_t weft_file_preadv(int fd, const struct iovec *pieces, int count, int64_t offset,
                         int64_t deadline)
{
    return run_pieces(IO_READV, fd, pieces, count, offset, deadline);
}

ssize_t weft_file_pwritev(int fd, const struct iovec *pieces, int count, int64_t offset,
                          int64_t deadline)
{
    return run_pieces(IO_WRITEV, fd, pieces, count, offset, deadline);
}

int weft_file_sync(int fd, int64_t deadline)
{
    struct weft__os_io io = transfer(IO_SYNC, fd, NULL, 0, 0);
    return (int)run(&io, deadline);
}

int weft_file_sync_data(int fd, int64_t deadline)
{
    struct weft__os_io io = transfer(IO_DATASYNC, fd, NULL, 0, 0);
    return (int)run(&io, deadline);
}

/* What has no other way than the call. */

struct path_call {
    int (*function)(struct path_call *call);
    const char *path, *other;
    struct stat *status;
    int fd, flags, result;
    unsigned mode;
};

static void *make_path_call(void *arg)
{
    struct path_call *call = arg;
    call->result = call->function(call);
    return NULL;
}

static int run_path_call(struct path_call call)
{
    if (weft_self() != NULL)
        (void)weft_blocking(make_path_call, &call);
    else
        (void)make_path_call(&call);
    return call.result;
}

static int call_open(struct path_call *call)
{
    return weft__os_open(call->path, call->flags, call->mode);
}

static int call_close(struct path_call *call)
{
    return weft__os_file_close(call->fd);
}

static int call_stat(struct path_call *call)
{
    return weft__os_stat(call->path, call->status);
}

static int call_unlink(struct path_call *call)
{
    return weft__os_unlink(call->path);
}

static int call_rename(struct path_call *call)
{
    return weft__os_rename(call->path, call->other);
}

int weft_file_open(const char *path, int flags, unsigned mode)
{
    if (path == NULL)
        return -EINVAL;
    return run_path_call(
        (struct path_call){.function = call_open, .path = path, .flags = flags, .mode = mode});
}

int weft_file_close(int fd)
{
    return run_path_call((struct path_call){.function = call_close, .fd = fd});
}

int weft_file_stat(const char *path, struct stat *status)
{
    if (path == NULL || status == NULL)
        return -EINVAL;
    return run_path_call((struct path_call){.function = call_stat, .path = path, .status = status});
}

int weft_file_unlink(const char *path)
{
    if (path == NULL)
        return -EINVAL;
    return run_path_call((struct path_call){.function = call_unlink, .path = path});
}

int weft_file_rename(const char *from, const char *to)
{
    if (from == NULL || to == NULL)
        return -EINVAL;
    return run_path_call((struct path_call){.function = call_rename, .path = from, .other = to});
}
