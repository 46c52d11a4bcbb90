/*
 * conn.c: connections and listeners: bytes over TCP and Unix sockets, options, addresses, fairness.
 */
#include "net.h"
#include "os/failure.h"
#include "seeds.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/stat.h>

/* An echo server, with a fiber for each connection. */

static void echo(void *arg)
{
    weft_conn *conn = arg;
    char data[4096];
    int64_t got;
    while ((got = weft_conn_read(conn, data, sizeof data, WEFT_NEVER)) > 0)
        CHECK_EQ(weft_conn_write(conn, data, (size_t)got, WEFT_NEVER), got);
    CHECK_EQ(got, 0);
    weft_conn_close(conn);
}

static void serve(void *arg)
{
    weft_listener *listener = arg;
    weft_conn *conn;
    int result;
    while ((result = weft_listener_accept(listener, &conn, WEFT_NEVER)) == 0)
        CHECK_EQ(weft_go(echo, conn), 0);
    CHECK_EQ(result, -ESHUTDOWN);
    weft_listener_close(listener);
}

static char served[WEFT_ADDRESS_TEXT];

static void talk(void *unused)
{
    weft_conn *conn;
    CHECK_EQ(weft_conn_dial(&conn, served, NULL, WEFT_NEVER), 0);
    for (int i = 0; i < 100; i++) {
        char data[2000], back[2000];
        size_t size = 1 + (size_t)i * 19;
        memset(data, i, sizeof data);
        CHECK_EQ(weft_conn_write(conn, data, size, WEFT_NEVER), size);
        CHECK_EQ(weft_conn_read_full(conn, back, size, WEFT_NEVER), size);
        CHECK(memcmp(data, back, size) == 0);
    }
    CHECK_EQ(weft_conn_shutdown(conn, WEFT_WRITABLE), 0);
    char byte;
    CHECK_EQ(weft_conn_read(conn, &byte, 1, WEFT_NEVER), 0);
    weft_conn_close(conn);
}

static void talk_over(const char *address)
{
    weft_listener *listener;
    weft_fiber *server, *clients[20];
    listen_at(&listener, address, served);
    CHECK_EQ(weft_spawn(&server, serve, weft_listener_share(listener), NULL), 0);
    everywhere(talk);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(weft_spawn(&clients[i], talk, NULL, NULL), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(weft_join(clients[i]), 0);
    weft_listener_close(listener);
    CHECK_EQ(weft_join(server), 0);
}

static bool has_ipv6(void)
{
    weft_listener *listener;
    if (weft_listener_open(&listener, "tcp:[::1]:0", NULL) != 0)
        return false;
    weft_listener_close(listener);
    return true;
}

static void tcp_ipv4(void)
{
    talk_over("tcp:127.0.0.1:0");
}

static void tcp_ipv6(void)
{
    if (has_ipv6())
        talk_over("tcp:[::1]:0");
    else
        printf("    no IPv6 here\n");
}

static void tcp_all_addresses(void)
{
    weft_listener *listener;
    weft_address address;
    weft_conn *conn;
    char text[64];
    CHECK_EQ(weft_listener_open(&listener, "tcp::0", NULL), 0);
    CHECK_EQ(weft_listener_local(listener, &address), 0);
    snprintf(text, sizeof text, "tcp:127.0.0.1:%d", weft_address_port(&address));
    CHECK_EQ(weft_conn_dial(&conn, text, NULL, WEFT_NEVER), 0);
    weft_conn_close(conn);
    weft_listener_close(listener);
}

static void unix_streams(void)
{
    char folder[] = "/tmp/weft-net-XXXXXX", address[80], path[64];
    struct stat there;
    weft_listener *listener, *second;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/sock", folder);
    snprintf(address, sizeof address, "unix:%s", path);
    talk_over(address);
    CHECK(stat(path, &there) != 0); /* removed by the close */
    CHECK_EQ(weft_listener_open(&listener, address, NULL), 0);
    CHECK_EQ(weft_listener_open(&second, address, NULL), -EADDRINUSE);
    /* Another listener takes the path over: the close of the first does not remove it. */
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(weft_listener_open(&second, address, NULL), 0);
    weft_listener_close(listener);
    CHECK_EQ(stat(path, &there), 0);
    weft_listener_close(second);
    CHECK(stat(path, &there) != 0);
    CHECK_EQ(rmdir(folder), 0);
    snprintf(address, sizeof address, "unix:@weft-net-%d", (int)getpid());
    talk_over(address);
}

/* More dials than the backlog has room for: all must succeed. */
static atomic_u32 dialled;

static void dial_and_leave(void *unused)
{
    weft_conn *conn;
    CHECK_EQ(weft_conn_dial(&conn, served, NULL, WEFT_NEVER), 0);
    atomic_u32_add_seq_cst(&dialled, 1);
    weft_conn_close(conn);
}

static void a_full_backlog_is_waited_for(void)
{
    weft_listener *listener;
    weft_conn *conn;
    weft_fiber *fibers[8];
    snprintf(served, sizeof served, "unix:@weft-backlog-%d", (int)getpid());
    CHECK_EQ(weft_listener_open(&listener, served, &(weft_net_options){.backlog = 1}), 0);
    atomic_u32_store_relaxed(&dialled, 0);
    int full = 0, error;
    for (; (error = weft_conn_dial(&conn, served, NULL, weft_after(5 * WEFT_MS))) == 0; full++)
        weft_conn_close(conn);
    CHECK_EQ(error, -ETIMEDOUT);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(weft_spawn(&fibers[i], dial_and_leave, NULL, NULL), 0);
    for (int i = 0; i < 8 + full; i++) {
        CHECK_EQ(weft_listener_accept(listener, &conn, WEFT_NEVER), 0);
        weft_conn_close(conn);
    }
    for (int i = 0; i < 8; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    weft_listener_close(listener);
}

/* Pieces. */

static void pieces_are_written_and_read(void *unused)
{
    enum { COUNT = 200 };
    struct pair pair = pair_open(false);
    static char out[COUNT * 7], in[COUNT * 7];
    struct iovec pieces[COUNT], before[COUNT];
    size_t total = 0;
    for (int i = 0; i < COUNT; i++) {
        pieces[i] = (struct iovec){out + total, (size_t)(i % 8)};
        total += pieces[i].iov_len;
    }
    for (size_t i = 0; i < total; i++)
        out[i] = (char)(i * 7);
    memcpy(before, pieces, sizeof pieces);
    CHECK_EQ(weft_conn_writev(pair.near, pieces, COUNT, WEFT_NEVER), total);
    CHECK(memcmp(before, pieces, sizeof pieces) == 0);
    for (size_t got = 0; got < total;) {
        struct iovec two[2] = {{in + got, 3}, {in + got + 3, total - got - 3}};
        int64_t one = total - got > 3 ? weft_conn_readv(pair.far, two, 2, WEFT_NEVER)
                                      : weft_conn_read(pair.far, in + got, total - got, WEFT_NEVER);
        CHECK(one > 0);
        got += (size_t)one;
    }
    CHECK(memcmp(out, in, total) == 0);
    CHECK_EQ(weft_conn_writev(pair.near, pieces, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_readv(pair.far, pieces, 1025, WEFT_NEVER), -EMSGSIZE);
    pair_close(pair);
}

static void pieces(void)
{
    everywhere(pieces_are_written_and_read);
}

/* Larger than the buffers, so that the writer has to wait within its pieces. */
enum { LARGE = 1 << 20 };
static unsigned char large[LARGE], large_back[LARGE];

static void write_pieces(void *arg)
{
    weft_conn *conn = arg;
    enum { COUNT = 300 };
    struct iovec pieces[COUNT];
    size_t step = LARGE / COUNT;
    for (int i = 0; i < COUNT; i++)
        pieces[i] = (struct iovec){large + (size_t)i * step,
                                   i < COUNT - 1 ? step : LARGE - (size_t)i * step};
    CHECK_EQ(weft_conn_writev(conn, pieces, COUNT, WEFT_NEVER), LARGE);
}

static void write_file(void *arg)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(fwrite(large, 1, LARGE, file), LARGE);
    CHECK_EQ(fflush(file), 0);
    CHECK_EQ(weft_conn_sendfile(arg, fileno(file), 1000, LARGE, WEFT_NEVER), LARGE - 1000);
    CHECK_EQ(lseek(fileno(file), 0, SEEK_CUR), LARGE); /* the position has not moved */
    CHECK_EQ(weft_conn_sendfile(arg, fileno(file), 0, 1000, WEFT_NEVER), 1000);
    CHECK_EQ(weft_conn_sendfile(arg, fileno(file), LARGE, 10, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_sendfile(arg, fileno(file), -1, 10, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_conn_sendfile(arg, -1, 0, 10, WEFT_NEVER), -EBADF);
    fclose(file);
}

static void carry(void (*writer)(void *), bool thread, size_t rotated)
{
    struct pair pair = pair_open(true);
    struct body body = {.function = writer, .arg = pair.near, .thread = thread};
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (unsigned char)(i * 31 + i / 977);
    body_start(&body);
    CHECK_EQ(weft_conn_read_full(pair.far, large_back, LARGE, WEFT_NEVER), LARGE);
    body_join(&body);
    CHECK(memcmp(large + rotated, large_back, LARGE - rotated) == 0);
    CHECK(memcmp(large, large_back + LARGE - rotated, rotated) == 0);
    pair_close(pair);
}

static void large_writes_wait_for_the_reader(void)
{
    carry(write_pieces, false, 0);
    carry(write_pieces, true, 0);
}

static void files_are_sent(void)
{
    carry(write_file, false, 1000);
    carry(write_file, true, 1000);
}

/* Several writers: each write arrives as a whole. */

enum { MIXERS = 6, MIXES = 20, MIX = 30000 };
static struct pair mixed;

static void mix(void *arg)
{
    static char blocks[MIXERS][MIX];
    char *block = blocks[(uintptr_t)arg];
    memset(block, 'a' + (int)(uintptr_t)arg, MIX);
    for (int i = 0; i < MIXES; i++)
        CHECK_EQ(weft_conn_write(mixed.near, block, MIX, WEFT_NEVER), MIX);
}

static void writes_are_not_mixed(void)
{
    static char got[MIX];
    struct body bodies[MIXERS];
    mixed = pair_open(true);
    for (int i = 0; i < MIXERS; i++) {
        bodies[i] =
            (struct body){.function = mix, .arg = (void *)(uintptr_t)i, .thread = i % 3 == 2};
        body_start(&bodies[i]);
    }
    for (int i = 0; i < MIXERS * MIXES; i++) {
        CHECK_EQ(weft_conn_read_full(mixed.far, got, MIX, WEFT_NEVER), MIX);
        for (int at = 1; at < MIX; at++)
            CHECK_EQ(got[at], got[0]);
    }
    for (int i = 0; i < MIXERS; i++)
        body_join(&bodies[i]);
    pair_close(mixed);
}

/* Several readers together get everything. */

static atomic_i64 read_in_all;

static void read_some(void *arg)
{
    char data[100];
    int64_t got;
    while ((got = weft_conn_read(arg, data, sizeof data, WEFT_NEVER)) > 0)
        atomic_i64_add_seq_cst(&read_in_all, got);
    CHECK_EQ(got, 0);
}

static void several_may_read(void)
{
    struct pair pair = pair_open(false);
    struct body bodies[8];
    atomic_i64_store_relaxed(&read_in_all, 0);
    for (int i = 0; i < 8; i++) {
        bodies[i] = (struct body){.function = read_some, .arg = pair.far, .thread = i % 4 == 3};
        body_start(&bodies[i]);
    }
    for (int i = 0; i < 500; i++)
        CHECK_EQ(weft_conn_write(pair.near, large, 333, WEFT_NEVER), 333);
    CHECK_EQ(weft_conn_shutdown(pair.near, WEFT_WRITABLE), 0);
    for (int i = 0; i < 8; i++)
        body_join(&bodies[i]);
    CHECK_EQ(atomic_i64_load_acquire(&read_in_all), 500 * 333);
    pair_close(pair);
}

/* Half-close. */

static void halves(void *unused)
{
    struct pair pair = pair_open(false);
    char data[4];
    CHECK_EQ(weft_conn_write(pair.near, "abc", 3, WEFT_NEVER), 3);
    CHECK_EQ(weft_conn_shutdown(pair.near, WEFT_WRITABLE), 0);
    CHECK_EQ(weft_conn_read_full(pair.far, data, 4, WEFT_NEVER), 3);
    CHECK_EQ(weft_conn_read(pair.far, data, 4, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_write(pair.far, "defg", 4, WEFT_NEVER), 4);
    CHECK_EQ(weft_conn_read_full(pair.near, data, 4, WEFT_NEVER), 4);
    CHECK(memcmp(data, "defg", 4) == 0);
    CHECK_EQ(weft_conn_write(pair.near, "x", 1, WEFT_NEVER), -EPIPE); /* and no SIGPIPE */
    CHECK_EQ(weft_conn_shutdown(pair.far, WEFT_READABLE), 0);
    CHECK_EQ(weft_conn_read(pair.far, data, 1, WEFT_NEVER), 0);
    pair_close(pair);
}

static void each_half_can_be_closed(void)
{
    everywhere(halves);
}

/* Options, addresses, descriptors. */

static int option_of(weft_conn *conn, int level, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    CHECK_EQ(getsockopt(weft_conn_fd(conn), level, option, &value, &size), 0);
    return value;
}

static void options_are_set(void)
{
    weft_net_options options = {.nagle = 1, .keepalive = 7, .receive_buffer = 5000, .backlog = 3};
    weft_listener *listener, *second;
    weft_address address;
    weft_conn *near, *far;
    struct pair plain = pair_open(false);
    char text[WEFT_ADDRESS_TEXT];
    CHECK(option_of(plain.near, IPPROTO_TCP, TCP_NODELAY) != 0);
    CHECK(option_of(plain.far, IPPROTO_TCP, TCP_NODELAY) != 0);
    CHECK_EQ(option_of(plain.near, SOL_SOCKET, SO_KEEPALIVE), 0);
    pair_close(plain);
    CHECK_EQ(weft_listener_open(&listener, "tcp:127.0.0.1:0", &options), 0);
    CHECK_EQ(weft_listener_local(listener, &address), 0);
    CHECK_EQ(weft_address_format(&address, text, sizeof text), 0);
    options.local = "tcp:127.0.0.1:0";
    CHECK_EQ(weft_conn_dial(&near, text, &options, WEFT_NEVER), 0);
    CHECK_EQ(weft_listener_accept(listener, &far, WEFT_NEVER), 0);
    weft_conn *both[2] = {near, far};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(option_of(both[i], IPPROTO_TCP, TCP_NODELAY), 0);
        CHECK(option_of(both[i], SOL_SOCKET, SO_KEEPALIVE) != 0);
        CHECK_EQ(option_of(both[i], IPPROTO_TCP, TCP_KEEPIDLE), 7);
        CHECK_EQ(option_of(both[i], SOL_SOCKET, SO_RCVBUF), 10000);
    }
    CHECK_EQ(weft_listener_open(&second, text, NULL), -EADDRINUSE);
    pair_close((struct pair){near, far});
    weft_listener_close(listener);
    options = (weft_net_options){.reuse_port = 1};
    CHECK_EQ(weft_listener_open(&listener, text, &options), 0);
    CHECK_EQ(weft_listener_open(&second, text, &options), 0);
    weft_listener_close(listener);
    weft_listener_close(second);
}

static void addresses_of_both_ends(void)
{
    struct pair pair = pair_open(false);
    weft_address ends[4];
    CHECK_EQ(weft_conn_local(pair.near, &ends[0]), 0);
    CHECK_EQ(weft_conn_peer(pair.far, &ends[1]), 0);
    CHECK_EQ(weft_conn_local(pair.far, &ends[2]), 0);
    CHECK_EQ(weft_conn_peer(pair.near, &ends[3]), 0);
    CHECK(weft_address_port(&ends[0]) != 0);
    CHECK(memcmp(&ends[0], &ends[1], sizeof ends[0]) == 0);
    CHECK(memcmp(&ends[2], &ends[3], sizeof ends[0]) == 0);
    pair_close(pair);
}

static void foreign_sockets_become_connections(void)
{
    int ends[2], pipes[2];
    weft_conn *near, *far, *poison = (weft_conn *)(uintptr_t)0xdead, *untouched = poison;
    weft_address address;
    char data[5], text[WEFT_ADDRESS_TEXT] = "x";
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(weft_conn_from_fd(&near, ends[0]), 0);
    CHECK_EQ(weft_conn_from_fd(&far, ends[1]), 0);
    CHECK_EQ(weft_conn_fd(near), ends[0]);
    CHECK_EQ(weft_conn_from_fd(&untouched, ends[0]), -EBUSY);
    CHECK_EQ(weft_conn_write(near, "hello", 5, WEFT_NEVER), 5);
    CHECK_EQ(weft_fd_wait(weft_conn_fd(far), WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(weft_conn_read(far, data, 5, WEFT_NEVER), 5);
    CHECK_EQ(weft_conn_read(far, data, 5, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_conn_peer(near, &address), 0);
    CHECK_EQ(weft_address_format(&address, text, sizeof text), 0);
    CHECK_STR(text, "");
    weft_conn_close(near);
    CHECK_EQ(weft_conn_read(far, data, 5, WEFT_NEVER), 0);
    weft_conn_close(far);
    CHECK_EQ(pipe(pipes), 0);
    CHECK_EQ(weft_conn_from_fd(&untouched, pipes[0]), -ENOTSOCK);
    close(pipes[0]);
    close(pipes[1]);
    CHECK_EQ(weft_conn_from_fd(&untouched, pipes[0]), -EBADF);
    CHECK_PTR(untouched, poison);
}

/* weft_fd_wait for the descriptor of a connection, beside reads of the connection. */

static void wait_as_guest(void *arg)
{
    CHECK_EQ(weft_fd_wait(weft_conn_fd(arg), WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
}

static void wait_until_closed(void *arg)
{
    CHECK_EQ(weft_fd_wait((int)(intptr_t)arg, WEFT_READABLE, WEFT_NEVER), -EBADF);
}

static void its_descriptor_can_be_waited_for(void)
{
    struct pair pair = pair_open(false);
    char byte;
    CHECK_EQ(weft_conn_read(pair.far, &byte, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    for (int thread = 0; thread < 2; thread++) {
        struct body body = {.function = wait_as_guest, .arg = pair.far, .thread = thread};
        body_start(&body);
        await_fd_waits(1);
        CHECK_EQ(weft_conn_write(pair.near, "x", 1, WEFT_NEVER), 1);
        body_join(&body);
        CHECK_EQ(weft_conn_read(pair.far, &byte, 1, WEFT_NEVER), 1);
    }
    CHECK_EQ(weft_fd_wait(weft_conn_fd(pair.far), WEFT_READABLE, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_fd_wait(weft_conn_fd(pair.far), WEFT_WRITABLE, WEFT_NEVER), WEFT_WRITABLE);
    struct body guest = {.function = wait_until_closed,
                         .arg = (void *)(intptr_t)weft_conn_fd(pair.far)};
    body_start(&guest);
    await_fd_waits(1);
    weft_conn_close(pair.far);
    body_join(&guest);
    weft_conn_close(pair.near);
}

/* A fiber whose calls never wait, on the only processor. */

static atomic_u32 other_ran;

static void run_beside(void *unused)
{
    atomic_u32_store_release(&other_ran, 1);
}

static void never_wait(void *unused)
{
    struct pair pair = unix_pair(); /* where bytes arrive at once */
    char byte = 'x';
    atomic_u32_store_relaxed(&other_ran, 0);
    CHECK_EQ(weft_go(run_beside, NULL), 0);
    while (!atomic_u32_load_acquire(&other_ran)) {
        CHECK_EQ(weft_conn_write(pair.near, &byte, 1, WEFT_NOW), 1);
        CHECK_EQ(weft_conn_read(pair.far, &byte, 1, WEFT_NOW), 1);
    }
    pair_close(pair);
}

static void a_busy_connection_lets_others_run(void)
{
    on_processors(1, never_wait, NULL);
}

/* A read that usually finds nothing takes what has arrived at once: it does not let other fibers
 * run first. */

enum { EMPTY_READS = 100 };

static uint32_t turns; /* of the other fiber */

static void take_a_turn(void *unused)
{
    turns++;
}

/* Bytes written to a Unix socket arrive at once. The first read waits, so that the socket is
 * watched from then on. */
static void read_after_empty_reads(void *unused)
{
    struct pair pair = unix_pair();
    char byte;
    weft_fiber *other;
    for (int i = 0; i < EMPTY_READS; i++)
        CHECK_EQ(weft_conn_read(pair.near, &byte, 1, i == 0 ? weft_after(1) : WEFT_NOW),
                 -ETIMEDOUT);
    CHECK_EQ(weft_conn_write(pair.far, "a", 1, WEFT_NEVER), 1);
    CHECK_EQ(weft_spawn(&other, take_a_turn, NULL, NULL), 0);
    CHECK_EQ(weft_conn_read(pair.near, &byte, 1, WEFT_NEVER), 1);
    CHECK_EQ(turns, 0);
    CHECK_EQ(weft_join(other), 0);
    pair_close(pair);
}

/* Without the monitor, which is the second thread: it could hand the processor to another
 * machine. */
static void a_read_of_what_has_arrived_does_not_yield(void)
{
    weft__os_fail(OS_THREAD, 2, true);
    on_processors(1, read_after_empty_reads, NULL);
    weft__os_fail(OS_THREAD, 0, false);
}

/* Dialling by name: the listener has one of the addresses. */

static void dial_by_name(void *arg)
{
    weft_listener *listener;
    weft_conn *near, *far;
    weft_address address;
    char text[WEFT_ADDRESS_TEXT];
    listen_at(&listener, "tcp:127.0.0.1:0", text);
    CHECK_EQ(weft_listener_local(listener, &address), 0);
    snprintf(text, sizeof text, "tcp:localhost:%d", weft_address_port(&address));
    CHECK_EQ(weft_conn_dial(&near, text, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_listener_accept(listener, &far, WEFT_NEVER), 0);
    weft_conn_close(near);
    weft_conn_close(far);
    weft_listener_close(listener);
}

static void hosts_have_names(void)
{
    everywhere(dial_by_name);
}

/* Errors. */

static void datagrams_to_names(void)
{
    weft_conn *conn;
    weft_address peer;
    CHECK_EQ(weft_conn_dial(&conn, "udp:localhost:9", NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_peer(conn, &peer), 0);
    CHECK_EQ(weft_address_port(&peer), 9);
    CHECK_EQ(peer.type, SOCK_DGRAM);
    weft_conn_close(conn);
}

static void addresses_that_cannot_be_reached(void)
{
    weft_conn *poison = (weft_conn *)(uintptr_t)0xdead, *conn = poison;
    weft_listener *no_listener = (weft_listener *)(uintptr_t)0xdead, *listener = no_listener;
    CHECK_EQ(weft_conn_dial(&conn, "tcp:127.0.0.1", NULL, WEFT_NEVER), -EINVAL);
    int error = weft_conn_dial(&conn, "tcp:no-such-host.invalid:1", NULL, WEFT_NEVER);
    CHECK(error == -EADDRNOTAVAIL || error == -EAGAIN || error == -EIO); /* without a resolver */
    CHECK_EQ(weft_conn_dial(&conn, "unix:/no/such/socket", NULL, WEFT_NEVER), -ENOENT);
    CHECK_EQ(weft_conn_dial(&conn, "tcp:127.0.0.1:1",
                            &(weft_net_options){.local = "udp:127.0.0.1:0"}, WEFT_NEVER),
             -EINVAL);
    CHECK_EQ(weft_listener_open(&listener, "tcp:192.0.2.1:0", NULL), -EADDRNOTAVAIL);
    CHECK_PTR(conn, poison);
    CHECK_PTR(listener, no_listener);
}

static void dial_without_listener(void *unused)
{
    weft_listener *listener;
    weft_conn *conn;
    char text[WEFT_ADDRESS_TEXT];
    listen_at(&listener, "tcp:127.0.0.1:0", text);
    weft_listener_close(listener);
    CHECK_EQ(weft_conn_dial(&conn, text, NULL, WEFT_NEVER), -ECONNREFUSED);
}

static void refusals_are_returned(void)
{
    everywhere(dial_without_listener);
}

int main(void)
{
    RUN_PLAIN(addresses_that_cannot_be_reached, "nothing waits");
    RUN_BOTH(hosts_have_names);
    RUN_PLAIN(datagrams_to_names, "a look-up that blocks its thread");
    RUN_BOTH(refusals_are_returned);
    RUN_BOTH(tcp_ipv4);
    RUN_BOTH(tcp_ipv6);
    RUN_BOTH(tcp_all_addresses);
    RUN_BOTH(unix_streams);
    RUN_BOTH(a_full_backlog_is_waited_for);
    RUN_BOTH(pieces);
    RUN_BOTH(large_writes_wait_for_the_reader);
    RUN_BOTH(files_are_sent);
    RUN_BOTH(writes_are_not_mixed);
    RUN_BOTH(several_may_read);
    RUN_BOTH(each_half_can_be_closed);
    RUN_BOTH(options_are_set);
    RUN_BOTH(addresses_of_both_ends);
    RUN_BOTH(foreign_sockets_become_connections);
    RUN_BOTH(its_descriptor_can_be_waited_for);
    RUN_BOTH(a_busy_connection_lets_others_run);
    RUN_PLAIN(a_read_of_what_has_arrived_does_not_yield, "stops or configures the runtime");
    return 0;
}
