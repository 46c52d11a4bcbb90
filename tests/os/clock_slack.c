/*
 * clock_slack.c: waits of weft are exact without changing the timer slack of the process: the code
 * of fibers, and the threads and processes that it starts, have the slack that the process had
 * before.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fibers.h"
#include "seeds.h"

enum { SLACK = 77777, BLOCKERS = 8 };

static long slack(void)
{
    return prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
}

static void *look(void *arg)
{
    *(long *)arg = slack();
    return NULL;
}

static void check_all(void)
{
    long seen = 0;
    int status;
    CHECK_EQ(slack(), SLACK);
    thread_join(thread_start(look, &seen));
    CHECK_EQ(seen, SLACK);
    pid_t child = fork();
    if (child == 0)
        _exit(slack() == SLACK ? 0 : 1);
    CHECK(child > 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void check_program(void)
{
    char output[64] = "";
    size_t length;
    weft_process_status status;
    weft_process_options options = {
        .argv = (const char *const[]){"cat", "/proc/self/timerslack_ns", NULL}};
    CHECK_EQ(weft_process_run(&options, output, sizeof output - 1, &length, &status, WEFT_NEVER),
             0);
    if (status.code == 0) /* else the file is not there */
        CHECK_EQ(atol(output), SLACK);
}

static void check_before_and_after_waits(void *arg)
{
    weft_chan *chan = arg;
    int value;
    check_all();
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    check_all();
    CHECK_EQ(weft_chan_receive_until(chan, &value, weft_after(WEFT_MS)), -ETIMEDOUT);
    check_all();
    check_program();
}

/* Each runs on a machine of its own, most of which were started by other machines. */
static void block(void *arg)
{
    usleep(30000);
    CHECK_EQ(slack(), SLACK);
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    check_all();
}

static void is_as_it_was(void)
{
    weft_fiber *fibers[BLOCKERS];
    if (prctl(PR_SET_TIMERSLACK, (unsigned long)SLACK, 0UL, 0UL, 0UL) != 0 || slack() != SLACK)
        test_skip("the timer slack cannot be set here");
    weft_chan *chan = make_chan(sizeof(int), 0);
    CHECK_EQ(weft_spawn(&fibers[0], check_before_and_after_waits, chan, NULL), 0);
    CHECK_EQ(weft_join(fibers[0]), 0);
    spawn_all(fibers, BLOCKERS, block, NULL);
    join_all(fibers, BLOCKERS);
    CHECK_EQ(weft_sleep(WEFT_MS), 0); /* of this thread */
    CHECK_EQ(slack(), SLACK);
    check_program();
    weft_chan_destroy(chan);
}

int main(void)
{
    RUN_PLAIN(is_as_it_was, "about threads of the system");
    return 0;
}
