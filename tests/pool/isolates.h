/*
 * isolates.h: for tests of pools that isolate crashes: options with private or with compact
 * stacks, and tasks that crash.
 */
#ifndef WEFT_TEST_ISOLATES_H
#define WEFT_TEST_ISOLATES_H

#include "faults.h"
#include "tasks.h"

/* Each with private and with compact stacks. */
static int compact;

#define ISOLATES .isolate_crashes = 1, .name = "isolates", .compact = compact

static inline void crash_task(void *fault)
{
    ((void (*)(void))(uintptr_t)fault)();
}

static inline void *fault_arg(void (*fault)(void))
{
    return (void *)(uintptr_t)fault;
}

static inline void park_and_crash(void *fault)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    crash_task(fault);
}

/* With a handle. */
static inline int crash_with_handle(void *fault)
{
    CHECK_EQ(weft_sleep(WEFT_US), 0);
    crash_task(fault);
    return 0;
}

static inline void lock_and_crash(void *mutex)
{
    weft_mutex_lock(mutex);
    fault_null_write();
}

/* Ends the test as skipped where nothing is isolated, or not every fault is noticed. */
static inline void isolates_or_skip(void)
{
    const char *without = getenv("WEFT_WITHOUT");
    if (WEFT_ASAN || WEFT_TSAN)
        test_skip("under a sanitizer nothing is isolated: its report is wanted");
    if (without != NULL && strstr(without, "guard_pages") != NULL)
        test_skip("without guards no overflow is noticed");
}

#endif
