/*
 * file.c: files, pipes and plain descriptors: os/file.h.
 */
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/linux/seam.h"

#ifndef RWF_NOWAIT /* Linux 4.14; older headers lack the name */
#define RWF_NOWAIT 8
#endif

#ifndef __GLIBC__ /* musl lacks them before 1.2.5 */
#define preadv2(fd, list, count, offset, flags) \
    syscall(SYS_preadv2, fd, list, (long)(count), (long)(offset), 0L, (long)(flags))
#define pwritev2(fd, list, count, offset, flags) \
    syscall(SYS_pwritev2, fd, list, (long)(count), (long)(offset), 0L, (long)(flags))
#endif

static int64_t attempt(const struct weft__os_io *io)
{
    switch (io->kind) {
    case IO_READ:
        return io->offset < 0 ? read(io->fd, io->memory, io->length)
                              : pread(io->fd, io->memory, io->length, io->offset);
    case IO_WRITE:
        return io->offset < 0 ? write(io->fd, io->memory, io->length)
                              : pwrite(io->fd, io->memory, io->length, io->offset);
    case IO_READV:
        return io->offset < 0 ? readv(io->fd, io->memory, (int)io->length)
                              : preadv(io->fd, io->memory, (int)io->length, io->offset);
    case IO_WRITEV:
        return io->offset < 0 ? writev(io->fd, io->memory, (int)io->length)
                              : pwritev(io->fd, io->memory, (int)io->length, io->offset);
    case IO_SYNC:
        return fsync(io->fd);
    default: /* IO_DATASYNC */
        return fdatasync(io->fd);
    }
}

int64_t weft__os_io(const struct weft__os_io *io)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_FILE))
        return -EIO;
    for (;;) {
        int64_t result = attempt(io);
        if (result >= 0)
            return result;
        int error = weft__os_error();
        if (error != -EINTR)
            return error;
    }
}

int64_t weft__os_io_nowait(const struct weft__os_io *io)
{
    KEEP_ERRNO;
    struct iovec one = {io->memory, io->length};
    bool vector = io->kind == IO_READV || io->kind == IO_WRITEV;
    const struct iovec *list = vector ? io->memory : &one;
    int count = vector ? (int)io->length : 1;
    ssize_t result = -1;
    if (weft__failure_due(OS_FILE))
        return -EIO;
    errno = EOPNOTSUPP;
    if (io->kind == IO_READ || io->kind == IO_READV)
        result = preadv2(io->fd, list, count, io->offset, RWF_NOWAIT);
    else if (io->kind == IO_WRITE || io->kind == IO_WRITEV)
        result = pwritev2(io->fd, list, count, io->offset, RWF_NOWAIT);
    if (result >= 0)
        return result;
    int error = weft__os_error();
    if (error == -EINTR)
        return -EAGAIN;
    return error == -ENOSYS ? -EOPNOTSUPP : error;
}

int weft__os_is_regular(int fd)
{
    KEEP_ERRNO;
    struct stat what;
    if (weft__failure_due(OS_FILE))
        return -EIO;
    if (fstat(fd, &what) != 0)
        return weft__os_error();
    return S_ISREG(what.st_mode) || S_ISBLK(what.st_mode) || S_ISDIR(what.st_mode);
}

int weft__os_open(const char *path, int flags, unsigned mode)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_FILE))
        return -EMFILE;
    for (;;) {
        int fd = open(path, flags | O_CLOEXEC, mode);
        if (fd >= 0)
            return fd;
        int error = weft__os_error();
        if (error != -EINTR)
            return error;
    }
}

int weft__os_stat(const char *path, struct stat *out)
{
    KEEP_ERRNO;
    struct stat found;
    if (weft__failure_due(OS_FILE))
        return -EIO;
    if (stat(path, &found) != 0)
        return weft__os_error();
    *out = found;
    return 0;
}

int weft__os_unlink(const char *path)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_FILE))
        return -EIO;
    return unlink(path) == 0 ? 0 : weft__os_error();
}

int weft__os_rename(const char *from, const char *to)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_FILE))
        return -EIO;
    return rename(from, to) == 0 ? 0 : weft__os_error();
}

int weft__os_file_close(int fd)
{
    KEEP_ERRNO;
    if (close(fd) == 0)
        return weft__failure_due(OS_FILE) ? -EIO : 0;
    int error = weft__os_error();
    return error == -EINTR ? 0 : error; /* Linux closes the descriptor all the same */
}

ssize_t weft__os_read_file(const char *path, char *text, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_FILE))
        return -EMFILE;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return weft__os_error();
    size_t used = 0;
    while (used + 1 < size) {
        ssize_t got = read(fd, text + used, size - 1 - used);
        if (got < 0 && weft__os_error() == -EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    text[used] = '\0';
    return (ssize_t)used;
}

void weft__os_write_stderr(const char *text, size_t size)
{
    KEEP_ERRNO;
    while (size > 0) {
        ssize_t written = write(STDERR_FILENO, text, size);
        if (written < 0 && weft__os_error() == -EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        size -= (size_t)written;
    }
}

int weft__os_pipe(int ends[2])
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_PIPE))
        return -EMFILE;
    return pipe2(ends, O_CLOEXEC) == 0 ? 0 : weft__os_error();
}

int weft__os_set_nonblocking(int fd)
{
    KEEP_ERRNO;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return weft__os_error();
    return 0;
}

int weft__os_dup_above(int fd, int least)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_PIPE))
        return -EMFILE;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, least);
    return copy >= 0 ? copy : weft__os_error();
}

int weft__os_open_null(bool writing)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_PIPE))
        return -EMFILE;
    int fd = open("/dev/null", (writing ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    return fd >= 0 ? fd : weft__os_error();
}

ssize_t weft__os_fd_read(int fd, void *memory, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_READ))
        return -EIO;
    for (;;) {
        ssize_t got = read(fd, memory, size);
        if (got >= 0)
            return got;
        int error = weft__os_error();
        if (error != -EINTR)
            return error;
    }
}

ssize_t weft__os_fd_write(int fd, const void *memory, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_WRITE))
        return -ENOMEM; /* for the pages of a pipe */
    for (;;) {
        ssize_t put = write(fd, memory, size);
        if (put >= 0)
            return put;
        int error = weft__os_error();
        if (error != -EINTR)
            return error;
    }
}
