/*
 * lines.h: counts the cache lines that move between processors.
 *
 * The sources of weft are compiled with the compiler's instrumentation for race detection, which
 * calls a function at each access to memory, plain or atomic. These functions keep, for each line
 * of 64 bytes, the set of processors that have a copy of it, as a coherent cache does:
 *
 *     read     a processor without a copy fetches the line and has a copy from then on
 *     write    the copies of other processors end; if there were any, the line moves to the writer
 *
 * A fetch or a move is a transfer. The first access to a line is none.
 *
 * A processor is one of weft's (WEFT_PROCS), independent of the number of CPUs. Each thread gives
 * up its CPU after about 40 accesses, so that 64 processors advance side by side on two CPUs.
 *
 * The monitor and machines without a processor are left out: the number of their accesses depends
 * on time, and the instrumentation slows operations down, not time. Not visible: accesses of libc
 * and the kernel, memcpy and memset, and stacks that no pointer leads to.
 */
#ifndef WEFT_BENCH_LINES_H
#define WEFT_BENCH_LINES_H

#include <stdint.h>

/* Resets and starts the count; the sets of copies stay. */
void lines_begin(void);
/* Stops the count. Returns the transfers. */
uint64_t lines_end(void);
/* Prints the places in the sources that caused most transfers, per operation of `operations`. */
void lines_report(uint64_t operations, double least);

#endif
