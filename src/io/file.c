/*
 * file.c: files: weft/file.h.
 *
 * An operation goes one of these ways; the first that applies:
 *
 *   now        the kernel does it only if that needs no waiting (RWF_NOWAIT): data in the page
 *              cache costs what it costs without weft. Reads only, since few file systems know it
 *              for writes.
 *   ring       files on disks: the fiber parks, and io/ring.c does it. These operations end by
 *              themselves, however slowly, so that the ring is never full for ever.
 *   readiness  what may wait for another party (pipes, terminals): the fiber waits until it is
 *              ready, and then tries "now", so that deadlines hold and no thread is blocked.
 *   hand-off   where the kernel lacks what the others need: the thread of the fiber makes the call,
 *              and its processor goes to another machine.
 *
 * A foreign thread makes the plain call; with a deadline, or bound to a context, it waits for
 * readiness first.
 *
 * Short reads. "Now" reads what is cached, and of a half-cached file only that half; a program
 * would take a short read for the end of the file. So the rest is asked for until the kernel
 * returns 0 or would have to wait, and that rest goes one of the other ways. Not for pipes and the
 * like, where less than asked for may be all that ever comes.
 *
 * Rejected: opening files by the ring (it opens a FIFO as with O_NONBLOCK, and gives all that
 * creates a file to a kernel thread anyway); pipes by the ring (a few hundred readers that wait
 * would keep all other operations out).
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

/* Waits until the descriptor is ready: 0, or why the wait ended. */
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

/* For what may wait for another party. Readiness wakes all that wait, and one of them is first: so
 * the attempt does not wait, where the kernel can do that. */
static int64_t by_readiness(const struct weft__os_io *io, int64_t deadline)
{
    if (io->offset >= 0 || bytes_of(io) == 0)
        return call_now(io); /* an offset is refused, and no bytes are no wait */
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
        if (result != -EAGAIN) /* another caller was first, and the descriptor does not block */
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
    /* The stack of a compact fiber is not its own while it waits, and may be the buffer:
     * hand-off. */
    if (weft_self() != NULL && !on_compact() && weft__ring_run(io, deadline, &result))
        return result;
    int error = weft__cancelled();
    if (error == 0 && weft__os_now() >= deadline)
        error = -ETIMEDOUT;
    return error == 0 ? call_now(io) : error;
}

/* Reads what needs no waiting. True: *result is the result; false: *result bytes were read, and the
 * rest, which `io` is then, has to be waited for. */
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

/* read_now for several pieces: reads all or nothing, for which it needs an offset. */
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

/* Calls with a path, and closing: always by hand-off. */

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
