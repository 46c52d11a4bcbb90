/*
 * response.c: heads, bodies and their framing.
 */
#include <wchar.h>

#include <weft/runtime.h>

#include "http.h"
#include "system.h"

/* ---- framing ---- */

/* /whole /flushed /long /length /nothing /created, by the path. */
HANDLER(framed)
{
    const char *path = weft_http_path(request);
    static char large[40000];
    memset(large, 'l', sizeof large);
    if (strcmp(path, "/whole") == 0) {
        CHECK_EQ(weft_http_puts(response, "who"), 0);
        CHECK_EQ(weft_http_sent(response), 0);
        CHECK_EQ(weft_http_puts(response, "le"), 0);
    } else if (strcmp(path, "/flushed") == 0) {
        CHECK_EQ(weft_http_puts(response, "flu"), 0);
        CHECK_EQ(weft_http_flush(response), 0);
        CHECK_EQ(weft_http_sent(response), 1);
        CHECK_EQ(weft_http_set(response, "X", "y"), -EBUSY);
        weft_http_status(response, 500);
        CHECK_EQ(weft_http_flush(response), 0);
        CHECK_EQ(weft_http_puts(response, "shed"), 0);
    } else if (strcmp(path, "/long") == 0) {
        CHECK_EQ(weft_http_puts(response, "x"), 0);
        CHECK_EQ(weft_http_write(response, large, sizeof large), 0);
        CHECK_EQ(weft_http_write(response, large, 10), 0);
    } else if (strcmp(path, "/length") == 0) {
        CHECK_EQ(weft_http_set(response, "Content-Length", "6"), 0);
        CHECK_EQ(weft_http_puts(response, "len"), 0);
        CHECK_EQ(weft_http_flush(response), 0);
        CHECK_EQ(weft_http_puts(response, "gth!"), -EMSGSIZE);
        CHECK_EQ(weft_http_puts(response, "gth"), 0);
    } else if (strcmp(path, "/204") == 0) {
        weft_http_status(response, 204);
        CHECK_EQ(weft_http_puts(response, "ignored"), 0);
    } else if (strcmp(path, "/304") == 0) {
        weft_http_status(response, 304);
        CHECK_EQ(weft_http_set(response, "ETag", "\"a\""), 0);
        CHECK_EQ(weft_http_write(response, large, sizeof large), 0);
    } else if (strcmp(path, "/empty-reply") == 0) {
        CHECK_EQ(weft_http_reply(response, 201, NULL, NULL, 0), 0);
    }
}

static void framing_is_chosen(void)
{
    static const struct {
        const char *path;
        int version, status;
        const char *length; /* NULL: none */
        bool chunked, closes;
        size_t size;
    } rows[] = {
        {"/whole", 1, 200, "5", false, false, 5},       {"/whole", 0, 200, "5", false, false, 5},
        {"/flushed", 1, 200, NULL, true, false, 7},     {"/flushed", 0, 200, NULL, false, true, 7},
        {"/long", 1, 200, NULL, true, false, 40011},    {"/long", 0, 200, NULL, false, true, 40011},
        {"/length", 1, 200, "6", false, false, 6},      {"/length", 0, 200, "6", false, false, 6},
        {"/nothing", 1, 200, "0", false, false, 0},     {"/204", 1, 204, NULL, false, false, 0},
        {"/204", 0, 204, NULL, false, false, 0},        {"/304", 1, 304, NULL, false, false, 0},
        {"/empty-reply", 1, 201, "0", false, false, 0},
    };
    weft_http_server *server = serve(framed);
    for (int head = 0; head < 2; head++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            struct client client = client_open(server);
            struct answer answer =
                fetch(&client, head ? "HEAD" : "GET", rows[i].path, rows[i].version);
            CHECK_EQ(answer.status, rows[i].status);
            CHECK_EQ(answer.chunked, rows[i].chunked);
            CHECK_STR(answer_field(&answer, "Content-Length"), rows[i].length);
            CHECK_EQ(answer.size, head ? 0 : rows[i].size);
            CHECK(answer_field(&answer, "Date") != NULL);
            CHECK(answer_field(&answer, "Server") == NULL);
            const char *connection = answer_field(&answer, "Connection");
            if (rows[i].closes) {
                CHECK_STR(connection, "close");
                CHECK(client_at_end(&client));
            } else {
                CHECK_STR(connection, rows[i].version == 0 ? "keep-alive" : NULL);
                answer_free(&answer);
                answer = fetch(&client, "GET", "/whole", 1);
                CHECK_STR(answer.body, "whole");
            }
            answer_free(&answer);
            client_close(&client);
        }
    end(server);
}

/* Of every size around those of buffers, in pieces of several sizes: what arrives is what was
 * written. */
static size_t body_size, piece_size;

HANDLER(counted)
{
    static __thread char piece[100000];
    for (size_t at = 0, size; at < body_size; at += size) {
        size = body_size - at < piece_size ? body_size - at : piece_size;
        for (size_t i = 0; i < size; i++)
            piece[i] = (char)((at + i) % 251);
        CHECK_EQ(weft_http_write(response, piece, size), 0);
    }
}

static void check_counted(struct client *client, const char *request)
{
    client_send(client, request);
    struct answer answer = client_answer(client);
    CHECK_EQ(answer.status, 200);
    CHECK_EQ(answer.size, body_size);
    for (size_t i = 0; i < body_size; i++)
        if ((uint8_t)answer.body[i] != i % 251)
            test_fail(__FILE__, __LINE__, "byte %zu of %zu is another", i, body_size);
    answer_free(&answer);
}

static void bodies_of_all_sizes(void)
{
    static const size_t pieces[] = {1, 100, 4096, 16384, 50000};
    weft_http_server *server = serve(counted);
    struct client client = client_open(server);
    for (size_t p = 0; p < 5; p++) {
        piece_size = pieces[p];
        for (int64_t i = 0; i < test_scale(300); i++) {
            body_size = (size_t)(i < 20 ? i : 15800 + i * 4);
            check_counted(&client, GET("/"));
        }
    }
    piece_size = 100000;
    body_size = (size_t)test_scale(20000000);
    check_counted(&client, GET("/"));
    check_counted(&client, "GET / HTTP/1.0\r\n\r\n");
    close_and_end(&client, server);
}

/* What printf cannot print. */
#define NO_CHARACTER ((wint_t)0x7ffffffe)

HANDLER(printed)
{
    char *text = text_of(5000, 'p');
    CHECK_EQ(weft_http_printf(response, "%d %s", 1, "a"), 0);
    CHECK_EQ(weft_http_printf(response, "%s", text), 0);
    CHECK_EQ(weft_http_printf(response, "no %lc", NO_CHARACTER), -EINVAL);
    CHECK_EQ(weft_http_setf(response, "X", "no %lc", NO_CHARACTER), -EINVAL);
    CHECK_EQ(weft_http_puts(response, NULL), -EINVAL);
    CHECK_EQ(weft_http_write(response, NULL, 1), -EINVAL);
    CHECK_EQ(weft_http_write(response, NULL, 0), 0);
    free(text);
}

static void long_texts_are_printed(void)
{
    weft_http_server *server = serve(printed);
    struct answer answer = ask(server, GET("/"));
    CHECK_EQ(answer.size, 5003);
    CHECK(answer_field(&answer, "X") == NULL);
    answer_free(&answer);
    end(server);
}

/* ---- fields ---- */

HANDLER(fields)
{
    static const char *const forbidden[][2] = {
        {"Transfer-Encoding", "chunked"},
        {"Connection", "keep-alive"},
        {"Upgrade", "x"},
        {"Keep-Alive", "timeout=5"},
        {"Trailer", "X"},
        {"transfer-encoding", "x"},
        {"X", "a\r\nSet-Cookie: b"},
        {"X", "a\nb"},
        {"X", "a\rb"},
        {"X", "a\x01"},
        {"X", "a\x7f"},
        {"X\r\nY", "a"},
        {"X Y", "a"},
        {"X:", "a"},
        {"", "a"},
        {"Content-Length", "-1"},
        {"Content-Length", ""},
        {"Content-Length", "1, 1"},
        {"Content-Length", "0x1"},
        {"Content-Length", "99999999999999999999"},
    };
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        CHECK_EQ(weft_http_set(response, forbidden[i][0], forbidden[i][1]), -EINVAL);
        CHECK_EQ(weft_http_add(response, forbidden[i][0], forbidden[i][1]), -EINVAL);
    }
    CHECK_EQ(weft_http_set(response, NULL, "a"), -EINVAL);
    CHECK_EQ(weft_http_set(response, "X", NULL), -EINVAL);
    CHECK_EQ(weft_http_setf(response, "X", "%s", "a\r\nb"), -EINVAL);
    CHECK_EQ(weft_http_redirect(response, 302, "/a\r\nX: y"), -EINVAL);
    CHECK_EQ(weft_http_redirect(response, 200, "/a"), -EINVAL);
    CHECK_EQ(weft_http_add(response, "Set-Cookie", "a=1"), 0);
    CHECK_EQ(weft_http_add(response, "set-cookie", "b=2"), 0);
    CHECK_EQ(weft_http_set(response, "X-One", "1"), 0);
    CHECK_EQ(weft_http_set(response, "X-Two", "2"), 0);
    CHECK_EQ(weft_http_set(response, "X-Three", "3"), 0);
    CHECK_EQ(weft_http_set(response, "x-two", "zwei"), 0);
    CHECK_EQ(weft_http_set(response, "X-Empty", ""), 0);
    CHECK_EQ(weft_http_set(response, "X-Tab", "a\tb"), 0);
    CHECK_EQ(weft_http_setf(response, "X-Number", "%070000d", 42), -EMSGSIZE);
    CHECK_EQ(weft_http_setf(response, "X-Number", "%05000d", 42), 0);
    CHECK_EQ(weft_http_setf(response, "X-Number", "%d", 42), 0);
    CHECK_EQ(weft_http_set(response, "Date", "never"), 0);
    CHECK_EQ(weft_http_set(response, "Server", "mine"), 0);
    CHECK_EQ(weft_http_set(response, "Content-Length", "7"), 0);
    CHECK_EQ(weft_http_set(response, "Content-Length", "2"), 0);
    weft_http_status(response, 99);
    weft_http_status(response, 199);
    weft_http_status(response, 1000);
    weft_http_status(response, 299);
    CHECK_EQ(weft_http_puts(response, "ok"), 0);
}

static void fields_are_set(void)
{
    weft_http_server *server = SERVE(.handler = fields, .name = "weft");
    struct answer answer = ask(server, GET("/"));
    CHECK_EQ(answer.status, 299);
    CHECK_STR(answer.head, "Set-Cookie: a=1\r\nset-cookie: b=2\r\nX-One: 1\r\nX-Three: 3\r\n"
                           "x-two: zwei\r\nX-Empty: \r\nX-Tab: a\tb\r\nX-Number: 42\r\n"
                           "Date: never\r\nServer: mine\r\nContent-Length: 2\r\n");
    CHECK_STR(answer.body, "ok");
    answer_free(&answer);
    end(server);

    server = SERVE(.handler = framed, .name = "weft");
    CHECK_ANSWER(ask(server, GET("/whole")), 200, NULL, {"Server", "weft"});
    end(server);
}

HANDLER(closing)
{
    CHECK_EQ(weft_http_set(response, "Connection", "Close"), 0);
    CHECK_EQ(weft_http_puts(response, "bye"), 0);
}

static void handlers_may_close(void)
{
    weft_http_server *server = serve(closing);
    struct client client = client_asks(server, GET("/") GET("/"));
    CHECK_ANSWER(client_answer(&client), 200, "bye", {"Connection", "close"});
    client_end(&client);
    end(server);
}

/* Heads from what fits anywhere to all that is allowed, before bodies that are collected. */
HANDLER(large_head)
{
    size_t fields_size = strtoul(weft_http_query_value(request, "head"), NULL, 10);
    size_t size = strtoul(weft_http_query_value(request, "body"), NULL, 10);
    char *value = text_of(1000 - strlen("X: \r\n"), 'v'), *body = text_of(size, 'b');
    for (size_t i = 0; i < fields_size / 1000; i++)
        CHECK_EQ(weft_http_add(response, "X", value), 0);
    if (fields_size == 65000) {
        CHECK_EQ(weft_http_add(response, "X", value), -EMSGSIZE);
        CHECK_EQ(weft_http_add(response, "Y", "small"), 0);
    }
    CHECK_EQ(weft_http_write(response, body, size), 0);
    free(value);
    free(body);
}

static void large_heads(void)
{
    static const int heads[] = {0, 1000, 2000, 8000, 15000, 16000, 17000, 40000, 65000};
    static const int bodies[] = {0, 1, 500, 1000, 15000, 15900, 16384, 16385, 60000};
    weft_http_server *server = serve(large_head);
    struct client client = client_open(server);
    for (size_t h = 0; h < 9; h++)
        for (size_t b = 0; b < 9; b++)
            for (int head = 0; head < 2; head++) {
                char path[100];
                snprintf(path, sizeof path, "/?head=%d&body=%d", heads[h], bodies[b]);
                struct answer answer = fetch(&client, head ? "HEAD" : "GET", path, 1);
                CHECK_EQ(answer.status, 200);
                CHECK_EQ(answer.size, head ? 0 : bodies[b]);
                CHECK(strlen(answer.head) >= (size_t)heads[h]);
                CHECK(strspn(answer.body, "b") == answer.size);
                answer_free(&answer);
            }
    close_and_end(&client, server);
}

/* ---- lengths that are not kept ---- */

HANDLER(short_of)
{
    CHECK_EQ(weft_http_set(response, "Content-Length", "10"), 0);
    CHECK_EQ(weft_http_puts(response, "12345"), 0);
    if (weft_http_query(request)[0] != '\0')
        CHECK_EQ(weft_http_flush(response), 0);
}

static void short_bodies_end_the_connection(void)
{
    weft_http_server *server = serve(short_of);
    for (int i = 0; i < 2; i++) {
        struct client client = client_open(server);
        struct answer answer;
        client_send(&client, i == 0 ? GET("/") : GET("/?flush"));
        CHECK(!client_try_answer(&client, &answer, false));
        CHECK_EQ(client.size - client.at, i == 0 ? 0 : 5);
        answer_free(&answer);
        client_close(&client);
    }
    end(server);
}

/* What was written already counts: a length below that would be a lie. */
HANDLER(late_length)
{
    CHECK_EQ(weft_http_puts(response, "12345"), 0);
    CHECK_EQ(weft_http_set(response, "Content-Length", "3"), -EMSGSIZE);
    CHECK_EQ(weft_http_set(response, "Content-Length", "5"), 0);
    CHECK_EQ(weft_http_puts(response, "6"), -EMSGSIZE);
}

static void lengths_that_come_late(void)
{
    weft_http_server *server = serve(late_length);
    struct client client = client_open(server);
    for (int i = 0; i < 2; i++) {
        ASK(&client, GET("/"), 200, "12345");
    }
    close_and_end(&client, server);
}

/* ---- trailers ---- */

HANDLER(trailing)
{
    CHECK_EQ(weft_http_set_trailer(response, "X-Sum", "42"), 0);
    CHECK_EQ(weft_http_set_trailer(response, "X-B", "b"), 0);
    CHECK_EQ(weft_http_set_trailer(response, "Content-Length", "1"), -EINVAL);
    CHECK_EQ(weft_http_set_trailer(response, "X", "a\r\nb"), -EINVAL);
    CHECK_EQ(weft_http_set_trailer(response, NULL, "a"), -EINVAL);
    CHECK_EQ(weft_http_set_trailer(response, "X", NULL), -EINVAL);
    CHECK_EQ(weft_http_set_trailer(response, "X Y", "a"), -EINVAL);
    CHECK_EQ(weft_http_puts(response, "body"), 0);
    if (weft_http_query(request)[0] != '\0') {
        char *value = text_of(30000, 't');
        CHECK_EQ(weft_http_flush(response), 0);
        CHECK_EQ(weft_http_set_trailer(response, "X-Late", value), 0);
        CHECK_EQ(weft_http_set_trailer(response, "X-Later", value), 0);
        CHECK_EQ(weft_http_set_trailer(response, "X-Latest", value), -EMSGSIZE);
        free(value);
    }
}

static void trailers_are_sent_to_clients_that_accept_them(void)
{
    weft_http_server *server = serve(trailing);
    struct client client = client_asks(server, GET("/"));
    struct answer answer = client_answer(&client);
    CHECK_STR(answer.trailer, "");
    CHECK(!answer.chunked);
    CHECK_STR(answer.body, "body");
    answer_free(&answer);
    client_send(&client, "GET / HTTP/1.1\r\nHost: a\r\nTE: gzip, trailers\r\n\r\n");
    answer = client_answer(&client);
    CHECK_STR(answer.body, "body");
    CHECK_STR(answer_field(&answer, "Trailer"), "X-Sum, X-B");
    CHECK_STR(answer.trailer, "X-Sum: 42\r\nX-B: b\r\n");
    answer_free(&answer);
    client_send(&client, "GET /?more HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
    answer = client_answer(&client);
    CHECK_STR(field_in(answer.trailer, "X-Sum"), "42");
    CHECK_EQ(strlen(field_in(answer.trailer, "X-Late")), 30000);
    CHECK_EQ(strlen(field_in(answer.trailer, "X-Later")), 30000);
    CHECK(field_in(answer.trailer, "X-Latest") == NULL);
    answer_free(&answer);
    close_and_end(&client, server);
}

/* By its path: more names than are announced; a length, behind which nothing can come; a reply that
 * is not all. */
HANDLER(trailing_otherwise)
{
    const char *path = weft_http_path(request);
    char name[32];
    for (int i = 0; i < (strcmp(path, "/many") == 0 ? 20 : 1); i++) {
        snprintf(name, sizeof name, "X-Number-%02d", i);
        CHECK_EQ(weft_http_set_trailer(response, name, "t"), 0);
    }
    if (strcmp(path, "/length") == 0)
        CHECK_EQ(weft_http_set(response, "Content-Length", "4"), 0);
    CHECK_EQ(weft_http_reply(response, 201, NULL, "body", 4), 0);
}

static void trailers_are_announced_as_far_as_they_fit(void)
{
    static const char *const paths[] = {"/many", "/length", "/reply"};
    weft_http_server *server = serve(trailing_otherwise);
    struct client client = client_open(server);
    for (int i = 0; i < 3; i++) {
        char request[200];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "TE: trailers\r\n\r\n",
                 paths[i]);
        client_send(&client, request);
        struct answer answer = client_answer(&client);
        CHECK_EQ(answer.status, 201);
        CHECK_STR(answer.body, "body");
        CHECK_EQ(answer.chunked, i != 1);
        const char *announced = answer_field(&answer, "Trailer");
        if (i == 0) { /* whole names, as many as there is room for */
            CHECK(strlen(announced) <= 128 && strlen(announced) > 100);
            CHECK_EQ((strlen(announced) + 2) % strlen("X-Number-00, "), 0);
            CHECK_STR(field_in(answer.trailer, "X-Number-19"), "t");
        } else {
            CHECK_STR(announced, i == 1 ? NULL : "X-Number-00");
            CHECK_STR(answer.trailer, i == 1 ? "" : "X-Number-00: t\r\n");
        }
        answer_free(&answer);
    }
    close_and_end(&client, server);
}

int main(void)
{
    RUN(framing_is_chosen);
    int before = open_descriptors();
    RUN(bodies_of_all_sizes);
    RUN(long_texts_are_printed);
    RUN(fields_are_set);
    RUN(handlers_may_close);
    RUN(large_heads);
    RUN(short_bodies_end_the_connection);
    RUN(lengths_that_come_late);
    RUN(trailers_are_sent_to_clients_that_accept_them);
    RUN(trailers_are_announced_as_far_as_they_fit);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
