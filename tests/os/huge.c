/*
 * huge.c: when memory is of huge pages, and when it does without.
 */
#include "os/huge.h"

#include <sys/mman.h>

#include "test.h"

static bool next_is_huge(void)
{
    char *mapping = mmap(NULL, 2 * (size_t)HUGE_PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(mapping != MAP_FAILED);
    char *memory = mapping + (HUGE_PAGE - (uintptr_t)mapping % HUGE_PAGE) % HUGE_PAGE;
    bool huge = weft__huge_pages(memory);
    memory[HUGE_PAGE - 1] = 'x'; /* either way it can be used */
    CHECK_EQ(memory[0], 0);
    CHECK_EQ(munmap(mapping, 2 * (size_t)HUGE_PAGE), 0);
    return huge;
}

static void small_ones_first(void)
{
    for (int i = 0; i < HUGE_DO_WITHOUT; i++)
        CHECK(!next_is_huge());
    CHECK(next_is_huge());
}

/* What the touch took is said here once more, so that it does not depend on this machine. */
static void small_ones_after_a_slow_one(void)
{
    weft__huge_took(100 * 1000);
    for (int i = 0; i < 3; i++) {
        CHECK(next_is_huge());
        weft__huge_took(300 * 1000);
    }
    weft__huge_took(5 * 1000 * 1000);
    for (int i = 0; i < HUGE_DO_WITHOUT; i++)
        CHECK(!next_is_huge());
    CHECK(next_is_huge());
}

int main(void)
{
    RUN_PLAIN(small_ones_first, "nothing here is a fiber");
    RUN_PLAIN(small_ones_after_a_slow_one, "nothing here is a fiber");
    return 0;
}
