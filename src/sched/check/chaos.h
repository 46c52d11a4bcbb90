/*
 * chaos.h: the common scheduler with forced yields: see chaos.c.
 */
#ifndef WEFT_SCHED_CHECK_CHAOS_H
#define WEFT_SCHED_CHECK_CHAOS_H

struct thread;

/* Of a hundred points, at so many others go first; 0: there is no chaos. Called when the runtime
 * starts. */
void weft__chaos_begin(int percent);
/* A test_point. */
void weft__chaos_point(void);
/* In a fiber that has just entered the runtime, which may go on on another thread. */
struct thread *weft__chaos_enter(struct thread *thread);

#endif
