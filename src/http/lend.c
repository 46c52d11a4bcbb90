/*
 * lend.c: exchanges that lend their worker's place among max_workers to another worker: streams,
 * responses of which only the sending is left, and handlers that wait for their clients.
 *
 * Invariant: the pool's capacity is max_workers + `lent_places` at any time; both change under one
 * lock. `lent_places` is at most max_streams. A worker that lends its place is on top of
 * max_workers, so that as many others are active as without it.
 *
 * A place is lent in two ways:
 *
 * For good (`lent`): a stream has begun, or the handler has returned. It ends when the exchange is
 * put back, or when the exchange is queued for its next request. The task returns a moment later,
 * and is one too many until then: the pool begins no task meanwhile.
 *
 * While a handler waits for its client (weft__http_lend_while_waiting). After a read of the body it
 * needs a place again. For that a task of high priority is queued in the pool, since what has begun
 * goes before what has not. When that task begins it has a place. It takes `lent_places` down by
 * one and returns, so the place is the handler's. The handler goes on without a place after
 * queue_timeout, when its context is cancelled, and without memory, since it may hold a lock that
 * all others wait for; then it is on top of max_workers until the task has begun. The task and the
 * handler share a record, which is freed by the second to be done with it.
 *
 * After a write the handler goes on at once, one too many: it often holds what its response is made
 * of, such as a connection of a database, for which the workers with places may wait.
 *
 * Rejected: no queue after a read either. Thousands of bodies that become whole at the same moment
 * would be as many handlers at work.
 */
#include "http/lend.h"

#include <weft/sem.h>

#include "http/exchange.h"
#include "http/per_ip_limit.h"
#include "http/sys.h"

/* Lends one place more, or one less. Returns false if that would be too many. */
static bool change_lent_places(weft_http_server *server, int64_t by)
{
    weft_mutex_lock(&server->lent_lock);
    bool room = server->lent_places + by <= server->options.max_streams;
    if (room) {
        server->lent_places += by;
        (void)weft_pool_tune(server->pool, server->options.max_workers + server->lent_places);
    }
    weft_mutex_unlock(&server->lent_lock);
    return room;
}

int weft__http_lend(struct exchange *exchange)
{
    struct per_ip_limits *limits = exchange->server->per_ip_limits;
    if (exchange->lent)
        return 0;
    if (!weft__http_per_ip_acquire(limits, PER_IP_STREAMS, &exchange->client, 1))
        return 429;
    if (!change_lent_places(exchange->server, 1)) {
        weft__http_per_ip_release(limits, PER_IP_STREAMS, &exchange->client, 1);
        return 503;
    }
    weft__http_count_out(exchange);
    exchange->counted = PER_IP_STREAMS;
    exchange->lent = true;
    return 0;
}

void weft__http_lend_end(weft_http_server *server)
{
    (void)change_lent_places(server, -1);
}

/* ---- while a handler waits ---- */

struct place_request {
    weft_http_server *server;
    weft_sem granted;
    atomic_u32 owners; /* the task and the handler */
};

static void drop(struct place_request *request)
{
    if (atomic_u32_sub_acq_rel(&request->owners, 1) == 1)
        weft__http_free(request);
}

static void grant_place(void *arg)
{
    struct place_request *request = arg;
    (void)change_lent_places(request->server, -1);
    weft_sem_release(&request->granted, 1);
    drop(request);
}

/* Submits the task. A worker's submit to its own pool is admitted without a wait, beyond the bound
 * of the queue. */
static int request_place(weft_http_server *server, struct place_request **asked)
{
    static const weft_submit_options first = {.priority = WEFT_HIGH};
    struct place_request *request = weft__http_allocate(sizeof *request);
    if (request == NULL)
        return -ENOMEM;
    *request = (struct place_request){.server = server};
    atomic_u32_store_relaxed(&request->owners, 2);
    int error = weft_pool_submit_with(server->pool, grant_place, request, &first);
    if (error != 0)
        weft__http_free(request);
    else
        *asked = request;
    return error;
}

static void regain_place(weft_http_server *server)
{
    struct place_request *request;
    if (request_place(server, &request) != 0) {
        (void)change_lent_places(server, -1);
        return;
    }
    int64_t latest = weft_after(server->options.queue_timeout);
    (void)!weft_sem_acquire_until(&request->granted, 1, latest); /* failed: go on without */
    drop(request);
}

int weft__http_lend_while_waiting(struct exchange *exchange, int events, int64_t deadline,
                                  int64_t *waited)
{
    weft_http_server *server = exchange->server;
    if (exchange->finishing) /* no handler needs the place again */
        (void)weft__http_lend(exchange);
    bool lending = !exchange->lent && change_lent_places(server, 1);
    int64_t begin = weft_now();
    int error = weft__http_connection_wait(exchange->connection, events, deadline);
    *waited += weft_now() - begin;
    if (lending && events == WEFT_READABLE)
        regain_place(server);
    else if (lending)
        (void)change_lent_places(server, -1);
    return error;
}
