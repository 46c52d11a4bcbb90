/*
 * socket.c: sockets: os/socket.h.
 */
#include "os/socket.h"
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/linux/seam.h"

int weft__os_socket(int family, int type)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_SOCKET))
        return -EMFILE;
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd >= 0 ? fd : weft__os_error();
}

int weft__os_socket_adopt(int fd, int *type)
{
    KEEP_ERRNO;
    socklen_t size = sizeof *type;
    int got;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &got, &size) != 0)
        return weft__os_error();
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return weft__os_error();
    *type = got;
    return 0;
}

int weft__os_bind(int fd, const void *address, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_SOCKET))
        return -EADDRINUSE;
    return bind(fd, address, (socklen_t)size) == 0 ? 0 : weft__os_error();
}

int weft__os_listen(int fd, int backlog)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_SOCKET))
        return -EADDRINUSE;
    return listen(fd, backlog) == 0 ? 0 : weft__os_error();
}

int weft__os_connect(int fd, const void *address, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_SOCKET))
        return -EADDRNOTAVAIL; /* no local port is left */
    if (connect(fd, address, (socklen_t)size) == 0)
        return 0;
    /* A signal does not end the attempt: it goes on in the kernel. */
    return weft__os_error() == -EINTR ? -EINPROGRESS : weft__os_error();
}

int weft__os_connected(int fd)
{
    KEEP_ERRNO;
    int error = 0;
    socklen_t size = sizeof error;
    struct sockaddr_storage peer;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return weft__os_error();
    if (error != 0)
        return -error;
    size = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0)
        return 0;
    return weft__os_error() == -ENOTCONN ? -EAGAIN : weft__os_error();
}

int weft__os_accept(int fd)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_ACCEPT))
        return -EMFILE;
    int got;
    do
        got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    while (got < 0 && weft__os_error() == -EINTR);
    return got >= 0 ? got : weft__os_error();
}

int weft__os_socket_set(int fd, int level, int option, int value)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_SOCKET))
        return -ENOBUFS;
    return setsockopt(fd, level, option, &value, sizeof value) == 0 ? 0 : weft__os_error();
}

int weft__os_socket_shutdown(int fd, bool reading, bool writing)
{
    KEEP_ERRNO;
    int how = reading && writing ? SHUT_RDWR : reading ? SHUT_RD : SHUT_WR;
    return shutdown(fd, how) == 0 ? 0 : weft__os_error();
}

int weft__os_socket_name(int fd, bool peer, void *address, size_t *size)
{
    KEEP_ERRNO;
    struct sockaddr_storage got;
    socklen_t length = sizeof got;
    struct sockaddr *where = (struct sockaddr *)&got;
    if ((peer ? getpeername(fd, where, &length) : getsockname(fd, where, &length)) != 0)
        return weft__os_error();
    if (length > *size)
        return -ENAMETOOLONG;
    __builtin_memcpy(address, &got, length);
    *size = length;
    return 0;
}

ssize_t weft__os_receive(int fd, void *data, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_READ))
        return -ECONNRESET;
    ssize_t got;
    do
        got = recv(fd, data, size, 0);
    while (got < 0 && weft__os_error() == -EINTR);
    return got >= 0 ? got : weft__os_error();
}

ssize_t weft__os_send(int fd, const void *data, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_WRITE))
        return -ECONNRESET;
    ssize_t sent;
    do
        sent = send(fd, data, size, MSG_NOSIGNAL);
    while (sent < 0 && weft__os_error() == -EINTR);
    return sent >= 0 ? sent : weft__os_error();
}

ssize_t weft__os_receive_pieces(int fd, const struct iovec *pieces, size_t count, void *from,
                                size_t *from_size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_READ))
        return -ECONNRESET;
    ssize_t got;
    struct msghdr message;
    do {
        message = (struct msghdr){.msg_name = from,
                                  .msg_namelen = from != NULL ? (socklen_t)*from_size : 0,
                                  .msg_iov = (struct iovec *)(uintptr_t)pieces,
                                  .msg_iovlen = count};
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && weft__os_error() == -EINTR);
    if (got < 0)
        return weft__os_error();
    if (from != NULL && message.msg_namelen < *from_size)
        *from_size = message.msg_namelen;
    return got;
}

ssize_t weft__os_send_pieces(int fd, const struct iovec *pieces, size_t count, const void *to,
                             size_t to_size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_WRITE))
        return -ECONNRESET;
    ssize_t sent;
    struct msghdr message = {.msg_name = (void *)(uintptr_t)to,
                             .msg_namelen = (socklen_t)to_size,
                             .msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = count};
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && weft__os_error() == -EINTR);
    return sent >= 0 ? sent : weft__os_error();
}

/* sendfile has no flag against SIGPIPE. So the signal is blocked for the thread during the call,
 * and taken off the pending ones if this call raised it: it may do that also after a part was
 * sent. */
ssize_t weft__os_sendfile(int fd, int file, int64_t offset, size_t size)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_WRITE))
        return -ECONNRESET;
    sigset_t broken_pipe, before, pending;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
    ssize_t sent;
    off_t at = (off_t)offset;
    do
        sent = sendfile(fd, file, &at, size);
    while (sent < 0 && weft__os_error() == -EINTR);
    ssize_t result = sent >= 0 ? sent : weft__os_error();
    if (result < (ssize_t)size && result != -EAGAIN && !sigismember(&pending, SIGPIPE))
        (void)sigtimedwait(&broken_pipe, NULL, &(struct timespec){0, 0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

uint32_t weft__os_link_number(const char *name)
{
    KEEP_ERRNO;
    return if_nametoindex(name);
}

bool weft__os_socket_id(const char *path, struct weft__os_file_id *id)
{
    KEEP_ERRNO;
    struct stat there;
    if (lstat(path, &there) != 0 || !S_ISSOCK(there.st_mode))
        return false;
    *id = (struct weft__os_file_id){.device = there.st_dev, .inode = there.st_ino};
    return true;
}

void weft__os_socket_unlink(const char *path, const struct weft__os_file_id *id)
{
    KEEP_ERRNO;
    struct weft__os_file_id there;
    if (weft__os_socket_id(path, &there) &&
        (id == NULL || (there.device == id->device && there.inode == id->inode)))
        (void)unlink(path);
}
