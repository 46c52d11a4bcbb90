/*
 * deadlock_compact.c: a deadlock of compact fibers, with no memory to move out the frames that are on their stacks:
 * all are named, and the frames shown of those that are there.
 */
#include <signal.h>

#include "compact.h"
#include "dying.h"
#include "failing.h"
#include "sched/fiber/compact.h"
#include "system.h"

enum { FIBERS = 3 * HOT_STACKS };

static weft_wg never, parked;

static void wait_for_ever(void *arg)
{
    (void)arg;
    weft_wg_done(&parked);
    CHECK_EQ(weft_wg_wait(&never), 0);
}

/* New ones, whose frames need more than is kept for them. */
static void wait_deep(void *arg)
{
    compact_below(60, 1, wait_for_ever, arg);
}

static void deadlock(void)
{
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    CHECK_EQ(weft_wg_init(&never, 1), 0);
    CHECK_EQ(weft_wg_init(&parked, FIBERS), 0);
    for (int i = 0; i < FIBERS; i++)
        compact_go(wait_deep, NULL);
    CHECK_EQ(weft_wg_wait(&parked), 0);
    weft__os_fail(OS_ALLOC, 1, true);
    weft__os_fail(OS_MAP, 1, true);
    for (size_t size = 16 * 1024; size > 0; size /= 2) /* what is at hand */
        while (weft__stash(size) != NULL)
            continue;
    (void)!weft_wg_wait(&never);
}

/* Equal fibers are shown once, with the number of the others. */
static int fibers_reported(void)
{
    static const char first[] = "weft: fiber ", others[] = "weft:   and ";
    int count = 0;
    for (const char *at = output; (at = strstr(at, first)) != NULL; at++)
        count++;
    for (const char *at = output; (at = strstr(at, others)) != NULL; at++)
        count += atoi(at + sizeof others - 1);
    return count;
}

static void frames_that_are_not_there(void)
{
    check_dies(deadlock, SIGABRT);
    CHECK(said("deadlock: "));
    CHECK_EQ(fibers_reported(), FIBERS);
}

int main(void)
{
    if (!weft__compact_works())
        test_skip("there are no compact stacks here");
    if (WEFT_TSAN || test_emulated())
        test_skip("ThreadSanitizer or the emulator has threads of its own");
    RUN(frames_that_are_not_there);
    return 0;
}
