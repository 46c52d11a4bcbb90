/*
 * failing.h: runs something with the first, the second, the third ... allocation, mapping, thread
 * and so on failing (each kind of os/failure.h): once, or from then on.
 *
 *     static void attempt(void)
 *     {
 *         int result = weft_go(count, &ran);          with a call failing
 *         failing_off();
 *         ...                                         what must hold now
 *     }
 *
 *     failing_each(attempt, 20);
 */
#ifndef WEFT_TEST_FAILING_H
#define WEFT_TEST_FAILING_H

#include <pthread.h>
#include <time.h>

#include "os/failure.h"
#include "os/os.h"
#include "test.h"
#include <weft/weft.h>

static const char *const failing_names[] = {
    [OS_ALLOC] = "alloc",       [OS_MAP] = "map",       [OS_GUARD] = "guard",
    [OS_DECOMMIT] = "decommit", [OS_THREAD] = "thread", [OS_REGISTER] = "register",
    [OS_BARRIER] = "barrier",   [OS_POLL] = "poll",     [OS_EVENTFD] = "eventfd",
    [OS_SOCKET] = "socket",     [OS_ACCEPT] = "accept", [OS_READ] = "read",
    [OS_WRITE] = "write",       [OS_RING] = "ring",     [OS_FILE] = "file",
    [OS_PIPE] = "pipe",         [OS_SPAWN] = "spawn",   [OS_RESOLVE] = "resolve",
};
_Static_assert(sizeof failing_names / sizeof failing_names[0] == OS_CALLS, "each has a name");

static struct {
    enum weft__os_call call;
    uint32_t nth, calls;
    bool persistent, on;
} failing;

static inline void failing_on(enum weft__os_call call, uint32_t nth, bool persistent)
{
    failing.call = call;
    failing.nth = nth;
    failing.persistent = persistent;
    failing.on = true;
    weft__os_fail(call, nth, persistent);
}

/* From now on nothing fails. */
static inline void failing_off(void)
{
    if (failing.on)
        failing.calls = weft__os_calls(failing.call);
    failing.on = false;
    weft__os_fail(failing.call, 0, false);
}

/* Calls attempt with each kind of call failing at each place that it reaches, up to `most`. The
 * attempt must call failing_off. Returns the number of failures that were reached. */
static inline uint32_t failing_each(void (*attempt)(void), uint32_t most)
{
    uint32_t reached = 0;
    for (int call = 0; call < OS_CALLS; call++)
        for (int persistent = 0; persistent < 2; persistent++) {
            uint32_t nth = 0;
            do {
                nth++;
                failing_on((enum weft__os_call)call, nth, persistent);
                attempt();
                CHECK(!failing.on);
                reached += failing.calls >= nth;
            } while (failing.calls >= nth && nth < most);
            printf("    %s, %s: %u\n", failing_names[call], persistent ? "from then on" : "once",
                   nth);
        }
    return reached;
}

static inline void *failing_thread(void *arg)
{
    void (*function)(void) = (void (*)(void))(uintptr_t)arg;
    function();
    return NULL;
}

/* Calls a function that may wait for a fiber while calls fail. After 20 ms nothing fails any more:
 * a fiber without a stack runs then. */
static inline void failing_while(void (*function)(void))
{
    pthread_t thread;
    struct timespec until;
    CHECK_EQ(pthread_create(&thread, NULL, failing_thread, (void *)(uintptr_t)function), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20 * 1000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int left = pthread_timedjoin_np(thread, NULL, &until);
    failing_off();
    if (left != 0)
        CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Checks that the result is 0 or an error of the list, which ends with 0. */
static inline void failing_check(int result, const int *allowed)
{
    bool found = result == 0;
    for (; !found && *allowed != 0; allowed++)
        found = result == *allowed;
    if (!found)
        test_fail(__FILE__, __LINE__, "result %d with %s failing at %u (%s)", result,
                  failing_names[failing.call], failing.nth,
                  failing.persistent ? "from then on" : "once");
}

/* Errors of a spawn while the runtime runs, and where it has to be started first. */
__attribute__((unused)) static const int failing_spawn[] = {-ENOMEM, -EAGAIN, 0};
__attribute__((unused)) static const int failing_start[] = {-ENOMEM, -EAGAIN, -EMFILE,
                                                            -ENFILE, -ENOSPC, 0};

#endif
