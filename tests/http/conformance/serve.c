/*
 * serve.c: the server that the clients of conformance.sh ask. It writes its port, and serves until
 * its stdin ends.
 *
 *   /hello          hello
 *   /echo           the body, as it comes in; the method in X-Method
 *   /size?n=        so many bytes, of which the length is known
 *   /chunked?n=     so many, in chunks
 *   /limited        takes a body of 100 bytes at most
 *   /unread         takes none
 *   /fields         the header fields, a line for each
 *   /trailer        in chunks, with the trailer X-Sum; says what the request's trailer X-After is
 *   /status?code=   that status
 *   /connections    how many were accepted
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/http.h>
#include <weft/http_router.h>

static weft_http_server *server;

static void hello(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)request;
    (void)data;
    (void)weft_http_reply(response, 200, "text/plain", "hello\n", 6);
}

static void echo(weft_http_request *request, weft_http_response *response, void *data)
{
    char piece[16384];
    int64_t got;
    (void)data;
    (void)weft_http_set(response, "X-Method", weft_http_method(request));
    (void)weft_http_set(response, "Content-Type", "application/octet-stream");
    while ((got = weft_http_read(request, piece, sizeof piece)) > 0)
        if (weft_http_write(response, piece, (size_t)got) != 0)
            return;
}

/* "0123...": in pieces; what a client compares with. */
static void numbers(weft_http_request *request, weft_http_response *response, void *data)
{
    const char *value = weft_http_query_value(request, "n");
    int64_t left = value != NULL ? strtoll(value, NULL, 10) : 0;
    char piece[1000];
    for (size_t i = 0; i < sizeof piece; i++)
        piece[i] = (char)('0' + i % 10);
    if (data != NULL)
        (void)weft_http_setf(response, "Content-Length", "%lld", (long long)left);
    else
        (void)weft_http_flush(response);
    for (; left > 0; left -= (int64_t)sizeof piece)
        if (weft_http_write(response, piece,
                            left < (int64_t)sizeof piece ? (size_t)left : sizeof piece) != 0)
            return;
}

static void limited(weft_http_request *request, weft_http_response *response, void *data)
{
    char *body;
    size_t size;
    (void)data;
    weft_http_max_body(request, 100);
    if (weft_http_read_all(request, &body, &size) == 0)
        (void)weft_http_reply(response, 200, "text/plain", body, size);
}

static void unread(weft_http_request *request, weft_http_response *response, void *data)
{
    (void)request;
    (void)data;
    (void)weft_http_reply(response, 200, "text/plain", "unread\n", 7);
}

static void fields(weft_http_request *request, weft_http_response *response, void *data)
{
    const char *name, *value;
    (void)data;
    for (int i = 0; weft_http_header_at(request, i, &name, &value) == 0; i++)
        (void)weft_http_printf(response, "%s: %s\n", name, value);
}

static void trailer(weft_http_request *request, weft_http_response *response, void *data)
{
    char *body;
    size_t size;
    (void)data;
    if (weft_http_read_all(request, &body, &size) != 0)
        return;
    (void)weft_http_set_trailer(response, "X-Sum", "42");
    const char *after = weft_http_trailer(request, "X-After");
    (void)weft_http_printf(response, "%s %zu\n", after != NULL ? after : "-", size);
}

static void status(weft_http_request *request, weft_http_response *response, void *data)
{
    const char *value = weft_http_query_value(request, "code");
    (void)data;
    (void)weft_http_error(response, value != NULL ? atoi(value) : 400, NULL);
}

static void connections(weft_http_request *request, weft_http_response *response, void *data)
{
    weft_http_stats stats;
    (void)request;
    (void)data;
    if (weft_http_stats_get(server, &stats) == 0)
        (void)weft_http_printf(response, "%lld\n", (long long)stats.accepted);
}

static int add(weft_http_router *router, const char *path, weft_http_handler handler, void *data)
{
    return weft_http_route(router, NULL, path, handler, data);
}

int main(void)
{
    static int known;
    weft_http_router *router;
    char byte, text[WEFT_ADDRESS_TEXT];
    weft_address address;
    if (weft_http_router_open(&router) != 0 || add(router, "/hello", hello, NULL) != 0 ||
        add(router, "/echo", echo, NULL) != 0 || add(router, "/size", numbers, &known) != 0 ||
        add(router, "/chunked", numbers, NULL) != 0 ||
        add(router, "/limited", limited, NULL) != 0 || add(router, "/unread", unread, NULL) != 0 ||
        add(router, "/fields", fields, NULL) != 0 || add(router, "/trailer", trailer, NULL) != 0 ||
        add(router, "/status", status, NULL) != 0 ||
        add(router, "/connections", connections, NULL) != 0)
        return 1;
    weft_http_options options = {
        .handler = weft_http_router_serve, .data = router, .max_body = 256 << 20};
    if (weft_http_open(&server, &options) != 0 ||
        weft_http_listen(server, "tcp:127.0.0.1:0", NULL) != 0 ||
        weft_http_local(server, 0, &address) != 0 ||
        weft_address_format(&address, text, sizeof text) != 0)
        return 1;
    printf("%s\n", strrchr(text, ':') + 1);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    int error = weft_http_stop(server, weft_after(10 * WEFT_S));
    weft_http_close(server);
    weft_http_router_close(router);
    return error != 0;
}
