/*
 * pipe.c: pipes and other non-blocking descriptors: weft/pipe.h.
 *
 * Each transfer is tried before it waits: what can be done at once costs one system call, and is
 * done also by a fiber whose context is cancelled.
 */
#include <errno.h>
#include <weft/fd.h>
#include <weft/pipe.h>

#include "os/os.h"

int weft_pipe_make(int ends[2])
{
    int both[2];
    if (ends == NULL)
        return -EINVAL;
    int error = weft__os_pipe(both);
    if (error != 0)
        return error;
    error = weft__os_set_nonblocking(both[0]);
    if (error == 0)
        error = weft__os_set_nonblocking(both[1]);
    if (error != 0) {
        weft__os_close(both[0]);
        weft__os_close(both[1]);
        return error;
    }
    ends[0] = both[0];
    ends[1] = both[1];
    return 0;
}

ssize_t weft_pipe_read(int fd, void *memory, size_t size, int64_t deadline)
{
    for (;;) {
        ssize_t got = weft__os_fd_read(fd, memory, size);
        if (got != -EAGAIN)
            return got;
        int ready = weft_fd_wait(fd, WEFT_READABLE, deadline);
        if (ready < 0)
            return ready;
    }
}

ssize_t weft_pipe_write(int fd, const void *memory, size_t size, int64_t deadline)
{
    size_t done = 0;
    ssize_t put;
    do {
        put = weft__os_fd_write(fd, (const char *)memory + done, size - done);
        if (put == -EAGAIN) {
            int ready = weft_fd_wait(fd, WEFT_WRITABLE, deadline);
            put = ready < 0 ? ready : 0;
        }
        if (put < 0)
            return done > 0 ? (ssize_t)done : put;
        done += (size_t)put;
    } while (done < size);
    return (ssize_t)done;
}
