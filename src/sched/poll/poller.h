/*
 * poller.h: the set of descriptors that are waited for, and where the watcher sleeps: see poller.c.
 */
#ifndef WEFT_SCHED_POLL_POLLER_H
#define WEFT_SCHED_POLL_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "sched/fiber/chain.h"

struct processor;

/* Who is to be made ready. */
struct ready {
    struct chain fibers;
    struct waiter *threads; /* linked by next */
};

int weft__poller_start(bool allow_pwait2);
void weft__poller_stop(void);
/* Sleeps until the deadline, weft__poller_wake, or an event; fibers that events make ready are
 * in the inject queue then. For the watcher. */
void weft__poller_wait(int64_t deadline);
void weft__poller_wake(void);
/* Takes what events there are, without waiting, and makes ready who waits for them: on the
 * processor of a machine that has one and is inside the runtime, else through the inject queue.
 * True if there were any. Any thread may call it that is not running a fiber outside the
 * runtime, while the runtime runs. One system call if there are none. */
bool weft__poller_poll(void);
/* Whether anybody has ever waited for a descriptor. */
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
/* The same for a busy machine: only if nobody watches, and some time has passed. */
void weft__poller_look(struct processor *processor);
/* Puts a descriptor in the set (add), or changes what it is there for; or takes it out. */
int weft__poller_watch(int fd, uint32_t events, uint64_t tag, bool add);
void weft__poller_unwatch(int fd);
/* Makes them ready, with one wake-up for all. A fiber must have entered the runtime. */
void weft__poller_make_ready(struct ready *ready);
/* True if somebody who waits in the poller would not wait now. */
bool weft__poller_ready(void);

#endif
