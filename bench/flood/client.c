/*
 * client.c: connections of the attacker: open, read, write, end; and the event loop.
 *
 * Connections are opened a few hundred at a time. A pair of addresses has about 28,000 ports, and
 * the kernel takes long to find the last ones; so clients come from 127.0.1.1, 127.0.2.1 and so on,
 * 500 each. The probe comes from 127.0.0.1, like other clients. Connections are ended by a reset,
 * so that a flood does not leave tens of thousands of ports in TIME_WAIT for the next one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "flood.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

enum {
    OPENING_MOST = 256,
    PER_SOURCE = 500,
    EVENTS = 512,
    MILLISECOND = 1000 * 1000,
    RETRY = 10 * MILLISECOND,
    READ_SIZE = 65536,
    SMALL = 4096,
    LARGE_BUFFER = 1 << 20,
};

int64_t flood_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "weft-flood: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int make_socket(const struct flood *flood, const struct client *client)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    if (flood->first.size > SMALL) /* it must fit into the socket buffer */
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){LARGE_BUFFER}, sizeof(int));
    if (flood->mode->receive_buffer != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &flood->mode->receive_buffer, sizeof(int));
    if (flood->mode != &mode_probe) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        uint32_t source = 1 + (uint32_t)client->number / PER_SOURCE;
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (source << 8));
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0)
            fail("bind");
    }
    return fd;
}

static void ended(struct flood *flood, struct client *client)
{
    close(client->fd);
    client->state = CLIENT_CLOSED;
    client->wants_out = false;
    flood->mode->ended(flood, client);
    client->waits = false;
    if (client->state == CLIENT_CLOSED && client->number < flood->first_closed)
        flood->first_closed = client->number;
}

void client_end(struct flood *flood, struct client *client, bool by_server)
{
    if (client->state == CLIENT_OPENING)
        flood->opening--;
    flood->closed_by_server += by_server && client->state == CLIENT_OPEN;
    ended(flood, client);
}

static void not_opened(struct flood *flood, struct client *client)
{
    flood->failed_to_open++;
    client->retry = flood->now + RETRY;
    client_end(flood, client, false);
}

static void open_client(struct flood *flood, struct client *client)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)flood->port)};
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = client};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client->fd = make_socket(flood, client);
    client->state = CLIENT_OPENING;
    flood->opening++;
    if (epoll_ctl(flood->epoll, EPOLL_CTL_ADD, client->fd, &event) != 0)
        fail("epoll_ctl");
    if (connect(client->fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        not_opened(flood, client);
}

static void open_more(struct flood *flood)
{
    long number = flood->first_closed;
    bool all_before = true;
    for (; number < flood->connections && flood->opening < OPENING_MOST; number++) {
        struct client *client = &flood->clients[number];
        if (client->state == CLIENT_CLOSED && client->retry <= flood->now)
            open_client(flood, client);
        all_before = all_before && client->state != CLIENT_CLOSED;
        if (all_before)
            flood->first_closed = number + 1;
    }
}

void client_want_out(struct flood *flood, struct client *client, bool wants)
{
    uint32_t in = flood->unread ? 0 : EPOLLIN;
    struct epoll_event event = {.events = in | (wants ? EPOLLOUT : 0U), .data.ptr = client};
    if (client->wants_out != wants)
        epoll_ctl(flood->epoll, EPOLL_CTL_MOD, client->fd, &event);
    client->wants_out = wants;
}

void client_sleep(struct flood *flood, struct client *client)
{
    struct epoll_event event = {.data.ptr = client};
    if (client->state == CLIENT_OPEN)
        epoll_ctl(flood->epoll, EPOLL_CTL_MOD, client->fd, &event);
}

long client_send(struct flood *flood, struct client *client, const char *data, long size)
{
    ssize_t sent = send(client->fd, data, (size_t)size, MSG_NOSIGNAL);
    if (sent >= 0) {
        flood->bytes_sent += sent;
        return sent;
    }
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    client_end(flood, client, true);
    return -1;
}

void client_request(struct flood *flood, struct client *client)
{
    const struct bytes *request = &flood->first;
    answer_start(client->answer);
    client->waits = true;
    flood->sent++;
    long sent = client_send(flood, client, request->data, request->size);
    if (sent >= 0 &&
        sent != request->size) /* a new request does not fit: the server does not read */
        client_end(flood, client, true);
}

void client_end_side(struct flood *flood, struct client *client)
{
    if (flood->half && client->state == CLIENT_OPEN)
        (void)shutdown(client->fd, SHUT_WR);
}

long client_read(struct flood *flood, struct client *client, char *data, long size)
{
    ssize_t got = recv(client->fd, data, (size_t)size, 0);
    if (got > 0)
        flood->bytes_received += got;
    return got;
}

static void readable(struct flood *flood, struct client *client)
{
    static char data[READ_SIZE];
    if (flood->mode->raw) {
        flood->mode->came(flood, client, NULL, 0);
        return;
    }
    long got = client_read(flood, client, data, sizeof data);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0) {
        flood->mode->came(flood, client, data, (int)got);
        return;
    }
    if (got == 0)
        flood->mode->came(flood, client, data, 0);
    if (client->state == CLIENT_OPEN)
        client_end(flood, client, true);
}

static void connect_is_over(struct flood *flood, struct client *client)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        not_opened(flood, client);
        return;
    }
    flood->opening--;
    flood->opened++;
    client->state = CLIENT_OPEN;
    client->wants_out = true; /* registered for writing */
    client_want_out(flood, client, false);
    flood->mode->opened(flood, client);
}

static void handle(struct flood *flood, struct client *client, uint32_t events)
{
    if (client == NULL) {
        char line[64];
        if (read(STDIN_FILENO, line, sizeof line) <= 0)
            flood->done = true;
        else if (flood->mode->mark != NULL)
            flood->mode->mark(flood);
        return;
    }
    if (client->state == CLIENT_OPENING) {
        connect_is_over(flood, client);
        return;
    }
    if (client->state == CLIENT_OPEN && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        readable(flood, client);
    if (client->state == CLIENT_OPEN && client->wants_out && (events & EPOLLOUT) != 0)
        flood->mode->can_write(flood, client);
}

/* The driver ends the program early by closing its standard input. A file or /dev/null cannot be
 * watched. */
static void watch_input(struct flood *flood)
{
    struct epoll_event event = {.events = EPOLLIN};
    (void)epoll_ctl(flood->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event);
}

static int wait_milliseconds(const struct flood *flood, int64_t next_tick)
{
    int64_t until = next_tick < flood->deadline ? next_tick : flood->deadline;
    int64_t left = (until - flood->now + MILLISECOND - 1) / MILLISECOND;
    return left < 0 ? 0 : (int)left;
}

static void clients_make(struct flood *flood)
{
    size_t count = (size_t)flood->connections;
    flood->clients = calloc(count, sizeof *flood->clients);
    flood->answers = flood->mode->answers ? calloc(count, sizeof *flood->answers) : NULL;
    if (flood->clients == NULL || (flood->mode->answers && flood->answers == NULL))
        fail("calloc");
    for (int number = 0; number < flood->connections; number++) {
        flood->clients[number].number = number;
        if (flood->answers != NULL)
            flood->clients[number].answer = &flood->answers[number];
    }
}

void flood_run(struct flood *flood)
{
    struct epoll_event events[EVENTS];
    clients_make(flood);
    flood->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (flood->epoll < 0)
        fail("epoll_create1");
    watch_input(flood);
    flood->now = flood->start = flood_clock();
    flood->deadline = flood->start + flood->seconds * INT64_C(1000000000);
    int64_t next_tick = flood->start + flood->period;
    if (flood->mode->start != NULL)
        flood->mode->start(flood);
    while (!flood->done && flood->now < flood->deadline) {
        open_more(flood);
        int count = epoll_wait(flood->epoll, events, EVENTS, wait_milliseconds(flood, next_tick));
        flood->now = flood_clock();
        for (int i = 0; i < count; i++)
            handle(flood, events[i].data.ptr, events[i].events);
        if (flood->now >= next_tick) {
            flood->mode->tick(flood);
            next_tick = flood->now + flood->period;
        }
    }
    flood->now = flood_clock();
    flood->mode->report(flood);
}
