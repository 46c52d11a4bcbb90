/*
 * stall.h: the report that all threads sit in C code: see stall.c.
 */
#ifndef WEFT_SCHED_CHECK_STALL_H
#define WEFT_SCHED_CHECK_STALL_H

#include <stdbool.h>
#include <stdint.h>

/* Called by the monitor: first when it starts, then at each look; `refused`: fibers or events
 * wait, and there is no thread for them. */
void weft__stall_begin(void);
void weft__stall_look(int64_t now, bool refused);

#endif
