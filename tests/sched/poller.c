/*
 * poller.c: on a kernel without epoll_pwait2 a timerfd wakes the watcher: waits end in time, and
 * errors at the start are returned.
 */
#include "failing.h"
#include "fibers.h"
#include "seeds.h"

enum { FIBERS = 20 };

static void sleep_a_little(void *arg)
{
    int64_t begin = weft_now(), time = (int64_t)(uintptr_t)arg * 300 * WEFT_US;
    CHECK_EQ(weft_sleep(time), 0);
    CHECK(weft_now() >= begin + time);
}

static void write_later(void *arg)
{
    CHECK_EQ(weft_sleep(2 * WEFT_MS), 0);
    CHECK_EQ(write(*(int *)arg, "x", 1), 1);
}

static void wait_for_all(void)
{
    weft_fiber *fibers[FIBERS], *writer;
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    spawn_each(fibers, FIBERS, sleep_a_little);
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT);
    writer = spawn(write_later, &ends[1]);
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(weft_join(writer), 0);
    join_all(fibers, FIBERS);
    close(ends[0]);
    close(ends[1]);
}

static void waits_end_in_time(void)
{
    wait_for_all();
    shut_down();
}

static void start(void)
{
    weft_fiber *fiber;
    int error = weft_spawn(&fiber, nothing, NULL, NULL);
    bool reached = weft__os_calls(failing.call) >= failing.nth;
    failing_off();
    failing_check(error, failing_start);
    if (error == 0)
        CHECK_EQ(weft_join(fiber), 0);
    else
        CHECK(reached);
    shut_down();
}

static void errors_at_the_start_are_returned(void)
{
    static const enum weft__os_call calls[] = {OS_EVENTFD, OS_POLL};
    for (int call = 0; call < 2; call++)
        for (uint32_t nth = 1; nth <= 4; nth++) {
            failing_on(calls[call], nth, false);
            start();
        }
}

int main(void)
{
    CHECK_EQ(setenv("WEFT_WITHOUT", "epoll_pwait2", 1), 0);
    RUN_PLAIN(waits_end_in_time, "about real time");
    RUN_PLAIN(errors_at_the_start_are_returned, "stops or configures the runtime");
    return 0;
}
