/*
 * huge_pages.h: decides which memory, shared by many small objects, is of huge pages.
 *
 * With many fibers each object is on another page, and a miss of the TLB costs as much as one of
 * the cache; huge pages have fewer misses. But the system clears a huge page as a whole at its
 * first touch: 0.1 to 0.3 ms for 2 MiB. On a virtual machine whose host has taken free memory back,
 * the host gives it again piece by piece at that moment: 5 ms were measured, 8 at worst, during
 * which the processor stands still, and every thread that waits for the caller's lock. Small pages
 * spread that time, and mostly are memory that the system still has: 0.8 ms for 2 MiB, a page at a
 * time.
 *
 * So the first 64 MiB are of small pages, which is enough for 100,000 fibers. After that the first
 * touch of each huge page is timed. If one takes more than a millisecond, the next 64 MiB are of
 * small pages again.
 */
#ifndef WEFT_OS_HUGE_PAGES_H
#define WEFT_OS_HUGE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HUGE_PAGE = 2 * 1024 * 1024, HUGE_PAGES_SKIPPED = 32 };

/* For HUGE_PAGE bytes of a new mapping, at a multiple of HUGE_PAGE: asks the system for a huge
 * page, or for small ones. True for a huge page, if the system can; its first byte was then
 * written. Any thread. */
bool weft__huge_page_begin(void *memory);

/* Says how long the first touch of a huge page took: what the next ones are decided by. */
void weft__huge_page_took(int64_t nanoseconds);

#endif
