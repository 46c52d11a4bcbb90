/*
 * huge_pages.c: decides which memory is of huge pages, by how long the last one took.
 */
#include "os/huge_pages.h"

#include "base/atomic.h"
#include "os/clock.h"
#include "os/memory.h"

enum { SLOW = 1000 * 1000 }; /* ns for a first touch */

static atomic_u32 left = {HUGE_PAGES_SKIPPED}; /* so many more are of small pages */

void weft__huge_page_took(int64_t nanoseconds)
{
    atomic_u32_store_relaxed(&left, nanoseconds > SLOW ? HUGE_PAGES_SKIPPED : 0);
}

bool weft__huge_page_begin(void *memory)
{
    uint32_t skip = atomic_u32_load_relaxed(&left);
    if (skip > 0) {
        atomic_u32_store_relaxed(&left, skip - 1); /* of two threads at once only one may count */
        weft__os_no_huge_pages(memory, HUGE_PAGE);
        return false;
    }
    weft__os_huge_pages(memory, HUGE_PAGE);
    int64_t before = weft__os_now();
    *(volatile char *)memory = 0;
    weft__huge_page_took(weft__os_now() - before);
    return true;
}
