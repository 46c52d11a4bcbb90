/*
 * tls_pair.h: a session of TLS (src/http/tls.h) in a fiber, on one end of a pair of sockets with
 * small buffers; the test has the other end.
 */
#ifndef WEFT_TEST_HTTP_TLS_PAIR_H
#define WEFT_TEST_HTTP_TLS_PAIR_H

#include <signal.h>
#include <sys/socket.h>

#include "http/tls.h"
#include "seeds.h"
#include "tls_client.h"

static struct tls_keys *keys;

static inline weft_http_tls files(void)
{
    return (weft_http_tls){.certificate = in_folder("chain.pem"), .key = in_folder("key.pem")};
}

/* ---- the server's side ---- */

struct server {
    struct tls_keys *keys;
    int fd;
    struct tls *tls;
    int result; /* of the handshake, or of what `then` found */
    int waits;
    void (*then)(struct server *server);
    weft_fiber *fiber;
};

static inline void wait_for(struct server *server)
{
    int events = weft__http_tls_wants(server->tls);
    server->waits++;
    if (weft__http_tls_budget_spent(server->tls)) {
        weft__http_tls_budget_renew(server->tls);
        return;
    }
    CHECK(weft_fd_wait(server->fd, events, WEFT_NEVER) > 0);
}

static inline int64_t server_read(struct server *server, void *data, size_t size)
{
    int64_t got;
    while ((got = weft__http_tls_read(server->tls, data, size)) == -EAGAIN)
        wait_for(server);
    return got;
}

static inline void serve(void *arg)
{
    struct server *server = arg;
    server->tls = weft__http_tls_open(server->keys, server->fd);
    CHECK(server->tls != NULL);
    while ((server->result = weft__http_tls_handshake(server->tls)) == -EAGAIN)
        wait_for(server);
    CHECK_EQ(weft__http_tls_handshake(server->tls), server->result); /* the same result again */
    if (server->result == 0 && server->then != NULL)
        server->then(server);
    while (weft__http_tls_end(server->tls) == -EAGAIN)
        wait_for(server);
    weft__http_tls_close(server->tls);
    close(server->fd);
}

/* Starts a server with one end of a pair; gives the other. */
static inline int server_start(struct server *server, struct tls_keys *with,
                               void (*then)(struct server *))
{
    int ends[2], small = 4096;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    *server = (struct server){.keys = with, .fd = ends[0], .then = then};
    CHECK_EQ(weft_spawn(&server->fiber, serve, server, NULL), 0);
    return ends[1];
}

/* Starts a server; returns a client whose handshake with it is complete. */
static inline struct client pair_open(struct server *server, struct tls_keys *with,
                                      void (*then)(struct server *), struct client_options options)
{
    struct client client = client_open(clients, server_start(server, with, then), options);
    CHECK_EQ(client_handshake(&client), 0);
    return client;
}

static inline int server_result(struct server *server)
{
    CHECK_EQ(weft_join(server->fiber), 0);
    return server->result;
}

/* Gives back what comes, up to the end. */
static inline void echo(struct server *server)
{
    char data[1000];
    int64_t got;
    while ((got = server_read(server, data, sizeof data)) > 0) {
        for (int64_t done = 0; done < got;) {
            int64_t sent = weft__http_tls_write(server->tls, data + done, (size_t)(got - done));
            if (sent == -EAGAIN)
                wait_for(server);
            else
                CHECK(sent > 0);
            done += sent > 0 ? sent : 0;
        }
    }
    server->result = (int)got;
}

static inline void say_and_hear(struct client *client, const char *text)
{
    char heard[100];
    int size = (int)strlen(text);
    CHECK_EQ(client_write(client, text, size), size);
    client_read_all(client, heard, size);
    CHECK_EQ(memcmp(heard, text, (size_t)size), 0);
}

static inline void pair_begin(void)
{
    clients_begin();
    weft_http_tls options = files();
    CHECK_EQ(weft__http_tls_keys_open(&keys, &options), 0);
}

static inline void pair_end(void)
{
    weft__http_tls_keys_close(keys);
    clients_end();
}

#endif
