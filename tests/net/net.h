/*
 * net.h: for tests of sockets: pairs of connections, the number of waits, limits of descriptors.
 */
#ifndef WEFT_TEST_NET_H
#define WEFT_TEST_NET_H

#include <poll.h>
#include <sys/socket.h>

#include "bodies.h"
#include "everywhere.h"
#include "sched/poll/descriptor.h"

struct pair {
    weft_conn *near, *far;
};

/* A connection over loopback TCP; if `small`, with small buffers, which are full soon. */
static inline struct pair pair_open(bool small)
{
    weft_net_options options = {.receive_buffer = small ? 4096 : 0,
                                .send_buffer = small ? 4096 : 0};
    struct pair pair;
    weft_listener *listener;
    weft_address address;
    char text[WEFT_ADDRESS_TEXT];
    CHECK_EQ(weft_listener_open(&listener, "tcp:127.0.0.1:0", &options), 0);
    CHECK_EQ(weft_listener_local(listener, &address), 0);
    CHECK_EQ(weft_address_format(&address, text, sizeof text), 0);
    CHECK_EQ(weft_conn_dial(&pair.near, text, &options, WEFT_NEVER), 0);
    CHECK_EQ(weft_listener_accept(listener, &pair.far, WEFT_NEVER), 0);
    weft_listener_close(listener);
    return pair;
}

/* A connection over a pair of Unix sockets. */
static inline struct pair unix_pair(void)
{
    struct pair pair;
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(weft_conn_from_fd(&pair.near, ends[0]), 0);
    CHECK_EQ(weft_conn_from_fd(&pair.far, ends[1]), 0);
    return pair;
}

static inline void pair_close(struct pair pair)
{
    weft_conn_close(pair.near);
    weft_conn_close(pair.far);
}

/* Returns when `count` waits for descriptors have begun. */
static inline void await_fd_waits(int64_t count)
{
    while (weft__descriptor_waits() != count)
        weft_yield();
}

/* Writes until nothing more fits: how many bytes. */
static inline int64_t fill_up(weft_conn *conn)
{
    static char block[65536];
    int64_t all = 0, sent;
    while ((sent = weft_conn_write(conn, block, sizeof block, weft_after(20 * WEFT_MS))) > 0)
        all += sent;
    CHECK_EQ(sent, -ETIMEDOUT);
    return all;
}

static inline rlim_t set_limit(rlim_t limit)
{
    struct rlimit limits;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limits), 0);
    rlim_t before = limits.rlim_cur;
    limits.rlim_cur = limit;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limits), 0);
    return before;
}

/* Lets no descriptor be opened any more; returns the limit before. */
static inline rlim_t no_more_descriptors(void)
{
    int free = dup(0);
    CHECK(free >= 0);
    close(free); /* the lowest free number: all below are in use */
    return set_limit((rlim_t)free);
}

static inline void listen_at(weft_listener **listener, const char *address, char *text)
{
    weft_address local;
    CHECK_EQ(weft_listener_open(listener, address, NULL), 0);
    CHECK_EQ(weft_listener_local(*listener, &local), 0);
    CHECK_EQ(weft_address_format(&local, text, WEFT_ADDRESS_TEXT), 0);
}

#endif
