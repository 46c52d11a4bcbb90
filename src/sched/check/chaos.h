/*
 * chaos.h: the ordinary scheduler with forced yields (WEFT_CHAOS): see chaos.c.
 */
#ifndef WEFT_SCHED_CHECK_CHAOS_H
#define WEFT_SCHED_CHECK_CHAOS_H

struct thread;

/* Sets at how many of a hundred test points the calling fiber yields; 0: no chaos. Called when the
 * runtime starts. */
void weft__chaos_begin(int percent);
/* The part of test_point when chaos is on. */
void weft__chaos_point(void);
/* The test point in a fiber that has just entered the runtime. Returns the thread that the fiber is
 * on after it. */
struct thread *weft__chaos_enter(struct thread *thread);

#endif
