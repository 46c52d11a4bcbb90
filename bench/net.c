/*
 * net.c: sockets and descriptors: round trips, wake-ups, and the memory of an idle connection.
 *
 * echo: an operation is a message of 64 bytes from a client to a server over loopback TCP and back;
 * each connection has a fiber at both ends, in this process. With several connections the figure is
 * the time of all divided by all messages.
 *
 * fd_wake: two fibers take turns through two eventfds and weft_fd_wait; an operation is one turn: a
 * write, a wait, a read.
 *
 * fd_wake_thread: a plain thread signals an eventfd while all of weft is idle; the figure is the
 * time until the fiber that waits for it runs.
 *
 * conn_idle: the growth of resident memory for 10,000 connections (both ends of 5,000) without
 * fibers; memory of the kernel is not included.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

#include "bench.h"

enum { MESSAGE = 64 };

/* Echo. */

struct echo {
    struct bench *bench;
    int64_t connections, messages; /* messages per connection */
    weft_listener *listener;
    char address[WEFT_ADDRESS_TEXT];
    weft_wg done;
};

static void answer(void *arg)
{
    weft_conn *conn = arg;
    char data[MESSAGE];
    int64_t got;
    while ((got = weft_conn_read(conn, data, sizeof data, WEFT_NEVER)) > 0)
        bench_check(weft_conn_write(conn, data, (size_t)got, WEFT_NEVER) == got ? 0 : -EIO,
                    "write");
    weft_conn_close(conn);
}

static void serve(void *arg)
{
    struct echo *echo = arg;
    weft_conn *conn;
    for (int64_t i = 0; i < echo->connections; i++) {
        bench_check(weft_listener_accept(echo->listener, &conn, WEFT_NEVER), "accept");
        bench_check(weft_go(answer, conn), "weft_go");
    }
}

static void ask(void *arg)
{
    struct echo *echo = arg;
    weft_conn *conn;
    char data[MESSAGE] = "";
    bench_check(weft_conn_dial(&conn, echo->address, NULL, WEFT_NEVER), "dial");
    for (int64_t i = 0; i < echo->messages; i++)
        if (weft_conn_write(conn, data, sizeof data, WEFT_NEVER) != MESSAGE ||
            weft_conn_read_full(conn, data, sizeof data, WEFT_NEVER) != MESSAGE)
            bench_check(-EIO, "round trip");
    weft_conn_close(conn);
}

static void coordinate_echo(void *arg)
{
    struct echo *echo = arg;
    weft_wg done = WEFT_WG_INIT;
    int64_t start = weft_now();
    bench_check(weft_wg_go(&done, serve, echo), "weft_wg_go");
    for (int64_t i = 0; i < echo->connections; i++)
        bench_check(weft_wg_go(&done, ask, echo), "weft_wg_go");
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    echo->bench->values[0] =
        (double)(weft_now() - start) / (double)(echo->messages * echo->connections);
}

static void measure_echo(struct bench *bench, int64_t connections)
{
    struct echo echo = {.bench = bench, .connections = connections};
    weft_address address;
    echo.messages = bench_amount(bench, 100000) / connections;
    bench_check(weft_listener_open(&echo.listener, "tcp:127.0.0.1:0", NULL), "listen");
    bench_check(weft_listener_local(echo.listener, &address), "local");
    bench_check(weft_address_format(&address, echo.address, sizeof echo.address), "format");
    bench_params(bench, "connections=%ld messages=%ld bytes=%d", (long)connections,
                 (long)echo.messages, MESSAGE);
    bench_in_fiber(coordinate_echo, &echo);
    weft_listener_close(echo.listener);
}

/* Wake-ups. */

struct turns {
    struct bench *bench;
    int mine, other;
    int64_t count;
};

static int new_event(void)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    bench_check(fd >= 0 ? 0 : -EMFILE, "eventfd");
    return fd;
}

static void take_turns(void *arg)
{
    struct turns *turns = arg;
    uint64_t value, one = 1;
    for (int64_t i = 0; i < turns->count; i++) {
        if (weft_fd_wait(turns->mine, WEFT_READABLE, WEFT_NEVER) != WEFT_READABLE ||
            read(turns->mine, &value, sizeof value) < 0 ||
            write(turns->other, &one, sizeof one) < 0)
            bench_check(-EIO, "turn");
    }
}

static void coordinate_turns(void *arg)
{
    struct turns *first = arg;
    struct turns second = {first->bench, first->other, first->mine, first->count};
    weft_wg done = WEFT_WG_INIT;
    uint64_t one = 1;
    int64_t start = weft_now();
    bench_check(weft_wg_go(&done, take_turns, first), "weft_wg_go");
    bench_check(weft_wg_go(&done, take_turns, &second), "weft_wg_go");
    bench_check(write(first->mine, &one, sizeof one) < 0 ? -EIO : 0, "write");
    bench_check(weft_wg_wait(&done), "weft_wg_wait");
    first->bench->values[0] = (double)(weft_now() - start) / (double)(2 * first->count);
}

static void measure_turns(struct bench *bench, int64_t full)
{
    struct turns turns = {bench, new_event(), new_event(), bench_amount(bench, full)};
    bench_params(bench, "turns=%ld", (long)turns.count);
    bench_in_fiber(coordinate_turns, &turns);
    close(turns.mine);
    close(turns.other);
}

struct signals {
    int event;
    int64_t count;
    int64_t sent; /* set by the thread before it signals */
    double *late;
    weft_sem ready;
};

static void wait_for_signals(void *arg)
{
    struct signals *signals = arg;
    uint64_t value;
    for (int64_t i = 0; i < signals->count; i++) {
        weft_sem_release(&signals->ready, 1);
        if (weft_fd_wait(signals->event, WEFT_READABLE, WEFT_NEVER) != WEFT_READABLE)
            bench_check(-EIO, "weft_fd_wait");
        signals->late[i] = (double)(weft_now() - signals->sent) / 1000.0;
        bench_check(read(signals->event, &value, sizeof value) < 0 ? -EIO : 0, "read");
    }
}

static void measure_thread(struct bench *bench, int64_t full)
{
    struct signals signals = {.event = new_event(), .count = bench_amount(bench, full)};
    uint64_t one = 1;
    weft_fiber *fiber;
    signals.late = bench_alloc(signals.count, sizeof(double));
    bench_check(weft_sem_init(&signals.ready, 0), "weft_sem_init");
    bench_check(weft_spawn(&fiber, wait_for_signals, &signals, NULL), "weft_spawn");
    for (int64_t i = 0; i < signals.count; i++) {
        weft_sem_acquire(&signals.ready, 1);
        usleep(200); /* until all machines sleep */
        signals.sent = weft_now();
        bench_check(write(signals.event, &one, sizeof one) < 0 ? -EIO : 0, "write");
    }
    bench_check(weft_join(fiber), "weft_join");
    bench_sort(signals.late, signals.count);
    bench->values[0] = bench_quantile(signals.late, signals.count, 0.5);
    bench->values[1] = bench_quantile(signals.late, signals.count, 0.99);
    bench_params(bench, "signals=%ld", (long)signals.count);
    free(signals.late);
    close(signals.event);
}

/* Memory. */

static void measure_idle(struct bench *bench, int64_t full)
{
    struct rlimit limit;
    int64_t pairs = bench_amount(bench, full);
    weft_conn **conns = bench_alloc(2 * pairs, sizeof(weft_conn *));
    weft_listener *listener;
    weft_address address;
    char text[WEFT_ADDRESS_TEXT], byte;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    bench_check(weft_listener_open(&listener, "tcp:127.0.0.1:0", NULL), "listen");
    bench_check(weft_listener_local(listener, &address), "local");
    bench_check(weft_address_format(&address, text, sizeof text), "format");
    memset(conns, 0xff, (size_t)(2 * pairs) * sizeof(weft_conn *)); /* resident from here on */
    int64_t before = bench_resident();
    for (int64_t i = 0; i < pairs; i++) {
        bench_check(weft_conn_dial(&conns[2 * i], text, NULL, WEFT_NEVER), "dial");
        bench_check(weft_listener_accept(listener, &conns[2 * i + 1], WEFT_NEVER), "accept");
        for (int end = 0; end < 2; end++) /* adds it to the poller's set */
            if (weft_conn_read(conns[2 * i + end], &byte, 1, weft_now() + 1) != -ETIMEDOUT)
                bench_check(-EIO, "read");
    }
    bench->values[0] = (double)(bench_resident() - before) / (double)(2 * pairs);
    for (int64_t i = 0; i < 2 * pairs; i++)
        weft_conn_close(conns[i]);
    weft_listener_close(listener);
    free(conns);
    bench_params(bench, "connections=%ld", (long)(2 * pairs));
}

const struct bench_case bench_net_cases[] = {
    {.name = "echo_1",
     .what = "a round trip of 64 bytes over loopback TCP, one connection",
     .metrics = {{"", "ns/op"}},
     .measure = measure_echo,
     .size = 1},
    {.name = "echo_1_one",
     .what = "the same on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_echo,
     .size = 1,
     .one_processor = true},
    {.name = "echo",
     .what = "a round trip of 64 bytes over loopback TCP, of those on 100 connections at once",
     .metrics = {{"", "ns/op"}},
     .measure = measure_echo,
     .size = 100},
    {.name = "echo_one",
     .what = "the same on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_echo,
     .size = 100,
     .one_processor = true},
    {.name = "fd_wake",
     .what = "a turn between two fibers that wait for eventfds by weft_fd_wait",
     .metrics = {{"", "ns/op"}},
     .measure = measure_turns,
     .size = 100000},
    {.name = "fd_wake_one",
     .what = "the same on one processor",
     .metrics = {{"", "ns/op"}},
     .measure = measure_turns,
     .size = 100000,
     .one_processor = true},
    {.name = "fd_wake_thread",
     .what = "from a thread's write to an eventfd to the fiber, all of weft being asleep",
     .metrics = {{"", "us"}, {"_p99", "us"}},
     .measure = measure_thread,
     .size = 5000},
    {.name = "conn_idle",
     .what = "memory of an idle connection, of 10,000",
     .metrics = {{"", "bytes"}},
     .measure = measure_idle,
     .size = 5000,
     .cold = true},
    {.name = NULL},
};
