/*
 * poll.h: readiness of many descriptors, and descriptors that wake a wait. Rules of all calls:
 * os/os.h.
 *
 * A poller watches a set of descriptors. Each is in the set at most once, and leaves it when it is
 * removed or its last copy is closed. Linux: epoll.
 */
#ifndef WEFT_OS_POLL_H
#define WEFT_OS_POLL_H

#include <stdbool.h>
#include <stdint.h>

/* What a descriptor is, or is watched for. An error or a hang-up counts as readable and as
 * writable: the read or the write that follows then returns it. */
enum {
    OS_READABLE = 1,
    OS_WRITABLE = 2,
    OS_EDGE = 4,    /* reported once for each change, not for as long as it is so */
    OS_ONESHOT = 8, /* reported once, then not until weft__os_poll_change */
};

struct weft__os_event {
    uint64_t tag;    /* given when the descriptor was added or changed */
    uint32_t events; /* OS_READABLE, OS_WRITABLE */
};

/* ---- the set ---- */

/* A new empty set, as a descriptor, which is itself readable while a member is ready. Closed by
 * weft__os_close. [OS_POLL] */
int weft__os_poll_open(void);

/* Adds a descriptor. What it is ready for at that moment counts as a change. -EEXIST if it is in
 * the set, -EPERM if it is always ready (a regular file), -ENOSPC at the limit of the system.
 * [OS_POLL] */
int weft__os_poll_add(int poller, int fd, uint32_t events, uint64_t tag);

/* Watches a member for other events, with another tag; as if it were added anew. -ENOENT if it is
 * not in the set. [OS_POLL] */
int weft__os_poll_change(int poller, int fd, uint32_t events, uint64_t tag);

/* Takes a descriptor out of the set; without effect if it is not in it. */
void weft__os_poll_remove(int poller, int fd);

/* Waits until a member is ready, or the deadline, to the nanosecond. Returns how many events were
 * stored, at most `capacity` (64 at most): 0 at the deadline or after a signal. -ENOSYS where the
 * system cannot wait that exactly (Linux before 5.11): then weft__os_poll_wait and a timer
 * descriptor in the set serve. */
int weft__os_poll_wait_exact(int poller, struct weft__os_event *events, int capacity,
                             int64_t deadline);

/* weft__os_poll_wait_exact without a deadline; without waiting if `wait` is false. Works on all
 * systems. */
int weft__os_poll_wait(int poller, struct weft__os_event *events, int capacity, bool wait);

/* ---- one descriptor, without a set and without waiting ---- */

/* Which of OS_READABLE and OS_WRITABLE in `events` the descriptor is ready for; 0 for none; -EBADF
 * if it is not open. */
int weft__os_fd_events(int fd, uint32_t events);

/* Whether it is readable. Takes nothing out of it. */
bool weft__os_fd_ready(int fd);

/* ---- wake-up and timer descriptors ---- */

/* A non-blocking descriptor that is readable from a signal on until it is drained. [OS_EVENTFD] */
int weft__os_eventfd(void);
void weft__os_eventfd_signal(int fd);

/* A non-blocking descriptor that is readable from the set deadline on until it is drained or set
 * again; at first there is no deadline. INT64_MAX disarms it. [OS_EVENTFD] */
int weft__os_timerfd(void);
int weft__os_timerfd_set(int fd, int64_t deadline);

/* Makes either kind unreadable. */
void weft__os_counter_drain(int fd);

/* Closes a descriptor of any kind but a file (weft__os_file_close), whose close can fail. */
void weft__os_close(int fd);

#endif
