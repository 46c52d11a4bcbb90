/*
 * poller.h: the set of descriptors that are waited for, and where the watcher sleeps. See
 * poller.c.
 */
#ifndef WEFT_SCHED_POLL_POLLER_H
#define WEFT_SCHED_POLL_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "sched/fiber/chain.h"

struct processor;

/* Claimed waiters that must be made ready. */
struct ready {
    struct chain fibers;
    struct waiter *threads; /* linked by next */
};

/* Makes the set; uses epoll_pwait2 if that is allowed and the kernel has it. Returns 0 or an
 * error. */
int weft__poller_start(bool allow_pwait2);
/* Closes the set and frees all records of descriptors. */
void weft__poller_stop(void);
/* Sleeps until the deadline, weft__poller_wake, or an event. Fibers that events make ready are in
 * the inject queue afterwards. For the watcher. */
void weft__poller_wait(int64_t deadline);
/* Wakes the watcher; without one, the next wait ends at once. */
void weft__poller_wake(void);
/* Takes the events that there are, without waiting, and makes the fibers and threads that wait for
 * them ready: fibers on the processor of the calling machine if it has one and is inside the
 * runtime, else through the inject queue. True if any became ready. May be called by any thread
 * while the runtime runs, except by a fiber outside the runtime. One system call if there are no
 * events. */
bool weft__poller_poll(void);
/* Whether any fiber or thread has ever waited for a descriptor. */
extern atomic_u32 weft__poller_used;
static inline void weft__poller_used_now(void)
{
    if (unlikely(atomic_u32_load_relaxed(&weft__poller_used) == 0))
        atomic_u32_store_relaxed(&weft__poller_used, 1);
}
static inline bool poller_used(void)
{
    return atomic_u32_load_relaxed(&weft__poller_used) != 0;
}
/* weft__poller_poll for a busy machine: only if there is no watcher and some time has passed since
 * its processor looked last. */
void weft__poller_look(struct processor *processor);
/* Adds a descriptor to the set (`add`), or changes what it is watched for. Returns 0 or an
 * error. */
int weft__poller_watch(int fd, uint32_t events, uint64_t tag, bool add);
/* Removes a descriptor from the set. */
void weft__poller_unwatch(int fd);
/* Makes claimed waiters ready, with one wake-up of a machine for all. A calling fiber must have
 * entered the runtime. */
void weft__poller_make_ready(struct ready *ready);
/* True if the set has events, so that a wait in the poller would end at once. */
bool weft__poller_ready(void);

#endif
