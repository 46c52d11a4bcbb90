/*
 * close.c: closing while other calls use the connection: every call in progress ends, and no call
 * gets bytes of another connection.
 */
#include "net.h"
#include "seeds.h"

#include <fcntl.h>

/* Each kind of call that can wait is in progress when the close comes. */

struct pending {
    weft_conn *conn;
    weft_listener *listener;
    int64_t (*call)(struct pending *pending);
    int64_t expected;
    int64_t deadline;
};

static char block[1 << 20];

static int64_t do_read(struct pending *pending)
{
    return weft_conn_read(pending->conn, block, 10, pending->deadline);
}

static int64_t do_readv(struct pending *pending)
{
    struct iovec piece = {block, 10};
    return weft_conn_readv(pending->conn, &piece, 1, pending->deadline);
}

static int64_t do_receive(struct pending *pending)
{
    return weft_conn_receive_from(pending->conn, block, 10, NULL, pending->deadline);
}

static int64_t do_write(struct pending *pending)
{
    return weft_conn_write(pending->conn, block, sizeof block, pending->deadline);
}

static int64_t do_writev(struct pending *pending)
{
    struct iovec piece = {block, sizeof block};
    return weft_conn_writev(pending->conn, &piece, 1, pending->deadline);
}

static int64_t do_accept(struct pending *pending)
{
    weft_conn *conn;
    return weft_listener_accept(pending->listener, &conn, pending->deadline);
}

static void make_call(void *arg)
{
    struct pending *pending = arg;
    int64_t result = pending->call(pending);
    if (result > 0) /* a write that ended early: the next one returns why */
        result = pending->call(pending);
    CHECK_EQ(result, pending->expected);
}

static void close_around(int64_t (*call)(struct pending *), bool full, int64_t deadline)
{
    for (int threads = 0; threads < 2; threads++) {
        struct pair pair = pair_open(true);
        struct pending pending = {.call = call, .conn = pair.near, .expected = -ESHUTDOWN};
        struct body bodies[3];
        pending.deadline = deadline != WEFT_NEVER ? weft_after(deadline) : WEFT_NEVER;
        if (full)
            (void)fill_up(pair.near);
        /* The other writers wait for the first. */
        int waits = full ? 1 : 3;
        for (int i = 0; i < 3; i++) {
            bodies[i] = (struct body){.function = make_call, .arg = &pending, .thread = threads};
            body_start(&bodies[i]);
        }
        await_fd_waits(waits);
        /* Writers that wait for the mutex do not show as waits for descriptors, and may
         * come after the close: so another handle is kept. */
        (void)weft_conn_share(pair.near);
        weft_conn_close(pair.near);
        for (int i = 0; i < 3; i++)
            body_join(&bodies[i]);
        CHECK_EQ(weft_conn_read(pair.near, block, 1, WEFT_NEVER), -ESHUTDOWN);
        CHECK_EQ(weft_conn_write(pair.near, block, 1, WEFT_NEVER), -ESHUTDOWN);
        CHECK_EQ(weft_conn_shutdown(pair.near, WEFT_WRITABLE), -ESHUTDOWN);
        weft_conn_close(pair.near);
        weft_conn_close(pair.far);
    }
}

static void a_close_ends_every_call_in_progress(void)
{
    close_around(do_read, false, WEFT_NEVER);
    close_around(do_readv, false, WEFT_NEVER);
    close_around(do_receive, false, WEFT_NEVER);
    close_around(do_write, true, WEFT_NEVER);
    close_around(do_writev, true, WEFT_NEVER);
    close_around(do_read, false, 100 * WEFT_S);
    close_around(do_write, true, 100 * WEFT_S);
}

static void a_close_ends_every_accept(void)
{
    for (int threads = 0; threads < 2; threads++) {
        struct pending pending = {
            .call = do_accept, .expected = -ESHUTDOWN, .deadline = WEFT_NEVER};
        struct body bodies[3];
        char text[WEFT_ADDRESS_TEXT];
        listen_at(&pending.listener, "tcp:127.0.0.1:0", text);
        for (int i = 0; i < 3; i++) {
            bodies[i] = (struct body){.function = make_call, .arg = &pending, .thread = threads};
            body_start(&bodies[i]);
        }
        await_fd_waits(3);
        weft_listener_close(pending.listener);
        for (int i = 0; i < 3; i++)
            body_join(&bodies[i]);
    }
}

/* The descriptor stays open until the last call has returned. */

struct stayer {
    weft_conn *conn;
    int fd;
};

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* On the only processor: the close wakes it, and it runs when the closer lets it. */
static void read_then_look(void *arg)
{
    struct stayer *stayer = arg;
    char byte;
    CHECK_EQ(weft_conn_read(stayer->conn, &byte, 1, WEFT_NEVER), -ESHUTDOWN);
}

static void close_and_look(void *unused)
{
    struct pair pair = pair_open(false);
    struct stayer stayer = {.conn = pair.near, .fd = weft_conn_fd(pair.near)};
    weft_fiber *fiber;
    CHECK_EQ(weft_spawn(&fiber, read_then_look, &stayer, NULL), 0);
    await_fd_waits(1);
    weft_conn_close(pair.near);
    CHECK(is_open(stayer.fd)); /* the reader has not run yet */
    CHECK_EQ(weft_join(fiber), 0);
    CHECK(!is_open(stayer.fd));
    weft_conn_close(pair.far);
}

static void the_descriptor_outlives_the_calls(void)
{
    on_one_machine(close_and_look, NULL);
}

/* Handles. */

static void the_last_handle_frees(void)
{
    struct pair pair = pair_open(false);
    int fd = weft_conn_fd(pair.near);
    char byte;
    CHECK_PTR(weft_conn_share(pair.near), pair.near);
    CHECK_PTR(weft_conn_share(pair.near), pair.near);
    weft_conn_close(pair.near);
    CHECK(!is_open(fd));
    CHECK_EQ(weft_conn_read(pair.near, &byte, 1, WEFT_NEVER), -ESHUTDOWN);
    weft_conn_close(pair.near);
    CHECK_EQ(weft_conn_read(pair.near, &byte, 1, WEFT_NOW), -ESHUTDOWN);
    weft_conn_close(pair.near);
    CHECK_EQ(weft_conn_read(pair.far, &byte, 1, WEFT_NEVER), 0);
    weft_conn_close(pair.far);
}

/* Readers in loops, closes, and numbers that are reused at once: no reader gets a byte of another
 * connection. */

enum { RACERS = 4 };

struct race {
    weft_conn *conn;
    char own;
};

static void read_own(void *arg)
{
    struct race *race = arg;
    char data[64];
    int64_t got;
    while ((got = weft_conn_read(race->conn, data, sizeof data, WEFT_NEVER)) > 0)
        for (int64_t i = 0; i < got; i++)
            CHECK_EQ(data[i], race->own);
    CHECK(got == -ESHUTDOWN || got == 0);
    weft_conn_close(race->conn);
}

static void race_once(int number)
{
    struct race races[RACERS];
    struct body bodies[RACERS];
    int near[RACERS];
    for (int i = 0; i < RACERS; i++) {
        int ends[2];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        near[i] = ends[0];
        races[i].own = (char)('a' + (number * RACERS + i) % 26);
        CHECK_EQ(weft_conn_from_fd(&races[i].conn, ends[1]), 0);
        (void)weft_conn_share(races[i].conn);
        bodies[i] = (struct body){.function = read_own, .arg = &races[i], .thread = i == 3};
        body_start(&bodies[i]);
    }
    for (int i = 0; i < RACERS; i++) {
        (void)send(near[i], &races[i].own, 1, MSG_NOSIGNAL);
        weft_conn_close(races[i].conn);
        (void)send(near[i], &races[i].own, 1, MSG_NOSIGNAL);
        /* The number may be free now: another socket takes it, and sends. */
        int ends[2];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        CHECK_EQ(send(ends[0], "Z", 1, MSG_NOSIGNAL), 1);
        CHECK_EQ(send(ends[1], "Z", 1, MSG_NOSIGNAL), 1);
        close(ends[0]);
        close(ends[1]);
    }
    for (int i = 0; i < RACERS; i++) {
        body_join(&bodies[i]);
        close(near[i]);
    }
}

static void no_call_reads_from_a_reused_number(void)
{
    int rounds = (int)test_scale(1000);
    for (int i = 0; i < rounds; i++)
        race_once(i);
    CHECK_EQ(weft__descriptor_waits(), 0);
}

/* Forks and shut-downs. A forked child shares the set of the poller with its parent. */

static struct pair forked;

static void close_in_child(void)
{
    char byte;
    CHECK_EQ(weft_conn_read(forked.near, &byte, 1, WEFT_NEVER), -ECHILD);
    CHECK_EQ(weft_conn_write(forked.near, "x", 1, WEFT_NEVER), 1);
    weft_conn *conn = (weft_conn *)(uintptr_t)0xdead;
    CHECK_EQ(weft_conn_from_fd(&conn, weft_conn_fd(forked.near)), -ECHILD);
    CHECK_PTR(conn, (weft_conn *)(uintptr_t)0xdead);
    weft_conn_close(forked.near);
    weft_conn_close(forked.far);
}

/* Nor does a forked child remove the path of a listener. */
static weft_listener *with_path;

static void close_listener_in_child(void)
{
    weft_listener_close(with_path);
}

static void a_forked_child_leaves_the_path(void)
{
    char path[] = "/tmp/weft-close-XXXXXX", address[64];
    close(mkstemp(path));
    CHECK_EQ(unlink(path), 0);
    snprintf(address, sizeof address, "unix:%s", path);
    CHECK_EQ(weft_listener_open(&with_path, address, NULL), 0);
    in_fork(close_listener_in_child);
    CHECK_EQ(access(path, F_OK), 0);
    weft_listener_close(with_path);
    CHECK_EQ(access(path, F_OK), -1);
}

/* Calls by another handle that is not closed. */
static void other_handles_return_closed(void)
{
    weft_listener *listener, *other;
    weft_conn *conn = NULL, *datagrams, *shared;
    weft_address to;
    CHECK_EQ(weft_listener_open(&listener, "tcp:127.0.0.1:0", NULL), 0);
    other = weft_listener_share(listener);
    weft_listener_close(listener);
    CHECK_EQ(weft_listener_accept(other, &conn, WEFT_NEVER), -ESHUTDOWN);
    CHECK_PTR(conn, NULL);
    weft_listener_close(other);
    CHECK_EQ(weft_conn_bind(&datagrams, "unixgram:@weft-close-datagrams", NULL), 0);
    CHECK_EQ(weft_conn_local(datagrams, &to), 0);
    shared = weft_conn_share(datagrams);
    weft_conn_close(datagrams);
    CHECK_EQ(weft_conn_send_to(shared, "x", 1, &to, WEFT_NEVER), -ESHUTDOWN);
    weft_conn_close(shared);
}

/* Calls and closes of one connection by several threads at once are all counted. */
enum { CALLERS = 4 };
static weft_conn *common;
static atomic_u32 callers;

static void *call_often(void *arg)
{
    weft_address address;
    atomic_u32_add_seq_cst(&callers, 1);
    while (atomic_u32_load_acquire(&callers) < CALLERS)
        continue;
    for (int i = 0; i < 30000; i++) {
        CHECK_EQ(weft_conn_shutdown(common, WEFT_READABLE), 0);
        if (i % 64 == 0)
            CHECK_EQ(weft_conn_local(common, &address), 0);
    }
    return NULL;
}

static void *close_often(void *arg)
{
    weft_conn *own = arg;
    atomic_u32_add_seq_cst(&callers, 1);
    while (atomic_u32_load_acquire(&callers) < CALLERS)
        continue;
    weft_conn_close(own);
    return NULL;
}

static void many_calls_and_closes_at_once(void)
{
    pthread_t threads[CALLERS];
    struct pair pair = pair_open(false);
    common = pair.near;
    atomic_u32_store_relaxed(&callers, 0);
    for (int i = 0; i < CALLERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < CALLERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    pair_close(pair);
    for (int round = 0; round < (int)test_scale(2000) + 200; round++) {
        int ends[2];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        CHECK_EQ(weft_conn_from_fd(&common, ends[0]), 0);
        atomic_u32_store_relaxed(&callers, 0);
        for (int i = 1; i < CALLERS; i++)
            CHECK_PTR(weft_conn_share(common), common);
        for (int i = 0; i < CALLERS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, close_often, common), 0);
        for (int i = 0; i < CALLERS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        char byte;
        CHECK_EQ(read(ends[1], &byte, 1), 0); /* closed by the last of them */
        close(ends[1]);
    }
}

static void a_forked_child_closes_its_copy_only(void)
{
    char byte;
    forked = pair_open(false);
    CHECK_EQ(weft_conn_read(forked.near, &byte, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_conn_read(forked.far, &byte, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    in_fork(close_in_child);
    CHECK_EQ(weft_conn_read(forked.far, &byte, 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_conn_write(forked.far, "x", 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_conn_read(forked.near, &byte, 1, WEFT_NEVER), 1);
    pair_close(forked);
}

static void connections_work_after_a_shutdown(void)
{
    struct pair pair = pair_open(false);
    pair_close(pair);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    pair = pair_open(false);
    char byte;
    CHECK_EQ(weft_conn_read(pair.near, &byte, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_conn_write(pair.far, "x", 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_conn_read(pair.near, &byte, 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0); /* with connections open, which may still be closed */
    pair_close(pair);
}

int main(void)
{
    RUN_BOTH(a_close_ends_every_call_in_progress);
    RUN_BOTH(a_close_ends_every_accept);
    RUN_PLAIN(the_descriptor_outlives_the_calls, "knows who runs next on one processor");
    RUN_BOTH(the_last_handle_frees);
    RUN_BOTH(no_call_reads_from_a_reused_number);
    RUN_PLAIN(a_forked_child_closes_its_copy_only, "forks");
    RUN_PLAIN(a_forked_child_leaves_the_path, "forks");
    RUN_BOTH(other_handles_return_closed);
    RUN_PLAIN(many_calls_and_closes_at_once, "about plain threads");
    RUN_PLAIN(connections_work_after_a_shutdown, "stops or configures the runtime");
    return 0;
}
