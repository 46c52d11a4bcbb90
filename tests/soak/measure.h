/*
 * measure.h: memory and descriptors of the process, and whether they stay flat over the phases.
 */
#ifndef WEFT_SOAK_MEASURE_H
#define WEFT_SOAK_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

struct measure {
    int64_t resident; /* bytes of memory that the kernel has given */
    int64_t heap;     /* bytes that malloc has given out and not got back */
    int descriptors;
    int threads;
};

/* Two series: when all is drained but the runtime runs, with the stacks, records and threads that it keeps for
 * later; and when it has stopped, and keeps nothing. */
enum series { DRAINED, STOPPED, SERIES };

/* Before the runtime first starts. */
void measure_begin(void);
/* Measures and keeps it. False if descriptors have leaked, which is said. */
bool measure_take(enum series series, struct measure *measure);
/* Compares the end with the beginning. False if memory has grown, which is said. */
bool measure_verdict(void);

#endif
