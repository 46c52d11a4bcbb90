/*
 * state.h: the state of the runtime, for the crash output of a process: see state.c.
 */
#ifndef WEFT_SCHED_CHECK_STATE_H
#define WEFT_SCHED_CHECK_STATE_H

/* Writes the state of processors, queues, machines and fibers to stderr, once in a process. May be
 * called anywhere, also in signal handlers. */
void weft__state_show(void);

#endif
