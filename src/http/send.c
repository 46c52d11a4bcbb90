/*
 * send.c: the body of a response: collected while it is small, framed and sent as it grows.
 *
 * Until the head is committed, `out` has the body alone. After that it has the head, and body
 * behind it that is not framed yet. With a length, or until the close, the bytes go out as they
 * are; chunked, what is collected becomes a chunk when it is sent. A large piece is not copied: it
 * goes out together with what was collected, in one call.
 *
 * The tail. If a body is complete but the client does not take all of it now, the handler need not
 * wait: the rest is copied (up to TAIL_MAX), a file's descriptor duplicated, and sent when the
 * handler has returned.
 *
 * A client that takes everything at once would keep the processor: after SEND_TURN bytes without a
 * wait other fibers go first. A yield is not enough, since the pool begins no task behind one that
 * does not park.
 */
#include "http/send.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/fiber.h>

#include "http/body.h"
#include "http/exchange.h"
#include "http/lend.h"
#include "http/sys.h"

enum {
    SEND_TURN = 256 * 1024,
    /* Bytes of a tail in memory, and of all tails of a server. */
    TAIL_MAX = 1 << 20,
    TAILS_MAX = 64 << 20,
};

/* Waits until the client has taken some of what was sent; lends the worker's place meanwhile. */
static int wait_for_client(struct exchange *exchange)
{
    const weft_http_options *options = &exchange->server->options;
    weft_http_response *response = &exchange->response;
    int64_t silent = weft_after(options->write_timeout);
    int64_t slow = weft_after(weft__http_wait_allowance(options->min_send_rate, options->rate_grace,
                                                        response->waited, response->transferred));
    response->burst = 0;
    return weft__http_lend_while_waiting(exchange, WEFT_WRITABLE, slow < silent ? slow : silent,
                                         &response->waited);
}

static void yield_after_turn(weft_http_response *response, size_t size)
{
    response->burst += size;
    if (response->burst < SEND_TURN)
        return;
    response->burst = 0;
    (void)weft_sleep(1); /* if it was cancelled the next wait returns the error */
}

static void count_sent(weft_http_response *response, size_t size)
{
    if (response->waited > 0)
        response->transferred += (int64_t)size;
    yield_after_turn(response, size);
}

/* Sends what goes without waiting: 0, -EAGAIN or an error. */
static int push(struct exchange *exchange, struct iovec **pieces, int *count)
{
    size_t sent = 0;
    int error = weft__http_connection_push(exchange->connection, pieces, count, &sent);
    count_sent(&exchange->response, sent);
    return error;
}

int weft__http_response_send(struct exchange *exchange, struct iovec *pieces, int count)
{
    int error;
    while ((error = push(exchange, &pieces, &count)) == -EAGAIN)
        if ((error = wait_for_client(exchange)) != 0)
            break;
    return error;
}

/* An error of sending ends the response. */
static int note_error(struct exchange *exchange, int error)
{
    if (error != 0) {
        exchange->response.error = error;
        exchange->keep = false;
    }
    return error;
}

/* ---- the tail ---- */

/* Whether the body is complete, so that what the client does not take now can be the tail. */
static bool may_be_tail(const struct exchange *exchange)
{
    const weft_http_response *response = &exchange->response;
    return !exchange->finishing && !exchange->flushing && response->framing == FRAMING_LENGTH &&
           response->sent_body == response->length;
}

/* Copies the pieces to the tail. Returns false if they are too large. */
static bool add_bytes_to_tail(struct exchange *exchange, const struct iovec *pieces, int count)
{
    struct tail *tail = &exchange->response.tail;
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += pieces[i].iov_len;
    if (size > TAIL_MAX || tail->bytes != NULL)
        return false;
    int64_t kept = atomic_i64_add_relaxed(&exchange->server->tail_bytes, (int64_t)size);
    char *bytes = kept + (int64_t)size <= TAILS_MAX ? weft__http_allocate(size + 1) : NULL;
    if (bytes == NULL) {
        (void)atomic_i64_add_relaxed(&exchange->server->tail_bytes, -(int64_t)size);
        return false;
    }
    tail->bytes = bytes;
    tail->size = size;
    for (int i = 0; i < count; bytes += pieces[i++].iov_len)
        if (pieces[i].iov_len > 0)
            memcpy(bytes, pieces[i].iov_base, pieces[i].iov_len);
    return true;
}

/* Puts the rest of a file behind the bytes of the tail. Returns false if that is not possible. */
static bool add_file_to_tail(struct exchange *exchange, int file, int64_t offset, int64_t left)
{
    struct tail *tail = &exchange->response.tail;
    int own = left > 0 && may_be_tail(exchange) ? weft__http_duplicate(file) : -1;
    if (own < 0)
        return false;
    tail->file = own;
    tail->offset = offset;
    tail->left = left;
    return true;
}

static void free_tail_bytes(struct exchange *exchange)
{
    struct tail *tail = &exchange->response.tail;
    if (tail->bytes != NULL)
        (void)atomic_i64_add_relaxed(&exchange->server->tail_bytes, -(int64_t)tail->size);
    weft__http_free(tail->bytes);
    tail->bytes = NULL;
}

void weft__http_tail_free(struct exchange *exchange)
{
    struct tail *tail = &exchange->response.tail;
    free_tail_bytes(exchange);
    if (tail->left > 0)
        weft__http_close_fd(tail->file);
    tail->left = 0;
}

static int send_file(struct exchange *exchange, int file, int64_t offset, int64_t size);

/* Sends the tail and waits for the client; called by the handler, or when it has returned. */
static int send_tail(struct exchange *exchange)
{
    struct tail tail = exchange->response.tail;
    struct iovec piece = {tail.bytes, tail.size};
    if (tail.bytes == NULL && tail.left == 0)
        return 0;
    must(!exchange->flushing && exchange->out_size == 0);
    exchange->flushing = true;
    int error = tail.bytes != NULL ? weft__http_response_send(exchange, &piece, 1) : 0;
    free_tail_bytes(exchange);
    if (error == 0 && tail.left > 0)
        error = send_file(exchange, tail.file, tail.offset, tail.left);
    exchange->flushing = false;
    weft__http_tail_free(exchange);
    return note_error(exchange, error);
}

/* Sends all pieces. If they are the end of the body, what the client does not take now becomes the
 * tail. */
static int send_pieces(struct exchange *exchange, struct iovec *pieces, int count)
{
    int error;
    while ((error = push(exchange, &pieces, &count)) == -EAGAIN) {
        if (may_be_tail(exchange) && add_bytes_to_tail(exchange, pieces, count))
            return 0;
        if ((error = wait_for_client(exchange)) != 0)
            break;
    }
    return note_error(exchange, error);
}

int weft__http_response_flush(struct exchange *exchange)
{
    int error = send_tail(exchange);
    struct iovec piece = {exchange->out, exchange->out_size};
    exchange->body_at = exchange->out_size = 0;
    return error == 0 && piece.iov_len > 0 ? send_pieces(exchange, &piece, 1) : error;
}

static bool has_body(const weft_http_response *response)
{
    return response->framing != FRAMING_NONE && !weft__http_is_head(response);
}

/* Accounts for bytes that are not sent, as in an answer to HEAD. Dropping them cannot fail, but a
 * handler that writes until its client is gone must end. So, once the head is out, the result is
 * what the acceptor knows of the client; and other fibers go first as in count_sent. Each call
 * counts as CALL_SIZE bytes more, since a flush has no bytes. */
static int not_sent(struct exchange *exchange, size_t size)
{
    enum { CALL_SIZE = 4096 };
    if (exchange->body_at > 0)
        return 0;
    yield_after_turn(&exchange->response, size + CALL_SIZE);
    /* `ended` is read first: a connection that is cut off has ended too, but after `cut` was
     * set. */
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

/* Counts bytes of the body. Returns an error if they may not be sent. */
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
        return not_sent(exchange, size);
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
    if (has_body(response)) {
        int error = send_tail(exchange);
        return error == 0 ? send_body(exchange, NULL, 0) : error;
    }
    exchange->out_size = exchange->body_at;
    int error = send_body(exchange, NULL, 0);
    return error != 0 ? error : not_sent(exchange, 0);
}

/* ---- files ---- */

/* Sends through memory, where the kernel cannot send from the file. */
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
        if (exchange->response.tail.bytes == NULL || size == 0)
            continue;
        /* The client takes no more now, and the piece is the tail: the file must follow it
         * there. */
        if (add_file_to_tail(exchange, file, offset, size))
            return 0;
        error = send_tail(exchange);
        if (error != 0)
            return error;
    }
    return 0;
}

static int send_file(struct exchange *exchange, int file, int64_t offset, int64_t size)
{
    struct connection *connection = exchange->connection;
    if (exchange->response.tail.bytes != NULL && add_file_to_tail(exchange, file, offset, size))
        return 0;
    int error = exchange->flushing ? 0 : send_tail(exchange);
    if (error != 0)
        return error;
    if (connection->tls != NULL)
        return copy_file(exchange, file, offset, size);
    while (size > 0) {
        size_t most = size < SEND_TURN ? (size_t)size : SEND_TURN;
        int64_t sent = weft__http_send_from_file(connection->fd, file, offset, most);
        if (sent == -EAGAIN) {
            if (add_file_to_tail(exchange, file, offset, size))
                return 0;
            error = wait_for_client(exchange);
            if (error != 0)
                return error;
            continue;
        }
        if (sent == -EINVAL || sent == -ENOSYS) /* no file that sendfile can read from */
            return copy_file(exchange, file, offset, size);
        if (sent <= 0)
            return sent == 0 ? -EIO : (int)sent;
        count_sent(&exchange->response, (size_t)sent);
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
    /* A read of no bytes: whether the file can be read at all, while the handler can still give
     * another answer. */
    int64_t readable = response->sent ? 0 : weft__http_read_file(file, line, 0, offset);
    if (readable < 0)
        return (int)readable;
    int error = account(response, (size_t)size);
    if (error == 0 && !response->sent) {
        if (response->length < 0 && response->sent_body == size && response->trailers_size == 0)
            response->length = size; /* as if the handler had set it; more is -EMSGSIZE */
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
    if (error != 0) { /* the body is cut off: the end of the connection shows it */
        response->error = error;
        exchange->keep = false;
    }
    return error;
}

/* ---- the end ---- */

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

/* If the handler could not go on and has answered nothing, the server does. */
static void refuse_unanswered(struct exchange *exchange)
{
    weft_http_response *response = &exchange->response;
    int status = weft__http_body_status(&exchange->request);
    if (status == 0 && response->stream_refusal != 0) {
        status = response->stream_refusal;
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
        response->error = -ESHUTDOWN; /* no HTTP follows: the intended end */
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
        response->error = -EMSGSIZE; /* the client sees that the body was cut off */
    }
}

/* ---- whole responses ---- */

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
        /* The length is known: the head goes first, and the body need not be moved. */
        response->length = (int64_t)size;
        int error = weft__http_response_commit(exchange_of_response(response), true);
        if (error != 0)
            return error;
    }
    return weft_http_write(response, data, size);
}

/* Drops what was collected for another answer: its length and encoding are not those of the error
 * text. */
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
    if (!is_status(status)) /* an errno value, perhaps */
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
