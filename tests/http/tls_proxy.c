/*
 * tls_proxy.c: the PROXY protocol in front of TLS.
 */
#include <signal.h>

#include "system.h"
#include "tls_server.h"

HANDLER(say_who)
{
    weft_address client;
    char text[WEFT_ADDRESS_TEXT];
    CHECK(weft_http_is_tls(request) != 0);
    weft_http_client(request, &client);
    CHECK_EQ(weft_address_format(&client, text, sizeof text), 0);
    (void)weft_http_puts(response, text);
}

static weft_http_server *serve_proxied(int64_t max_per_ip)
{
    weft_http_server *server;
    weft_http_options options = {
        .handler = say_who, .trusted_proxies = "127.0.0.1", .max_per_ip = max_per_ip};
    weft_http_tls tls = {.certificate = in_folder("chain.pem"), .key = in_folder("key.pem")};
    weft_http_listen_options how = {.tls = &tls, .proxy = 1};
    CHECK_EQ(weft_http_open(&server, &options), 0);
    CHECK_EQ(weft_http_listen_with(server, "tcp:127.0.0.1:0", &how), 0);
    return server;
}

static const char header[] = "PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n";

/* A client that sends the header in pieces of that size, and then speaks TLS. */
static struct client proxied(weft_http_server *server, size_t piece)
{
    size_t size = sizeof header - 1;
    int fd = dial(port_of(server));
    for (size_t at = 0; at < size; at += piece) {
        size_t part = size - at < piece ? size - at : piece;
        CHECK_EQ(send(fd, header + at, part, MSG_NOSIGNAL), part);
    }
    return client_open(clients, fd, ordinary);
}

static void proxy_comes_before_tls(void)
{
    weft_http_server *server = serve_proxied(0);
    for (size_t piece = 1; piece < 100; piece += 49) {
        char body[100];
        size_t size;
        struct client client = proxied(server, piece);
        CHECK_EQ(client_handshake(&client), 0);
        ask(&client, GET("/"));
        CHECK_EQ(response(&client, body, sizeof body - 1, &size), 200);
        body[size] = '\0';
        CHECK_STR(body, "tcp:192.0.2.1:40000");
        hang_up(&client, true);
    }
    end(server);
}

/* A client of TLS gets no answer before its handshake. */
static void who_has_too_many_is_closed(void)
{
    weft_http_server *server = serve_proxied(1);
    struct client first = proxied(server, sizeof header), second;
    CHECK_EQ(client_handshake(&first), 0);
    second = proxied(server, sizeof header);
    CHECK_EQ(client_handshake(&second), -1);
    AWAIT(stats_of(server).refused == 1);
    client_close(&second, false);
    close(second.fd);
    hang_up(&first, true);
    end(server);
}

static void without_a_header_there_is_no_handshake(void)
{
    weft_http_server *server = serve_proxied(0);
    struct client client = client_open(clients, dial(port_of(server)), ordinary);
    CHECK_EQ(client_handshake(&client), -1);
    AWAIT(stats_of(server).bad == 1);
    hang_up(&client, false);
    end(server);
}

int main(void)
{
    CHECK_EQ(weft_go((void (*)(void *))(uintptr_t)weft_yield, NULL), 0);
    clients_begin();
    int before = open_descriptors();
    RUN(proxy_comes_before_tls);
    RUN(who_has_too_many_is_closed);
    RUN(without_a_header_there_is_no_handshake);
    CHECK_EQ(open_descriptors(), before);
    clients_end();
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
