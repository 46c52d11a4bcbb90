/*
 * descriptor.h: waiting for descriptors: what the poller and the sockets (src/net) use. See
 * descriptor.c.
 */
#ifndef WEFT_SCHED_POLL_DESCRIPTOR_H
#define WEFT_SCHED_POLL_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

/* For the owner of a descriptor: code that keeps the number open, non-blocking and to itself, and
 * calls weft__descriptor_disown before it closes it. The owner tries, and waits if it must:
 *
 *     for (;;) {
 *         uint32_t seen = weft__descriptor_seen(fd, OS_READABLE);
 *         result = weft__os_receive(fd, ...);
 *         if (result != -EAGAIN)
 *             break;
 *         result = weft__descriptor_wait(fd, OS_READABLE, seen, deadline);
 *         if (result < 0)
 *             break;
 *     }
 *
 * `seen` makes it impossible to miss an event between the try and the wait. */

/* Takes a number into ownership. Returns 0, -ENOMEM, -EBUSY if it is owned, or the error with which
 * the runtime could not start. */
int weft__descriptor_own(int fd);
/* Ends all waits for an owned number with -ESHUTDOWN, and lets all later ones fail. A calling fiber
 * must have entered the runtime. */
void weft__descriptor_shut(int fd);
/* Gives up the ownership of a number that was shut. Must come before it is closed. */
void weft__descriptor_disown(int fd);
/* How often the descriptor has become ready for `event`, one of OS_READABLE and OS_WRITABLE. */
uint32_t weft__descriptor_seen(int fd, uint32_t event);
/* Waits until an owned descriptor has become ready for `event` more often than `seen`; if `event`
 * is 0, until it is shut. Returns 0, -ESHUTDOWN, -ETIMEDOUT, -ECANCELED, -ECHILD in a forked child,
 * or -ENOMEM or -ENOSPC if the descriptor cannot be watched. Called by a fiber outside the runtime,
 * or a thread. */
int weft__descriptor_wait(int fd, uint32_t event, uint32_t seen, int64_t deadline);

struct ready;
/* Handles an event of the set: adds the fibers and threads whose waits it ends to `ready`. */
void weft__descriptor_event(uint64_t tag, uint32_t events, struct ready *ready);
/* Frees all records; no fiber exists. */
void weft__descriptors_stop(void);
/* The number of waits for descriptors. Exact if all machines are idle and no thread begins or ends
 * one. */
int64_t weft__descriptor_waits(void);
/* Whether a thread that is not a machine waits for a descriptor. */
bool weft__descriptor_thread_waits(void);

#endif
