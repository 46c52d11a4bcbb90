/*
 * descriptor.c: the table of descriptors as the floors above use it: numbers that it does not know,
 * that are not owned, that are too large; and a kernel that refuses to watch on.
 */
#include "sched/poll/descriptor.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>

#include "everywhere.h"
#include "failing.h"
#include "fibers.h"

static void unknown_numbers_are_refused(void *arg)
{
    enum { UNKNOWN = 200 * 1000 };
    CHECK_EQ(weft__descriptor_seen(UNKNOWN, OS_READABLE), 0);
    CHECK_EQ(weft__descriptor_wait(UNKNOWN, OS_READABLE, 0, WEFT_NEVER), -ECHILD);
    weft__descriptor_shut(UNKNOWN);
    weft__descriptor_disown(UNKNOWN);
    /* No kernel gives such a number. */
    CHECK_EQ(weft_fd_wait(INT_MAX, WEFT_READABLE, WEFT_NOW), -EBADF);
    CHECK(weft_fd_wait(INT_MAX, WEFT_READABLE, WEFT_NEVER) < 0);
    CHECK_EQ(weft__descriptor_own(INT_MAX), -ENOMEM);
}

static void descriptors_without_an_owner_are_refused(void *arg)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_READABLE, weft_after(WEFT_US)),
             -ETIMEDOUT); /* the table knows it now */
    CHECK_EQ(weft__descriptor_wait(ends[0], OS_READABLE, 0, WEFT_NEVER), -ESHUTDOWN);
    weft__descriptor_disown(ends[0]);
    CHECK_EQ(weft__descriptor_own(ends[0]), 0);
    weft__descriptor_disown(ends[0]); /* it was never watched */
    CHECK_EQ(weft__descriptor_own(ends[0]), 0);
    CHECK_EQ(weft__descriptor_own(ends[0]), -EBUSY);
    weft__descriptor_disown(ends[0]);
    close(ends[0]);
    close(ends[1]);
}

/* Two fibers wait for different events of one descriptor. One is woken; the watch for the other
 * fails, and its call returns the error. */

static int pair[2];
static int results[2];

static void wait_readable(void *arg)
{
    results[0] = weft_fd_wait(pair[0], WEFT_READABLE, WEFT_NEVER);
}

static void wait_writable(void *arg)
{
    results[1] = weft_fd_wait(pair[0], WEFT_WRITABLE, WEFT_NEVER);
}

static void a_watch_that_fails_is_returned(void *arg)
{
    static char much[4096];
    weft_fiber *fibers[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    while (write(pair[0], much, sizeof much) > 0) /* until there is no room */
        continue;
    CHECK_EQ(weft_spawn(&fibers[0], wait_readable, NULL, NULL), 0);
    CHECK_EQ(weft_spawn(&fibers[1], wait_writable, NULL, NULL), 0);
    while (weft__descriptor_waits() != 2)
        weft_yield();
    failing_on(OS_POLL, 1, true);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    join_all(fibers, 2);
    failing_off();
    CHECK_EQ(results[0], WEFT_READABLE);
    CHECK(results[1] < 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    RUN_PLAIN_EVERYWHERE(unknown_numbers_are_refused, "nothing waits");
    RUN_PLAIN_EVERYWHERE(descriptors_without_an_owner_are_refused, "nothing waits");
    RUN_PLAIN_ON(a_watch_that_fails_is_returned, 1, "lets the kernel refuse for all");
    shut_down();
    return 0;
}
