/*
 * failure.h: makes calls of the seam fail, and counts what is held: for tests.
 *
 * A test says which call of a kind fails: the nth from then on, or that and all after it. So it can
 * walk through every failure of a piece of code: n = 1, 2, ... until none is met any more.
 *
 * No kind covers what cannot fail for lack of anything, and where a failure would not be noticed:
 * reading clocks, futexes, arming a timer descriptor, taking out of a poller, names of sockets,
 * signal actions and masks, closing what is not a file.
 *
 * Nothing is counted before a test asks: the counters are shared, and every processor would write
 * them at each call.
 */
#ifndef WEFT_OS_FAILURE_H
#define WEFT_OS_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

enum weft__os_call {
    OS_ALLOC,
    OS_MAP,
    OS_GUARD, /* and what else changes the protection of pages */
    OS_DECOMMIT,
    OS_THREAD,
    OS_REGISTER, /* a call at the end of a thread, the use of membarrier */
    OS_BARRIER,  /* a membarrier for which the kernel lacks memory at that moment */
    OS_POLL,     /* a poller, and adding to it */
    OS_EVENTFD,  /* and timer descriptors */
    OS_SOCKET,   /* all that makes one ready for use: its options, bind, listen, connect */
    OS_ACCEPT,
    OS_READ,  /* of a socket or a pipe */
    OS_WRITE, /* to a socket or a pipe, sendfile too */
    OS_RING,
    OS_FILE,
    OS_PIPE, /* and the other descriptors that a child needs */
    OS_SPAWN,
    OS_RESOLVE,
    OS_CALLS,
};

/* ---- for tests ---- */

/* Has the nth call of that kind from now on (1: the next one) fail; with `persistent`, all after it
 * too. 0 ends that. */
void weft__os_fail(enum weft__os_call call, uint32_t nth, bool persistent);

/* The calls of that kind since weft__os_fail was last called for it; 0 if it never was. */
uint32_t weft__os_calls(enum weft__os_call call);

/* What is held of the system, for tests that must leave nothing. */
enum weft__os_live {
    LIVE_MEMORY, /* allocations, and lists of getaddrinfo */
    LIVE_MAPS,
    LIVE_KINDS,
};

/* Begins to count. What was held before counts -1 when it is given back. */
void weft__os_live_count(void);
int64_t weft__os_live(enum weft__os_live what);

/* ---- for implementations of the seam ---- */

/* A test has asked for failures or for counts. Every call reads it, only tests write it. */
extern atomic_u32 weft__watched;

static inline bool weft__is_watched(void)
{
    return unlikely(atomic_u32_load_relaxed(&weft__watched));
}

/* Counts one call of that kind; true if it must fail. Each call of the contract begins with it. */
bool weft__failure_count(enum weft__os_call call);
static inline bool weft__failure_due(enum weft__os_call call)
{
    return weft__is_watched() && weft__failure_count(call);
}

/* One more of these is held (1), or one less (-1). */
void weft__live_change(enum weft__os_live what, int64_t change);
static inline void weft__live(enum weft__os_live what, int64_t change)
{
    if (weft__is_watched())
        weft__live_change(what, change);
}

#endif
