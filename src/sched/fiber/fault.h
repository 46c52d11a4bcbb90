/*
 * fault.h: reports of memory faults and stack overflows: see fault.c.
 */
#ifndef WEFT_SCHED_FIBER_FAULT_H
#define WEFT_SCHED_FIBER_FAULT_H

struct weft_fiber;

/* Aborts if the stack pointer of the running fiber has passed the guard and is in another stack. */
void weft__depth_check(const struct weft_fiber *fiber);

int weft__fault_start(void);
void weft__fault_stop(void);

#endif
