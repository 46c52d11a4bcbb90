/*
 * places.c: exchanges that hold none of max_workers, though their fibers are workers of the pool:
 * streams, answers that only the client's taking is left of, and handlers that wait for their
 * clients.
 *
 * Invariant: the pool's capacity is max_workers and `streaming`, at any time; both change under one
 * lock. `streaming` counts the exchanges that are `lent` and the handlers that are away, at most
 * max_streams. A worker that counts so has its place on top of max_workers, so that as many others
 * are active as without it.
 *
 * lent    For good: a stream has begun, or the handler has returned. It ends when the exchange is
 *         given up, or stands in line for its next request. The task returns a moment later, and is
 *         one too many until then: the pool begins none meanwhile.
 *
 * away    While a handler waits for its client. After a read of the body it needs a place again: a
 *         task of high priority stands in the pool's line for it, since what has begun goes before
 *         what has not. When that task begins it has a place: it takes `streaming` down by one, and
 *         returns, so the place is the handler's. A handler goes on without after queue_timeout, when
 *         its context is cancelled, and without memory, since it may hold a lock that all others
 *         wait for: then it is on top of max_workers until the task has begun.
 *
 *         The task and the handler share a record, which is freed by the second to be done with it.
 *
 *         After a write it goes on at once, one too many: it often holds what its answer is made of,
 *         such as a connection of a database, and those who have the places may wait for that.
 *
 * Rejected: no line after a read either (thousands of bodies that become whole at the same moment
 * would be as many handlers at work).
 */
#include <weft/sem.h>

#include "http/exchange.h"

/* One more that needs no place, or one less; false if there are too many. */
static bool change_streaming(weft_http_server *server, int64_t by)
{
    weft_mutex_lock(&server->places);
    bool room = server->streaming + by <= server->options.max_streams;
    if (room) {
        server->streaming += by;
        (void)weft_pool_tune(server->pool, server->options.max_workers + server->streaming);
    }
    weft_mutex_unlock(&server->places);
    return room;
}

int weft__http_lend(struct exchange *exchange)
{
    struct limits *limits = exchange->server->limits;
    if (exchange->lent)
        return 0;
    if (!weft__http_limits_enter(limits, LIMIT_STREAMS, &exchange->client, 1))
        return 429;
    if (!change_streaming(exchange->server, 1)) {
        weft__http_limits_leave(limits, LIMIT_STREAMS, &exchange->client, 1);
        return 503;
    }
    weft__http_count_out(exchange);
    exchange->counted = LIMIT_STREAMS;
    exchange->lent = true;
    return 0;
}

void weft__http_end_stream(weft_http_server *server)
{
    (void)change_streaming(server, -1);
}

/* ---- away ---- */

struct place {
    weft_http_server *server;
    weft_sem given;
    atomic_u32 owners; /* the task and the handler */
};

static void release(struct place *place)
{
    if (atomic_u32_sub_acq_rel(&place->owners, 1) == 1)
        weft__http_free(place);
}

static void give(void *arg)
{
    struct place *place = arg;
    (void)change_streaming(place->server, -1);
    weft_sem_release(&place->given, 1);
    release(place);
}

/* A task of the pool's own: it is admitted without a wait, beyond the bound of the queue. */
static int ask(weft_http_server *server, struct place **asked)
{
    static const weft_submit_options first = {.priority = WEFT_HIGH};
    struct place *place = weft__http_allocate(sizeof *place);
    if (place == NULL)
        return -ENOMEM;
    *place = (struct place){.server = server};
    atomic_u32_store_relaxed(&place->owners, 2);
    int error = weft_pool_submit_with(server->pool, give, place, &first);
    if (error != 0)
        weft__http_free(place);
    else
        *asked = place;
    return error;
}

static void come_back(weft_http_server *server)
{
    struct place *place;
    if (ask(server, &place) != 0) {
        (void)change_streaming(server, -1);
        return;
    }
    int64_t latest = weft_after(server->options.queue_timeout);
    (void)!weft_sem_acquire_until(&place->given, 1, latest); /* else it goes on without */
    release(place);
}

int weft__http_wait_away(struct exchange *exchange, int events, int64_t deadline, int64_t *waited)
{
    weft_http_server *server = exchange->server;
    if (exchange->finishing) /* no handler needs a place again */
        (void)weft__http_lend(exchange);
    bool away = !exchange->lent && change_streaming(server, 1);
    int64_t begin = weft_now();
    int error = weft__http_connection_wait(exchange->connection, events, deadline);
    *waited += weft_now() - begin;
    if (away && events == WEFT_READABLE)
        come_back(server);
    else if (away)
        (void)change_streaming(server, -1);
    return error;
}
