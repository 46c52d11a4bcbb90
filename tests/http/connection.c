/*
 * connection.c: connections that change their owner (src/http/connection.c), with an acceptor
 * without a fiber: the test is the acceptor and the worker, so that it decides what happens between
 * two of their steps.
 *
 * For a client that sends without end weft__http_receive is caught (--wrap).
 */
#include <weft/runtime.h>

#include "http.h"
#include "http/partial_head.h"
#include "http/server.h"
#include "http/sys.h"
#include "system.h"

static struct connection *connection;
static bool endless;

int64_t __real_weft__http_receive(int fd, void *data, size_t size);
int64_t __wrap_weft__http_receive(int fd, void *data, size_t size);
int64_t __wrap_weft__http_receive(int fd, void *data, size_t size)
{
    return endless ? (int64_t)size : __real_weft__http_receive(fd, data, size);
}

/* ---- a server that does nothing ---- */

static weft_http_server server;
static struct acceptor acceptor;
static int far; /* the client's end */

static bool is_readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) == 1;
}

static bool was_woken(void)
{
    bool rung = is_readable(acceptor.wakeup);
    weft__http_wakeup_clear(acceptor.wakeup);
    return rung;
}

static void begin(void)
{
    int ends[2];
    struct peer peer = {.family = 0};
    memset(&server, 0, sizeof server);
    memset(&acceptor, 0, sizeof acceptor);
    server.options.header_timeout = 1000 * WEFT_S;
    server.options.idle_timeout = 2000 * WEFT_S;
    server.acceptors = &acceptor;
    server.acceptor_count = 1;
    CHECK_EQ(weft__http_acceptor_open(&acceptor, &server), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    far = ends[1];
    count_up(&server.connections);
    CHECK(weft__http_connection_open(&acceptor, ends[0], &peer, &(struct listener){0}));
    CHECK_EQ(acceptor.count, 1);
    CHECK(was_woken());
    connection = acceptor.lists[LIST_READING].first;
    CHECK(connection != NULL);
    weft__http_connection_take(connection, NULL);
    CHECK_PTR(acceptor.lists[LIST_BUSY].first, connection);
    endless = false;
}

static bool is_closed(void)
{
    return acceptor.closed == connection;
}

static void end_all(void)
{
    if (!is_closed())
        weft__http_connection_close(connection);
    for (int list = 0; list < LISTS; list++)
        CHECK(acceptor.lists[list].first == NULL && acceptor.lists[list].last == NULL);
    CHECK_EQ(acceptor.count, 0);
    CHECK_EQ(atomic_i64_load_relaxed(&server.connections), 0);
    weft__http_acceptor_close(&acceptor);
    close(far);
}

static bool is_lingering(void)
{
    return connection->list == LIST_LINGERING && !is_closed() &&
           acceptor.lists[LIST_LINGERING].first == connection;
}

/* The server has ended its sending side, and discards what the client still sends. */
static void expect_lingering(void)
{
    char byte;
    CHECK(is_lingering());
    CHECK(connection->deadline <= weft_after(HTTP_LINGER_SILENCE));
    CHECK_EQ(recv(far, &byte, 1, 0), 0);
    CHECK_EQ(send(far, "x", 1, MSG_NOSIGNAL), 1);
    weft__http_connection_discard(connection);
    CHECK(is_lingering() && !is_readable(connection->fd));
}

/* Takes the acceptor's events, except of its wake-up. Returns whether one is of the connection. */
static bool is_told(void)
{
    struct http_event events[8];
    bool told = false;
    for (int i = weft__http_set_look(acceptor.set, events, 8); i > 0; i--)
        told = told || events[i - 1].what == connection;
    return told;
}

static void expect_closed(void)
{
    CHECK(is_closed());
    CHECK_EQ(send(far, "x", 1, MSG_NOSIGNAL), -1);
    CHECK_EQ(errno, EPIPE);
}

/* ---- lingering ---- */

static void lingers(void)
{
    begin();
    weft__http_connection_linger(connection);
    expect_lingering();
    CHECK(was_woken()); /* the acceptor sleeps for longer than that */
    end_all();
}

/* The event came while a worker owned the connection: there is another. */
static void lingers_with_what_came_before(void)
{
    begin();
    CHECK_EQ(send(far, "early", 5, MSG_NOSIGNAL), 5);
    CHECK(is_told() && !is_told());
    weft__http_connection_linger(connection);
    CHECK(is_told());
    expect_lingering();
    end_all();
}

/* The end came while a worker owned the connection, and nothing is left to read. */
static void lingers_not_after_the_end(void)
{
    begin();
    CHECK_EQ(shutdown(far, SHUT_WR), 0);
    CHECK(is_told() && !is_told());
    weft__http_connection_linger(connection);
    CHECK(is_told());
    weft__http_connection_discard(connection);
    CHECK(is_closed());
    end_all();
}

static void stop_now(void)
{
    atomic_u32_store_release(&server.stopping, 1);
}

/* An acceptor that has seen the stop does not look at its lists again. */
static void lingers_not_when_it_is_stopping(void)
{
    begin();
    stop_now();
    weft__http_connection_linger(connection);
    expect_closed();
    CHECK(was_woken()); /* the acceptor waits for its last one */
    end_all();
}

/* The acceptor closes the oldest: soon. */
static void lingers_among_too_many(void)
{
    begin();
    acceptor.lists[LIST_LINGERING].count = HTTP_LINGERING_MAX - 1;
    weft__http_connection_linger(connection);
    expect_lingering();
    CHECK(!was_woken()); /* it has others to look after already */
    end_all();

    begin();
    acceptor.lists[LIST_LINGERING].count = HTTP_LINGERING_MAX;
    weft__http_connection_linger(connection);
    expect_lingering();
    CHECK(was_woken());
    end_all();
}

/* A turn at a time, so that others are served; and not for ever. */
static void is_not_listened_to_without_end(void)
{
    begin();
    weft__http_connection_linger(connection);
    endless = true;
    CHECK_EQ(send(far, "x", 1, MSG_NOSIGNAL), 1);
    for (int i = 0; i < HTTP_DISCARD_TURNS; i++) {
        connection->deadline = 0;
        weft__http_connection_discard(connection);
        CHECK(is_lingering() && is_told());
        CHECK(connection->deadline > weft_now()); /* it is not silent */
    }
    weft__http_connection_discard(connection);
    CHECK(is_closed());
    end_all();

    begin();
    weft__http_connection_linger(connection);
    CHECK(connection->linger_end <= weft_after(HTTP_LINGER_TIME));
    connection->linger_end = weft_now();
    weft__http_connection_discard(connection);
    CHECK(is_closed());
    end_all();
}

/* ---- giving back ---- */

static void is_given_back(void)
{
    begin();
    CHECK(weft__http_connection_release(connection, NULL));
    CHECK_PTR(acceptor.lists[LIST_IDLE].first, connection);
    CHECK(connection->deadline > weft_after(1000 * WEFT_S));
    weft__http_connection_take(connection, NULL);

    struct partial_head *partial = weft__http_partial_head_get(NULL, 1);
    CHECK(partial != NULL);
    CHECK(weft__http_connection_release(connection, partial));
    CHECK_PTR(acceptor.lists[LIST_READING].first, connection);
    CHECK_PTR(connection->partial, partial);
    CHECK(connection->deadline <= weft_after(1000 * WEFT_S));
    end_all();
}

/* The worker has to read first, or to close the connection. */
static void is_kept(void)
{
    begin();
    atomic_u32 *const why[] = {&connection->readable, &connection->ended, &server.stopping};
    for (int i = 0; i < 3; i++) {
        atomic_u32_store_relaxed(why[i], 1);
        CHECK(!weft__http_connection_release(connection, NULL));
        CHECK_PTR(acceptor.lists[LIST_BUSY].first, connection);
        atomic_u32_store_relaxed(why[i], 0);
    }
    CHECK(weft__http_connection_release(connection, NULL));
    end_all();
}

/* ---- peers ---- */

static void check_peer(struct peer peer, const char *expected)
{
    weft_address address;
    char text[WEFT_ADDRESS_TEXT];
    memset(&address, 0xff, sizeof address);
    weft__http_peer_address(&peer, &address);
    CHECK_EQ(weft_address_format(&address, text, sizeof text), 0);
    CHECK_STR(text, expected);
    CHECK_EQ(weft_address_port(&address), peer.port);
    CHECK_EQ(address.type, peer.family != 0 ? SOCK_STREAM : 0);
}

static void peers(void)
{
    check_peer((struct peer){.family = 4, .ip = {127, 0, 0, 2}, .port = 8080},
               "tcp:127.0.0.2:8080");
    check_peer((struct peer){.family = 6, .ip = {[0] = 0x20, [15] = 1}, .port = 80},
               "tcp:[2000::1]:80");
    check_peer((struct peer){.family = 0}, "");

    /* The link is a part of a link-local address. */
    struct peer local = {.family = 6, .ip = {0xfe, 0x80, [15] = 1}, .port = 1, .scope = 7};
    weft_address address;
    struct sockaddr_in6 ipv6;
    weft__http_peer_address(&local, &address);
    CHECK_EQ(address.size, sizeof ipv6);
    memcpy(&ipv6, address.bytes, sizeof ipv6);
    CHECK_EQ(ipv6.sin6_scope_id, 7);
}

int main(void)
{
    int before = open_descriptors();
    RUN_PLAIN(lingers, "one thread");
    RUN_PLAIN(lingers_with_what_came_before, "one thread");
    RUN_PLAIN(lingers_not_after_the_end, "one thread");
    RUN_PLAIN(lingers_not_when_it_is_stopping, "one thread");
    RUN_PLAIN(lingers_among_too_many, "one thread");
    RUN_PLAIN(is_not_listened_to_without_end, "one thread");
    RUN_PLAIN(is_given_back, "one thread");
    RUN_PLAIN(is_kept, "one thread");
    RUN_PLAIN(peers, "one thread");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
