/*
 * send.c: the body of a response: collected while it is small, framed and sent as it grows.
 *
 * Until the head is committed, `out` has the body alone. After that, with a length or until the close, bytes are just bytes; in chunks, what is collected becomes a chunk when it is sent. Large pieces are
 * not copied: they go out together with what was collected, in one call.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/fiber.h>

#include "http/exchange.h"

static int send_pieces(struct exchange *exchange, struct iovec *pieces, int count)
{
    weft_http_response *response = &exchange->response;
    int error = weft__http_connection_send(exchange->connection, pieces, count,
                                           exchange->server->options.write_timeout);
    if (error != 0) {
        response->error = error;
        exchange->keep = false;
    }
    return error;
}

int weft__http_response_flush(struct exchange *exchange)
{
    struct iovec piece = {exchange->out, exchange->out_size};
    exchange->body_at = exchange->out_size = 0;
    return piece.iov_len > 0 ? send_pieces(exchange, &piece, 1) : 0;
}

static bool has_body(const weft_http_response *response)
{
    return response->framing != FRAMING_NONE && !weft__http_is_head(response);
}

/* What is not sent cannot fail: a handler that goes on until its client is gone would never end. So, once the head is out,
 * it is told what the door knows; and others get their turn, the door among them. */
static int not_sent(const struct exchange *exchange)
{
    if (exchange->body_at > 0)
        return 0;
    weft_yield();
    /* First the end: a connection that is cut off has ended too, but only after `cut` was set. */
    bool ended = atomic_u32_load_acquire(&exchange->connection->ended) != 0;
    if (atomic_u32_load_relaxed(&exchange->server->cut) != 0)
        return -ECANCELED;
    return ended ? -EPIPE : 0;
}

/* Sends all that is collected, and `data` behind it; the head is committed. */
static int send_body(struct exchange *exchange, const void *data, size_t size)
{
    weft_http_response *response = &exchange->response;
    size_t collected = exchange->out_size - exchange->body_at;
    char line[20], end[] = "\r\n";
    bool chunk = response->framing == FRAMING_CHUNKED && collected + size > 0;
    int line_size = chunk ? snprintf(line, sizeof line, "%zx\r\n", collected + size) : 0;
    struct iovec pieces[5] = {
        {exchange->out, exchange->body_at},
        {line, (size_t)line_size},
        {exchange->out + exchange->body_at, collected},
        {NULL, size},
        {end, chunk ? 2 : 0},
    };
    memcpy(&pieces[3].iov_base, &data, sizeof data); /* only read from */
    exchange->body_at = exchange->out_size = 0;
    return send_pieces(exchange, pieces, 5);
}

/* Whether so many more bytes may be sent. */
static int account(weft_http_response *response, size_t size)
{
    if (response->error != 0)
        return response->error;
    if (response->upgraded)
        return -EINVAL;
    if (response->length >= 0 && (int64_t)size > response->length - response->sent_body)
        return -EMSGSIZE;
    response->sent_body += (int64_t)size;
    return 0;
}

int weft_http_write(weft_http_response *response, const void *data, size_t size)
{
    if (response == NULL)
        return -EINVAL;
    struct exchange *exchange = exchange_of_response(response);
    if (data == NULL && size > 0)
        return -EINVAL;
    int error = account(response, size);
    if (error != 0)
        return error;
    if (size == 0)
        return 0;
    if (response->sent && !has_body(response))
        return not_sent(exchange);
    if (size <= HTTP_OUT - exchange->out_size) {
        memcpy(exchange->out + exchange->out_size, data, size);
        exchange->out_size += size;
        return 0;
    }
    if (!response->sent) {
        error = weft__http_response_commit(exchange, false);
        if (error != 0)
            return error;
        if (!has_body(response)) {
            exchange->out_size = exchange->body_at;
            return weft__http_response_flush(exchange);
        }
    }
    return send_body(exchange, data, size);
}

int weft_http_puts(weft_http_response *response, const char *text)
{
    if (response == NULL)
        return -EINVAL;
    return text != NULL ? weft_http_write(response, text, strlen(text)) : -EINVAL;
}

int weft_http_printf(weft_http_response *response, const char *format, ...)
{
    if (response == NULL)
        return -EINVAL;
    char text[1024], *longer = NULL;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int error, size = vsnprintf(text, sizeof text, format, arguments);
    if (size < 0) {
        error = -EINVAL;
    } else if ((size_t)size < sizeof text) {
        error = weft_http_write(response, text, (size_t)size);
    } else if ((longer = weft__http_allocate((size_t)size + 1)) == NULL) {
        error = -ENOMEM;
    } else {
        (void)vsnprintf(longer, (size_t)size + 1, format, again);
        error = weft_http_write(response, longer, (size_t)size);
    }
    weft__http_free(longer);
    va_end(again);
    va_end(arguments);
    return error;
}

int weft_http_flush(weft_http_response *response)
{
    if (response == NULL)
        return -EINVAL;
    struct exchange *exchange = exchange_of_response(response);
    if (response->error != 0)
        return response->error;
    if (!response->sent) {
        int error = weft__http_response_commit(exchange, false);
        if (error != 0)
            return error;
    }
    if (has_body(response))
        return send_body(exchange, NULL, 0);
    exchange->out_size = exchange->body_at;
    int error = send_body(exchange, NULL, 0);
    return error != 0 ? error : not_sent(exchange);
}

/* Files. */

/* Through memory: where the kernel cannot send by itself. */
static int copy_file(struct exchange *exchange, int file, int64_t offset, int64_t size)
{
    while (size > 0) {
        size_t most = size < HTTP_OUT ? (size_t)size : HTTP_OUT;
        int64_t got = weft__http_read_file(file, exchange->out, most, offset);
        if (got <= 0)
            return got == 0 ? -EIO : (int)got;
        struct iovec piece = {exchange->out, (size_t)got};
        int error = send_pieces(exchange, &piece, 1);
        if (error != 0)
            return error;
        offset += got;
        size -= got;
    }
    return 0;
}

static int send_file(struct exchange *exchange, int file, int64_t offset, int64_t size)
{
    struct connection *connection = exchange->connection;
    if (connection->tls != NULL)
        return copy_file(exchange, file, offset, size);
    while (size > 0) {
        size_t most = size < (1 << 30) ? (size_t)size : (size_t)1 << 30;
        int64_t sent = weft__http_send_from_file(connection->fd, file, offset, most);
        if (sent == -EAGAIN) {
            int error = weft__http_connection_wait(
                connection, WEFT_WRITABLE, weft_after(exchange->server->options.write_timeout));
            if (error != 0)
                return error;
            continue;
        }
        if (sent == -EINVAL || sent == -ENOSYS) /* not a file that it can map */
            return copy_file(exchange, file, offset, size);
        if (sent <= 0)
            return sent == 0 ? -EIO : (int)sent;
        offset += sent;
        size -= sent;
    }
    return 0;
}

int weft_http_send_file(weft_http_response *response, int file, int64_t offset, int64_t size)
{
    if (response == NULL)
        return -EINVAL;
    struct exchange *exchange = exchange_of_response(response);
    char line[24], end[] = "\r\n";
    if (file < 0 || offset < 0 || size < 0)
        return -EINVAL;
    /* Of no bytes: whether it can be read from at all, while the handler can still answer otherwise. */
    int64_t readable = response->sent ? 0 : weft__http_read_file(file, line, 0, offset);
    if (readable < 0)
        return (int)readable;
    int error = account(response, (size_t)size);
    if (error == 0 && !response->sent) {
        if (response->length < 0 && response->sent_body == size && response->trailers_size == 0)
            response->length =
                size; /* the handler could have said so; more than this is -EMSGSIZE */
        error = weft__http_response_commit(exchange, false);
    }
    if (error != 0)
        return error;
    if (!has_body(response))
        return weft_http_flush(response);
    error = send_body(exchange, NULL, 0);
    bool chunk = response->framing == FRAMING_CHUNKED && size > 0;
    struct iovec piece = {line, 0};
    if (error == 0 && chunk) {
        piece.iov_len = (size_t)snprintf(line, sizeof line, "%llx\r\n", (unsigned long long)size);
        error = send_pieces(exchange, &piece, 1);
    }
    if (error == 0)
        error = send_file(exchange, file, offset, size);
    if (error == 0 && chunk) {
        piece = (struct iovec){end, 2};
        error = send_pieces(exchange, &piece, 1);
    }
    if (error !=
        0) { /* what was announced did not come: only the end of the connection can say so */
        response->error = error;
        exchange->keep = false;
    }
    return error;
}

/* The end. */

static void end_chunks(struct exchange *exchange)
{
    static const char last[] = "0\r\n";
    weft_http_response *response = &exchange->response;
    if (exchange->out_size > exchange->body_at && send_body(exchange, NULL, 0) != 0)
        return;
    size_t size = sizeof last - 1 + response->trailers_size + 2;
    if (size > HTTP_OUT - exchange->out_size) {
        struct iovec pieces[4] = {{exchange->out, exchange->out_size},
                                  {(char[]){'0', '\r', '\n'}, 3},
                                  {response->trailers, response->trailers_size},
                                  {(char[]){'\r', '\n'}, 2}};
        exchange->out_size = exchange->body_at = 0;
        (void)!send_pieces(exchange, pieces, 4);
        return;
    }
    char *to = exchange->out + exchange->out_size;
    memcpy(to, last, 3);
    if (response->trailers_size > 0)
        memcpy(to + 3, response->trailers, response->trailers_size);
    memcpy(to + 3 + response->trailers_size, "\r\n", 2);
    exchange->out_size += size;
}

/* A handler that could not go on and has answered nothing leaves that to the server. */
static void refuse_unanswered(struct exchange *exchange)
{
    weft_http_response *response = &exchange->response;
    int status = weft__http_body_status(&exchange->request);
    if (status == 0 && response->crowded != 0) {
        status = response->crowded;
        (void)weft_http_setf(response, "Retry-After", "%d", exchange->server->options.retry_after);
    }
    if (status != 0 && !response->sent && response->sent_body == 0 && response->status == 200)
        (void)weft_http_error(response, status, NULL);
}

void weft__http_response_end(struct exchange *exchange)
{
    weft_http_response *response = &exchange->response;
    if (response->error != 0)
        return;
    if (response->upgraded) {
        exchange->keep = false;
        response->error = -ESHUTDOWN; /* nothing of HTTP follows: the end that was meant */
        return;
    }
    refuse_unanswered(exchange);
    if (!response->sent && weft__http_response_commit(exchange, true) != 0)
        return;
    if (!has_body(response)) {
        exchange->out_size = exchange->body_at;
    } else if (response->framing == FRAMING_CHUNKED) {
        end_chunks(exchange);
        return;
    } else if (response->framing == FRAMING_LENGTH && response->sent_body < response->length) {
        exchange->keep = false;
        response->error = -EMSGSIZE; /* the client sees that it was cut off */
    }
}

/* Whole responses. */

int weft_http_reply(weft_http_response *response, int status, const char *content_type,
                    const void *data, size_t size)
{
    if (response == NULL)
        return -EINVAL;
    if (response->sent)
        return -EBUSY;
    if ((data == NULL && size > 0) || !is_status(status))
        return -EINVAL;
    weft_http_status(response, status);
    if (content_type != NULL) {
        int error = weft_http_set(response, "Content-Type", content_type);
        if (error != 0)
            return error;
    }
    if (response->sent_body == 0 && response->length < 0 && response->trailers_size == 0 &&
        status != 204 && status != 304) {
        /* The length is known: the head can go first, and the body need not be moved. */
        response->length = (int64_t)size;
        int error = weft__http_response_commit(exchange_of_response(response), true);
        if (error != 0)
            return error;
    }
    return weft_http_write(response, data, size);
}

/* What was meant for another answer goes: its length and encoding are not those of the text, and half of it is no use. */
static void start_over(weft_http_response *response)
{
    exchange_of_response(response)->out_size = 0;
    response->sent_body = 0;
    response->length = -1;
    weft__http_unset(response, "Content-Encoding");
}

int weft_http_error(weft_http_response *response, int status, const char *detail)
{
    if (response == NULL)
        return -EINVAL;
    char text[512];
    if (response->sent)
        return -EBUSY;
    if (!is_status(status)) /* an errno value, say: whatever it is, it is not 200 */
        status = 500;
    start_over(response);
    const char *words = weft_http_status_text(status);
    int size = snprintf(text, sizeof text, detail != NULL ? "%d %s: %s\n" : "%d %s\n", status,
                        words, detail != NULL ? detail : "");
    if ((size_t)size >= sizeof text)
        size = sizeof text - 1;
    return weft_http_reply(response, status, "text/plain; charset=utf-8", text, (size_t)size);
}

int weft_http_redirect(weft_http_response *response, int status, const char *location)
{
    if (response == NULL)
        return -EINVAL;
    if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308)
        return -EINVAL;
    int error = weft_http_set(response, "Location", location);
    return error != 0 ? error : weft_http_error(response, status, NULL);
}
