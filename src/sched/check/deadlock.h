/*
 * deadlock.h: finds that no fiber can ever go on: see deadlock.c.
 */
#ifndef WEFT_SCHED_CHECK_DEADLOCK_H
#define WEFT_SCHED_CHECK_DEADLOCK_H

#include <stdint.h>

#include "sched/runtime/runtime.h"

struct machine;
struct waiter;

/* Reports and aborts if no fiber can ever go on. Called by the watcher when it finds nothing to
 * wait for but being woken. Returns when to ask again. */
int64_t weft__deadlock_check(void);
/* Has the watcher ask again, if all machines are idle. */
void weft__deadlock_recheck(void);
/* In a fiber that was resumed to show where it waits. */
void weft__deadlock_read_frames(struct machine *machine);
/* A thread that waits in weft without a deadline; on its stack. */
struct thread_wait {
    struct thread_wait *next, **link;
    struct waiter *waiter; /* NULL: in weft_shutdown */
    void *object;
    int64_t since;
};
void weft__thread_wait_begin(struct thread_wait *wait);
void weft__thread_wait_end(struct thread_wait *wait);
void weft__thread_wait_fork(enum fork_step step);

#endif
