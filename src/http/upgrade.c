/*
 * upgrade.c: streams: handlers that go on until the client or the server ends them.
 *
 * A stream is a series of events (events.c), or a connection that was upgraded: it stops speaking
 * HTTP with 101, and has bytes in both directions after that. A stream is bound to a context that a
 * stop of the server cancels, and lends its place among max_workers (lend.c).
 *
 * A client that always has sent or taken what the handler asks for would keep the processor: after
 * STREAM_TURN bytes without a wait other fibers go first. Each call counts as CALL_SIZE bytes more,
 * since small ones cost as much.
 */
#include "http/upgrade.h"

#include <errno.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/fiber.h>

#include "http/exchange.h"
#include "http/lend.h"
#include "http/send.h"

/* From now on both contexts are cancelled when the client goes. -ECONNRESET if it is gone. */
static int become_stream(struct exchange *exchange, weft_context *stream)
{
    struct acceptor *acceptor = exchange->connection->acceptor;
    weft_mutex_lock(&acceptor->lock);
    bool gone = exchange->context != NULL &&
                (atomic_u32_load_relaxed(&exchange->cancel_state) != CANCEL_OPEN ||
                 weft_context_error(exchange->context) != 0);
    if (!gone)
        exchange->stream = stream;
    weft_mutex_unlock(&acceptor->lock);
    return gone ? -ECONNRESET : 0;
}

int weft__http_response_stream(weft_http_response *response)
{
    struct exchange *exchange = exchange_of_response(response);
    weft_context *stream;
    int error = weft_context_open(&stream, exchange->server->streams, NULL);
    if (error != 0)
        return error;
    response->stream_refusal = (uint16_t)weft__http_lend(exchange);
    error = response->stream_refusal != 0 ? -EAGAIN : become_stream(exchange, stream);
    if (error != 0)
        weft_context_close(stream);
    else
        (void)weft_context_bind(stream, NULL); /* bound before, so there is memory */
    response->streaming = error == 0;
    return error;
}

int weft_http_upgrade(weft_http_response *response, const char *protocol)
{
    if (response == NULL)
        return -EINVAL;
    struct exchange *exchange = exchange_of_response(response);
    const struct head *head = &exchange->request.head;
    if (protocol == NULL || !weft__http_is_value(protocol) || !head->upgrade ||
        !weft__http_field_has(head->fields, head->count, "Upgrade", protocol))
        return -EINVAL;
    if (!exchange->request.done) /* the stream would begin with what is left of the body */
        return -EINVAL;
    if (response->sent || response->sent_body > 0)
        return -EBUSY;
    int error = weft__http_response_field(response, "Upgrade", protocol);
    if (error == 0)
        error = weft__http_response_stream(response);
    if (error != 0) {
        weft__http_unset(response, "Upgrade");
        return error;
    }
    response->status = 101;
    error = weft__http_response_commit(exchange, true);
    if (error == 0)
        error = weft__http_response_flush(exchange);
    response->upgraded = error == 0;
    return error;
}

enum { STREAM_TURN = 65536, CALL_SIZE = 4096 };

/* Lets other fibers go first after a turn, unless the call must not wait. Returns 0; -ECANCELED. */
static int yield_after_turn(weft_http_response *response, int64_t deadline)
{
    if (response->burst < STREAM_TURN || deadline == WEFT_NOW)
        return 0;
    response->burst = 0;
    return weft_sleep(1) == -ECANCELED ? -ECANCELED : 0;
}

static void count(weft_http_response *response, int64_t size)
{
    response->burst += (size > 0 ? (size_t)size : 0) + CALL_SIZE;
}

int64_t weft_http_stream_read(weft_http_response *response, void *data, size_t size,
                              int64_t deadline)
{
    if (response == NULL)
        return -EINVAL;
    struct exchange *exchange = exchange_of_response(response);
    if (!response->upgraded || data == NULL)
        return -EINVAL;
    size_t there = exchange->in_size - exchange->at;
    if (there > 0 || size == 0) { /* bytes that came behind the head */
        if (there > size)
            there = size;
        memcpy(data, exchange->in + exchange->at, there);
        exchange->at += there;
        return (int64_t)there;
    }
    int error = yield_after_turn(response, deadline);
    while (error == 0) {
        int64_t got = weft__http_connection_read(exchange->connection, data, size);
        if (got != -EAGAIN) {
            count(response, got);
            return got;
        }
        response->burst = 0;
        error = weft__http_connection_wait(exchange->connection, WEFT_READABLE, deadline);
    }
    return error;
}

int64_t weft_http_stream_write(weft_http_response *response, const void *data, size_t size,
                               int64_t deadline)
{
    if (response == NULL)
        return -EINVAL;
    struct exchange *exchange = exchange_of_response(response);
    if (!response->upgraded || (data == NULL && size > 0))
        return -EINVAL;
    struct iovec piece = {NULL, size};
    memcpy(&piece.iov_base, &data, sizeof data); /* only read from */
    size_t sent = 0;
    int error = yield_after_turn(response, deadline);
    if (error == 0)
        error = weft__http_connection_send_until(exchange->connection, &piece, 1, deadline, &sent);
    count(response, (int64_t)sent);
    return sent > 0 || error == 0 ? (int64_t)sent : error;
}
