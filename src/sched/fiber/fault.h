/*
 * fault.h: memory faults, and what they are reported as: see fault.c.
 */
#ifndef WEFT_SCHED_FIBER_FAULT_H
#define WEFT_SCHED_FIBER_FAULT_H

struct weft_fiber;

/* Ends the program if the running fiber, at its stack pointer, is in the stack of another one. */
void weft__depth_check(const struct weft_fiber *fiber);

int weft__fault_start(void);
void weft__fault_stop(void);

#endif
