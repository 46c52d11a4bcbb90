/*
 * ask.h: a server on loopback, and a client of plain sockets that sends a request as text and takes
 * the response apart.
 */
#ifndef WEFT_TEST_HTTP_ASK_H
#define WEFT_TEST_HTTP_ASK_H

#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include <weft/http.h>

#include "handler.h"
#include "test.h"

enum { ANSWER_MOST = 1 << 21 };

struct answer {
    int status;
    char *head; /* its lines, with a zero behind them */
    const char *body;
    size_t size;
    char bytes[ANSWER_MOST];
};

static weft_http_server *asked;
static struct sockaddr_in asked_at;

static inline void serve_begin(weft_http_handler handler, void *data)
{
    weft_http_options options = {.handler = handler, .data = data};
    weft_address address;
    char text[WEFT_ADDRESS_TEXT];
    CHECK_EQ(weft_http_open(&asked, &options), 0);
    CHECK_EQ(weft_http_listen(asked, "tcp:127.0.0.1:0", NULL), 0);
    CHECK_EQ(weft_http_local(asked, 0, &address), 0);
    CHECK_EQ(weft_address_format(&address, text, sizeof text), 0);
    asked_at =
        (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtol(strrchr(text, ':') + 1, NULL, 10)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline void serve_end(void)
{
    weft_http_close(asked);
}

/* Takes apart what was read; false if that is no response. */
static inline bool take_apart(struct answer *answer, size_t size)
{
    answer->bytes[size] = '\0';
    char *end = strstr(answer->bytes, "\r\n\r\n");
    if (end == NULL || strncmp(answer->bytes, "HTTP/1.1 ", 9) != 0)
        return false;
    answer->status = (int)strtol(answer->bytes + 9, NULL, 10);
    end[2] = '\0';
    answer->head = answer->bytes;
    answer->body = end + 4;
    answer->size = size - (size_t)(answer->body - answer->bytes);
    return true;
}

/* Sends a request as it is, and reads until the server closes; false if there was no response. */
static inline bool ask_raw(struct answer *answer, const char *request)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&asked_at, sizeof asked_at), 0);
    CHECK_EQ(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    size_t size = 0;
    ssize_t got;
    while ((got = recv(fd, answer->bytes + size, ANSWER_MOST - 1 - size, 0)) > 0)
        size += (size_t)got;
    CHECK(got == 0 || errno == ECONNRESET);
    close(fd);
    return take_apart(answer, size);
}

/* Asks for a target with further fields, each with its end of line. The answer is there until the
 * next call. */
static inline struct answer *ask(const char *method, const char *target, const char *fields)
{
    static struct answer answer;
    static char request[65536];
    int size = snprintf(request, sizeof request,
                        "%s %s HTTP/1.1\r\nHost: test\r\n%sConnection: close\r\n\r\n", method,
                        target, fields);
    CHECK(size > 0 && (size_t)size < sizeof request);
    if (!ask_raw(&answer, request))
        test_fail(__FILE__, __LINE__, "no response to %s", request);
    return &answer;
}

/* The value of a field; "" if there is none. */
static inline const char *field_of(const struct answer *answer, const char *name)
{
    static char value[4096];
    size_t length = strlen(name);
    const char *line = strstr(answer->head, "\r\n") + 2;
    value[0] = '\0';
    for (; *line != '\0'; line = strstr(line, "\r\n") + 2) {
        if (strncasecmp(line, name, length) != 0 || line[length] != ':')
            continue;
        CHECK_STR(value, ""); /* no field twice */
        size_t size = strcspn(line, "\r");
        CHECK(size < sizeof value);
        memcpy(value, line + length + 2, size - length - 2);
        value[size - length - 2] = '\0';
    }
    return value;
}

#endif
