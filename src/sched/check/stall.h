/*
 * stall.h: reports that all threads are in C code while fibers wait: see stall.c.
 */
#ifndef WEFT_SCHED_CHECK_STALL_H
#define WEFT_SCHED_CHECK_STALL_H

#include <stdbool.h>
#include <stdint.h>

/* Resets the check. Called by the monitor when it starts. */
void weft__stall_begin(void);
/* Does the check. Called by the monitor at each of its looks. `refused`: fibers or events wait, and
 * no thread could be had for them. */
void weft__stall_look(int64_t now, bool refused);

#endif
