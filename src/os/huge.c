/*
 * huge.c: see huge.h.
 */
#include "os/huge.h"

#include "base/atomic.h"
#include "os/os.h"

enum { SLOW = 1000 * 1000 };

static atomic_u32 without = {HUGE_DO_WITHOUT}; /* so many more do without */

void weft__huge_took(int64_t nanoseconds)
{
    atomic_u32_store_relaxed(&without, nanoseconds > SLOW ? HUGE_DO_WITHOUT : 0);
}

bool weft__huge_pages(void *memory)
{
    uint32_t left = atomic_u32_load_relaxed(&without);
    if (left > 0) {
        atomic_u32_store_relaxed(&without, left - 1); /* of two at once only one may count */
        weft__os_no_huge_pages(memory, HUGE_PAGE);
        return false;
    }
    weft__os_huge_pages(memory, HUGE_PAGE);
    int64_t before = weft__os_now();
    *(volatile char *)memory = 0;
    weft__huge_took(weft__os_now() - before);
    return true;
}
