/*
 * huge.h: huge pages for memory that very many small things share, where they come fast.
 *
 * With many fibers each is on another page, and to find a page takes as long as to fetch a line. In
 * huge pages that is less. But the system clears one as a whole at its first touch: 0.1 to 0.3 ms
 * for 2 MiB; and a virtual machine whose host has taken back the memory that was free gets it from
 * the host piece by piece then. 5 ms have been seen, 8 at worst, for which the processor stands
 * still, and everybody who waits for the caller's lock. Small pages are spread over that time, and
 * are mostly of memory that the system still has: 0.8 ms for 2 MiB, a page at a time.
 *
 * So the first 64 MiB are of small pages, which is 100,000 fibers; and the first touch of a huge
 * one is timed. After one that took long, 64 MiB are of small pages again.
 */
#ifndef WEFT_OS_HUGE_H
#define WEFT_OS_HUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HUGE_PAGE = 2 * 1024 * 1024, HUGE_DO_WITHOUT = 32 };

/* For new memory, HUGE_PAGE bytes at a multiple of that. True: of huge pages, if the system likes,
 * and its first byte is written. */
bool weft__huge_pages(void *memory);
/* That touch took so long: what the next ones go by. */
void weft__huge_took(int64_t nanoseconds);

#endif
