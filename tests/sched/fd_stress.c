/*
 * fd_stress.c: readiness against the deadline, the context and the close: no wake-up is lost, none
 * comes twice. A reader that misses a wake-up waits for ever, and the test with it.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/prng.h"
#include "bodies.h"
#include "seeds.h"

enum { PAIRS = 12 };

enum kind { FOREIGN, OWNED };

struct line {
    enum kind kind;
    int ends[2];
    weft_conn *conn; /* of the reader's end, if owned */
    int64_t bytes;
    uint64_t seed;
};

/* Nothing, a yield, or some microseconds. */
static void pause_at_random(struct prng *prng)
{
    uint32_t choice = prng_below(prng, 8);
    if (choice == 0)
        CHECK_EQ(weft_sleep(prng_below(prng, 60) * WEFT_US), 0);
    else if (choice < 4)
        weft_yield();
}

static void write_line(void *arg)
{
    struct line *line = arg;
    struct prng prng;
    prng_seed(&prng, line->seed);
    for (int64_t i = 0; i < line->bytes; i++) {
        while (send(line->ends[1], "x", 1, MSG_DONTWAIT) != 1)
            CHECK_EQ(weft_fd_wait(line->ends[1], WEFT_WRITABLE, WEFT_NEVER), WEFT_WRITABLE);
        pause_at_random(&prng);
    }
}

static int64_t some_deadline(struct prng *prng)
{
    switch (prng_below(prng, 4)) {
    case 0:
        return WEFT_NEVER;
    case 1:
        return WEFT_NOW;
    default:
        return weft_after(prng_below(prng, 80) * WEFT_US);
    }
}

/* Bytes read, or 0 if the wait gave up. */
static int64_t read_some(struct line *line, int64_t deadline)
{
    char data[8];
    int64_t got;
    if (line->kind == OWNED) {
        got = weft_conn_read(line->conn, data, sizeof data, deadline);
    } else {
        got = weft_fd_wait(line->ends[0], WEFT_READABLE, deadline);
        if (got > 0)
            got = recv(line->ends[0], data, sizeof data, MSG_DONTWAIT);
    }
    CHECK(got > 0 || got == -ETIMEDOUT || got == -ECANCELED);
    return got > 0 ? got : 0;
}

/* With a context that a timer cancels. */
static int64_t read_bound(struct line *line, struct prng *prng)
{
    weft_context *context;
    weft_context_options options = {.timeout = prng_below(prng, 80) * WEFT_US};
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    int64_t got = read_some(line, some_deadline(prng));
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    return got;
}

static void read_line(void *arg)
{
    struct line *line = arg;
    struct prng prng;
    prng_seed(&prng, ~line->seed);
    for (int64_t got = 0; got < line->bytes;)
        got += prng_below(&prng, 8) == 0 ? read_bound(line, &prng)
                                         : read_some(line, some_deadline(&prng));
}

static void race(enum kind kind, bool threads)
{
    static struct line lines[PAIRS];
    struct body bodies[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        struct line *line = &lines[i];
        *line = (struct line){
            .kind = kind, .bytes = test_seeded ? 10 : test_scale(3000), .seed = (uint64_t)i + 1};
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line->ends), 0);
        if (kind == OWNED)
            CHECK_EQ(weft_conn_from_fd(&line->conn, line->ends[0]), 0);
        bodies[2 * i] =
            (struct body){.function = read_line, .arg = line, .thread = threads && i % 3 == 0};
        bodies[2 * i + 1] =
            (struct body){.function = write_line, .arg = line, .thread = threads && i % 4 == 0};
    }
    bodies_run(bodies, 2 * PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        if (kind == OWNED)
            weft_conn_close(lines[i].conn);
        else
            close(lines[i].ends[0]);
        close(lines[i].ends[1]);
    }
}

static void descriptors_between_fibers(void)
{
    race(FOREIGN, false);
}

static void descriptors_between_fibers_and_threads(void)
{
    race(FOREIGN, true);
}

static void connections_between_fibers(void)
{
    race(OWNED, false);
}

static void connections_between_fibers_and_threads(void)
{
    race(OWNED, true);
}

/* Closes meet events: the reader gets its byte or the close, and returns. */

struct closing {
    weft_conn *conn;
    int64_t deadline;
};

static void read_until_closed(void *arg)
{
    struct closing *closing = arg;
    char data[8];
    int64_t got;
    while ((got = weft_conn_read(closing->conn, data, sizeof data, closing->deadline)) > 0)
        continue;
    CHECK_EQ(got, -ESHUTDOWN);
    weft_conn_close(closing->conn);
}

static void closes_meet_events(void)
{
    int64_t rounds = test_scale(3000);
    struct prng prng;
    prng_seed(&prng, 4711);
    for (int64_t i = 0; i < rounds; i++) {
        int ends[2];
        struct closing closing = {.deadline = i % 2 ? WEFT_NEVER : weft_after(100 * WEFT_S)};
        struct body body = {.function = read_until_closed, .arg = &closing, .thread = i % 16 == 0};
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        CHECK_EQ(weft_conn_from_fd(&closing.conn, ends[0]), 0);
        weft_conn *mine = weft_conn_share(closing.conn);
        body_start(&body);
        pause_at_random(&prng);
        CHECK_EQ(send(ends[1], "x", 1, 0), 1);
        pause_at_random(&prng);
        weft_conn_close(mine);
        body_join(&body);
        close(ends[1]);
    }
}

int main(void)
{
    RUN_BOTH(descriptors_between_fibers);
    RUN_PLAIN(descriptors_between_fibers_and_threads, "under a seed the same as the one before it");
    RUN_BOTH(connections_between_fibers);
    RUN_PLAIN(connections_between_fibers_and_threads, "under a seed the same as the one before it");
    RUN_BOTH(closes_meet_events);
    return 0;
}
