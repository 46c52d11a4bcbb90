/*
 * descriptor.h: waiting for descriptors: what the poller and the sockets (src/net) need of it.
 */
#ifndef WEFT_SCHED_POLL_DESCRIPTOR_H
#define WEFT_SCHED_POLL_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

/* For the owner of a number: one that keeps it open, non-blocking, and to itself, and says when it will
 * be closed. It tries, and waits if it has to:
 *
 *     for (;;) {
 *         uint32_t seen = weft__descriptor_seen(fd, OS_READABLE);
 *         result = weft__os_read(fd, ...);
 *         if (result != -EAGAIN)
 *             break;
 *         result = weft__descriptor_wait(fd, OS_READABLE, seen, deadline);
 *         if (result < 0)
 *             break;
 *     }
 *
 * `seen` is what makes a readiness between the try and the wait impossible to miss. */

/* 0, -ENOMEM, or -EBUSY if it has an owner; or what the start of the runtime says. */
int weft__descriptor_own(int fd);
/* Ends all waits, and lets all later ones fail, with -ESHUTDOWN. A fiber must have entered the runtime. */
void weft__descriptor_shut(int fd);
/* Before it is closed, after it was shut. */
void weft__descriptor_disown(int fd);
/* How often it has become ready for that event (one of OS_READABLE, OS_WRITABLE). */
uint32_t weft__descriptor_seen(int fd, uint32_t event);
/* Waits until it becomes ready once more than `seen`; with no event, until it is shut. Returns 0, -ESHUTDOWN, -ETIMEDOUT, -ECANCELED; or
 * -ENOMEM, -ENOSPC if it cannot be watched. From fiber code that is outside the runtime, or a thread. */
int weft__descriptor_wait(int fd, uint32_t event, uint32_t seen, int64_t deadline);

struct ready;
/* An event of the set. */
void weft__descriptor_event(uint64_t tag, uint32_t events, struct ready *ready);
/* Frees all; no fiber exists. */
void weft__descriptors_stop(void);
/* How many wait for a descriptor. Exact if all machines are idle and no thread begins or ends a wait. */
int64_t weft__descriptor_waits(void);
/* Whether a thread does. */
bool weft__descriptor_thread_waits(void);

#endif
