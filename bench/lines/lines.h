/*
 * lines.h: counts the cache lines that move between processors.
 *
 * The sources of weft are compiled with the compiler's instrumentation for race detection, which
 * calls a function at each access to memory, plain or atomic. Here these functions keep, for each
 * line of 64 bytes, the set of processors that have a copy of it, as a coherent cache does:
 *
 *     read     a processor without a copy fetches the line, and has one from then on
 *     write    the copies of the others end; if there were any, the line moves to the writer
 *
 * A fetch or a move is a transfer. The first access to a line by anybody is none.
 *
 * A processor is weft's (WEFT_PROCS), whatever the number of CPUs. So that 64 of them advance
 * side by side on two CPUs, each thread gives its CPU away after some 40 accesses.
 *
 * The monitor and machines without a processor are left out: how often they look is a matter of
 * time, and time goes slower here than the operations do. Not seen: what libc and the kernel touch,
 * memcpy and memset, and stacks that no pointer leads to.
 */
#ifndef WEFT_BENCH_LINES_H
#define WEFT_BENCH_LINES_H

#include <stdint.h>

/* Forgets what was counted, and counts from here on; the sets of copies stay. */
void lines_begin(void);
/* Ends the counting. Returns the transfers. */
uint64_t lines_end(void);
/* Prints the places of the sources that caused most of what was counted, for `operations`. */
void lines_report(uint64_t operations, double least);

#endif
