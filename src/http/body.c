/*
 * body.c: the body of a request, read as the handler asks for it.
 *
 * What came with the head is in the exchange's buffer. The rest of a body with a length is received
 * straight into the handler's memory; a chunked body goes through the buffer. No wait lasts longer
 * than body_timeout without a byte.
 *
 * A client that sends a byte now and then would hold a request for as long as it likes. So the time
 * of all waits for a body is bounded: by rate_grace, and the time that the bytes that came since
 * the first wait take at min_body_rate. Bytes that were there before the first wait, and the
 * handler's own time, do not count.
 *
 * A client that is always faster than the handler would keep the processor: after BODY_TURN bytes
 * without a wait other fibers go first. A yield is not enough, since the pool begins no task behind
 * one that does not park.
 */
#include "http/body.h"

#include <errno.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/time.h>

#include "http/exchange.h"
#include "http/lend.h"
#include "http/per_ip_limit.h"
#include "http/send.h"
#include "http/sys.h"

#define DRAIN_TIME (1 * WEFT_S)

/* With 100 uploads in chunks of one byte, a turn takes 60 us. */
enum { BODY_TURN = 4096 };

void weft__http_body_begin(struct exchange *exchange)
{
    weft_http_request *request = &exchange->request;
    request->chunks = (struct chunks){0};
    request->left = request->head.length;
    request->read = request->waited = request->transferred = 0;
    request->burst = 0;
    request->limit = exchange->server->options.max_body;
    request->error = 0;
    request->done = request->head.length == 0;
    request->continue_sent = !request->head.expects_continue || request->done;
    request->trailer_count = 0;
    request->piece_size = 0;
}

void weft_http_max_body(weft_http_request *request, int64_t bytes)
{
    if (request == NULL)
        return;
    if (bytes >= 0)
        request->limit = bytes;
}

int weft__http_body_status(const weft_http_request *request)
{
    switch (request->error) {
    case 0:
        return 0;
    case -EFBIG:
        return 413;
    case -EBADMSG:
    case -ECONNRESET: /* it may have ended its side only, and read the answer */
        return 400;
    case -ETIMEDOUT:
        return 408;
    default:
        return 503;
    }
}

static int fail(weft_http_request *request, int error)
{
    request->error = error;
    exchange_of_request(request)->keep = false;
    return error;
}

/* Sends 100, if the client waits for it before it sends the body. */
static int send_continue(struct exchange *exchange)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    weft_http_request *request = &exchange->request;
    if (request->continue_sent || exchange->response.sent)
        return 0;
    request->continue_sent = true;
    char text[sizeof go_on - 1];
    memcpy(text, go_on, sizeof text);
    struct iovec piece = {text, sizeof text};
    return weft__http_response_send(exchange, &piece, 1);
}

int64_t weft__http_wait_allowance(int64_t rate, int64_t grace, int64_t waited, int64_t transferred)
{
    if (rate < 0 || transferred / rate >= (INT64_MAX - grace) / WEFT_S)
        return INT64_MAX;
    int64_t all = grace + transferred / rate * WEFT_S;
    int64_t rest = transferred % rate * WEFT_S / rate; /* less than a second */
    all = all < INT64_MAX - rest ? all + rest : INT64_MAX;
    return all > waited ? all - waited : 0;
}

/* Waits for more of the body: until the deadline, or as long as the client's rate allows. */
static int wait_for_more(struct exchange *exchange, int64_t deadline)
{
    weft_http_request *request = &exchange->request;
    const weft_http_options *options = &exchange->server->options;
    int64_t latest = weft_after(weft__http_wait_allowance(
        options->min_body_rate, options->rate_grace, request->waited, request->transferred));
    if (latest > deadline)
        latest = deadline;
    if (weft__http_connection_budget_spent(
            exchange->connection)) /* waits for others, not for the client */
        return weft__http_connection_wait(exchange->connection, WEFT_READABLE, latest);
    request->burst = 0;
    return weft__http_lend_while_waiting(exchange, WEFT_READABLE, latest, &request->waited);
}

static void let_others_go_first(weft_http_request *request, size_t got)
{
    request->burst += got;
    if (request->burst < BODY_TURN)
        return;
    request->burst = 0;
    (void)weft_sleep(1); /* if it was cancelled the next wait returns the error */
}

/* Receives at least one byte. */
static int64_t receive(struct exchange *exchange, void *data, size_t size, int64_t deadline)
{
    for (;;) {
        int64_t got = weft__http_connection_read(exchange->connection, data, size);
        if (got == 0)
            return -ECONNRESET;
        if (got > 0 && exchange->request.waited > 0)
            exchange->request.transferred += got;
        if (got > 0)
            let_others_go_first(&exchange->request, (size_t)got);
        if (got != -EAGAIN)
            return got;
        int error = wait_for_more(exchange, deadline);
        if (error != 0)
            return error;
    }
}

static int64_t read_length(struct exchange *exchange, void *data, size_t size, int64_t deadline)
{
    weft_http_request *request = &exchange->request;
    size_t most = (uint64_t)request->left < size ? (size_t)request->left : size;
    int64_t got = (int64_t)(exchange->in_size - exchange->at);
    if (got > 0) {
        if ((size_t)got > most)
            got = (int64_t)most;
        memcpy(data, exchange->in + exchange->at, (size_t)got);
        exchange->at += (size_t)got;
    } else {
        got = receive(exchange, data, most, deadline);
        if (got < 0)
            return got;
    }
    request->left -= got;
    request->done = request->left == 0;
    return got;
}

/* Receives more bytes into the buffer, behind those that are not used yet. */
static int64_t refill(struct exchange *exchange, int64_t deadline)
{
    size_t left = exchange->in_size - exchange->at;
    if (exchange->at > exchange->head_size) {
        memmove(exchange->in + exchange->head_size, exchange->in + exchange->at, left);
        exchange->at = exchange->head_size;
        exchange->in_size = exchange->at + left;
    }
    size_t room = exchange->in_capacity - exchange->in_size;
    must(room > 0); /* trailers beyond HTTP_BODY_ROOM are refused, chunks are used up */
    int64_t got = receive(exchange, exchange->in + exchange->in_size, room, deadline);
    if (got > 0)
        exchange->in_size += (size_t)got;
    return got;
}

static int64_t read_trailer(struct exchange *exchange, int64_t deadline)
{
    weft_http_request *request = &exchange->request;
    size_t seen = 0;
    for (;;) {
        int64_t size = weft__http_parse_fields(
            request->trailers, exchange->server->options.max_fields, &request->trailer_count,
            exchange->in + exchange->at, exchange->in_size - exchange->at, HTTP_BODY_ROOM, &seen);
        if (size < 0) {
            request->trailer_count = 0;
            return -EBADMSG;
        }
        if (size > 0) {
            exchange->at += (size_t)size;
            request->done = true;
            return 0;
        }
        int64_t got = refill(exchange, deadline);
        if (got < 0)
            return got;
    }
}

/* Decodes until there is a piece of the body, which stays in the buffer, or its end. Returns 1, 0
 * or an error. */
static int64_t next_piece(struct exchange *exchange, int64_t deadline)
{
    weft_http_request *request = &exchange->request;
    while (request->piece_size == 0) {
        if (request->chunks.done)
            return read_trailer(exchange, deadline);
        if (exchange->at == exchange->in_size) {
            int64_t got = refill(exchange, deadline);
            if (got < 0)
                return got;
        }
        int64_t eaten = weft__http_chunks_decode(&request->chunks, exchange->in + exchange->at,
                                                 exchange->in_size - exchange->at, &request->piece,
                                                 &request->piece_size);
        if (eaten < 0)
            return -EBADMSG;
        exchange->at += (size_t)eaten;
    }
    return 1;
}

static int64_t read_chunks(struct exchange *exchange, void *data, size_t size, int64_t deadline)
{
    weft_http_request *request = &exchange->request;
    int64_t result = next_piece(exchange, deadline);
    if (result <= 0)
        return result;
    if (request->read + (int64_t)request->piece_size > request->limit)
        return -EFBIG;
    if (size > request->piece_size)
        size = request->piece_size;
    memcpy(data, request->piece, size);
    request->piece += size;
    request->piece_size -= size;
    return (int64_t)size;
}

static int64_t read_until(weft_http_request *request, void *data, size_t size, int64_t deadline)
{
    struct exchange *exchange = exchange_of_request(request);
    if (request->error != 0)
        return request->error;
    if (request->done || size == 0)
        return 0;
    int64_t got = request->head.length > request->limit ? -EFBIG : send_continue(exchange);
    if (got == 0)
        got = request->head.length >= 0 ? read_length(exchange, data, size, deadline)
                                        : read_chunks(exchange, data, size, deadline);
    if (got < 0)
        return fail(request, (int)got);
    request->read += got;
    return got;
}

int64_t weft_http_read(weft_http_request *request, void *data, size_t size)
{
    if (request == NULL)
        return -EINVAL;
    const weft_http_options *options = &exchange_of_request(request)->server->options;
    return read_until(request, data, size, weft_after(options->body_timeout));
}

/* ---- a whole body in memory ---- */

/* Counts the memory for a body beyond HTTP_BODY_UNCOUNTED. Returns false if all bodies, or those of
 * the client's address, have as much as they may. */
static bool count_memory(struct exchange *exchange, size_t room)
{
    weft_http_server *server = exchange->server;
    int64_t *held = &exchange->request.held;
    int64_t more = (int64_t)room - HTTP_BODY_UNCOUNTED - *held;
    if (more <= 0)
        return true;
    int64_t before = atomic_i64_add_relaxed(&server->body_memory, more);
    if (before + more <= server->options.max_body_memory &&
        weft__http_per_ip_acquire(server->per_ip_limits, PER_IP_BODY_BYTES, &exchange->client,
                                  more)) {
        *held += more;
        return true;
    }
    (void)atomic_i64_add_relaxed(&server->body_memory, -more);
    return false;
}

void weft__http_body_release_memory(struct exchange *exchange)
{
    int64_t *held = &exchange->request.held;
    if (*held == 0)
        return;
    (void)atomic_i64_add_relaxed(&exchange->server->body_memory, -*held);
    weft__http_per_ip_release(exchange->server->per_ip_limits, PER_IP_BODY_BYTES, &exchange->client,
                              *held);
    *held = 0;
}

/* The next size of the memory: `wanted`, or less if the body is shorter; one byte is for a zero. A
 * length that a client announces costs no memory before the bytes come. */
static size_t next_room(const weft_http_request *request, size_t used, size_t wanted)
{
    bool known = request->head.length > 0 && request->head.length <= request->limit;
    size_t whole = known ? used + (size_t)request->left + 1 : wanted;
    return whole < wanted ? whole : wanted;
}

/* Without memory, or beyond what bodies may have, frees the block and returns NULL. */
static struct block *resize(struct exchange *exchange, struct block *block, size_t room)
{
    struct block *larger =
        count_memory(exchange, room) ? weft__http_resize(block, sizeof *block + room) : NULL;
    if (larger == NULL) {
        weft__http_body_release_memory(exchange);
        weft__http_free(block);
    }
    return larger;
}

int weft_http_read_all(weft_http_request *request, char **body, size_t *size)
{
    if (request == NULL)
        return -EINVAL;
    struct exchange *exchange = exchange_of_request(request);
    size_t first = request->head.length > 0 ? HTTP_BODY_UNCOUNTED : 4096;
    size_t used = 0, room = next_room(request, 0, first);
    struct block *block = weft__http_allocate(sizeof *block + room);
    for (;;) {
        if (block == NULL)
            return fail(request, -ENOMEM);
        if (used + 1 == room && !request->done) {
            room = next_room(request, used, room * 2);
            block = resize(exchange, block, room);
            continue;
        }
        int64_t got = weft_http_read(request, (char *)block->bytes + used, room - 1 - used);
        if (got < 0) {
            weft__http_free(block);
            return (int)got;
        }
        used += (size_t)got;
        if (got == 0)
            break;
    }
    ((char *)block->bytes)[used] = '\0';
    block->next = request->blocks;
    request->blocks = block;
    *body = (char *)block->bytes;
    *size = used;
    return 0;
}

bool weft__http_body_is_large(const weft_http_request *request)
{
    return !request->done && request->left > HTTP_DRAIN_MAX;
}

bool weft__http_body_drain(struct exchange *exchange)
{
    weft_http_request *request = &exchange->request;
    if (request->done)
        return true;
    /* Two kinds of connections are not kept, since the end of the body is unknown: if the client
     * waited for 100 and got another answer, it may send the body or not (see
     * weft__http_response_commit); and if the body could not be read (see fail). */
    must(request->continue_sent && request->error == 0);
    if (weft__http_body_is_large(request))
        return false;
    char rest[4096];
    int64_t deadline = weft_after(DRAIN_TIME);
    int64_t got, most = request->read + HTTP_DRAIN_MAX;
    request->limit = INT64_MAX;
    do
        got = read_until(request, rest, sizeof rest, deadline);
    while (got > 0 && request->read < most);
    return request->done;
}
