/*
 * descriptor.c: the table of descriptors, as the floors above use it: numbers that it does not know, that nobody
 * owns, that are too large; and a kernel that refuses to go on watching.
 */
#include "sched/poll/descriptor.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>

#include "everywhere.h"
#include "failing.h"

static void ask_of_the_unknown(void *arg)
{
    enum { UNKNOWN = 200 * 1000 };
    (void)arg;
    CHECK_EQ(weft__descriptor_seen(UNKNOWN, OS_READABLE), 0);
    CHECK_EQ(weft__descriptor_wait(UNKNOWN, OS_READABLE, 0, WEFT_NEVER), -ECHILD);
    weft__descriptor_shut(UNKNOWN);
    weft__descriptor_disown(UNKNOWN);
    /* No kernel gives such a number. */
    CHECK_EQ(weft_fd_wait(INT_MAX, WEFT_READABLE, WEFT_NOW), -EBADF);
    CHECK(weft_fd_wait(INT_MAX, WEFT_READABLE, WEFT_NEVER) < 0);
    CHECK_EQ(weft__descriptor_own(INT_MAX), -ENOMEM);
}

static void the_unknown(void)
{
    everywhere(ask_of_the_unknown);
}

static void ask_of_what_nobody_owns(void *arg)
{
    int ends[2];
    (void)arg;
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_READABLE, weft_after(WEFT_US)), -ETIMEDOUT); /* known now */
    CHECK_EQ(weft__descriptor_wait(ends[0], OS_READABLE, 0, WEFT_NEVER), -ESHUTDOWN);
    weft__descriptor_disown(ends[0]);
    CHECK_EQ(weft__descriptor_own(ends[0]), 0);
    weft__descriptor_disown(ends[0]); /* which was never watched */
    CHECK_EQ(weft__descriptor_own(ends[0]), 0);
    CHECK_EQ(weft__descriptor_own(ends[0]), -EBUSY);
    weft__descriptor_disown(ends[0]);
    close(ends[0]);
    close(ends[1]);
}

static void what_nobody_owns(void)
{
    everywhere(ask_of_what_nobody_owns);
}

/* Two wait for one descriptor, for different things. One is told; watching on for the other fails: it is told that. */

static int pair[2];
static int results[2];

static void wait_readable(void *arg)
{
    (void)arg;
    results[0] = weft_fd_wait(pair[0], WEFT_READABLE, WEFT_NEVER);
}

static void wait_writable(void *arg)
{
    (void)arg;
    results[1] = weft_fd_wait(pair[0], WEFT_WRITABLE, WEFT_NEVER);
}

static void watch_no_more(void *arg)
{
    static char much[4096];
    weft_fiber *fibers[2];
    (void)arg;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    while (write(pair[0], much, sizeof much) > 0) /* until there is no room */
        continue;
    CHECK_EQ(weft_spawn(&fibers[0], wait_readable, NULL, NULL), 0);
    CHECK_EQ(weft_spawn(&fibers[1], wait_writable, NULL, NULL), 0);
    while (weft__descriptor_waits() != 2)
        weft_yield();
    failing_on(OS_POLL, 1, true);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    failing_off();
    CHECK_EQ(results[0], WEFT_READABLE);
    CHECK(results[1] < 0);
    close(pair[0]);
    close(pair[1]);
}

static void watching_on_fails(void)
{
    on_processors(1, watch_no_more, NULL);
}

int main(void)
{
    RUN_PLAIN(the_unknown, "nothing waits");
    RUN_PLAIN(what_nobody_owns, "nothing waits");
    RUN_PLAIN(watching_on_fails, "lets the kernel refuse for all");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
