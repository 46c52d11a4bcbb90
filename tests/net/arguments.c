/*
 * arguments.c: every call refuses invalid arguments before it does anything, and accepts those at
 * the limits.
 */
#include <netinet/in.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "net.h"
#include "seeds.h"

/* Out-parameters. */
static weft_conn *conn;
static weft_listener *listener;

static void without_a_handle(void)
{
    weft_address address;
    char byte;
    struct iovec piece = {&byte, 1};
    CHECK_EQ(weft_conn_read(NULL, &byte, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_read_full(NULL, &byte, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_write(NULL, &byte, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_readv(NULL, &piece, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_writev(NULL, &piece, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_sendfile(NULL, 0, 0, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_send_to(NULL, &byte, 1, &address, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_receive_from(NULL, &byte, 1, &address, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_shutdown(NULL, WEFT_READABLE), -EINVAL);
    CHECK_EQ(weft_conn_local(NULL, &address), -EINVAL);
    CHECK_EQ(weft_conn_peer(NULL, &address), -EINVAL);
    CHECK_EQ(weft_conn_fd(NULL), -EINVAL);
    CHECK_PTR(weft_conn_share(NULL), NULL);
    weft_conn_close(NULL);
    CHECK_EQ(weft_listener_accept(NULL, &conn, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_listener_local(NULL, &address), -EINVAL);
    CHECK_EQ(weft_listener_fd(NULL), -EINVAL);
    CHECK_PTR(weft_listener_share(NULL), NULL);
    weft_listener_close(NULL);
    CHECK_EQ(weft_address_port(NULL), 0);
}

static void invalid_opens(void)
{
    weft_conn *poison = (weft_conn *)(uintptr_t)0xdead;
    weft_listener *other = (weft_listener *)(uintptr_t)0xdead;
    const weft_net_options wrong[] = {{.backlog = -1},
                                      {.keepalive = -1},
                                      {.receive_buffer = -1},
                                      {.send_buffer = -1},
                                      {.reserved = {1}}};
    conn = poison;
    listener = other;
    CHECK_EQ(weft_conn_dial(NULL, "tcp:127.0.0.1:9", NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_dial(&conn, NULL, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_bind(NULL, "udp:127.0.0.1:0", NULL), -EINVAL);
    CHECK_EQ(weft_conn_bind(&conn, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_conn_bind(&conn, "udp:nonsense", NULL), -EINVAL);
    CHECK_EQ(weft_conn_bind(&conn, "tcp:127.0.0.1:0", NULL), -EINVAL);
    CHECK_EQ(weft_conn_from_fd(NULL, 0), -EINVAL);
    CHECK_EQ(weft_listener_open(NULL, "tcp:127.0.0.1:0", NULL), -EINVAL);
    CHECK_EQ(weft_listener_open(&listener, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_listener_open(&listener, "tcp:nonsense", NULL), -EINVAL);
    CHECK_EQ(weft_listener_open(&listener, "udp:127.0.0.1:0", NULL), -EINVAL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_EQ(weft_conn_dial(&conn, "tcp:127.0.0.1:9", &wrong[i], WEFT_NOW), -EINVAL);
        CHECK_EQ(weft_conn_bind(&conn, "udp:127.0.0.1:0", &wrong[i]), -EINVAL);
        CHECK_EQ(weft_listener_open(&listener, "tcp:127.0.0.1:0", &wrong[i]), -EINVAL);
    }
    CHECK_PTR(conn, poison);
    CHECK_PTR(listener, other);
}

static void invalid_transfers(void)
{
    struct pair pair = pair_open(false);
    weft_address address = {.size = sizeof address.bytes + 1};
    struct iovec piece = {NULL, 0};
    CHECK_EQ(weft_conn_read(pair.near, NULL, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_write(pair.near, NULL, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_readv(pair.near, NULL, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_readv(pair.near, &piece, -1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_writev(pair.near, NULL, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_writev(pair.near, &piece, -1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_sendfile(pair.near, 0, -1, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_receive_from(pair.near, NULL, 1, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_send_to(pair.near, "x", 1, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_send_to(pair.near, "x", 1, &address, WEFT_NOW), -EINVAL);
    address.size = 0;
    CHECK_EQ(weft_conn_send_to(pair.near, NULL, 1, &address, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_conn_local(pair.near, NULL), -EINVAL);
    CHECK_EQ(weft_conn_peer(pair.near, NULL), -EINVAL);
    CHECK_EQ(weft_conn_shutdown(pair.near, 0), -EINVAL);
    CHECK_EQ(weft_conn_shutdown(pair.near, 4), -EINVAL);
    /* No bytes need no memory. */
    CHECK_EQ(weft_conn_read(pair.near, NULL, 0, WEFT_NOW), 0);
    CHECK_EQ(weft_conn_write(pair.near, NULL, 0, WEFT_NOW), 0);
    CHECK_EQ(weft_conn_readv(pair.near, &piece, 1, WEFT_NOW), 0);
    CHECK_EQ(weft_conn_writev(pair.near, &piece, 1, WEFT_NOW), 0);
    pair_close(pair);
    CHECK_EQ(weft_listener_open(&listener, "tcp:127.0.0.1:0", NULL), 0);
    CHECK_EQ(weft_listener_accept(listener, NULL, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_listener_local(listener, NULL), -EINVAL);
    CHECK(weft_listener_fd(listener) >= 0);
    weft_listener_close(listener);
}

/* An empty datagram is one; a datagram read into no room is dropped. */
static void empty_datagrams(void)
{
    weft_conn *other;
    weft_address to, from;
    char byte;
    struct iovec none = {NULL, 0}, one = {&byte, 1};
    CHECK_EQ(weft_conn_bind(&conn, "udp:127.0.0.1:0", NULL), 0);
    CHECK_EQ(weft_conn_bind(&other, "udp:127.0.0.1:0", &(weft_net_options){.backlog = 0}), 0);
    CHECK_EQ(weft_conn_local(conn, &to), 0);
    CHECK_EQ(weft_conn_send_to(other, NULL, 0, &to, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_receive_from(conn, NULL, 0, &from, WEFT_NEVER), 0);
    CHECK(weft_address_port(&from) > 0);
    for (const char *letter = "abcd"; *letter != '\0'; letter++)
        CHECK_EQ(weft_conn_send_to(other, letter, 1, &to, WEFT_NEVER), 1);
    CHECK_EQ(weft_conn_read(conn, NULL, 0, WEFT_NEVER), 0);   /* a */
    CHECK_EQ(weft_conn_readv(conn, &none, 1, WEFT_NEVER), 0); /* b */
    CHECK_EQ(weft_conn_readv(conn, &one, 1, WEFT_NEVER), 1);
    CHECK_EQ(byte, 'c');
    CHECK_EQ(weft_conn_receive_from(conn, &byte, 1, NULL, WEFT_NEVER), 1);
    CHECK_EQ(byte, 'd');
    weft_conn_close(other);
    weft_conn_close(conn);
}

static void addresses_in_use(void)
{
    char text[WEFT_ADDRESS_TEXT];
    weft_address local;
    weft_conn *other = (weft_conn *)(uintptr_t)0xdead;
    CHECK_EQ(weft_conn_bind(&conn, "udp:127.0.0.1:0", NULL), 0);
    CHECK_EQ(weft_conn_local(conn, &local), 0);
    CHECK_EQ(weft_address_format(&local, text, sizeof text), 0);
    CHECK_EQ(weft_conn_bind(&other, text, NULL), -EADDRINUSE);
    CHECK_PTR(other, (weft_conn *)(uintptr_t)0xdead);
    weft_conn_close(conn);
}

/* A single address is not taken for "all addresses". */
static void single_addresses(void)
{
    static const char *const single[] = {"tcp:[::1]:0", "tcp:127.0.0.1:0"};
    for (size_t i = 0; i < 2; i++) {
        char text[WEFT_ADDRESS_TEXT];
        weft_address local;
        int error = weft_listener_open(&listener, single[i], NULL);
        if (error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT)
            continue; /* there is no IPv6 */
        CHECK_EQ(error, 0);
        CHECK_EQ(weft_listener_local(listener, &local), 0);
        CHECK_EQ(weft_address_format(&local, text, sizeof text), 0);
        CHECK_EQ(strncmp(text, single[i], strlen(single[i]) - 1), 0);
        weft_listener_close(listener);
    }
}

int main(void)
{
    RUN_PLAIN(without_a_handle, "nothing waits");
    RUN_PLAIN(invalid_opens, "nothing waits");
    RUN_BOTH(invalid_transfers);
    RUN_BOTH(empty_datagrams);
    RUN_PLAIN(addresses_in_use, "nothing waits");
    RUN_PLAIN(single_addresses, "nothing waits");
    return 0;
}
