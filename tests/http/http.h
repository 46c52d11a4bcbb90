/*
 * http.h: what the tests of the server share: a server on loopback, and a client that sends bytes
 * as they are and reads whole responses.
 *
 * The client is the test's own thread with a blocking socket, without weft. Its waits have a
 * timeout that is far longer than anything tested; a test fails at it.
 */
#ifndef WEFT_TEST_HTTP_H
#define WEFT_TEST_HTTP_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <weft/http.h>

#include "server_end.h"

#define HOST "Host: a\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"
#define GET_CLOSE(path) "GET " path " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"

/* ---- the server ---- */

static inline int port_of(weft_http_server *server, int number)
{
    weft_address address;
    struct sockaddr_in ipv4;
    CHECK_EQ(weft_http_local(server, number, &address), 0);
    memcpy(&ipv4, address.bytes, sizeof ipv4); /* the port is at the same place in IPv6 */
    CHECK(ntohs(ipv4.sin_port) != 0);
    return ntohs(ipv4.sin_port);
}

static inline weft_http_server *serve_with(weft_http_options options)
{
    weft_http_server *server;
    CHECK_EQ(weft_http_open(&server, &options), 0);
    CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", NULL), 0);
    return server;
}

/* A server with options: SERVE(.handler = hello, .queue = 3). */
#define SERVE(...) serve_with((weft_http_options){__VA_ARGS__})

static inline weft_http_server *serve(weft_http_handler handler)
{
    return SERVE(.handler = handler);
}

/* ---- the client ---- */

struct client {
    int fd;
    char *bytes; /* that came and were not taken: from `at` on */
    size_t at, size, room;
    bool ended; /* no more will come */
};

struct answer {
    int status;
    char *head; /* the fields: "Name: value\r\n" */
    char *body;
    size_t size;
    char *trailer; /* the same, of a body in chunks; else "" */
    bool chunked;
    int chunks;
};

static inline struct client client_of(int fd)
{
    struct timeval timeout = {.tv_sec = 120};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0);
    return (struct client){.fd = fd};
}

static inline int dial_from(const char *from, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    CHECK(fd >= 0);
    if (from != NULL) {
        struct sockaddr_in near = {.sin_family = AF_INET};
        CHECK(inet_pton(AF_INET, from, &near.sin_addr) == 1);
        CHECK(bind(fd, (struct sockaddr *)&near, sizeof near) == 0);
    }
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    return fd;
}

/* With little room for what is received. */
static inline int dial_small(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 2048;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static inline struct client client_open(weft_http_server *server)
{
    return client_of(dial_from(NULL, port_of(server, 0)));
}

static inline void client_close(struct client *client)
{
    close(client->fd);
    free(client->bytes);
    *client = (struct client){.fd = -1};
}

/* False if the server has closed it. */
static inline bool client_try_send(struct client *client, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(client->fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
            return false;
        CHECK(sent > 0);
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static inline void client_send_bytes(struct client *client, const void *data, size_t size)
{
    CHECK(client_try_send(client, data, size));
}

static inline void client_send(struct client *client, const char *text)
{
    client_send_bytes(client, text, strlen(text));
}

static inline struct client client_asks(weft_http_server *server, const char *request)
{
    struct client client = client_open(server);
    client_send(&client, request);
    return client;
}

/* Gets more bytes; false at the end. */
static inline bool client_fill(struct client *client)
{
    if (client->ended)
        return false;
    if (client->room - client->size < 4096) {
        client->room = client->room * 2 + 8192;
        client->bytes = realloc(client->bytes, client->room + 1);
        CHECK(client->bytes != NULL);
    }
    ssize_t got;
    do
        got = recv(client->fd, client->bytes + client->size, client->room - client->size, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno != ECONNRESET)
        test_fail(__FILE__, __LINE__, "no answer: %s", strerror(errno));
    client->ended = got <= 0;
    client->size += got > 0 ? (size_t)got : 0;
    if (client->bytes != NULL)
        client->bytes[client->size] = '\0';
    return got > 0;
}

/* Whether the server has closed it, and nothing more has come. */
static inline bool client_at_end(struct client *client)
{
    while (client->at == client->size)
        if (!client_fill(client))
            return true;
    return false;
}

/* The server closes the connection, and sends nothing more before. */
static inline void client_end(struct client *client)
{
    CHECK(client_at_end(client));
    client_close(client);
}

static inline void close_and_end(struct client *client, weft_http_server *server)
{
    client_close(client);
    end(server);
}

/* So many bytes, as a text; NULL if the end comes before. */
static inline char *client_take(struct client *client, size_t size)
{
    while (client->size - client->at < size)
        if (!client_fill(client))
            return NULL;
    char *text = malloc(size + 1);
    CHECK(text != NULL);
    if (size > 0)
        memcpy(text, client->bytes + client->at, size);
    text[size] = '\0';
    client->at += size;
    if (client->at > 65536) {
        memmove(client->bytes, client->bytes + client->at, client->size - client->at);
        client->size -= client->at;
        client->at = 0;
        client->bytes[client->size] = '\0';
    }
    return text;
}

/* All up to a mark, with it; NULL if the end comes before. */
static inline char *client_take_to(struct client *client, const char *mark)
{
    for (;;) {
        if (client->size > client->at) {
            char *found =
                memmem(client->bytes + client->at, client->size - client->at, mark, strlen(mark));
            if (found != NULL)
                return client_take(client,
                                   (size_t)(found + strlen(mark) - client->bytes) - client->at);
        }
        if (!client_fill(client))
            return NULL;
    }
}

/* The value of a field in lines, until the next call; NULL. */
static inline const char *field_in(const char *lines, const char *name)
{
    static __thread char value[70000];
    size_t size = strlen(name);
    while (*lines != '\0') {
        const char *line_end = strstr(lines, "\r\n");
        if (line_end == NULL)
            return NULL;
        if (strncasecmp(lines, name, size) == 0 && lines[size] == ':') {
            const char *at = lines + size + 1;
            at += strspn(at, " ");
            CHECK((size_t)(line_end - at) < sizeof value);
            memcpy(value, at, (size_t)(line_end - at));
            value[line_end - at] = '\0';
            return value;
        }
        lines = line_end + 2;
    }
    return NULL;
}

static inline const char *answer_field(const struct answer *answer, const char *name)
{
    return field_in(answer->head, name);
}

static inline void answer_free(struct answer *answer)
{
    free(answer->head);
    free(answer->body);
    free(answer->trailer);
    *answer = (struct answer){0};
}

/* Chunks up to the last, and the trailer; false if the end comes before. */
static inline bool answer_chunks(struct client *client, struct answer *answer)
{
    answer->body = calloc(1, 1);
    for (;;) {
        char *line = client_take_to(client, "\r\n"), *rest;
        if (line == NULL)
            return false;
        size_t size = strtoul(line, &rest, 16);
        CHECK(rest > line && strcmp(rest, "\r\n") == 0);
        free(line);
        if (size == 0)
            break;
        char *chunk = client_take(client, size + 2);
        if (chunk == NULL)
            return false;
        CHECK(memcmp(chunk + size, "\r\n", 2) == 0);
        answer->body = realloc(answer->body, answer->size + size + 1);
        CHECK(answer->body != NULL);
        memcpy(answer->body + answer->size, chunk, size);
        answer->size += size;
        answer->body[answer->size] = '\0';
        answer->chunks++;
        free(chunk);
    }
    for (;;) {
        char *line = client_take_to(client, "\r\n");
        if (line == NULL)
            return false;
        bool last = strcmp(line, "\r\n") == 0;
        if (!last) {
            answer->trailer = realloc(answer->trailer, strlen(answer->trailer) + strlen(line) + 1);
            CHECK(answer->trailer != NULL);
            strcat(answer->trailer, line);
        }
        free(line);
        if (last)
            return true;
    }
}

static inline bool answer_until_end(struct client *client, struct answer *answer)
{
    while (client_fill(client))
        ;
    answer->size = client->size - client->at;
    answer->body = client_take(client, answer->size);
    return true;
}

/* The head of the next response; false if the connection ends instead. */
static inline bool client_head(struct client *client, struct answer *answer)
{
    *answer = (struct answer){0};
    char *line = client_take_to(client, "\r\n");
    if (line == NULL)
        return false;
    CHECK(strlen(line) > 14);
    CHECK(strncmp(line, "HTTP/1.1 ", 9) == 0 && strchr(line + 9, ' ') == line + 12);
    answer->status = atoi(line + 9);
    free(line);
    answer->trailer = calloc(1, 1);
    answer->head = calloc(1, 1);
    CHECK(answer->trailer != NULL && answer->head != NULL);
    for (;;) {
        line = client_take_to(client, "\r\n");
        if (line == NULL)
            return false;
        if (strcmp(line, "\r\n") == 0)
            break;
        CHECK(strchr(line, ':') != NULL);
        answer->head = realloc(answer->head, strlen(answer->head) + strlen(line) + 1);
        CHECK(answer->head != NULL);
        strcat(answer->head, line);
        free(line);
    }
    free(line);
    return true;
}

/* What follows the head; `empty`: nothing does, since it is the response to HEAD. False if the
 * connection ends before. */
static inline bool client_rest(struct client *client, struct answer *answer, bool empty)
{
    const char *coding = answer_field(answer, "Transfer-Encoding");
    answer->chunked = coding != NULL;
    if (coding != NULL)
        CHECK_STR(coding, "chunked");
    const char *length = answer_field(answer, "Content-Length");
    CHECK(coding == NULL || length == NULL);
    if (empty || answer->status == 204 || answer->status == 304 || answer->status < 200) {
        answer->body = calloc(1, 1);
        return true;
    }
    if (answer->chunked)
        return answer_chunks(client, answer);
    if (length == NULL)
        return answer_until_end(client, answer);
    answer->size = strtoul(length, NULL, 10);
    answer->body = client_take(client, answer->size);
    return answer->body != NULL;
}

/* The next response, whole. */
static inline bool client_try_answer(struct client *client, struct answer *answer, bool empty)
{
    return client_head(client, answer) && client_rest(client, answer, empty);
}

static inline struct answer client_answer(struct client *client)
{
    struct answer answer;
    if (!client_try_answer(client, &answer, false))
        test_fail(__FILE__, __LINE__, "the connection ended before the answer did");
    return answer;
}

/* The next response has that status, and that body if it is not NULL. */
#define EXPECT(client, status, body) client_expect(__FILE__, __LINE__, client, status, body)

static inline void client_expect(const char *file, int line, struct client *client, int status,
                                 const char *body)
{
    struct answer answer;
    if (!client_try_answer(client, &answer, false))
        test_fail(file, line, "the connection ended before the answer did");
    if (answer.status != status)
        test_fail(file, line, "status %d, not %d: %s", answer.status, status, answer.body);
    if (body != NULL)
        test_check_str(file, line, "the answer", "expected", answer.body, body);
    answer_free(&answer);
}

/* Sends a request, and expects a response as above. */
#define ASK(client, request, status, body) \
    (client_send(client, request), client_expect(__FILE__, __LINE__, client, status, body))

/* A response has that status, that body if it is not NULL, and those fields: {"Name", "value"}, or
 * {"Name", NULL} for none. Frees it. */
#define CHECK_ANSWER(answer, status, body, ...)                 \
    answer_check(__FILE__, __LINE__, answer, status, body,      \
                 (const char *const[][2]){{NULL}, __VA_ARGS__}, \
                 sizeof((const char *const[][2]){{NULL}, __VA_ARGS__}) / sizeof(char *[2]))

static inline void answer_check(const char *file, int line, struct answer answer, int status,
                                const char *body, const char *const fields[][2], size_t count)
{
    if (answer.status != status)
        test_fail(file, line, "status %d, not %d: %s", answer.status, status, answer.body);
    if (body != NULL)
        test_check_str(file, line, "the answer", "expected", answer.body, body);
    for (size_t i = 1; i < count; i++)
        test_check_str(file, line, fields[i][0], "expected", answer_field(&answer, fields[i][0]),
                       fields[i][1]);
    answer_free(&answer);
}

/* Says that nothing more is sent. */
static inline void client_half_close(struct client *client)
{
    CHECK(shutdown(client->fd, SHUT_WR) == 0);
}

/* Asks on a connection of its own, and sees it closed. */
static inline struct answer ask(weft_http_server *server, const char *request)
{
    struct client client = client_open(server);
    client_send(&client, request);
    struct answer answer = client_answer(&client);
    client_half_close(&client);
    CHECK(client_at_end(&client));
    client_close(&client);
    return answer;
}

/* Asks for a path, on a connection that is kept. `version`: of HTTP/1. */
static inline struct answer fetch(struct client *client, const char *method, const char *path,
                                  int version)
{
    char request[200];
    struct answer answer;
    snprintf(request, sizeof request, "%s %s HTTP/1.%d\r\nHost: a\r\n%s\r\n", method, path, version,
             version == 0 ? "Connection: keep-alive\r\n" : "");
    client_send(client, request);
    CHECK(client_try_answer(client, &answer, strcmp(method, "HEAD") == 0));
    return answer;
}

/* A text of one character. */
static inline char *text_of(size_t size, char character)
{
    char *text = malloc(size + 1);
    CHECK(text != NULL);
    memset(text, character, size);
    text[size] = '\0';
    return text;
}

/* Whether nothing comes now: no answer, no end. */
static inline bool client_is_quiet(struct client *client)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    return client->at == client->size && poll(&poll_fd, 1, 0) == 0;
}

#endif
