/*
 * exchange.c: from bytes to a request, and from one request of a connection to the next.
 *
 * The door takes a head (weft__http_exchange_take) and gives the exchange to the pool; there, weft__http_exchange_run answers
 * it, and goes on with the connection as long as it has something to say: requests that lie in the buffer already
 * (pipelining; each is answered before the next is begun), or data that came meanwhile. Then the connection goes
 * back to its door, and the exchange to the pool of objects: an idle connection has no buffers.
 */
#include "http/exchange.h"

#include <errno.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/fiber.h>

/* After so many requests in a row others get their turn. */
enum { TURN = 32 };

/* A request that waited so long is refused if its client sends no more. A server that keeps up
 * begins a request within milliseconds, and so answers clients that end their side after it. */
#define PATIENCE_OF_THE_GONE (100 * WEFT_MS)

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
    weft__http_body_forget(exchange_of_request(request));
    while (request->blocks != NULL) {
        struct block *block = request->blocks;
        request->blocks = block->next;
        weft__http_free(block);
    }
}

/* The context of a request. */

/* Whether nobody is there to read the answer. */
static bool is_gone(const struct exchange *exchange)
{
    const struct connection *connection = exchange->connection;
    return atomic_u32_load_seq_cst(&connection->reset) != 0 ||
           (exchange->server->options.end_is_gone != 0 &&
            atomic_u32_load_seq_cst(&connection->ended) != 0);
}

static void open_context(struct exchange *exchange)
{
    weft_context *above = exchange->connection->door->context;
    if (weft_context_open(&exchange->context, above, NULL) != 0) {
        (void)weft_context_bind(above, NULL); /* its handler is not told then */
        return;
    }
    (void)weft_context_bind(exchange->context, NULL);
    /* seq_cst: pairs with the door, which says that the client is gone and then looks whether it is open. */
    (void)atomic_u32_exchange_seq_cst(&exchange->telling, TELLING_OPEN);
    if (is_gone(exchange))
        weft_context_cancel(exchange->context);
}

static void close_context(struct exchange *exchange)
{
    weft_context_close(exchange->context);
    weft_context_close(exchange->stream);
    exchange->context = exchange->stream = NULL;
}

/* After the handler: what is to be done still is not ended by a client that is gone, but by the server. Who panics does
 * not put back what he has bound himself to. */
static void leave_context(struct exchange *exchange)
{
    bool open = exchange->context != NULL && weft_context_error(exchange->context) == 0;
    (void)weft_context_bind(open ? exchange->context : exchange->server->context, NULL);
}

/* The request is over. If its client was found gone, so is the connection. */
static void end_context(struct exchange *exchange)
{
    uint32_t open = TELLING_OPEN;
    (void)weft_context_bind(NULL, NULL);
    /* Without a context there was no memory for it; there may be a stream's all the same. */
    if (exchange->context == NULL ||
        atomic_u32_cas_acq_rel(&exchange->telling, &open, TELLING_NONE))
        close_context(exchange);
    else if (exchange->response.error == 0)
        exchange->response.error = -ECONNRESET;
}

bool weft__http_exchange_tell(struct exchange *exchange)
{
    uint32_t open = TELLING_OPEN;
    return atomic_u32_cas_seq_cst(&exchange->telling, &open, TELLING_UNDER_WAY);
}

void weft__http_exchange_told(struct exchange *exchange)
{
    if (atomic_u32_exchange_acq_rel(&exchange->telling, TELLING_DONE) == TELLING_LEFT)
        weft__http_exchange_put(exchange);
}

/* Closes what is left of the context, as of a handler that crashed; false if it is being cancelled: then who does that gives
 * the exchange up. The connection leads to it no more. */
static bool give_up_context(struct exchange *exchange)
{
    if (atomic_u32_load_relaxed(&exchange->telling) == TELLING_NONE) {
        close_context(exchange);
        return true;
    }
    if (atomic_u32_exchange_acq_rel(&exchange->telling, TELLING_LEFT) == TELLING_UNDER_WAY)
        return false;
    close_context(exchange);
    atomic_u32_store_relaxed(&exchange->telling, TELLING_NONE);
    return true;
}

void weft__http_exchange_put(struct exchange *exchange)
{
    if (!give_up_context(exchange))
        return;
    weft_object_pool *pool = exchange->server->exchanges;
    weft__http_count_out(exchange);
    if (exchange->lent)
        weft__http_end_stream(exchange->server);
    exchange->lent = false;
    exchange->connection = NULL;
    exchange->in_size = exchange->at = exchange->head_size = exchange->seen = 0;
    exchange->out_size = exchange->body_at = 0;
    exchange->drained = false;
    weft_object_pool_put(pool, exchange);
}

bool weft__http_count_in(struct exchange *exchange)
{
    if (!weft__http_limits_enter(exchange->server->limits, LIMIT_REQUESTS, &exchange->client, 1))
        return false;
    exchange->counted = LIMIT_REQUESTS;
    return true;
}

void weft__http_count_out(struct exchange *exchange)
{
    if (exchange->counted != LIMIT_CONNECTIONS)
        weft__http_limits_leave(exchange->server->limits, exchange->counted, &exchange->client, 1);
    exchange->counted = LIMIT_CONNECTIONS;
}

/* From bytes to a head. */

/* The parsed head becomes a request; or the status with which it is refused. */
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

enum taken weft__http_exchange_take(struct exchange *exchange, int *status)
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
                if (!exchange->drained) /* there may be more, of which no event tells */
                    atomic_u32_store_relaxed(&connection->readable, 1);
                *status = begin_request(exchange);
                return *status == 0 ? TAKEN_WHOLE : TAKEN_REFUSED;
            }
            if (size < 0) {
                *status = (int)-size;
                return TAKEN_REFUSED;
            }
        }
        if (exchange->drained)
            return TAKEN_PARTLY;
        size_t room = exchange->in_capacity - exchange->in_size;
        bool ended = atomic_u32_load_relaxed(&connection->ended) != 0;
        int64_t got =
            weft__http_connection_read(connection, exchange->in + exchange->in_size, room);
        if (got == -EAGAIN) {
            exchange->drained = true;
            return ended && !weft__http_is_starved(connection) ? TAKEN_ENDED : TAKEN_PARTLY;
        }
        if (got <= 0)
            return TAKEN_ENDED;
        exchange->in_size += (size_t)got;
        /* A session of TLS gives a record at a time; and of the end behind the last bytes nobody will be told again. */
        exchange->drained = (size_t)got < room && connection->tls == NULL &&
                            atomic_u32_load_relaxed(&connection->ended) == 0;
    }
}

void weft__http_exchange_next(struct exchange *exchange)
{
    free_blocks(&exchange->request);
    weft__http_count_out(exchange);
    weft__http_client_begin(exchange);
    size_t left = exchange->in_size - exchange->at;
    if (left > 0)
        memmove(exchange->in, exchange->in + exchange->at, left);
    exchange->in_size = left;
    exchange->at = exchange->head_size = exchange->seen = 0;
}

bool weft__http_exchange_save(struct exchange *exchange, struct partial **partial)
{
    *partial = NULL;
    if (exchange->in_size == 0)
        return true;
    struct partial *saved = weft__http_partial_get(exchange->server->partials, exchange->in_size);
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
    weft__http_client_begin(exchange);
    struct partial *partial = connection->partial;
    if (partial == NULL)
        return;
    memcpy(exchange->in, partial->bytes, partial->size);
    exchange->in_size = partial->size;
    exchange->seen = partial->seen;
    connection->partial = NULL;
    weft__http_partial_put(exchange->server->partials, partial);
}

/* Answering. */

static void call_handler(void *arg)
{
    struct exchange *exchange = arg;
    const weft_http_options *options = &exchange->server->options;
    options->handler(&exchange->request, &exchange->response, options->data);
}

struct telling {
    struct exchange *exchange;
    const weft_panic_info *info;
};

static void call_on_panic(void *arg)
{
    const struct telling *telling = arg;
    struct exchange *exchange = telling->exchange;
    const weft_http_options *options = &exchange->server->options;
    options->on_panic(telling->info, &exchange->request, options->data);
}

/* Counts a panic, and tells who wants to know. If that panics too it is reported, and the connection is not lost for it. */
static void note_panic(struct exchange *exchange, const weft_panic_info *info)
{
    struct telling telling = {exchange, info};
    weft_panic_info another;
    count_up(&exchange->server->panicked);
    if (exchange->server->options.on_panic != NULL &&
        weft_recover(call_on_panic, &telling, &another) == -EOWNERDEAD)
        weft_panic_report(&another);
}

static void after_panic(struct exchange *exchange, const weft_panic_info *info)
{
    weft_http_response *response = &exchange->response;
    note_panic(exchange, info);
    if (exchange->server->options.on_panic == NULL)
        weft_panic_report(info);
    exchange->keep = false;
    /* A head that still lies in `out` is not on its way. Else there is no end of the body: the client sees that it was
     * cut off. */
    if (response->sent && exchange->body_at == 0) {
        response->error = -ECONNABORTED;
        return;
    }
    weft__http_response_begin(exchange);
    response->close = true;
    (void)weft_http_error(response, 500, NULL);
}

/* In place of the handler: its client has as many requests as it may. Behind a proxy the next one may be another client's. */
static void refuse_client(struct exchange *exchange)
{
    weft_http_response *response = &exchange->response;
    (void)weft_http_setf(response, "Retry-After", "%d", exchange->server->options.retry_after);
    (void)weft_http_error(response, 429, NULL);
}

static void answer(struct exchange *exchange)
{
    weft_http_server *server = exchange->server;
    weft_panic_info info;
    bool beyond = exchange->counted != LIMIT_REQUESTS, panicked = false;
    exchange->keep = exchange->request.head.keep_alive;
    exchange->finishing = exchange->flushing = false; /* one of them may be left of a crash */
    open_context(exchange);
    if (beyond)
        refuse_client(exchange);
    else
        panicked = weft_recover(call_handler, exchange, &info) == -EOWNERDEAD;
    leave_context(exchange);
    exchange->finishing = true;
    if (panicked)
        after_panic(exchange, &info);
    weft__http_response_end(exchange);
    if (exchange->response.error == 0)
        (void)weft__http_response_flush(exchange);
    count_up(beyond ? &server->refused : &server->requests);
    if (server->options.log != NULL)
        weft__http_log(exchange, exchange->response.status);
    weft__http_response_free(exchange);
    if (exchange->request.done &&
        exchange->keep) /* else the worker may wait for the client still */
        weft__http_count_out(exchange);
    end_context(exchange);
}

/* A client of TLS takes what it got for cut off if it is not told of the end. That may have to wait for room. */
static void say_end(struct exchange *exchange)
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

/* The connection ends here: what was sent last is to be read by the client first, if it may still be sending. */
static void part(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    bool upgraded = exchange->response.upgraded;
    bool broken = exchange->response.error != (upgraded ? -ESHUTDOWN : 0);
    if (exchange->response.error == -ETIMEDOUT || exchange->request.error == -ETIMEDOUT)
        count_up(&exchange->server->timed_out);
    /* Who has seen the end, the door or a take, has set `readable` too. What a client of another protocol sends comes at any
     * time: the door may not have heard of it yet. */
    bool unread = exchange->at < exchange->in_size || !exchange->request.done || upgraded ||
                  atomic_u32_load_relaxed(&connection->readable) != 0;
    if (!broken || exchange->response.error == -ESHUTDOWN) /* also of an upgraded stream */
        say_end(exchange);
    free_blocks(&exchange->request);
    if (unread && !broken)
        weft__http_linger(connection);
    else
        weft__http_close_connection(connection);
    weft__http_exchange_put(exchange);
}

/* A head that cannot be answered: says so, and parts. */
static void refuse(struct exchange *exchange, int status)
{
    struct connection *connection = exchange->connection;
    count_up(&exchange->server->bad);
    weft__http_refuse_log(exchange, status);
    (void)weft__http_refuse(connection, status, true, false);
    weft__http_linger(connection);
    weft__http_exchange_put(exchange);
}

/* Waits for the next request in the hands of the door, or finds one. False if the exchange is given up. */
static bool go_on(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    struct partial *partial;
    int status;
    for (;;) {
        enum taken taken = exchange->in_size > 0 || !exchange->drained
                               ? weft__http_exchange_take(exchange, &status)
                               : TAKEN_PARTLY;
        if (taken == TAKEN_WHOLE)
            return true;
        if (taken == TAKEN_ENDED) {
            weft__http_close_connection(connection);
            weft__http_exchange_put(exchange);
            return false;
        }
        if (taken == TAKEN_REFUSED) {
            refuse(exchange, status);
            return false;
        }
        if (atomic_u32_load_relaxed(&exchange->server->stopping) != 0 ||
            !weft__http_exchange_save(exchange, &partial)) {
            weft__http_close_connection(connection);
            weft__http_exchange_put(exchange);
            return false;
        }
        if (weft__http_release(connection, partial)) {
            weft__http_exchange_put(exchange);
            return false;
        }
        weft__http_partial_put(exchange->server->partials, partial);
        (void)atomic_u32_exchange_acquire(&connection->readable, 0);
        exchange->drained = false;
    }
}

/* Whether a request has waited too long for its worker to be worth an answer. */
static bool is_late(const struct exchange *exchange)
{
    int64_t waited = weft__http_ticks() - exchange->queued;
    bool ended = atomic_u32_load_relaxed(&exchange->connection->ended) != 0;
    return waited > exchange->server->options.queue_timeout ||
           (ended && waited > PATIENCE_OF_THE_GONE);
}

/* Says 503 in place of the handler, and parts. */
static void turn_down(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    bool head = weft__http_is_head(&exchange->response);
    count_up(&exchange->server->refused);
    weft__http_refuse_log(exchange, 503);
    weft__http_response_free(exchange);
    (void)weft__http_refuse(connection, 503, true, head);
    weft__http_linger(connection);
    weft__http_exchange_put(exchange);
}

/* True if it is a request that the queue has made worthless: the exchange is given up. */
static bool drop_late(struct exchange *exchange)
{
    if (is_gone(exchange)) {
        exchange->response.error = -ECONNRESET;
        weft__http_response_free(exchange);
        part(exchange);
        return true;
    }
    bool late = is_late(exchange);
    if (late)
        turn_down(exchange);
    return late;
}

/* The next request goes behind those who wait for a worker; false if there is no room for it there, and this worker may
 * go on. */
static bool stand_in_line(struct exchange *exchange)
{
    weft_http_server *server = exchange->server;
    bool lent = exchange->lent;
    exchange->lent = false;
    exchange->queued = weft__http_ticks();
    bool stands = weft_pool_try_invoke(server->pool, exchange) == 0;
    if (!lent)
        return stands;
    if (!stands) /* this worker is one too many */
        turn_down(exchange);
    weft__http_end_stream(server); /* not before: until it returns it has a place in the pool */
    return true;
}

void weft__http_exchange_run(void *arg)
{
    struct exchange *exchange = arg;
    if (drop_late(exchange))
        return;
    for (int turn = 1;; turn++) {
        if (atomic_u32_load_relaxed(&exchange->server->cut) != 0)
            exchange->response.error = -ECANCELED;
        else if (is_gone(exchange))
            exchange->response.error = -ECONNRESET;
        else
            answer(exchange);
        if (exchange->response.error != 0 || !exchange->keep || !weft__http_body_drain(exchange)) {
            part(exchange);
            return;
        }
        weft__http_exchange_next(exchange);
        exchange->drained = exchange->connection->tls == NULL;
        if (!go_on(exchange))
            return;
        (void)weft__http_count_in(exchange); /* else answer() refuses it */
        if (exchange->lent || turn % TURN == 0) {
            if (stand_in_line(exchange))
                return;
            weft_yield();
        }
    }
}

void weft__http_exchange_crashed(const weft_panic_info *info, void (*function)(void *), void *arg,
                                 void *server)
{
    (void)server;
    (void)function;
    struct exchange *exchange = arg;
    note_panic(exchange, info); /* the report was made */
    exchange->response.error = -EFAULT;
    weft__http_response_free(exchange);
    part(exchange);
}
