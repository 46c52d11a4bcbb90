/*
 * poller.c: where the watcher sleeps: an epoll set, with an eventfd to wake it.
 *
 * epoll_pwait2 waits with nanoseconds. Kernels before 5.11 lack it: there a timerfd in the same set
 * ends the wait, as exactly, for one more system call.
 *
 * Wakes are merged: between two waits the eventfd is written once.
 */
#include <errno.h>

#include "sched/sched.h"

enum { TAG_WAKE, TAG_TIMER, TAGS_MOST = 8, EVENT_IN = 1 /* EPOLLIN */ };

static struct {
    int epoll, event, timer; /* timer is -1 where epoll_pwait2 works */
    atomic_u32 signaled;
} poller = {.epoll = -1, .event = -1, .timer = -1};

/* False if the kernel has no epoll_pwait2, or it must not be used. */
static bool pwait2_works(bool allowed)
{
    uint64_t tags[TAGS_MOST];
    return allowed && weft__sys_epoll_wait_exact(poller.epoll, tags, TAGS_MOST, 0) >= 0;
}

static int add_timer(void)
{
    poller.timer = weft__sys_timerfd();
    if (poller.timer < 0)
        return poller.timer;
    return weft__sys_epoll_add(poller.epoll, poller.timer, EVENT_IN, TAG_TIMER);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        weft__sys_close(*fd);
    *fd = -1;
}

int weft__poller_start(bool allow_pwait2)
{
    int error = 0;
    atomic_u32_store_relaxed(&poller.signaled, 0);
    poller.epoll = weft__sys_epoll_create();
    poller.event = weft__sys_eventfd();
    if (poller.epoll < 0 || poller.event < 0)
        error = poller.epoll < 0 ? poller.epoll : poller.event;
    else
        error = weft__sys_epoll_add(poller.epoll, poller.event, EVENT_IN, TAG_WAKE);
    if (error == 0 && !pwait2_works(allow_pwait2))
        error = add_timer();
    if (error != 0)
        weft__poller_stop();
    return error;
}

void weft__poller_stop(void)
{
    close_fd(&poller.timer);
    close_fd(&poller.event);
    close_fd(&poller.epoll);
}

void weft__poller_wait(int64_t deadline)
{
    uint64_t tags[TAGS_MOST];
    int count;
    if (poller.timer < 0) {
        count = weft__sys_epoll_wait_exact(poller.epoll, tags, TAGS_MOST, deadline);
    } else {
        must(weft__sys_timerfd_set(poller.timer, deadline) == 0);
        count = weft__sys_epoll_wait(poller.epoll, tags, TAGS_MOST);
    }
    must(count >= 0);
    for (int i = 0; i < count; i++) {
        if (tags[i] != TAG_WAKE)
            continue; /* the next set of the timerfd clears it */
        weft__sys_counter_drain(poller.event);
        /* After the drain: a wake from here on writes again. */
        atomic_u32_exchange_seq_cst(&poller.signaled, 0);
    }
}

void weft__poller_wake(void)
{
    if (atomic_u32_exchange_seq_cst(&poller.signaled, 1) == 0)
        weft__sys_eventfd_signal(poller.event);
}
