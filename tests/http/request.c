/*
 * request.c: what a handler reads of a request, whatever the pieces in which its head came.
 */
#include <weft/runtime.h>

#include "http.h"
#include "http/request.h"
#include "system.h"

/* Tells all it knows, a line for each. */
HANDLER(tell)
{
    const char *name, *value;
    CHECK_EQ(weft_http_printf(response, "%s %s %s ?%s %d\n", weft_http_method(request),
                              weft_http_path(request), weft_http_target(request),
                              weft_http_query(request), weft_http_version(request)),
             0);
    for (int i = 0; weft_http_header_at(request, i, &name, &value) == 0; i++)
        CHECK_EQ(weft_http_printf(response, "%s=%s\n", name, value), 0);
}

static void heads_are_told(void)
{
    static const struct {
        const char *request, *body;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / / ? 11\nHost=a\n"},
        {"GET /a%20b/./c?d=e&f HTTP/1.1\r\nhost:a\r\n\r\n",
         "GET /a b/c /a%20b/./c?d=e&f ?d=e&f 11\nhost=a\n"},
        {"POST /x? HTTP/1.1\r\nHost: \ta:80 \t\r\nEmpty:\r\n\r\n",
         "POST /x /x? ? 11\nHost=a:80\nEmpty=\n"},
        {"\r\nBREW /pot HTTP/1.1\r\nHost: a\r\nX-Y: \xc3\xa4 b\r\n\r\n",
         "BREW /pot /pot ? 11\nHost=a\nX-Y=\xc3\xa4 b\n"},
        {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * * ? 11\nHost=a\n"},
        {"GET http://a:1/b?c HTTP/1.1\r\nHost: a:1\r\n\r\n", "GET /b /b?c ?c 11\nHost=a:1\n"},
        {"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", "GET / / ? 11\nHost=a\n"},
        {"GET / HTTP/1.0\r\n\r\n", "GET / / ? 10\n"},
        {"GET /%2f%2F HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%2f%2F /%2f%2F ? 11\nHost=a\n"},
    };
    weft_http_server *server = serve(tell);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_ANSWER(ask(server, rows[i].request), 200, rows[i].body);
    }
    end(server);
}

static void heads_are_refused(void)
{
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET /../x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", 417},
        {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
    };
    weft_http_server *server = serve(tell);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct client client = client_asks(server, rows[i].request);
        struct answer answer = client_answer(&client);
        CHECK_EQ(answer.status, rows[i].status);
        CHECK_STR(answer_field(&answer, "Connection"), "close");
        CHECK(answer_field(&answer, "Date") != NULL);
        answer_free(&answer);
        client_end(&client);
    }
    CHECK_EQ(stats_of(server).bad, sizeof rows / sizeof rows[0]);
    CHECK_EQ(stats_of(server).requests, 0);
    end(server);
}

/* In two pieces, cut at each place; and byte by byte. */
static void heads_come_in_pieces(void)
{
    static const char request[] = "\r\nPUT /a/../b?c HTTP/1.1\r\nHost: a\r\nX: \t y z\r\n\r\n";
    static const char body[] = "PUT /b /a/../b?c ?c 11\nHost=a\nX=y z\n";
    weft_http_server *server = serve(tell);
    struct client client = client_open(server);
    for (size_t cut = 1; cut < sizeof request - 1; cut++) {
        int64_t reading = 0;
        client_send_bytes(&client, request, cut);
        AWAIT((reading = stats_of(server).reading) == 1);
        client_send_bytes(&client, request + cut, sizeof request - 1 - cut);
        EXPECT(&client, 200, body);
    }
    for (size_t i = 0; i < sizeof request - 1; i++)
        client_send_bytes(&client, request + i, 1);
    EXPECT(&client, 200, body);
    close_and_end(&client, server);
}

HANDLER(values)
{
    const char *name, *value;
    CHECK_STR(weft_http_header(request, "x-thing"), "first");
    CHECK_STR(weft_http_header(request, "X-THING"), "first");
    CHECK(weft_http_header(request, "X-Thin") == NULL);
    CHECK(weft_http_header(request, "") == NULL);
    CHECK(weft_http_header(request, NULL) == NULL);
    CHECK_EQ(weft_http_header_at(request, 2, &name, &value), 0);
    CHECK_STR(name, "X-Thing");
    CHECK_STR(value, "second");
    CHECK_EQ(weft_http_header_at(request, -1, &name, &value), -ENOENT);
    CHECK_EQ(weft_http_header_at(request, 3, &name, &value), -ENOENT);

    CHECK_STR(weft_http_query_value(request, "a"), "1");
    CHECK_STR(weft_http_query_value(request, "b c"), "d e\nf");
    CHECK_STR(weft_http_query_value(request, "empty"), "");
    CHECK_STR(weft_http_query_value(request, "alone"), "");
    CHECK_STR(weft_http_query_value(request, "odd"), "%zz%");
    CHECK_STR(weft_http_query_value(request, "equals"), "=x=");
    CHECK_STR(weft_http_query_value(request, "of%"), "escaped");
    CHECK_STR(weft_http_query_value(request, "%zz"), "kept");
    CHECK_STR(weft_http_query_value(request, "%4"), "short");
    CHECK_STR(weft_http_query_value(request, "%"), "alone");
    CHECK(weft_http_query_value(request, "@") == NULL);
    CHECK(weft_http_query_value(request, "of%25") == NULL);
    CHECK(weft_http_query_value(request, "absent") == NULL);
    CHECK(weft_http_query_value(request, "alon") == NULL);
    CHECK(weft_http_query_value(request, NULL) == NULL);

    CHECK(weft_http_param(request, "a") == NULL);
    CHECK(weft_http_trailer(request, "a") == NULL && weft_http_trailer(request, NULL) == NULL);
    CHECK_EQ(weft_http_content_length(request), 0);
    CHECK_EQ(weft_http_is_tls(request), 0);
    weft_address peer;
    char text[WEFT_ADDRESS_TEXT];
    weft_http_peer(request, &peer);
    CHECK_EQ(weft_address_format(&peer, text, sizeof text), 0);
    CHECK_EQ(weft_http_puts(response, text), 0);
}

static void values_are_found(void)
{
    weft_http_server *server = serve(values);
    struct client client =
        client_asks(server, "GET /?a=1&a=2&b+c=d%20e%0Af&empty=&alone&&odd=%zz%&equals==x="
                            "&%6Ff%25=escaped&%zz=kept&%4=short&%=alone HTTP/1.1\r\n"
                            "Host: a\r\nX-Thing: first\r\nX-Thing: second\r\n\r\n");
    struct sockaddr_in near = {0};
    socklen_t size = sizeof near;
    char text[64];
    CHECK(getsockname(client.fd, (struct sockaddr *)&near, &size) == 0);
    snprintf(text, sizeof text, "tcp:127.0.0.1:%d", ntohs(near.sin_port));
    EXPECT(&client, 200, text);
    close_and_end(&client, server);
}

HANDLER(long_value)
{
    const char *name = data;
    const char *value = weft_http_query_value(request, name);
    CHECK(value != NULL);
    CHECK_EQ(strlen(value), 5000);
    CHECK_EQ(weft_http_puts(response, "found"), 0);
}

static void names_and_values_may_be_long(void)
{
    char *name = text_of(2000, 'n'), *value = text_of(5000, 'v'), *request = NULL;
    weft_http_server *server = SERVE(.handler = long_value, .data = name);
    CHECK(asprintf(&request, "GET /?%s=%s HTTP/1.1\r\nHost: a\r\n\r\n", name, value) > 0);
    CHECK_ANSWER(ask(server, request), 200, "found");
    end(server);
    free(request);
    free(name);
    free(value);
}

/* As a router does: parts of the path, by name. */
HANDLER(show_params)
{
    const char *path = weft_http_path(request), *slash = strchr(path + 1, '/');
    char name[2] = "a";
    CHECK_EQ(weft__http_param_set(request, "user", "absent", 6), 0);
    CHECK_EQ(weft__http_param_set(request, "user", path + 1, (size_t)(slash - path) - 1), 0);
    CHECK_EQ(weft__http_param_set(request, "rest", slash, strlen(slash)), 0);
    CHECK_EQ(strlen(weft_http_param(request, "user")), 6000);
    CHECK_EQ(strlen(weft_http_param(request, "rest")), 7000);
    CHECK(weft_http_param(request, "other") == NULL && weft_http_param(request, NULL) == NULL);
    for (int i = 2; i < HTTP_PARAMS; i++) {
        static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                            "i", "j", "k", "l", "m", "n", "o", "p"};
        CHECK_EQ(weft__http_param_set(request, names[i], "x", 1), 0);
    }
    CHECK_EQ(weft__http_param_set(request, name, "x", 1), -ENOSPC);
    CHECK_EQ(weft_http_puts(response, "found"), 0);
}

static void params_of_long_paths(void)
{
    weft_http_server *server = serve(show_params);
    char *user = text_of(6000, 'u'), *rest = text_of(7000, '/'), *request = NULL;
    CHECK(asprintf(&request, "GET /%s%s HTTP/1.1\r\nHost: a\r\n\r\n", user, rest) > 0);
    struct client client = client_open(server);
    for (int i = 0; i < 3; i++) {
        ASK(&client, request, 200, "found");
    }
    close_and_end(&client, server);
    free(request);
    free(user);
    free(rest);
}

HANDLER(count_fields)
{
    const char *name, *value;
    int count = 0;
    while (weft_http_header_at(request, count, &name, &value) == 0)
        count++;
    CHECK_EQ(weft_http_printf(response, "%d %zu", count, strlen(weft_http_target(request))), 0);
}

/* A head of exactly `size` bytes with `fields` fields. */
static char *head_of(size_t size, int fields)
{
    char *head = text_of(size, 'x'), *at = head;
    at += sprintf(at, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 1; i < fields - 1; i++)
        at += sprintf(at, "A: %d\r\n", i);
    *(at + sprintf(at, "X: ")) = 'x';
    memcpy(head + size - 4, "\r\n\r\n", 4);
    return head;
}

static void heads_are_limited(void)
{
    static const struct {
        size_t size;
        int fields;
        int status;
    } rows[] = {
        {1024, 10, 200}, {1025, 10, 431}, {1023, 10, 200}, {1000, 11, 431},
        {4000, 2, 431},  {9000, 2, 431},  {1024, 2, 200},
    };
    weft_http_server *server = SERVE(.handler = count_fields, .max_header = 1024, .max_fields = 10);
    for (int way = 0; way < 2; way++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            char *head = head_of(rows[i].size, rows[i].fields);
            struct client client = client_open(server);
            for (size_t at = 0, piece; at < rows[i].size; at += piece) {
                piece = way == 0 || rows[i].size - at < 100 ? rows[i].size - at : 100;
                if (!client_try_send(&client, head + at, piece))
                    break;
            }
            struct answer answer = client_answer(&client);
            CHECK_EQ(answer.status, rows[i].status);
            if (rows[i].status == 431) {
                CHECK_STR(answer_field(&answer, "Connection"), "close");
                CHECK(client_at_end(&client));
            }
            answer_free(&answer);
            client_close(&client);
            free(head);
        }
    CHECK_EQ(stats_of(server).bad, 8);
    end(server);
}

/* As many, and as much, as can be allowed. */
static void heads_may_be_large(void)
{
    weft_http_server *server =
        SERVE(.handler = count_fields, .max_header = 1 << 20, .max_fields = 1000);
    char *head = head_of(1 << 20, 1000);
    struct client client = client_open(server);
    for (int i = 0; i < 3; i++) {
        ASK(&client, head, 200, "1000 1");
    }
    close_and_end(&client, server);
    free(head);
}

/* Without a request or a response there is nothing to say. */
static void nothing_is_no_request(void)
{
    weft_address address;
    const char *text;
    char *body, bytes[4] = "";
    size_t size;
    CHECK_EQ(weft_http_add(NULL, "a", "a"), -EINVAL);
    CHECK_EQ(weft_http_content_length(NULL), -EINVAL);
    CHECK_EQ(weft_http_error(NULL, 1, "a"), -EINVAL);
    CHECK_EQ(weft_http_event(NULL, "a", "a", "a"), -EINVAL);
    CHECK_EQ(weft_http_event_ping(NULL), -EINVAL);
    CHECK_EQ(weft_http_events(NULL), -EINVAL);
    CHECK_EQ(weft_http_flush(NULL), -EINVAL);
    CHECK(weft_http_header(NULL, "a") == NULL);
    CHECK_EQ(weft_http_header_at(NULL, 1, &text, &text), -EINVAL);
    CHECK_EQ(weft_http_is_tls(NULL), -EINVAL);
    weft_http_max_body(NULL, 1);
    CHECK(weft_http_method(NULL) == NULL);
    CHECK(weft_http_param(NULL, "a") == NULL);
    CHECK(weft_http_path(NULL) == NULL);
    weft_http_peer(NULL, &address);
    CHECK_EQ(weft_http_printf(NULL, "a"), -EINVAL);
    CHECK_EQ(weft_http_puts(NULL, "a"), -EINVAL);
    CHECK(weft_http_query(NULL) == NULL);
    CHECK(weft_http_query_value(NULL, "a") == NULL);
    CHECK_EQ(weft_http_read(NULL, bytes, 1), -EINVAL);
    CHECK_EQ(weft_http_read_all(NULL, &body, &size), -EINVAL);
    CHECK_EQ(weft_http_redirect(NULL, 1, "a"), -EINVAL);
    CHECK_EQ(weft_http_reply(NULL, 1, "a", bytes, 1), -EINVAL);
    CHECK_EQ(weft_http_send_file(NULL, 1, 1, 1), -EINVAL);
    CHECK_EQ(weft_http_sent(NULL), -EINVAL);
    CHECK_EQ(weft_http_set(NULL, "a", "a"), -EINVAL);
    CHECK_EQ(weft_http_set_trailer(NULL, "a", "a"), -EINVAL);
    CHECK_EQ(weft_http_setf(NULL, "a", "a"), -EINVAL);
    weft_http_status(NULL, 1);
    CHECK_EQ(weft_http_stream_read(NULL, bytes, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_http_stream_write(NULL, bytes, 1, WEFT_NOW), -EINVAL);
    CHECK(weft_http_target(NULL) == NULL);
    CHECK(weft_http_trailer(NULL, "a") == NULL);
    CHECK_EQ(weft_http_upgrade(NULL, "a"), -EINVAL);
    CHECK_EQ(weft_http_version(NULL), -EINVAL);
    CHECK_EQ(weft_http_write(NULL, bytes, 1), -EINVAL);
}

int main(void)
{
    RUN(heads_are_told);
    int before = open_descriptors();
    RUN(heads_are_refused);
    RUN(heads_come_in_pieces);
    RUN(values_are_found);
    RUN(names_and_values_may_be_long);
    RUN(params_of_long_paths);
    RUN(heads_are_limited);
    RUN(heads_may_be_large);
    RUN(nothing_is_no_request);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
