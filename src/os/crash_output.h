/*
 * crash_output.h: a text that is written to stderr if the process dies. Rules of all calls:
 * os/os.h.
 */
#ifndef WEFT_OS_CRASH_OUTPUT_H
#define WEFT_OS_CRASH_OUTPUT_H

#include <stddef.h>

/* From now on the text is written, once, if the process dies by abort, a fault, a sanitizer or
 * exit. There is one text, which must stay as it is until the next call; NULL ends it. Not from two
 * threads at once. A forked child does not write it. */
void weft__os_crash_output(const char *text, size_t size);

/* Writes the text now, if there is one that was not written. Works in signal handlers. */
void weft__os_crash_output_write(void);

#endif
