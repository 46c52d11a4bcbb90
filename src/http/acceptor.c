/*
 * acceptor.c: the fiber that accepts connections and watches those without an exchange in progress.
 *
 * A server has one for each processor, by default. Each has an epoll set of its own, and its fiber
 * waits for that set as for any descriptor, in weft's poller. The listeners are in all sets; a new
 * connection is given to the acceptors in turn.
 *
 * When the set has events the acceptor handles a round of them, EVENTS at most: it admits or
 * refuses new connections, and reads as much of a head as has come. A whole head goes to the pool;
 * if the pool is full the acceptor itself answers 503. A partial head is saved in as many bytes as
 * it has, so a client that sends slowly, or nothing, costs a struct connection and no fiber.
 *
 * After each round it yields, to let the requests of the round begin, and looks at the set again.
 * It yields once, and again while some have not begun: at most once for each, and for at most
 * BEGIN_MAX, since in a full pool they do not begin. Under load one look, a system call, finds many
 * events; the acceptor goes back to the poller only when the set has none.
 *
 * No client holds it up: from a connection with TLS it reads a bounded number of TLS records, and
 * goes on with it after the other connections that are ready, and after the deadlines.
 *
 * If no descriptor is free (EMFILE) a new connection stays in the kernel's queue, and each look at
 * the set would report it again. So the acceptor takes the listeners out of its set for
 * ACCEPT_PAUSE.
 *
 * Calls go to exchange.c, connection.c and what they use; none comes back.
 */
#include <errno.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/fiber.h>

#include "http/acceptor.h"
#include "http/client_address.h"
#include "http/exchange.h"
#include "http/log.h"
#include "http/networks.h"
#include "http/partial_head.h"
#include "http/per_ip_limit.h"
#include "http/refuse.h"
#include "http/sys.h"
#include "http/tls.h"

enum {
    /* Few at a time: a request is answered while it is in the caches (docs/design/http.md has
     * figures). */
    EVENTS = 32,
    ACCEPTS = 16,
    /* Each soon costs a handshake of 150 us: cheaper events come in between. */
    ACCEPTS_TLS = 1,
    /* Requests refused on one connection in a row. Then it is closed, so that others are served. */
    REFUSALS = 32,
};
#define ACCEPT_PAUSE (50 * WEFT_MS)
/* How long accepting, refusals and deadlines may wait for handlers of a round that compute. */
#define BEGIN_MAX (10 * WEFT_MS)

int weft__http_acceptor_open(struct acceptor *acceptor, weft_http_server *server)
{
    acceptor->watched = WATCHED_WAKEUP;
    acceptor->server = server;
    acceptor->set = weft__http_set_open();
    if (acceptor->set < 0)
        return acceptor->set;
    acceptor->wakeup = weft__http_wakeup_open();
    int error = acceptor->wakeup < 0
                    ? acceptor->wakeup
                    : weft__http_set_add_shared(acceptor->set, acceptor->wakeup, acceptor);
    if (error == 0)
        error = weft_context_open(&acceptor->context, server->context, NULL);
    if (error != 0) {
        if (acceptor->wakeup >= 0)
            weft__http_close_fd(acceptor->wakeup);
        weft__http_close_fd(acceptor->set);
    }
    return error;
}

void weft__http_acceptor_close(struct acceptor *acceptor)
{
    weft__http_connections_reap(acceptor);
    weft_context_close(acceptor->context);
    weft__http_close_fd(acceptor->wakeup);
    weft__http_close_fd(acceptor->set);
}

/* ---- new connections ---- */

static void pause_accepting(struct acceptor *acceptor)
{
    weft_http_server *server = acceptor->server;
    weft_mutex_lock(&server->lock);
    for (int i = 0; i < server->listener_count; i++)
        weft__http_set_remove(acceptor->set, server->listeners[i].fd);
    weft_mutex_unlock(&server->lock);
}

static void resume_accepting(struct acceptor *acceptor)
{
    weft_http_server *server = acceptor->server;
    acceptor->accept_paused_until = 0;
    weft_mutex_lock(&server->lock);
    for (int i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        int error = weft__http_set_add_shared(acceptor->set, listener->fd, listener);
        if (error != 0 && error != -EEXIST) /* -EEXIST: new, or added before */
            acceptor->accept_paused_until = weft_after(ACCEPT_PAUSE);
    }
    weft_mutex_unlock(&server->lock);
}

/* Answers a partial head. The log gets what came of it, if there is memory for that. */
static void refuse_partial_head(struct connection *connection, int status)
{
    weft_http_server *server = connection->acceptor->server;
    void *object;
    if (server->options.log != NULL && weft_object_pool_get(server->exchanges, &object) == 0) {
        struct exchange *exchange = object;
        weft__http_exchange_restore(exchange, connection);
        exchange->request.head.method = NULL; /* of the exchange's last user */
        exchange->request.head.count = 0;
        weft__http_log_refusal(exchange, status);
        weft__http_exchange_put(exchange);
    }
    (void)weft__http_refuse(connection, status, true, false);
}

/* Of this acceptor's connections: another acceptor may be reading from its own. */
static struct connection *longest_waiting(struct acceptor *acceptor)
{
    static const enum connection_list lists[] = {LIST_IDLE, LIST_READING, LIST_LINGERING};
    struct connection *longest = NULL;
    int64_t since = INT64_MAX;
    weft_mutex_lock(&acceptor->lock);
    for (int i = 0; i < 3; i++) {
        struct connection *first = acceptor->lists[lists[i]].first;
        int64_t begin =
            first != NULL ? first->deadline - weft__http_connection_timeout(acceptor, lists[i]) : 0;
        if (first != NULL && begin < since) {
            longest = first;
            since = begin;
        }
    }
    weft_mutex_unlock(&acceptor->lock);
    return longest;
}

/* Closes the connection that has waited longest: for its next request, for the end of a head, or
 * lingering. Returns false if none waits. */
static bool evict(struct acceptor *acceptor)
{
    struct connection *longest = longest_waiting(acceptor);
    if (longest == NULL)
        return false;
    enum connection_list list = longest->list;
    if (list == LIST_READING && longest->partial != NULL)
        refuse_partial_head(longest, 503);
    weft__http_connection_take(longest, NULL); /* events of it that were fetched are ignored */
    if (list == LIST_LINGERING)
        longest->partial = NULL; /* was linger_end */
    weft__http_connection_close(longest);
    count_up(&acceptor->server->evicted);
    return true;
}

static bool count_connection(struct acceptor *acceptor, bool *evicted)
{
    weft_http_server *server = acceptor->server;
    do {
        if (atomic_i64_add_relaxed(&server->connections, 1) < server->connection_limit)
            return true;
        (void)atomic_i64_add_relaxed(&server->connections, -1);
        *evicted = true;
    } while (evict(acceptor));
    return false;
}

/* Whether one more connection is allowed. The limit by address comes first: an address that is at
 * its limit evicts no other connection. */
static bool has_room(struct acceptor *acceptor, const struct peer *peer, bool *evicted)
{
    struct per_ip_limits *limits = acceptor->server->per_ip_limits;
    if (!weft__http_per_ip_acquire(limits, PER_IP_CONNECTIONS, peer, 1))
        return false;
    if (count_connection(acceptor, evicted))
        return true;
    weft__http_per_ip_release(limits, PER_IP_CONNECTIONS, peer, 1);
    return false;
}

static struct acceptor *next_acceptor(weft_http_server *server)
{
    uint64_t number = atomic_u64_add_relaxed(&server->next_acceptor, 1);
    return &server->acceptors[number % (uint64_t)server->acceptor_count];
}

static void admit(struct acceptor *acceptor, int fd, struct peer *peer,
                  const struct listener *listener)
{
    weft_http_server *server = acceptor->server;
    count_up(&server->accepted);
    peer->trusted = weft__http_networks_have(server->networks, peer);
    bool evicted = false;
    if (!has_room(acceptor, peer, &evicted)) {
        count_up(&server->refused);
        weft__http_refuse_socket(server, fd, listener->keys != NULL);
        return;
    }
    /* An acceptor that evicted a connection keeps the new one: otherwise it would run out of
     * connections that it may evict. */
    if (!weft__http_connection_open(evicted ? acceptor : next_acceptor(server), fd, peer,
                                    listener)) {
        count_up(&server->accept_errors);
        weft__http_per_ip_release(server->per_ip_limits, PER_IP_CONNECTIONS, peer, 1);
        (void)atomic_i64_add_relaxed(&server->connections, -1);
    }
}

/* False for a listener that is still being added: it may be taken back, and its descriptor closed
 * and used again. */
static bool is_listening(weft_http_server *server, const struct listener *listener)
{
    weft_mutex_lock(&server->lock);
    bool counted = listener - server->listeners < server->listener_count;
    weft_mutex_unlock(&server->lock);
    return counted;
}

static void accept_some(struct acceptor *acceptor, const struct listener *listener)
{
    weft_http_server *server = acceptor->server;
    struct peer peer;
    for (int i = 0; i < (listener->keys != NULL ? ACCEPTS_TLS : ACCEPTS); i++) {
        int fd = weft__http_accept(listener->fd, &peer);
        if (fd >= 0) {
            admit(acceptor, fd, &peer, listener);
            continue;
        }
        if (fd == -EAGAIN)
            return;
        count_up(&server->accept_errors);
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
            acceptor->accept_paused_until = weft_after(ACCEPT_PAUSE);
            pause_accepting(acceptor);
            return;
        }
        /* Other errors (ECONNABORTED, EPROTO) are of that one connection. */
    }
}

/* ---- heads ---- */

/* Submits the request to the pool, or refuses it. Returns true if the connection stays with the
 * acceptor, which may read its next request; not after the `last` refusal. */
static bool hand_over(struct exchange *exchange, bool last)
{
    struct connection *connection = exchange->connection;
    struct acceptor *acceptor = connection->acceptor;
    weft_http_server *server = exchange->server;
    weft__http_connection_take(connection, exchange);
    exchange->queued = weft__http_ticks();
    int status = weft__http_count_in(exchange) ? 503 : 429;
    acceptor->submitted++;
    exchange->waits_to_begin = true;
    if (status == 503 && weft_pool_try_invoke(server->pool, exchange) == 0)
        return false;
    acceptor->submitted--;
    exchange->waits_to_begin = false;
    weft__http_count_out(exchange);
    const weft_http_request *request = &exchange->request;
    bool close = last || !request->head.keep_alive || request->head.length != 0;
    count_up(&server->refused);
    weft__http_log_refusal(exchange, status);
    weft__http_response_free(exchange);
    bool head = strcmp(request->head.method, "HEAD") == 0;
    if (!weft__http_refuse(connection, status, close, head) || close) {
        weft__http_connection_linger(connection);
        weft__http_exchange_put(exchange);
        return false;
    }
    weft__http_exchange_next(exchange);
    weft__http_connection_move(connection, LIST_IDLE);
    return true;
}

/* A connection whose record budget is spent is looked at again after those that are ready now. */
static void look_again(struct connection *connection)
{
    if (weft__http_connection_budget_spent(connection))
        weft__http_set_again(connection->acceptor->set, connection->fd, connection, true);
}

/* Saves what has come of a head. Without memory the connection ends. */
static void save_partial_head(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    bool begins = connection->list == LIST_IDLE && exchange->in_size > 0;
    bool kept = weft__http_exchange_save(exchange, &connection->partial);
    weft__http_exchange_put(exchange);
    if (!kept) {
        weft__http_connection_close(connection);
        return;
    }
    if (begins)
        weft__http_connection_move(connection, LIST_READING);
    look_again(connection);
}

static void read_head(struct connection *connection)
{
    weft_http_server *server = connection->acceptor->server;
    struct exchange *exchange;
    void *object;
    int status, refusals = 0;
    if (weft_object_pool_get(server->exchanges, &object) != 0) {
        count_up(&server->refused);
        weft__http_refuse_and_linger(connection, 503, false);
        return;
    }
    exchange = object;
    weft__http_exchange_restore(exchange, connection);
    atomic_u32_store_relaxed(&connection->readable, 0);
    enum head_result result;
    while ((result = weft__http_exchange_read_head(exchange, &status)) == HEAD_WHOLE) {
        if (!hand_over(exchange, ++refusals == REFUSALS))
            return;
        exchange->drained = false;
    }
    if (result == HEAD_PARTIAL) {
        save_partial_head(exchange);
    } else if (result == HEAD_REFUSED) {
        weft__http_exchange_refuse(exchange, status, &server->bad, false);
    } else {
        weft__http_exchange_put(exchange);
        weft__http_connection_close(connection);
    }
}

/* Reads the PROXY header, if one comes first. Returns false if it is not whole, or the connection
 * has ended. */
static bool read_proxy_header(struct connection *connection)
{
    weft_http_server *server = connection->acceptor->server;
    if (connection->stage != STAGE_PROXY)
        return true;
    int error = weft__http_read_proxy(connection);
    if (error == -EAGAIN)
        return false;
    connection->stage = connection->tls != NULL ? STAGE_HANDSHAKE : STAGE_REQUESTS;
    if (error == -EBADMSG) {
        count_up(&server->bad);
        weft__http_log_proxy(connection, 400);
    } else if (error == -EUSERS || error == -ENOMEM) {
        count_up(&server->refused);
    }
    if (error == -EUSERS && connection->stage == STAGE_REQUESTS) {
        weft__http_refuse_and_linger(connection, 503, false);
    } else if (error != 0) {
        weft__http_connection_close(connection);
    }
    return error == 0;
}

/* Returns true when the handshake is complete, or there is none. */
static bool do_handshake(struct connection *connection)
{
    if (connection->stage == STAGE_REQUESTS)
        return true;
    int error = weft__http_tls_handshake(connection->tls);
    if (error == 0)
        connection->stage = STAGE_REQUESTS;
    if (error == -EAGAIN) {
        look_again(connection);
    } else if (error != 0) {
        weft_http_server *server = connection->acceptor->server;
        count_up(error == -ENOMEM ? &server->accept_errors : &server->bad);
        if (error == -EPROTOTYPE)
            weft__http_refuse_plain(connection);
        else
            weft__http_connection_close(connection);
    }
    return error == 0;
}

static void run_cancel(void *arg)
{
    struct exchange *exchange = arg;
    weft_http_server *server = exchange->server;
    weft_context_cancel(exchange->context);
    weft_context_cancel(exchange->stream);
    weft__http_exchange_cancel_end(exchange);
    weft_wg_done(&server->running);
}

/* Cancels the context of a handler whose client is gone. A fiber does it, since a cancellation
 * calls whatever the handler has hung on its context. The fiber counts as an acceptor, so that the
 * server waits for it. */
static void cancel_handler(struct exchange *exchange)
{
    weft_http_server *server = exchange->server;
    (void)!weft_wg_add(&server->running, 1);
    if (weft_go(run_cancel, exchange) == 0)
        return;
    weft__http_exchange_cancel_end(exchange);
    weft_wg_done(&server->running);
}

/* The events after which a client is gone. By default a client that has ended its side is not: it
 * may read on. */
static uint32_t disconnect_events(const weft_http_server *server)
{
    return server->options.end_is_gone != 0 ? HTTP_RESET | HTTP_ENDED : HTTP_RESET;
}

static void connection_event(struct connection *connection, uint32_t events)
{
    struct acceptor *acceptor = connection->acceptor;
    struct exchange *gone = NULL;
    weft_mutex_lock(&acceptor->lock);
    bool waiting = connection->list != LIST_BUSY; /* stays busy when a worker closes it */
    if ((events & HTTP_ENDED) != 0)
        (void)atomic_u32_exchange_seq_cst(&connection->ended, 1);
    if ((events & HTTP_RESET) != 0)
        (void)atomic_u32_exchange_seq_cst(&connection->reset, 1);
    if (!waiting && (events & (HTTP_READABLE | HTTP_ENDED)) != 0)
        atomic_u32_store_release(&connection->readable, 1); /* publishes `ended` too */
    if ((events & disconnect_events(acceptor->server)) != 0 && connection->exchange != NULL &&
        weft__http_exchange_cancel_begin(connection->exchange))
        gone = connection->exchange;
    weft_mutex_unlock(&acceptor->lock);
    if (gone != NULL)
        cancel_handler(gone);
    if (!waiting)
        return;
    if (connection->list == LIST_LINGERING) {
        weft__http_connection_discard(connection);
        return;
    }
    if (connection->tls != NULL)
        weft__http_tls_budget_renew(connection->tls);
    if (read_proxy_header(connection) && do_handshake(connection))
        read_head(connection);
}

/* ---- deadlines and the stop ---- */

/* Closes the connections that have waited too long, or all that wait. Returns the next deadline. */
static int64_t close_expired(struct acceptor *acceptor, bool all)
{
    static const enum connection_list lists[] = {LIST_READING, LIST_IDLE, LIST_LINGERING};
    const weft_http_options *options = &acceptor->server->options;
    int64_t now = weft_now();
    int64_t shortest = options->header_timeout < options->idle_timeout ? options->header_timeout
                                                                       : options->idle_timeout;
    int64_t soon = weft_after(shortest), next = WEFT_NEVER;
    for (int i = 0; i < 3; i++) {
        for (;;) {
            weft_mutex_lock(&acceptor->lock);
            struct connection *oldest = acceptor->lists[lists[i]].first;
            bool too_many = lists[i] == LIST_LINGERING &&
                            acceptor->lists[LIST_LINGERING].count > HTTP_LINGERING_MAX;
            int64_t deadline = oldest != NULL ? oldest->deadline : WEFT_NEVER;
            if (acceptor->count > 0 && deadline > soon)
                deadline = soon; /* a worker may release one meanwhile */
            weft_mutex_unlock(&acceptor->lock);
            if (oldest == NULL || (!all && !too_many && oldest->deadline > now)) {
                next = deadline < next ? deadline : next;
                break;
            }
            if (!all) {
                count_up(&acceptor->server->timed_out);
                if (lists[i] == LIST_READING && oldest->stage == STAGE_PROXY)
                    weft__http_log_proxy(oldest, 408);
                else if (lists[i] == LIST_READING && oldest->partial != NULL)
                    refuse_partial_head(oldest, 408);
            }
            weft__http_connection_close(oldest);
        }
    }
    return next;
}

static void handle_event(struct acceptor *acceptor, const struct http_event *event)
{
    enum watched watched = *(const enum watched *)event->what;
    if (watched == WATCHED_CONNECTION)
        connection_event(event->what, event->events);
    else if (watched == WATCHED_WAKEUP)
        weft__http_wakeup_clear(acceptor->wakeup);
    else if (atomic_u32_load_relaxed(&acceptor->server->stopping) == 0 &&
             acceptor->accept_paused_until == 0 && is_listening(acceptor->server, event->what))
        accept_some(acceptor, event->what);
}

/* Whether the server stops and every connection of the acceptor is closed. */
static bool is_stopped(struct acceptor *acceptor)
{
    if (atomic_u32_load_acquire(&acceptor->server->stopping) == 0)
        return false;
    if (!acceptor->stop_seen) {
        acceptor->stop_seen = true;
        acceptor->accept_paused_until = 0; /* the listeners are closed next */
        pause_accepting(acceptor);
        weft_wg_done(&acceptor->server->accepting);
    }
    (void)close_expired(acceptor, true);
    weft_mutex_lock(&acceptor->lock);
    bool empty = acceptor->count == 0;
    weft_mutex_unlock(&acceptor->lock);
    return empty;
}

/* After a round. Yields until its requests have begun, but for at most BEGIN_MAX, and as many times
 * as there are requests: in a full pool they do not begin. A worker whose task parks wakes the next
 * worker, which becomes ready behind this fiber. With one yield a round, one request would begin
 * for 32 that are read, and a client on an open connection would wait behind all connections that
 * come at the same time. */
static void let_begin(struct acceptor *acceptor, uint32_t before)
{
    uint32_t left = acceptor->submitted - before;
    weft_yield();
    if (left < 2 || atomic_u32_load_relaxed(&acceptor->begun) == acceptor->submitted)
        return;
    int64_t end = weft_after(BEGIN_MAX);
    do
        weft_yield();
    while (--left > 1 && atomic_u32_load_relaxed(&acceptor->begun) != acceptor->submitted &&
           weft_now() < end);
}

void weft__http_acceptor_run(void *arg)
{
    struct acceptor *acceptor = arg;
    struct http_event events[EVENTS];
    while (!is_stopped(acceptor)) {
        weft__http_connections_reap(acceptor);
        uint32_t before = acceptor->submitted;
        int count = weft__http_set_look(acceptor->set, events, EVENTS);
        must(count >= 0);
        for (int i = 0; i < count; i++)
            handle_event(acceptor, &events[i]);
        int64_t next = close_expired(acceptor, false);
        if (acceptor->accept_paused_until != 0 && acceptor->accept_paused_until <= weft_now())
            resume_accepting(acceptor);
        if (acceptor->accept_paused_until != 0 && acceptor->accept_paused_until < next)
            next = acceptor->accept_paused_until;
        if (count > 0) {
            let_begin(acceptor, before);
            continue;
        }
        int ready = weft_fd_wait(acceptor->set, WEFT_READABLE, next);
        /* Without memory the set cannot be watched: look from time to time. */
        if (ready < 0 && ready != -ETIMEDOUT)
            (void)weft_sleep(10 * WEFT_MS);
    }
    weft__http_connections_reap(acceptor);
    weft_wg_done(&acceptor->server->running);
}
