/*
 * deadlock.h: cases of a deadlock, or of none. Each runs in a child in which weft has not run
 * before, and is reported or ends by itself.
 *
 * A case that must be reported ends in a wait for ever: without the report, the test runs into its
 * time limit.
 */
#ifndef WEFT_TEST_DEADLOCK_H
#define WEFT_TEST_DEADLOCK_H

#include <signal.h>
#include <sys/timerfd.h>

#include "base/compiler.h"
#include "fibers.h"
#include "system.h"

/* Otherwise each child sleeps for a second at its end. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

static const char *output;

/* Runs the case in a child and returns its status; all that it wrote to stderr is in `output`. */
static inline int run_case(void (*function)(void *), void *arg)
{
    int status = test_in_child(function, arg, &output);
    fprintf(stderr, "--- stderr of the child:\n%.4000s%s---\n", output,
            strlen(output) > 4000 ? "...\n" : "");
    return status;
}

static inline bool said(const char *text)
{
    return strstr(output, text) != NULL;
}

static inline void check_said(const char *file, int line, const char *text)
{
    if (!said(text))
        test_fail(file, line, "no \"%s\" in the report", text);
}

#define CHECK_SAID(text) check_said(__FILE__, __LINE__, text)

static inline void check_reported(void (*function)(void *), void *arg)
{
    int status = run_case(function, arg);
    test_killed(status, SIGABRT);
    CHECK_SAID("weft: deadlock: nothing is left that could wake a waiting fiber or thread");
    CHECK_SAID(
        "weft: aborting; WEFT_DEADLOCK_CHECK=0 or weft_config.no_deadlock_check waits on instead");
}

static inline void check_lives(void (*function)(void *), void *arg)
{
    int status = run_case(function, arg);
    CHECK(!said("deadlock"));
    test_exited(status, 0);
}

static inline weft_fiber *spawn_named(void (*function)(void *), void *arg, const char *name)
{
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, &(weft_spawn_options){.name = name}), 0);
    return fiber;
}

static inline void start_weft(void)
{
    run_fiber(nothing, NULL);
}

/* How long the only party that can wake the others waits before it does. */
enum { WHILE_MS = 30 };

/* Blocks the thread in a plain read(). */
static inline void block_in_read(void)
{
    struct itimerspec after = {.it_value = {.tv_nsec = WHILE_MS * 1000000L}};
    uint64_t count;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(timer >= 0);
    CHECK_EQ(timerfd_settime(timer, 0, &after, NULL), 0);
    CHECK_EQ(read(timer, &count, sizeof count), sizeof count);
    close(timer);
}

/* Whether deadlocks are reported here; otherwise the test prints that they are left out. */
static inline bool reports_come(void)
{
    if (!WEFT_TSAN && !test_emulated())
        return true;
    printf("skipped: the reports, since there are threads that weft does not know of\n");
    return false;
}

#endif
