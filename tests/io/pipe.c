/*
 * pipe.c: pipes: bytes arrive, writes are whole, deadlines and contexts end waits.
 */
#include <fcntl.h>
#include <signal.h>

#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "seeds.h"

static int ends[2];

static void make(void)
{
    CHECK_EQ(weft_pipe_make(ends), 0);
    for (int i = 0; i < 2; i++) {
        CHECK(fcntl(ends[i], F_GETFD) & FD_CLOEXEC);
        CHECK(fcntl(ends[i], F_GETFL) & O_NONBLOCK);
    }
}

static void unmake(void)
{
    close(ends[0]);
    close(ends[1]);
}

/* A megabyte from one fiber to another: far more than a pipe holds. */

enum { MUCH = 1 << 20 };
static char sent[MUCH], received[MUCH];

static void send_much(void *arg)
{
    CHECK_EQ(weft_pipe_write(ends[1], sent, MUCH, WEFT_NEVER), MUCH);
    close(ends[1]);
}

static void receive_much(void *arg)
{
    size_t have = 0;
    ssize_t got;
    while ((got = weft_pipe_read(ends[0], received + have, MUCH - have, WEFT_NEVER)) > 0)
        have += (size_t)got;
    CHECK_EQ(got, 0);
    CHECK_EQ(have, MUCH);
}

static void carries_much(bool thread)
{
    make();
    for (size_t i = 0; i < MUCH; i++)
        sent[i] = (char)(i * 7 + i / 1000);
    memset(received, 0, sizeof received);
    weft_fiber *sender;
    CHECK_EQ(weft_spawn(&sender, send_much, NULL, NULL), 0);
    body_run(receive_much, NULL, thread);
    CHECK_EQ(weft_join(sender), 0);
    CHECK_EQ(memcmp(sent, received, MUCH), 0);
    close(ends[0]);
}

static void a_write_is_whole(void)
{
    carries_much(false);
    carries_much(true);
}

static void errors(void *arg)
{
    char byte = 'x';
    CHECK_EQ(weft_pipe_make(NULL), -EINVAL);
    CHECK_EQ(weft_pipe_read(-1, &byte, 1, WEFT_NEVER), -EBADF);
    CHECK_EQ(weft_pipe_write(-1, &byte, 1, WEFT_NEVER), -EBADF);
    make();
    CHECK_EQ(weft_pipe_read(ends[0], &byte, 1, WEFT_NOW), -ETIMEDOUT);
    int64_t deadline = weft_after(2 * WEFT_MS);
    CHECK_EQ(weft_pipe_read(ends[0], &byte, 1, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(byte, 'x');
    ssize_t put = weft_pipe_write(ends[1], sent, MUCH, weft_after(2 * WEFT_MS));
    CHECK(put > 0 && put < MUCH); /* the part before the deadline */
    CHECK_EQ(weft_pipe_write(ends[1], sent, MUCH, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_pipe_write(ends[1], sent, 0, WEFT_NOW), 0);
    close(ends[0]);
    CHECK_EQ(weft_pipe_write(ends[1], &byte, 1, WEFT_NEVER), -EPIPE);
    close(ends[1]);
}

static void errors_and_deadlines(void)
{
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    everywhere(errors);
}

static void read_cancelled(void *arg)
{
    char byte;
    CHECK_EQ(weft_pipe_read(ends[0], &byte, 1, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_pipe_write(ends[1], "y", 1, WEFT_NEVER), 1); /* needs no wait */
    CHECK_EQ(weft_pipe_read(ends[0], &byte, 1, WEFT_NEVER), 1);
}

static void a_context_ends_a_wait(void)
{
    weft_context *context;
    weft_fiber *fiber;
    make();
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_spawn_options options = {.context = context};
    CHECK_EQ(weft_spawn(&fiber, read_cancelled, NULL, &options), 0);
    weft_sleep(WEFT_MS); /* so that it waits; the result does not need it */
    weft_context_cancel(context);
    CHECK_EQ(weft_join(fiber), 0);
    weft_context_close(context);
    unmake();
}

static void without_descriptors_there_is_no_pipe(void)
{
    int poison[2] = {-7, -7};
    failing_on(OS_PIPE, 1, false);
    CHECK_EQ(weft_pipe_make(poison), -EMFILE);
    failing_off();
    CHECK_EQ(poison[0], -7);
    CHECK_EQ(poison[1], -7);
}

int main(void)
{
    RUN_BOTH(a_write_is_whole);
    RUN_BOTH(errors_and_deadlines);
    RUN_BOTH(a_context_ends_a_wait);
    RUN_BOTH(without_descriptors_there_is_no_pipe);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
