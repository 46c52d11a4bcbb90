/*
 * state.h: what the runtime is doing, for the last words of a process.
 */
#ifndef WEFT_SCHED_CHECK_STATE_H
#define WEFT_SCHED_CHECK_STATE_H

/* Writes it to stderr: processors, queues, machines, fibers. From anywhere, signal handlers too; once in a
 * process. */
void weft__state_show(void);

#endif
