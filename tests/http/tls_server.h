/*
 * tls_server.h: a server that listens with TLS on loopback, and clients of it (tls_client.h).
 */
#ifndef WEFT_TEST_HTTP_TLS_SERVER_H
#define WEFT_TEST_HTTP_TLS_SERVER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <weft/http.h>
#include <weft/weft.h>

#include "server_end.h"
#include "tls_client.h"

/* ---- the server ---- */

/* Without a time for anything that is not given: a slow machine is no slow client. */
static inline weft_http_server *serve_tls_at(const char *address, weft_http_options options)
{
    weft_http_server *server;
    weft_http_tls tls = {.certificate = in_folder("chain.pem"), .key = in_folder("key.pem")};
    int64_t *timeouts[] = {&options.header_timeout, &options.idle_timeout, &options.body_timeout,
                           &options.write_timeout};
    for (int i = 0; i < 4; i++)
        if (*timeouts[i] == 0)
            *timeouts[i] = 600 * WEFT_S;
    CHECK_EQ(weft_http_open(&server, &options), 0);
    CHECK_EQ(weft_http_listen_tls(server, address, &(weft_net_options){.send_buffer = 4096}, &tls),
             0);
    return server;
}

static inline int port_of(weft_http_server *server)
{
    weft_address address;
    CHECK_EQ(weft_http_local(server, 0, &address), 0);
    return weft_address_port(&address);
}

static inline weft_http_server *serve_tls(weft_http_options options, int *port)
{
    weft_http_server *server = serve_tls_at("tcp:127.0.0.1:0", options);
    *port = port_of(server);
    return server;
}

/* ---- clients ---- */

static inline int dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static inline struct client connected(int port, struct client_options options)
{
    struct client client = client_open(clients, dial(port), options);
    CHECK_EQ(client_handshake(&client), 0);
    return client;
}

static inline void ask(struct client *client, const char *request)
{
    CHECK_EQ(client_write(client, request, (int)strlen(request)), strlen(request));
}

/* Reads a response with a length: its head byte by byte, so that what follows stays. Its status;
 * the body's first bytes. */
static inline int response(struct client *client, char *body, size_t room, size_t *size)
{
    char head[2000];
    size_t used = 0;
    while (used < 4 || memcmp(head + used - 4, "\r\n\r\n", 4) != 0) {
        CHECK(used + 1 < sizeof head);
        int got = client_read(client, head + used, 1);
        CHECK_EQ(got, 1);
        used++;
    }
    head[used] = '\0';
    const char *length = strstr(head, "Content-Length: ");
    CHECK(length != NULL);
    *size = strtoul(length + 16, NULL, 10);
    CHECK(*size <= room);
    client_read_all(client, body, (int)*size);
    return (int)strtol(head + 9, NULL, 10);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"

static inline void expect_hello(struct client *client)
{
    char body[100];
    size_t size;
    CHECK_EQ(response(client, body, sizeof body, &size), 200);
    CHECK(size == 5 && memcmp(body, "hello", 5) == 0);
}

static inline void ask_hello(struct client *client)
{
    ask(client, GET("/hello"));
    expect_hello(client);
}

#endif
