/*
 * deadlock.h: cases of a deadlock, or of none: each runs in a child, in which weft has not run before, and is reported
 * or lives on.
 *
 * A case that must be reported ends in waiting for ever: if the report does not come, the test runs into its time
 * limit.
 */
#ifndef WEFT_TEST_DEADLOCK_H
#define WEFT_TEST_DEADLOCK_H

#include <signal.h>
#include <sys/timerfd.h>
#include <weft/weft.h>

#include "base/compiler.h"
#include "system.h"
#include "test.h"

/* Each child would sleep for a second at its end. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

static const char *output;

/* Runs the case in a child and returns its status; all that it wrote to stderr is in `output`. */
static inline int run_case(void (*function)(void *), void *arg)
{
    static char *text;
    const char *rest;
    FILE *file = tmpfile();
    CHECK(file != NULL);
    fflush(NULL);
    int before = dup(STDERR_FILENO);
    CHECK(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        function(arg);
        _exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    long size = lseek(fileno(file), 0, SEEK_END);
    CHECK(size >= 0);
    free(text);
    text = calloc(1, (size_t)size + 1);
    CHECK(text != NULL);
    CHECK_EQ(pread(fileno(file), text, (size_t)size, 0), size);
    fclose(file);
    output = text;
    rest = size > 4000 ? "...\n" : "";
    fprintf(stderr, "--- stderr of the child:\n%.4000s%s---\n", text, rest);
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
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK_SAID("weft: deadlock: nothing is left that could wake a waiting fiber or thread");
    CHECK_SAID(
        "weft: aborting; WEFT_DEADLOCK_CHECK=0 or weft_config.no_deadlock_check waits on instead");
}

static inline void check_lives(void (*function)(void *), void *arg)
{
    int status = run_case(function, arg);
    CHECK(!said("deadlock"));
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

static inline weft_fiber *spawn(void (*function)(void *), void *arg, const char *name)
{
    weft_spawn_options options = {.name = name};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, function, arg, &options), 0);
    return fiber;
}

static inline void end_at_once(void *arg)
{
    (void)arg;
}

static inline void start_weft(void)
{
    CHECK_EQ(weft_join(spawn(end_at_once, NULL, "first")), 0);
}

/* How long somebody who is left takes to act. */
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

/* Else the reports are left out, and that is said. */
static inline bool reports_come(void)
{
    if (!WEFT_TSAN && !test_emulated())
        return true;
    printf("skipped: the reports, since there are threads that weft does not know of\n");
    return false;
}

#endif
