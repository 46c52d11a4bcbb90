/*
 * alive_stress.c: a million fibers are alive at once, each parked on a stack of its own; then all
 * end.
 */
#include "base/compiler.h"
#include "fibers.h"
#include "stack/stack.h"

static weft_wg arrived, gate, gone;
static atomic_u64 sum;

static noinline uint64_t live(uint64_t number)
{
    volatile uint64_t kept[16];
    for (int i = 0; i < 16; i++)
        kept[i] = number + (uint64_t)i;
    weft_wg_done(&arrived);
    CHECK_EQ(weft_wg_wait(&gate), 0);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(kept[i], number + (uint64_t)i); /* its stack is still its own */
    return kept[0];
}

static void wait_with_all(void *arg)
{
    atomic_u64_add_relaxed(&sum, live((uintptr_t)arg));
    weft_wg_done(&gone);
}

static int64_t memory_available(void)
{
    char line[256];
    static const char key[] = "MemAvailable:";
    int64_t kilobytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            kilobytes = strtoll(line + strlen(key), NULL, 10);
    fclose(file);
    return kilobytes * 1024;
}

static void be_alive(int64_t fibers)
{
    int64_t start = weft_now();
    CHECK_EQ(weft_wg_init(&arrived, fibers), 0);
    CHECK_EQ(weft_wg_init(&gate, 1), 0);
    CHECK_EQ(weft_wg_init(&gone, fibers), 0);
    atomic_u64_store_relaxed(&sum, 0);
    for (int64_t i = 1; i <= fibers; i++)
        CHECK_EQ(weft_go(wait_with_all, (void *)(uintptr_t)i), 0);
    CHECK_EQ(weft_wg_wait(&arrived), 0);
    CHECK(weft__stack_figures().made >= (uint64_t)fibers);
    weft_wg_done(&gate);
    CHECK_EQ(weft_wg_wait(&gone), 0);
    shut_down();
    uint64_t number = (uint64_t)fibers;
    CHECK_EQ(atomic_u64_load_relaxed(&sum), number * (number + 1) / 2);
    printf("    %lld fibers: %lld ms\n", (long long)fibers,
           (long long)((weft_now() - start) / WEFT_MS));
}

static void many_are_alive(void)
{
    be_alive(WEFT_TSAN ? 1000 : test_scale(100000));
    if (test_scale(100) != 100 || WEFT_ASAN || WEFT_TSAN)
        printf("    a million left out: WEFT_TEST_SCALE is not 100, or a sanitizer is in\n");
    else if (memory_available() < (int64_t)8 << 30)
        printf("    a million left out: less than 8 GB of memory available\n");
    else
        be_alive(1000000);
}

int main(void)
{
    RUN_PLAIN(many_are_alive, "a million fibers, all asleep");
    return 0;
}
