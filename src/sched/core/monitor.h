/*
 * monitor.h: the thread that finds machines which are stuck outside the runtime: see monitor.c.
 */
#ifndef WEFT_SCHED_CORE_MONITOR_H
#define WEFT_SCHED_CORE_MONITOR_H

#include <stdint.h>

/* Starts the thread, if it can be had; else it is tried again by weft__monitor_poke. */
void weft__monitor_start(void);
void weft__monitor_stop(void);
/* No processor is idle any more, or there was no thread for one that is: the monitor must look.
 * Under the scheduler's lock. */
void weft__monitor_poke(void);
/* 1 if it runs; under the scheduler's lock. */
uint32_t weft__monitor_threads(void);

#endif
