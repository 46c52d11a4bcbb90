/*
 * monitor.h: the thread that finds machines which are stuck in C code. See monitor.c.
 */
#ifndef WEFT_SCHED_CORE_MONITOR_H
#define WEFT_SCHED_CORE_MONITOR_H

#include <stdint.h>

/* Starts the thread. If that fails, weft__monitor_poke tries again. */
void weft__monitor_start(void);
/* Ends the thread and joins it. */
void weft__monitor_stop(void);
/* Wakes the monitor, since no processor is idle any more, or a thread for an idle one could not be
 * started. Under the scheduler's lock. */
void weft__monitor_poke(void);
/* The number of monitor threads: 0 or 1. Under the scheduler's lock. */
uint32_t weft__monitor_threads(void);

#endif
