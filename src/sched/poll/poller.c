/*
 * poller.c: the set of descriptors that are waited for (epoll). The watcher sleeps in it.
 *
 * descriptor.c has the descriptors and their waits. Here is one set for all of them. Events are
 * taken out of it by
 *
 *  - the watcher (idle.c), which sleeps in it;
 *  - a machine that has run out of fibers, without waiting, before it searches and retires;
 *  - a busy machine while there is no watcher: every 61st turn, or when the monitor says that some
 *    milliseconds have passed (monitor.c), but at most once in 25 us, by the CPU's counter;
 *  - any other caller of weft__poller_poll, such as the monitor.
 *
 * An event stays in the set until one of these takes it, and is taken once. So no event is
 * forgotten: if a machine is idle, there is a watcher; if all are busy, each looks when it changes
 * fibers. (For a machine that does not change fibers for long, see idle.c and monitor.c.)
 *
 * The fibers that a batch of events makes ready go into the ring of the machine that took the
 * events, if it has a processor; else into the inject queue, in one push. One machine is woken for
 * all of them, and wakes the next if there is more work (idle.c). The watcher wakes no machine: it
 * comes back to run the fibers itself.
 *
 * An eventfd in the set wakes the watcher. It is level-triggered, and only the watcher drains it;
 * other machines that see it ignore it. Wake-ups are merged: between two waits it is written once.
 *
 * epoll_pwait2 waits with a timeout in nanoseconds. Kernels before 5.11 lack it: there a timerfd
 * in the same set ends the wait, as exactly, for one more system call.
 */
#include "sched/poll/poller.h"

#include <errno.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"
#include "sched/core/idle.h"
#include "sched/core/inject.h"
#include "sched/core/park.h"
#include "sched/core/processor.h"
#include "sched/core/run_queue.h"
#include "sched/core/scheduler.h"
#include "sched/poll/descriptor.h"
#include "sched/runtime/thread.h"
#include "sched/time/ticks.h"

/* The lower half of a descriptor's tag is its number, which is never as large as these. */
#define TAG_WAKE UINT64_MAX
#define TAG_TIMER (UINT64_MAX - 1)

enum { EVENTS_MOST = 64 };

static struct {
    int epoll, event, timer; /* timer is -1 where epoll_pwait2 works */
    atomic_u32 signaled;
} poller = {.epoll = -1, .event = -1, .timer = -1};

atomic_u32 weft__poller_used;

/* False if the kernel has no epoll_pwait2, or it must not be used. */
static bool pwait2_works(bool allowed)
{
    struct weft__os_event events[1];
    return allowed && weft__os_poll_wait_exact(poller.epoll, events, 1, 0) >= 0;
}

static int add_timer(void)
{
    poller.timer = weft__os_timerfd();
    if (poller.timer < 0)
        return poller.timer;
    return weft__os_poll_add(poller.epoll, poller.timer, OS_READABLE, TAG_TIMER);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        weft__os_close(*fd);
    *fd = -1;
}

int weft__poller_start(bool allow_pwait2)
{
    int error = 0;
    atomic_u32_store_relaxed(&poller.signaled, 0);
    atomic_u32_store_relaxed(&weft__poller_used, 0);
    poller.epoll = weft__os_poll_open();
    poller.event = weft__os_eventfd();
    if (poller.epoll < 0 || poller.event < 0)
        error = poller.epoll < 0 ? poller.epoll : poller.event;
    else
        error = weft__os_poll_add(poller.epoll, poller.event, OS_READABLE, TAG_WAKE);
    if (error == 0 && !pwait2_works(allow_pwait2))
        error = add_timer();
    if (error != 0)
        weft__poller_stop();
    return error;
}

void weft__poller_stop(void)
{
    weft__descriptors_stop();
    close_fd(&poller.timer);
    close_fd(&poller.event);
    close_fd(&poller.epoll);
}

int weft__poller_watch(int fd, uint32_t events, uint64_t tag, bool add)
{
    return add ? weft__os_poll_add(poller.epoll, fd, events, tag)
               : weft__os_poll_change(poller.epoll, fd, events, tag);
}

void weft__poller_unwatch(int fd)
{
    weft__os_poll_remove(poller.epoll, fd);
}

/* Ready fibers and threads. */

static void wake_threads(struct waiter *threads)
{
    for (struct waiter *waiter = threads, *next; waiter != NULL; waiter = next) {
        next = waiter->next;
        weft__wake(waiter);
    }
}

void weft__poller_make_ready(struct ready *ready)
{
    struct thread *thread = thread_self();
    uint32_t count = ready->fibers.count;
    wake_threads(ready->threads);
    if (count == 0)
        return;
    if (thread == NULL || thread->processor == NULL) {
        weft__inject_push_woken_any(ready->fibers);
        wake_if_idle();
        return;
    }
    should(atomic_u32_load_relaxed(&thread->inside));
    weft__due_put(thread->processor, &ready->fibers);
    if (count > 1 || thread->fiber != NULL) /* more than this machine runs next */
        wake_if_idle();
}

static struct ready collect(const struct weft__os_event *events, int count)
{
    struct ready ready = {.threads = NULL};
    for (int i = 0; i < count; i++)
        if (events[i].tag < TAG_TIMER)
            weft__descriptor_event(events[i].tag, events[i].events, &ready);
    return ready;
}

bool weft__poller_poll(void)
{
    struct weft__os_event events[EVENTS_MOST];
    int count = weft__os_poll_wait(poller.epoll, events, EVENTS_MOST, false);
    struct ready ready = collect(events, count);
    bool any = ready.fibers.count > 0 || ready.threads != NULL;
    if (any)
        weft__poller_make_ready(&ready);
    return any;
}

noinline void weft__poller_look(struct processor *processor)
{
    uint64_t ticks = weft__os_ticks();
    ticks_learn();
    if (ticks - processor->poll_ticks < atomic_u64_load_relaxed(&weft__ticks.poll) ||
        atomic_i64_load_relaxed(&weft__sched.sleep_until) != NO_WATCHER)
        return;
    processor->poll_ticks = ticks;
    (void)weft__poller_poll();
}

/* The watcher. */

void weft__poller_wait(int64_t deadline)
{
    struct weft__os_event events[EVENTS_MOST];
    int count;
    if (poller.timer < 0) {
        count = weft__os_poll_wait_exact(poller.epoll, events, EVENTS_MOST, deadline);
    } else {
        must(weft__os_timerfd_set(poller.timer, deadline) == 0);
        count = weft__os_poll_wait(poller.epoll, events, EVENTS_MOST, true);
    }
    must(count >= 0);
    for (int i = 0; i < count; i++) {
        if (events[i].tag != TAG_WAKE)
            continue; /* the timerfd is cleared when it is set again */
        weft__os_counter_drain(poller.event);
        /* After the drain, so that a later wake-up writes again. */
        atomic_u32_exchange_seq_cst(&poller.signaled, 0);
    }
    struct ready ready = collect(events, count);
    wake_threads(ready.threads);
    weft__inject_push_woken_any(ready.fibers);
}

bool weft__poller_ready(void)
{
    return weft__os_fd_ready(poller.epoll);
}

void weft__poller_wake(void)
{
    if (atomic_u32_exchange_seq_cst(&poller.signaled, 1) == 0)
        weft__os_eventfd_signal(poller.event);
}
