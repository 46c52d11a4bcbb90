/*
 * exchange.c: from bytes to a request, and from one request of a connection to the next.
 *
 * The acceptor reads a head (weft__http_exchange_read_head) and submits the exchange to the pool.
 * There weft__http_exchange_run answers the request, and goes on with the connection while it has
 * another one: in the buffer already (pipelining: each is answered before the next begins), or in
 * data that came meanwhile. Then the connection goes back to its acceptor, and the exchange to the
 * object pool: an idle connection has no buffers.
 *
 * Calls go to connection.c, request, response and body; none goes back to an acceptor.
 */
#include "http/exchange.h"

#include <errno.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/fiber.h>

#include "http/body.h"
#include "http/client_address.h"
#include "http/lend.h"
#include "http/log.h"
#include "http/partial_head.h"
#include "http/path.h"
#include "http/per_ip_limit.h"
#include "http/refuse.h"
#include "http/send.h"
#include "http/sys.h"
#include "http/tls.h"

/* After so long, a connection that always has a request is queued again, behind others. 100 of them
 * then delay another client by 5 ms, however long a request takes. Rejected: after 32 requests. 100
 * pipelines of requests of 7 us delayed other clients by 22 ms each time these were queued. To be
 * queued costs 0.2 us. */
#define TURN (50 * WEFT_US)

/* A request that was queued for longer is refused if its client has ended its side. A server that
 * keeps up begins a request within milliseconds, and so answers clients that end their side behind
 * it. */
#define HALF_CLOSED_TIMEOUT (100 * WEFT_MS)

static size_t rounded(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

struct layout {
    size_t fields, trailers, path, in, out, response_fields, size;
};

static struct layout layout_of(const weft_http_options *options)
{
    size_t table = rounded((size_t)options->max_fields * sizeof(struct field));
    struct layout layout;
    layout.fields = rounded(sizeof(struct exchange));
    layout.trailers = layout.fields + table;
    layout.path = layout.trailers + table;
    layout.in = layout.path + rounded(options->max_header + 1);
    layout.out = layout.in + rounded(options->max_header + HTTP_BODY_ROOM);
    layout.response_fields = layout.out + HTTP_OUT;
    layout.size = layout.response_fields + HTTP_FIRST_FIELDS;
    return layout;
}

size_t weft__http_exchange_size(const weft_http_options *options)
{
    return layout_of(options).size;
}

int weft__http_exchange_construct(void *memory, void *arg)
{
    weft_http_server *server = arg;
    struct exchange *exchange = memory;
    struct layout layout = layout_of(&server->options);
    char *bytes = memory;
    exchange->server = server;
    exchange->request.head.fields = (struct field *)(void *)(bytes + layout.fields);
    exchange->request.head.most = server->options.max_fields;
    exchange->request.trailers = (struct field *)(void *)(bytes + layout.trailers);
    exchange->request.path = bytes + layout.path;
    exchange->in = bytes + layout.in;
    exchange->in_capacity = server->options.max_header + HTTP_BODY_ROOM;
    exchange->out = bytes + layout.out;
    exchange->response.first_fields = bytes + layout.response_fields;
    exchange->response.fields = exchange->response.first_fields;
    exchange->response.fields_room = HTTP_FIRST_FIELDS;
    exchange->date_second = -1;
    return 0;
}

static void free_blocks(weft_http_request *request)
{
    weft__http_body_release_memory(exchange_of_request(request));
    while (request->blocks != NULL) {
        struct block *block = request->blocks;
        request->blocks = block->next;
        weft__http_free(block);
    }
}

/* ---- the context of a request ---- */

/* Whether the client will not read the answer. */
static bool is_disconnected(const struct exchange *exchange)
{
    const struct connection *connection = exchange->connection;
    return atomic_u32_load_seq_cst(&connection->reset) != 0 ||
           (exchange->server->options.end_is_gone != 0 &&
            atomic_u32_load_seq_cst(&connection->ended) != 0);
}

static void open_context(struct exchange *exchange)
{
    weft_context *above = exchange->connection->acceptor->context;
    if (weft_context_open(&exchange->context, above, NULL) != 0) {
        (void)weft_context_bind(above, NULL); /* no memory: a client that goes does not cancel it */
        return;
    }
    (void)weft_context_bind(exchange->context, NULL);
    /* seq_cst: pairs with the acceptor, which sets `reset` and then looks whether the state is
     * OPEN. */
    (void)atomic_u32_exchange_seq_cst(&exchange->cancel_state, CANCEL_OPEN);
    if (is_disconnected(exchange))
        weft_context_cancel(exchange->context);
}

static void close_context(struct exchange *exchange)
{
    weft_context_close(exchange->context);
    weft_context_close(exchange->stream);
    exchange->context = exchange->stream = NULL;
}

/* After the handler. What is still to be done must end with the server, and not because the client
 * is gone: if the request's context is cancelled the fiber is bound to the server's. Also undoes
 * what a handler that panicked has bound. */
static void leave_context(struct exchange *exchange)
{
    bool open = exchange->context != NULL && weft_context_error(exchange->context) == 0;
    (void)weft_context_bind(open ? exchange->context : exchange->server->context, NULL);
}

/* The request is over. If its client was found gone, the connection ends too. */
static void end_context(struct exchange *exchange)
{
    uint32_t open = CANCEL_OPEN;
    (void)weft_context_bind(NULL, NULL);
    /* A NULL context: there was no memory for it, but there may be one of a stream. */
    if (exchange->context == NULL ||
        atomic_u32_cas_acq_rel(&exchange->cancel_state, &open, CANCEL_NONE))
        close_context(exchange);
    else if (exchange->response.error == 0)
        exchange->response.error = -ECONNRESET;
}

bool weft__http_exchange_cancel_begin(struct exchange *exchange)
{
    uint32_t open = CANCEL_OPEN;
    return atomic_u32_cas_seq_cst(&exchange->cancel_state, &open, CANCEL_RUNNING);
}

void weft__http_exchange_cancel_end(struct exchange *exchange)
{
    if (atomic_u32_exchange_acq_rel(&exchange->cancel_state, CANCEL_DONE) == CANCEL_LEFT)
        weft__http_exchange_put(exchange);
}

/* Closes a context that is left, as after a crash of the handler. Returns false if a fiber is
 * cancelling it: then that fiber puts the exchange back. The connection does not point to the
 * exchange any more. */
static bool release_context(struct exchange *exchange)
{
    if (atomic_u32_load_relaxed(&exchange->cancel_state) == CANCEL_NONE) {
        close_context(exchange);
        return true;
    }
    if (atomic_u32_exchange_acq_rel(&exchange->cancel_state, CANCEL_LEFT) == CANCEL_RUNNING)
        return false;
    close_context(exchange);
    atomic_u32_store_relaxed(&exchange->cancel_state, CANCEL_NONE);
    return true;
}

void weft__http_exchange_put(struct exchange *exchange)
{
    if (!release_context(exchange))
        return;
    weft_object_pool *pool = exchange->server->exchanges;
    weft__http_count_out(exchange);
    if (exchange->lent)
        weft__http_lend_end(exchange->server);
    exchange->lent = false;
    exchange->connection = NULL;
    exchange->in_size = exchange->at = exchange->head_size = exchange->seen = 0;
    exchange->out_size = exchange->body_at = 0;
    exchange->drained = false;
    weft_object_pool_put(pool, exchange);
}

bool weft__http_count_in(struct exchange *exchange)
{
    if (!weft__http_per_ip_acquire(exchange->server->per_ip_limits, PER_IP_REQUESTS,
                                   &exchange->client, 1))
        return false;
    exchange->counted = PER_IP_REQUESTS;
    return true;
}

void weft__http_count_out(struct exchange *exchange)
{
    if (exchange->counted != PER_IP_CONNECTIONS)
        weft__http_per_ip_release(exchange->server->per_ip_limits, exchange->counted,
                                  &exchange->client, 1);
    exchange->counted = PER_IP_CONNECTIONS;
}

/* ---- from bytes to a head ---- */

/* Makes a request of the parsed head. Returns 0, or the status of a refusal. */
static int begin_request(struct exchange *exchange)
{
    weft_http_request *request = &exchange->request;
    if (exchange->server->options.log != NULL)
        exchange->started = weft_now();
    weft__http_client_find(exchange);
    if (weft__http_decode_path(request->head.target, request->path) < 0)
        return 400;
    request->param_count = 0;
    exchange->at = exchange->head_size;
    weft__http_body_begin(exchange);
    weft__http_response_begin(exchange);
    return 0;
}

enum head_result weft__http_exchange_read_head(struct exchange *exchange, int *status)
{
    struct connection *connection = exchange->connection;
    size_t limit = exchange->server->options.max_header;
    for (;;) {
        if (exchange->in_size > 0) {
            int64_t size = weft__http_parse_head(&exchange->request.head, exchange->in,
                                                 exchange->in_size, limit, &exchange->seen);
            if (size > 0) {
                exchange->head_size = (size_t)size;
                exchange->seen = 0;
                if (!exchange->drained) /* there may be more, for which no event comes */
                    atomic_u32_store_relaxed(&connection->readable, 1);
                *status = begin_request(exchange);
                return *status == 0 ? HEAD_WHOLE : HEAD_REFUSED;
            }
            if (size < 0) {
                *status = (int)-size;
                return HEAD_REFUSED;
            }
        }
        if (exchange->drained)
            return HEAD_PARTIAL;
        size_t room = exchange->in_capacity - exchange->in_size;
        bool ended = atomic_u32_load_relaxed(&connection->ended) != 0;
        int64_t got =
            weft__http_connection_read(connection, exchange->in + exchange->in_size, room);
        if (got == -EAGAIN) {
            exchange->drained = true;
            return ended && !weft__http_connection_budget_spent(connection) ? HEAD_ENDED
                                                                            : HEAD_PARTIAL;
        }
        if (got <= 0)
            return HEAD_ENDED;
        exchange->in_size += (size_t)got;
        /* A short read of TLS is a record, not all there is. An end behind the last bytes raises no
         * second event. */
        exchange->drained = (size_t)got < room && connection->tls == NULL &&
                            atomic_u32_load_relaxed(&connection->ended) == 0;
    }
}

void weft__http_exchange_next(struct exchange *exchange)
{
    free_blocks(&exchange->request);
    weft__http_count_out(exchange);
    weft__http_client_reset(exchange);
    size_t left = exchange->in_size - exchange->at;
    if (left > 0)
        memmove(exchange->in, exchange->in + exchange->at, left);
    exchange->in_size = left;
    exchange->at = exchange->head_size = exchange->seen = 0;
}

bool weft__http_exchange_save(struct exchange *exchange, struct partial_head **partial)
{
    *partial = NULL;
    if (exchange->in_size == 0)
        return true;
    struct partial_head *saved =
        weft__http_partial_head_get(exchange->server->partial_heads, exchange->in_size);
    if (saved == NULL)
        return false;
    saved->size = exchange->in_size;
    saved->seen = exchange->seen;
    memcpy(saved->bytes, exchange->in, exchange->in_size);
    *partial = saved;
    return true;
}

void weft__http_exchange_restore(struct exchange *exchange, struct connection *connection)
{
    exchange->connection = connection;
    weft__http_client_reset(exchange);
    struct partial_head *partial = connection->partial;
    if (partial == NULL)
        return;
    memcpy(exchange->in, partial->bytes, partial->size);
    exchange->in_size = partial->size;
    exchange->seen = partial->seen;
    connection->partial = NULL;
    weft__http_partial_head_put(exchange->server->partial_heads, partial);
}

/* ---- answering ---- */

static void call_handler(void *arg)
{
    struct exchange *exchange = arg;
    const weft_http_options *options = &exchange->server->options;
    options->handler(&exchange->request, &exchange->response, options->data);
}

struct panic_call {
    struct exchange *exchange;
    const weft_panic_info *info;
};

static void call_on_panic(void *arg)
{
    const struct panic_call *call = arg;
    struct exchange *exchange = call->exchange;
    const weft_http_options *options = &exchange->server->options;
    options->on_panic(call->info, &exchange->request, options->data);
}

/* Counts a panic and calls on_panic. If that panics too it is reported, and the connection goes
 * on. */
static void note_panic(struct exchange *exchange, const weft_panic_info *info)
{
    struct panic_call call = {exchange, info};
    weft_panic_info another;
    count_up(&exchange->server->panicked);
    if (exchange->server->options.on_panic != NULL &&
        weft_recover(call_on_panic, &call, &another) == -EOWNERDEAD)
        weft_panic_report(&another);
}

static void after_panic(struct exchange *exchange, const weft_panic_info *info)
{
    weft_http_response *response = &exchange->response;
    note_panic(exchange, info);
    if (exchange->server->options.on_panic == NULL)
        weft_panic_report(info);
    exchange->keep = false;
    /* A head that was sent cannot be replaced. The body gets no end, so the client sees that it was
     * cut off. A head that is still in `out` is replaced. */
    if (response->sent && exchange->body_at == 0) {
        response->error = -ECONNABORTED;
        return;
    }
    weft__http_response_begin(exchange);
    response->close = true;
    (void)weft_http_error(response, 500, NULL);
}

/* In place of the handler, if the client has as many requests as it may. The connection stays open:
 * behind a proxy its next request may be another client's. */
static void refuse_over_limit(struct exchange *exchange)
{
    weft_http_response *response = &exchange->response;
    (void)weft_http_setf(response, "Retry-After", "%d", exchange->server->options.retry_after);
    (void)weft_http_error(response, 429, NULL);
}

static void answer(struct exchange *exchange)
{
    weft_http_server *server = exchange->server;
    weft_panic_info info;
    bool over_limit = exchange->counted != PER_IP_REQUESTS, panicked = false;
    exchange->keep = exchange->request.head.keep_alive;
    exchange->finishing = exchange->flushing = false; /* a crash may have left one set */
    open_context(exchange);
    if (over_limit)
        refuse_over_limit(exchange);
    else
        panicked = weft_recover(call_handler, exchange, &info) == -EOWNERDEAD;
    leave_context(exchange);
    exchange->finishing = true;
    if (panicked)
        after_panic(exchange, &info);
    weft__http_response_end(exchange);
    if (exchange->response.error == 0)
        (void)weft__http_response_flush(exchange);
    count_up(over_limit ? &server->refused : &server->requests);
    if (server->options.log != NULL)
        weft__http_log(exchange, exchange->response.status);
    weft__http_response_free(exchange);
    /* Otherwise the worker may still wait for the client. */
    if (exchange->request.done && exchange->keep)
        weft__http_count_out(exchange);
    end_context(exchange);
}

/* Without the alert a TLS client takes the answer for cut off. The alert may have to wait for room
 * in the socket. */
static void send_tls_end(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    int64_t timeout = exchange->server->options.write_timeout;
    if (connection->tls == NULL)
        return;
    while (weft__http_tls_end(connection->tls) == -EAGAIN) {
        (void)weft__http_lend(exchange); /* a client that does not read holds no worker */
        if (weft__http_connection_wait(connection, WEFT_WRITABLE, weft_after(timeout)) != 0)
            return;
    }
}

/* Ends the connection. It lingers if the client may still be sending: otherwise the kernel would
 * reset it before the client has read the answer. */
static void end_connection(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    bool upgraded = exchange->response.upgraded;
    bool broken = exchange->response.error != (upgraded ? -ESHUTDOWN : 0);
    if (exchange->response.error == -ETIMEDOUT || exchange->request.error == -ETIMEDOUT)
        count_up(&exchange->server->timed_out);
    /* `readable` is also set with every end that was seen. An upgraded client may send at any time:
     * there may be bytes whose event has not been handled. */
    bool unread = exchange->at < exchange->in_size || !exchange->request.done || upgraded ||
                  atomic_u32_load_relaxed(&connection->readable) != 0;
    if (!broken || exchange->response.error == -ESHUTDOWN) /* also of an upgraded stream */
        send_tls_end(exchange);
    free_blocks(&exchange->request);
    if (unread && !broken)
        weft__http_connection_linger(connection);
    else
        weft__http_connection_close(connection);
    weft__http_exchange_put(exchange);
}

void weft__http_exchange_refuse(struct exchange *exchange, int status, atomic_i64 *count, bool head)
{
    count_up(count);
    weft__http_log_refusal(exchange, status);
    weft__http_response_free(exchange);
    weft__http_refuse_and_linger(exchange->connection, status, head);
    weft__http_exchange_put(exchange);
}

/* Finds the next request of the connection. Returns false if there is none now: the connection is
 * the acceptor's or closed, and the exchange put back. */
static bool next_request(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    struct partial_head *partial;
    int status;
    for (;;) {
        enum head_result result = exchange->in_size > 0 || !exchange->drained
                                      ? weft__http_exchange_read_head(exchange, &status)
                                      : HEAD_PARTIAL;
        if (result == HEAD_WHOLE)
            return true;
        if (result == HEAD_ENDED) {
            weft__http_connection_close(connection);
            weft__http_exchange_put(exchange);
            return false;
        }
        if (result == HEAD_REFUSED) {
            weft__http_exchange_refuse(exchange, status, &exchange->server->bad, false);
            return false;
        }
        if (atomic_u32_load_relaxed(&exchange->server->stopping) != 0 ||
            !weft__http_exchange_save(exchange, &partial)) {
            weft__http_connection_close(connection);
            weft__http_exchange_put(exchange);
            return false;
        }
        if (weft__http_connection_release(connection, partial)) {
            weft__http_exchange_put(exchange);
            return false;
        }
        weft__http_partial_head_put(exchange->server->partial_heads, partial);
        (void)atomic_u32_exchange_acquire(&connection->readable, 0);
        exchange->drained = false;
    }
}

/* Whether a request was queued for too long to be worth an answer. */
static bool is_late(const struct exchange *exchange)
{
    int64_t waited = weft__http_ticks() - exchange->queued;
    bool ended = atomic_u32_load_relaxed(&exchange->connection->ended) != 0;
    return waited > exchange->server->options.queue_timeout ||
           (ended && waited > HALF_CLOSED_TIMEOUT);
}

/* Answers 503 in place of the handler, and ends the connection. */
static void refuse_queued(struct exchange *exchange)
{
    bool head = weft__http_is_head(&exchange->response);
    weft__http_exchange_refuse(exchange, 503, &exchange->server->refused, head);
}

/* Drops a request whose client is gone, or that was queued for too long. Returns whether it did:
 * then the exchange was put back. */
static bool drop_late(struct exchange *exchange)
{
    if (is_disconnected(exchange)) {
        exchange->response.error = -ECONNRESET;
        weft__http_response_free(exchange);
        end_connection(exchange);
        return true;
    }
    bool late = is_late(exchange);
    if (late)
        refuse_queued(exchange);
    return late;
}

/* Submits the next request to the pool, behind those that are queued. Returns false if the queue
 * has no room and this worker may go on with the request. */
static bool requeue(struct exchange *exchange)
{
    weft_http_server *server = exchange->server;
    bool lent = exchange->lent;
    exchange->lent = false;
    exchange->queued = weft__http_ticks();
    bool queued = weft_pool_try_invoke(server->pool, exchange) == 0;
    if (!lent)
        return queued;
    if (!queued) /* this worker has no place among max_workers */
        refuse_queued(exchange);
    weft__http_lend_end(server); /* last: until the task returns it has a place in the pool */
    return true;
}

void weft__http_exchange_run(void *arg)
{
    struct exchange *exchange = arg;
    if (exchange->waits_to_begin)
        (void)atomic_u32_add_relaxed(&exchange->connection->acceptor->begun, 1);
    exchange->waits_to_begin = false;
    if (drop_late(exchange))
        return;
    int64_t end = weft_after(TURN);
    for (;;) {
        if (atomic_u32_load_relaxed(&exchange->server->cut) != 0)
            exchange->response.error = -ECANCELED;
        else if (is_disconnected(exchange))
            exchange->response.error = -ECONNRESET;
        else
            answer(exchange);
        if (exchange->response.error != 0 || !exchange->keep || !weft__http_body_drain(exchange)) {
            end_connection(exchange);
            return;
        }
        weft__http_exchange_next(exchange);
        exchange->drained = exchange->connection->tls == NULL;
        if (!next_request(exchange))
            return;
        (void)weft__http_count_in(exchange); /* if it is over the limit answer() refuses it */
        if (exchange->lent || weft_now() >= end) {
            if (requeue(exchange))
                return;
            weft_yield();
            end = weft_after(TURN);
        }
    }
}

void weft__http_exchange_crashed(const weft_panic_info *info, void (*function)(void *), void *arg,
                                 void *server)
{
    (void)server;
    (void)function;
    struct exchange *exchange = arg;
    note_panic(exchange, info); /* the pool has reported it */
    exchange->response.error = -EFAULT;
    weft__http_response_free(exchange);
    end_connection(exchange);
}
