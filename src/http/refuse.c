/*
 * refuse.c: refusals that are sent without a worker: for malformed heads, and for what exceeds a
 * limit.
 *
 * A refusal is sent as far as it goes without waiting. A client that does not take a few hundred
 * bytes of its first answer gets no more of it.
 */
#include "http/refuse.h"

#include <stdio.h>
#include <string.h>

#include "http/date.h"
#include "http/server.h"
#include "http/sys.h"
#include "http/tls.h"

/* Writes the whole answer. Returns its size. */
static int make(const weft_http_server *server, int status, bool close, bool head, char *text,
                size_t size)
{
    const char *words = weft_http_status_text(status);
    char date[HTTP_DATE], retry[40] = "";
    weft__http_date(weft__http_seconds(), date);
    if (status == 503 || status == 429)
        (void)snprintf(retry, sizeof retry, "Retry-After: %d\r\n", server->options.retry_after);
    int used = snprintf(text, size,
                        "HTTP/1.1 %d %s\r\nDate: %s\r\n%s%sContent-Type: text/plain\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        status, words, date, retry, close ? "Connection: close\r\n" : "",
                        strlen(words) + 5);
    if (!head)
        used += snprintf(text + used, size - (size_t)used, "%d %s\n", status, words);
    return used;
}

bool weft__http_refuse(struct connection *connection, int status, bool close, bool head)
{
    char text[400];
    int size = make(connection->acceptor->server, status, close, head, text, sizeof text);
    struct iovec piece = {text, (size_t)size};
    must(connection->stage == STAGE_REQUESTS);
    int64_t sent = connection->tls != NULL
                       ? weft__http_tls_write(connection->tls, text, (size_t)size)
                       : weft__http_send(connection->fd, &piece, 1);
    return sent == size;
}

void weft__http_refuse_and_linger(struct connection *connection, int status, bool head)
{
    (void)weft__http_refuse(connection, status, true, head);
    weft__http_connection_linger(connection);
}

void weft__http_refuse_plain(struct connection *connection)
{
    static const char line[] = "400 Bad Request: TLS is spoken here, use https\n";
    char text[400], date[HTTP_DATE];
    weft__http_date(weft__http_seconds(), date);
    int size = snprintf(text, sizeof text,
                        "HTTP/1.1 400 Bad Request\r\nDate: %s\r\nConnection: close\r\n"
                        "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
                        date, sizeof line - 1, line);
    struct iovec piece = {text, (size_t)size};
    (void)!weft__http_send(connection->fd, &piece, 1);
    weft__http_connection_linger(connection);
}

void weft__http_refuse_socket(weft_http_server *server, int fd, bool tls)
{
    char text[400], rest[4096];
    if (!tls) {
        struct iovec piece = {text, (size_t)make(server, 503, true, false, text, sizeof text)};
        (void)!weft__http_send(fd, &piece, 1);
        weft__http_end_sending(fd);
        /* A close with unread bytes makes the kernel send a reset, which may overtake the
         * answer. */
        (void)!weft__http_receive(fd, rest, sizeof rest);
    }
    weft__http_close_fd(fd);
}
