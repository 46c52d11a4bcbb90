/*
 * huge_pages.c: which memory is of huge pages, and which is not after a slow first touch.
 */
#include "os/huge_pages.h"

#include <sys/mman.h>

#include "test.h"

static bool next_is_huge(void)
{
    char *mapping = mmap(NULL, 2 * (size_t)HUGE_PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(mapping != MAP_FAILED);
    char *memory = mapping + (HUGE_PAGE - (uintptr_t)mapping % HUGE_PAGE) % HUGE_PAGE;
    bool huge = weft__huge_page_begin(memory);
    memory[HUGE_PAGE - 1] = 'x'; /* either way it can be used */
    CHECK_EQ(memory[0], 0);
    CHECK_EQ(munmap(mapping, 2 * (size_t)HUGE_PAGE), 0);
    return huge;
}

static void small_pages_come_first(void)
{
    for (int i = 0; i < HUGE_PAGES_SKIPPED; i++)
        CHECK(!next_is_huge());
    CHECK(next_is_huge());
}

/* The duration is set again after each touch, so that the result does not depend on this
 * machine. */
static void small_pages_follow_a_slow_huge_one(void)
{
    weft__huge_page_took(100 * 1000);
    for (int i = 0; i < 3; i++) {
        CHECK(next_is_huge());
        weft__huge_page_took(300 * 1000);
    }
    weft__huge_page_took(5 * 1000 * 1000);
    for (int i = 0; i < HUGE_PAGES_SKIPPED; i++)
        CHECK(!next_is_huge());
    CHECK(next_is_huge());
}

int main(void)
{
    RUN_ALL_PLAIN("no fibers", small_pages_come_first, small_pages_follow_a_slow_huge_one);
    return 0;
}
