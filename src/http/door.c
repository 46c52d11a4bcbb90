/*
 * door.c: the fiber that watches connections nobody works on.
 *
 * It sleeps in weft's poller on a set of its own (an epoll in an epoll), and when that has something takes what there is: a
 * new connection is admitted or refused; of one with data as much of the head is read as there is. A head that is
 * whole goes to the pool; one that is not is kept in as many bytes as it has. So clients that send slowly, or nothing, cost a
 * record and no fiber, however many there are. Full pool: 503, from here.
 *
 * After each round it lets the workers run, and looks again: under load a round has many requests, and costs one system
 * call; the poller is troubled only when there is nothing to do.
 *
 * No client holds it up: of a connection with TLS it reads a bounded number of records, then its turn comes after those of
 * the others that have something, and after the deadlines.
 *
 * No descriptors (EMFILE): the connection stays in the kernel's queue, and the door takes its listeners out of the set for a
 * moment: else it would be told of it without end.
 */
#include <errno.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/fiber.h>

#include "http/exchange.h"

/* REFUSALS: of requests of one connection, one behind the other; then it is closed, so that others get their turn. */
/* Few events at a time: what is read is answered while it is in the caches (docs/design/http.md has figures). */
/* ACCEPTS_TLS: each is a handshake of some 150 us soon; what costs less comes between them. */
enum { EVENTS = 32, ACCEPTS = 16, ACCEPTS_TLS = 1, REFUSALS = 32 };
#define DEAF (50 * WEFT_MS)

int weft__http_door_open(struct door *door, weft_http_server *server)
{
    door->watched = WATCHED_BELL;
    door->server = server;
    door->set = weft__http_set_open();
    if (door->set < 0)
        return door->set;
    door->bell = weft__http_bell_open();
    int error =
        door->bell < 0 ? door->bell : weft__http_set_add_shared(door->set, door->bell, door);
    if (error == 0)
        error = weft_context_open(&door->context, server->context, NULL);
    if (error != 0) {
        if (door->bell >= 0)
            weft__http_close_fd(door->bell);
        weft__http_close_fd(door->set);
    }
    return error;
}

void weft__http_door_close(struct door *door)
{
    weft__http_bury(door);
    weft_context_close(door->context);
    weft__http_close_fd(door->bell);
    weft__http_close_fd(door->set);
}

/* New connections. */

static void unlisten(struct door *door)
{
    weft_http_server *server = door->server;
    weft_mutex_lock(&server->lock);
    for (int i = 0; i < server->listener_count; i++)
        weft__http_set_remove(door->set, server->listeners[i].fd);
    weft_mutex_unlock(&server->lock);
}

static void listen_again(struct door *door)
{
    weft_http_server *server = door->server;
    door->deaf_until = 0;
    weft_mutex_lock(&server->lock);
    for (int i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        int error = weft__http_set_add_shared(door->set, listener->fd, listener);
        if (error != 0 && error != -EEXIST) /* one that is new, or went in last time */
            door->deaf_until = weft_after(DEAF);
    }
    weft_mutex_unlock(&server->lock);
}

/* Answers a head that is not whole. The log is told what there is of it, if there is memory for
 * that. */
static void refuse_partial(struct connection *connection, int status)
{
    weft_http_server *server = connection->door->server;
    void *object;
    if (server->options.log != NULL && weft_object_pool_get(server->exchanges, &object) == 0) {
        struct exchange *exchange = object;
        weft__http_exchange_restore(exchange, connection);
        exchange->request.head.method = NULL; /* of whoever had it before */
        exchange->request.head.count = 0;
        weft__http_refuse_log(exchange, status);
        weft__http_exchange_put(exchange);
    }
    (void)weft__http_refuse(connection, status, true, false);
}

/* Of this door: another one may be reading from its own. They have as many each. */
static struct connection *longest_waiting(struct door *door)
{
    static const enum list lists[] = {LIST_IDLE, LIST_READING, LIST_LINGERING};
    struct connection *longest = NULL;
    int64_t since = INT64_MAX;
    weft_mutex_lock(&door->lock);
    for (int i = 0; i < 3; i++) {
        struct connection *first = door->lists[lists[i]].first;
        int64_t begin = first != NULL ? first->deadline - weft__http_time_in(door, lists[i]) : 0;
        if (first != NULL && begin < since) {
            longest = first;
            since = begin;
        }
    }
    weft_mutex_unlock(&door->lock);
    return longest;
}

/* Closes the connection that waits for longest, for its next request or the end of a head, or to be
 * closed; false if none does. */
static bool evict(struct door *door)
{
    struct connection *longest = longest_waiting(door);
    if (longest == NULL)
        return false;
    enum list list = longest->list;
    if (list == LIST_READING && longest->partial != NULL)
        refuse_partial(longest, 503);
    weft__http_take(longest, NULL); /* an event of it that was fetched already is nobody's */
    if (list == LIST_LINGERING)
        longest->partial = NULL; /* in place of linger_end */
    weft__http_close_connection(longest);
    count_up(&door->server->evicted);
    return true;
}

static bool find_place(struct door *door, bool *crowded)
{
    weft_http_server *server = door->server;
    do {
        if (atomic_i64_add_relaxed(&server->connections, 1) < server->most_connections)
            return true;
        (void)atomic_i64_add_relaxed(&server->connections, -1);
        *crowded = true;
    } while (evict(door));
    return false;
}

/* A place for one more, or not. An address that has its share takes nobody's place. */
static bool has_room(struct door *door, const struct peer *peer, bool *crowded)
{
    struct limits *limits = door->server->limits;
    if (!weft__http_limits_enter(limits, LIMIT_CONNECTIONS, peer, 1))
        return false;
    if (find_place(door, crowded))
        return true;
    weft__http_limits_leave(limits, LIMIT_CONNECTIONS, peer, 1);
    return false;
}

static struct door *next_door(weft_http_server *server)
{
    uint64_t number = atomic_u64_add_relaxed(&server->next_door, 1);
    return &server->doors[number % (uint64_t)server->door_count];
}

static void welcome(struct door *door, int fd, struct peer *peer, const struct listener *listener)
{
    weft_http_server *server = door->server;
    count_up(&server->accepted);
    peer->trusted = weft__http_networks_have(server->networks, peer);
    bool crowded = false;
    if (!has_room(door, peer, &crowded)) {
        count_up(&server->refused);
        weft__http_turn_away(server, fd, listener->keys != NULL);
        return;
    }
    /* A door that made room has what comes instead: else it would run out of those it may close. */
    if (!weft__http_admit(crowded ? door : next_door(server), fd, peer, listener)) {
        count_up(&server->accept_errors);
        weft__http_limits_leave(server->limits, LIMIT_CONNECTIONS, peer, 1);
        (void)atomic_i64_add_relaxed(&server->connections, -1);
    }
}

/* One that is being added, and may yet be taken back, is not accepted from: its number may be somebody else's by then. */
static bool is_listening(weft_http_server *server, const struct listener *listener)
{
    weft_mutex_lock(&server->lock);
    bool counted = listener - server->listeners < server->listener_count;
    weft_mutex_unlock(&server->lock);
    return counted;
}

static void accept_some(struct door *door, const struct listener *listener)
{
    weft_http_server *server = door->server;
    struct peer peer;
    for (int i = 0; i < (listener->keys != NULL ? ACCEPTS_TLS : ACCEPTS); i++) {
        int fd = weft__http_accept(listener->fd, &peer);
        if (fd >= 0) {
            welcome(door, fd, &peer, listener);
            continue;
        }
        if (fd == -EAGAIN)
            return;
        count_up(&server->accept_errors);
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
            door->deaf_until = weft_after(DEAF);
            unlisten(door);
            return;
        }
        /* The rest is of that one connection (ECONNABORTED, EPROTO and such): the next one, please. */
    }
}

/* Heads. */

static void refuse(struct exchange *exchange, int status)
{
    struct connection *connection = exchange->connection;
    count_up(&exchange->server->bad);
    weft__http_refuse_log(exchange, status);
    weft__http_exchange_put(exchange);
    (void)weft__http_refuse(connection, status, true, false);
    weft__http_linger(connection);
}

/* Gives the request to a worker; without one, says so. False if the connection is gone, or a worker's; it is not kept if
 * this is the `last` refusal. */
static bool hand_over(struct exchange *exchange, bool last)
{
    struct connection *connection = exchange->connection;
    weft_http_server *server = exchange->server;
    weft__http_take(connection, exchange);
    exchange->queued = weft__http_ticks();
    int status = weft__http_count_in(exchange) ? 503 : 429;
    if (status == 503 && weft_pool_try_invoke(server->pool, exchange) == 0)
        return false;
    weft__http_count_out(exchange);
    const weft_http_request *request = &exchange->request;
    bool close = last || !request->head.keep_alive || request->head.length != 0;
    count_up(&server->refused);
    weft__http_refuse_log(exchange, status);
    weft__http_response_free(exchange);
    bool head = strcmp(request->head.method, "HEAD") == 0;
    if (!weft__http_refuse(connection, status, close, head) || close) {
        weft__http_linger(connection);
        weft__http_exchange_put(exchange);
        return false;
    }
    weft__http_exchange_next(exchange);
    weft__http_move(connection, LIST_IDLE);
    return true;
}

/* One that has had its turn of TLS gets another, behind those that are ready now. */
static void go_on_later(struct connection *connection)
{
    if (weft__http_is_starved(connection))
        weft__http_set_again(connection->door->set, connection->fd, connection, true);
}

/* Keeps what has come of a head; without memory the connection ends. */
static void keep_partial(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    bool begins = connection->list == LIST_IDLE && exchange->in_size > 0;
    bool kept = weft__http_exchange_save(exchange, &connection->partial);
    weft__http_exchange_put(exchange);
    if (!kept) {
        weft__http_close_connection(connection);
        return;
    }
    if (begins)
        weft__http_move(connection, LIST_READING);
    go_on_later(connection);
}

static void read_head(struct connection *connection)
{
    weft_http_server *server = connection->door->server;
    struct exchange *exchange;
    void *object;
    int status, refusals = 0;
    if (weft_object_pool_get(server->exchanges, &object) != 0) {
        count_up(&server->refused);
        (void)weft__http_refuse(connection, 503, true, false);
        weft__http_linger(connection);
        return;
    }
    exchange = object;
    weft__http_exchange_restore(exchange, connection);
    atomic_u32_store_relaxed(&connection->readable, 0);
    enum taken taken;
    while ((taken = weft__http_exchange_take(exchange, &status)) == TAKEN_WHOLE) {
        if (!hand_over(exchange, ++refusals == REFUSALS))
            return;
        exchange->drained = false;
    }
    if (taken == TAKEN_PARTLY) {
        keep_partial(exchange);
    } else if (taken == TAKEN_REFUSED) {
        refuse(exchange, status);
    } else {
        weft__http_exchange_put(exchange);
        weft__http_close_connection(connection);
    }
}

/* The PROXY header is first. False if it is not whole yet, or the connection is gone. */
static bool introduce(struct connection *connection)
{
    weft_http_server *server = connection->door->server;
    if (connection->stage != STAGE_PROXY)
        return true;
    int error = weft__http_read_proxy(connection);
    if (error == -EAGAIN)
        return false;
    connection->stage = connection->tls != NULL ? STAGE_SHAKE : STAGE_HEADS;
    if (error == -EBADMSG) {
        count_up(&server->bad);
        weft__http_log_proxy(connection, 400);
    } else if (error == -EUSERS || error == -ENOMEM) {
        count_up(&server->refused);
    }
    if (error == -EUSERS && connection->stage == STAGE_HEADS) {
        (void)weft__http_refuse(connection, 503, true, false);
        weft__http_linger(connection);
    } else if (error != 0) {
        weft__http_close_connection(connection);
    }
    return error == 0;
}

/* False if the handshake goes on, or has failed. */
static bool shake(struct connection *connection)
{
    if (connection->stage == STAGE_HEADS)
        return true;
    int error = weft__http_tls_handshake(connection->tls);
    if (error == 0)
        connection->stage = STAGE_HEADS;
    if (error == -EAGAIN) {
        go_on_later(connection);
    } else if (error != 0) {
        weft_http_server *server = connection->door->server;
        count_up(error == -ENOMEM ? &server->accept_errors : &server->bad);
        if (error == -EPROTOTYPE)
            weft__http_refuse_plain(connection);
        else
            weft__http_close_connection(connection);
    }
    return error == 0;
}

static void cancel(void *arg)
{
    struct exchange *exchange = arg;
    weft_http_server *server = exchange->server;
    weft_context_cancel(exchange->context);
    weft_context_cancel(exchange->stream);
    weft__http_exchange_told(exchange);
    weft_wg_done(&server->running);
}

/* Tells a handler that its client is gone. By a fiber, which counts as a door: a cancellation calls whatever the handler has
 * hung on its context. */
static void tell(struct exchange *exchange)
{
    weft_http_server *server = exchange->server;
    (void)!weft_wg_add(&server->running, 1);
    if (weft_go(cancel, exchange) == 0)
        return;
    weft__http_exchange_told(exchange);
    weft_wg_done(&server->running);
}

/* The events after which a client is gone. One that has only ended its side may read on. */
static uint32_t gone_by(const weft_http_server *server)
{
    return server->options.end_is_gone != 0 ? HTTP_RESET | HTTP_ENDED : HTTP_RESET;
}

static void connection_event(struct connection *connection, uint32_t events)
{
    struct door *door = connection->door;
    struct exchange *gone = NULL;
    weft_mutex_lock(&door->lock);
    bool mine = connection->list != LIST_BUSY; /* one that a worker has closed stays so */
    if ((events & HTTP_ENDED) != 0)
        (void)atomic_u32_exchange_seq_cst(&connection->ended, 1);
    if ((events & HTTP_RESET) != 0)
        (void)atomic_u32_exchange_seq_cst(&connection->reset, 1);
    if (!mine && (events & (HTTP_READABLE | HTTP_ENDED)) != 0)
        atomic_u32_store_release(&connection->readable, 1); /* with what is said of the end */
    if ((events & gone_by(door->server)) != 0 && connection->exchange != NULL &&
        weft__http_exchange_tell(connection->exchange))
        gone = connection->exchange;
    weft_mutex_unlock(&door->lock);
    if (gone != NULL)
        tell(gone);
    if (!mine)
        return;
    if (connection->list == LIST_LINGERING) {
        weft__http_discard(connection);
        return;
    }
    if (connection->tls != NULL)
        weft__http_tls_turn(connection->tls);
    if (introduce(connection) && shake(connection))
        read_head(connection);
}

/* Deadlines and the end. */

/* Closes what has waited too long, or all that waits. Gives the next deadline. */
static int64_t sweep(struct door *door, bool all)
{
    static const enum list lists[] = {LIST_READING, LIST_IDLE, LIST_LINGERING};
    const weft_http_options *options = &door->server->options;
    int64_t now = weft_now();
    int64_t shortest = options->header_timeout < options->idle_timeout ? options->header_timeout
                                                                       : options->idle_timeout;
    int64_t soon = weft_after(shortest), next = WEFT_NEVER;
    for (int i = 0; i < 3; i++) {
        for (;;) {
            weft_mutex_lock(&door->lock);
            struct connection *oldest = door->lists[lists[i]].first;
            bool crowded = lists[i] == LIST_LINGERING &&
                           door->lists[LIST_LINGERING].count > HTTP_LINGERING_MOST;
            int64_t deadline = oldest != NULL ? oldest->deadline : WEFT_NEVER;
            if (door->count > 0 && deadline > soon)
                deadline = soon; /* a worker may give one back while we sleep */
            weft_mutex_unlock(&door->lock);
            if (oldest == NULL || (!all && !crowded && oldest->deadline > now)) {
                next = deadline < next ? deadline : next;
                break;
            }
            if (!all) {
                count_up(&door->server->timed_out);
                if (lists[i] == LIST_READING && oldest->stage == STAGE_PROXY)
                    weft__http_log_proxy(oldest, 408);
                else if (lists[i] == LIST_READING && oldest->partial != NULL)
                    refuse_partial(oldest, 408);
            }
            weft__http_close_connection(oldest);
        }
    }
    return next;
}

static void event(struct door *door, const struct http_event *event)
{
    enum watched watched = *(const enum watched *)event->what;
    if (watched == WATCHED_CONNECTION)
        connection_event(event->what, event->events);
    else if (watched == WATCHED_BELL)
        weft__http_bell_quiet(door->bell);
    else if (atomic_u32_load_relaxed(&door->server->stopping) == 0 && door->deaf_until == 0 &&
             is_listening(door->server, event->what))
        accept_some(door, event->what);
}

/* Whether the door may be shut: all is answered and closed. */
static bool stopped(struct door *door)
{
    if (atomic_u32_load_acquire(&door->server->stopping) == 0)
        return false;
    if (!door->told) {
        door->told = true;
        door->deaf_until = 0; /* the listeners' numbers are somebody else's soon */
        unlisten(door);
        weft_wg_done(&door->server->deaf);
    }
    (void)sweep(door, true);
    weft_mutex_lock(&door->lock);
    bool empty = door->count == 0;
    weft_mutex_unlock(&door->lock);
    return empty;
}

void weft__http_door_run(void *arg)
{
    struct door *door = arg;
    struct http_event events[EVENTS];
    while (!stopped(door)) {
        weft__http_bury(door);
        int count = weft__http_set_look(door->set, events, EVENTS);
        must(count >= 0);
        for (int i = 0; i < count; i++)
            event(door, &events[i]);
        int64_t next = sweep(door, false);
        if (door->deaf_until != 0 && door->deaf_until <= weft_now())
            listen_again(door);
        if (door->deaf_until != 0 && door->deaf_until < next)
            next = door->deaf_until;
        if (count > 0) {
            weft_yield();
            continue;
        }
        int ready = weft_fd_wait(door->set, WEFT_READABLE, next);
        if (ready < 0 &&
            ready != -ETIMEDOUT) /* cannot be watched: no memory; look from time to time */
            (void)weft_sleep(10 * WEFT_MS);
    }
    weft__http_bury(door);
    weft_wg_done(&door->server->running);
}
