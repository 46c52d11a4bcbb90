/*
 * poll.c: readiness by epoll, wake-ups by eventfd, timers by timerfd: os/poll.h.
 */
#include "os/poll.h"
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/clock.h"
#include "os/linux/seam.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

enum { EVENTS_MOST = 64 }; /* in one call; picked out of thin air */

int weft__os_poll_open(void)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_POLL))
        return -EMFILE;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    return fd >= 0 ? fd : weft__os_error();
}

bool weft__os_fd_ready(int fd)
{
    KEEP_ERRNO;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, 0) > 0;
}

static uint32_t to_epoll(uint32_t events)
{
    return (events & OS_READABLE ? (uint32_t)EPOLLIN : 0U) |
           (events & OS_WRITABLE ? (uint32_t)EPOLLOUT : 0U) |
           (events & OS_EDGE ? (uint32_t)EPOLLET : 0U) |
           (events & OS_ONESHOT ? (uint32_t)EPOLLONESHOT : 0U);
}

static uint32_t from_epoll(uint32_t events)
{
    uint32_t both = events & (EPOLLERR | EPOLLHUP);
    return (events & (EPOLLIN | EPOLLPRI) || both ? OS_READABLE : 0U) |
           (events & EPOLLOUT || both ? OS_WRITABLE : 0U);
}

static int control(int epoll, int operation, int fd, uint32_t events, uint64_t tag)
{
    KEEP_ERRNO;
    struct epoll_event event = {.events = to_epoll(events), .data.u64 = tag};
    if (weft__failure_due(OS_POLL))
        return -ENOSPC;
    return epoll_ctl(epoll, operation, fd, &event) == 0 ? 0 : weft__os_error();
}

int weft__os_poll_add(int epoll, int fd, uint32_t events, uint64_t tag)
{
    return control(epoll, EPOLL_CTL_ADD, fd, events, tag);
}

int weft__os_poll_change(int epoll, int fd, uint32_t events, uint64_t tag)
{
    return control(epoll, EPOLL_CTL_MOD, fd, events, tag);
}

void weft__os_poll_remove(int epoll, int fd)
{
    KEEP_ERRNO;
    struct epoll_event unused = {.events = 0};
    (void)epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &unused);
}

/* Stores the events that epoll returned: how many. A signal counts as no event. */
static int take_events(const struct epoll_event *from, long count, struct weft__os_event *events)
{
    if (count < 0)
        return weft__os_error() == -EINTR ? 0 : weft__os_error();
    for (long i = 0; i < count; i++)
        events[i] =
            (struct weft__os_event){.tag = from[i].data.u64, .events = from_epoll(from[i].events)};
    return (int)count;
}

int weft__os_poll_wait_exact(int epoll, struct weft__os_event *events, int capacity,
                             int64_t deadline)
{
    KEEP_ERRNO;
    struct epoll_event got[EVENTS_MOST];
    struct timespec wait = {0, 0};
    if (deadline != INT64_MAX) {
        int64_t left = deadline - weft__os_now();
        if (left > 0)
            wait = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    }
    must(capacity <= EVENTS_MOST);
    long slack = wait.tv_sec != 0 || wait.tv_nsec != 0 ? weft__os_exact_begin() : 0;
    long count = syscall(SYS_epoll_pwait2, epoll, got, capacity,
                         deadline == INT64_MAX ? NULL : &wait, NULL, 0);
    int taken = take_events(got, count, events);
    weft__os_exact_end(slack);
    return taken;
}

int weft__os_poll_wait(int epoll, struct weft__os_event *events, int capacity, bool wait)
{
    KEEP_ERRNO;
    struct epoll_event got[EVENTS_MOST];
    must(capacity <= EVENTS_MOST);
    return take_events(got, epoll_wait(epoll, got, capacity, wait ? -1 : 0), events);
}

int weft__os_fd_events(int fd, uint32_t events)
{
    KEEP_ERRNO;
    struct pollfd one = {.fd = fd,
                         .events = (short)((events & OS_READABLE ? POLLIN : 0) |
                                           (events & OS_WRITABLE ? POLLOUT : 0))};
    int count;
    do
        count = poll(&one, 1, 0);
    while (count < 0 && weft__os_error() == -EINTR);
    if (count < 0)
        return weft__os_error();
    if (one.revents & POLLNVAL)
        return -EBADF;
    if (one.revents & (POLLERR | POLLHUP))
        return (int)events & (OS_READABLE | OS_WRITABLE);
    return (one.revents & POLLIN ? OS_READABLE : 0) | (one.revents & POLLOUT ? OS_WRITABLE : 0);
}

int weft__os_eventfd(void)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_EVENTFD))
        return -EMFILE;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd >= 0 ? fd : weft__os_error();
}

int weft__os_timerfd(void)
{
    KEEP_ERRNO;
    if (weft__failure_due(OS_EVENTFD))
        return -EMFILE;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return fd >= 0 ? fd : weft__os_error();
}

int weft__os_timerfd_set(int fd, int64_t deadline)
{
    KEEP_ERRNO;
    struct itimerspec when = {{0, 0}, {0, 0}}; /* all zero disarms it */
    if (deadline != INT64_MAX) {
        if (deadline < 1)
            deadline = 1;
        when.it_value.tv_sec = deadline / 1000000000;
        when.it_value.tv_nsec = deadline % 1000000000;
    }
    return timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) == 0 ? 0 : weft__os_error();
}

void weft__os_counter_drain(int fd)
{
    KEEP_ERRNO;
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && weft__os_error() == -EINTR)
        continue;
}

void weft__os_eventfd_signal(int fd)
{
    KEEP_ERRNO;
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && weft__os_error() == -EINTR)
        continue;
}

void weft__os_close(int fd)
{
    KEEP_ERRNO;
    close(fd);
}
