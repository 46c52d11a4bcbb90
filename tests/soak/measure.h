/*
 * measure.h: memory and descriptors of the process, and whether they stay flat over the phases.
 */
#ifndef WEFT_SOAK_MEASURE_H
#define WEFT_SOAK_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

struct measure {
    int64_t resident; /* resident bytes */
    int64_t heap;     /* allocated bytes of the heap */
    int descriptors;
    int threads;
};

/* Two series: drained, while the runtime runs with its cached stacks, fibers and threads; and
 * stopped, when it keeps nothing. */
enum series { DRAINED, STOPPED, SERIES };

/* Call before the runtime first starts. */
void measure_begin(void);
/* Measures and records. False, with a message, if descriptors have leaked. */
bool measure_take(enum series series, struct measure *measure);
/* Compares the end with the beginning. False, with a message, if memory has grown. */
bool measure_verdict(void);

#endif
