/*
 * sys.c: the one seam between libweft-http and the system: see sys.h.
 *
 * errno is read right behind the call that set it, and nothing here waits, so it is always that of
 * the calling thread. It is read by a function that is never inlined: otherwise link-time
 * optimization would bring errno's address into functions that wait, and keep it there while the
 * fiber moves to another thread (tools/check-tls.sh).
 */
#include "http/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "http/peer.h"

__attribute__((noinline)) int weft__http_errno(void)
{
    return errno;
}

/* ---- memory ---- */

void *weft__http_allocate(size_t size)
{
    return malloc(size);
}

void *weft__http_resize(void *memory, size_t size)
{
    return realloc(memory, size);
}

void weft__http_free(void *memory)
{
    free(memory);
}

void *weft__http_map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

void weft__http_unmap(void *memory, size_t size)
{
    (void)munmap(memory, size);
}

/* ---- sets of descriptors ---- */

int weft__http_set_open(void)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    return set >= 0 ? set : -weft__http_errno();
}

#define ONE_WAY (EPOLLIN | EPOLLRDHUP | EPOLLET)
#define BOTH_WAYS (ONE_WAY | EPOLLOUT)

static int add(int set, int fd, void *what, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -weft__http_errno();
}

int weft__http_set_add(int set, int fd, void *what)
{
    return add(set, fd, what, ONE_WAY);
}

int weft__http_set_both(int set, int fd, void *what)
{
    return add(set, fd, what, BOTH_WAYS);
}

void weft__http_set_again(int set, int fd, void *what, bool both)
{
    struct epoll_event event = {.events = both ? BOTH_WAYS : ONE_WAY, .data.ptr = what};
    (void)epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
}

int weft__http_set_add_shared(int set, int fd, void *what)
{
    return add(set, fd, what, EPOLLIN | EPOLLEXCLUSIVE);
}

void weft__http_set_remove(int set, int fd)
{
    (void)epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL);
}

int weft__http_set_look(int set, struct http_event *events, int most)
{
    struct epoll_event found[128];
    int count = epoll_wait(set, found, most < 128 ? most : 128, 0);
    if (count < 0)
        return weft__http_errno() == EINTR ? 0 : -weft__http_errno();
    for (int i = 0; i < count; i++) {
        uint32_t flags = found[i].events;
        events[i].what = found[i].data.ptr;
        events[i].events = (flags & EPOLLIN ? HTTP_READABLE : 0) |
                           (flags & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) ? HTTP_ENDED : 0) |
                           (flags & (EPOLLHUP | EPOLLERR) ? HTTP_RESET : 0) |
                           (flags & EPOLLOUT ? HTTP_WRITABLE : 0);
    }
    return count;
}

int weft__http_wakeup_open(void)
{
    int wakeup = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return wakeup >= 0 ? wakeup : -weft__http_errno();
}

void weft__http_wakeup_send(int wakeup)
{
    uint64_t once = 1;
    (void)!write(wakeup, &once, sizeof once);
}

void weft__http_wakeup_clear(int wakeup)
{
    uint64_t count;
    (void)!read(wakeup, &count, sizeof count);
}

/* ---- sockets ---- */

int weft__http_accept(int listener, struct peer *peer)
{
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
        struct sockaddr_storage room;
    } from = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t size = sizeof from;
    int fd = accept4(listener, &from.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return -weft__http_errno();
    memset(peer, 0, sizeof *peer);
    if (size >= sizeof from.ipv4 && from.any.sa_family == AF_INET) {
        peer->family = 4;
        peer->port = ntohs(from.ipv4.sin_port);
        memcpy(peer->ip, &from.ipv4.sin_addr, 4);
    } else if (size >= sizeof from.ipv6 && from.any.sa_family == AF_INET6) {
        peer->family = 6;
        peer->port = ntohs(from.ipv6.sin6_port);
        peer->scope = from.ipv6.sin6_scope_id;
        memcpy(peer->ip, &from.ipv6.sin6_addr, 16);
    }
    return fd;
}

int weft__http_no_delay(int listener)
{
    int on = 1;
    return setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0
               ? 0
               : -weft__http_errno();
}

int weft__http_limit_unsent(int listener)
{
    int bytes = HTTP_UNSENT;
    return setsockopt(listener, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes) == 0
               ? 0
               : -weft__http_errno();
}

static int64_t receive(int fd, void *data, size_t size, int flags)
{
    ssize_t count;
    do
        count = recv(fd, data, size, MSG_DONTWAIT | flags);
    while (count < 0 && weft__http_errno() == EINTR);
    return count >= 0 ? count : -weft__http_errno();
}

int64_t weft__http_receive(int fd, void *data, size_t size)
{
    return receive(fd, data, size, 0);
}

int64_t weft__http_peek(int fd, void *data, size_t size)
{
    return receive(fd, data, size, MSG_PEEK);
}

int64_t weft__http_send(int fd, const struct iovec *pieces, int count)
{
    struct msghdr message = {0};
    ssize_t sent;
    /* The call only reads them; the type serves both directions. */
    message.msg_iov = (struct iovec *)(uintptr_t)pieces;
    message.msg_iovlen = (size_t)count;
    do
        sent = count == 1
                   ? send(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                   : sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && weft__http_errno() == EINTR);
    return sent >= 0 ? sent : -weft__http_errno();
}

/* sendfile has no flag against SIGPIPE. So the thread blocks the signal meanwhile, and takes it
 * away if this call has raised it, which it may have done also after a part was sent. */
int64_t weft__http_send_from_file(int fd, int file, int64_t offset, size_t size)
{
    sigset_t broken_pipe, before, pending;
    off_t at = offset;
    ssize_t sent;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
    do
        sent = sendfile(fd, file, &at, size);
    while (sent < 0 && weft__http_errno() == EINTR);
    int64_t result = sent >= 0 ? sent : -weft__http_errno();
    if (result < (int64_t)size && result != -EAGAIN && !sigismember(&pending, SIGPIPE))
        (void)sigtimedwait(&broken_pipe, NULL, &(struct timespec){0, 0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

int64_t weft__http_read_file(int file, void *data, size_t size, int64_t offset)
{
    ssize_t count;
    do
        count = pread(file, data, size, offset);
    while (count < 0 && weft__http_errno() == EINTR);
    return count >= 0 ? count : -weft__http_errno();
}

int weft__http_duplicate(int file)
{
    int other = fcntl(file, F_DUPFD_CLOEXEC, 0);
    return other >= 0 ? other : -weft__http_errno();
}

void weft__http_end_sending(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

void weft__http_cut(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
}

void weft__http_close_fd(int fd)
{
    (void)close(fd);
}

/* ---- descriptors ---- */

int64_t weft__http_descriptors(int64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return INT64_MAX;
    if (limit.rlim_cur < (rlim_t)wanted && limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {.rlim_max = limit.rlim_max};
        raised.rlim_cur = (rlim_t)wanted < limit.rlim_max ? (rlim_t)wanted : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    return limit.rlim_cur <= INT64_MAX ? (int64_t)limit.rlim_cur : INT64_MAX;
}

void weft__http_descriptor_table_reserve(int fd, int64_t count)
{
    int64_t most = count < HTTP_DESCRIPTOR_TABLE_MAX ? count : HTTP_DESCRIPTOR_TABLE_MAX;
    int last = most > 0 ? fcntl(fd, F_DUPFD_CLOEXEC, (int)most - 1) : -1;
    if (last >= 0)
        (void)close(last);
}

/* ---- time and random numbers ---- */

int64_t weft__http_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
}

int64_t weft__http_ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

uint64_t weft__http_random(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        number = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)&number;
    }
    return number;
}

/* ---- the end of the process ---- */

const int weft__http_ends[2] = {SIGINT, SIGTERM};

void weft__http_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "weft-http: %s:%d: this must hold: %s\n", file, line, condition);
    abort();
}
