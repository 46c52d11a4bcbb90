/*
 * deadlock.h: reports that no fiber or thread can ever go on: see deadlock.c.
 */
#ifndef WEFT_SCHED_CHECK_DEADLOCK_H
#define WEFT_SCHED_CHECK_DEADLOCK_H

#include <stdint.h>

#include "sched/runtime/runtime.h"

struct machine;
struct waiter;

/* Reports and aborts if no fiber and no thread can ever go on. Called by the watcher when only a
 * wake-up could end its sleep. Returns the time of the next check, or WEFT_NEVER. */
int64_t weft__deadlock_check(void);
/* Has the watcher check again, if all machines are idle. */
void weft__deadlock_recheck(void);
/* Reads the backtrace of a fiber that was resumed for that, and switches back. In that fiber. */
void weft__deadlock_read_frames(struct machine *machine);

/* A thread that waits in weft without a deadline. On the stack of that thread. */
struct thread_wait {
    struct thread_wait *next, **link;
    struct waiter *waiter; /* NULL: in weft_shutdown */
    void *object;
    int64_t since;
};
/* Lists the wait of the calling thread, and takes it off the list. */
void weft__thread_wait_begin(struct thread_wait *wait);
void weft__thread_wait_end(struct thread_wait *wait);
/* Holds the lock of the list across a fork. */
void weft__thread_wait_fork(enum fork_step step);

#endif
