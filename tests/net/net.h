/*
 * net.h: what the tests of sockets share: pairs of connections, and a look at who waits.
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

/* A connection over loopback TCP, with small buffers so that they are full soon, if `small`. */
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

static inline void pair_close(struct pair pair)
{
    weft_conn_close(pair.near);
    weft_conn_close(pair.far);
}

/* Waits until so many wait for descriptors: they are listed then, or about to be. */
static inline void await_fd_waits(int64_t count)
{
    while (weft__descriptor_waits() != count)
        weft_yield();
}

/* Writes until nothing more goes in; the number of bytes. */
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

/* Lets nothing more be opened; gives the limit before. */
static inline rlim_t no_more_descriptors(void)
{
    int free = dup(0);
    CHECK(free >= 0);
    close(free); /* the lowest that is free: all below are in use */
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
