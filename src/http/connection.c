/*
 * connection.c: how a connection comes, changes its owner, and goes; and its bytes, also through
 * TLS. connection.h says which part may touch what.
 *
 * Every list of an acceptor is in the order of its deadlines, since all connections of a list get
 * the same time. So an append keeps the order, and the first one is the next to expire.
 *
 * Calls go to tls.c, client_address.c and the seam; none goes back to an acceptor or an exchange.
 */
#include "http/connection.h"

#include <errno.h>
#include <string.h>

#include <weft/fd.h>
#include <weft/fiber.h>

#include "http/client_address.h"
#include "http/partial_head.h"
#include "http/server.h"
#include "http/sys.h"
#include "http/tls.h"

/* ---- lists; under the acceptor's lock ---- */

static void list_remove(struct connection *connection)
{
    struct connections *list = &connection->acceptor->lists[connection->list];
    *(connection->previous != NULL ? &connection->previous->next : &list->first) = connection->next;
    *(connection->next != NULL ? &connection->next->previous : &list->last) = connection->previous;
    list->count--;
}

static void list_append(struct connection *connection, enum connection_list which)
{
    struct connections *list = &connection->acceptor->lists[which];
    connection->list = (uint8_t)which;
    connection->next = NULL;
    connection->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = connection;
    list->last = connection;
    list->count++;
}

int64_t weft__http_connection_timeout(const struct acceptor *acceptor, enum connection_list list)
{
    const weft_http_options *options = &acceptor->server->options;
    if (list == LIST_READING)
        return options->header_timeout;
    if (list == LIST_IDLE)
        return options->idle_timeout;
    must(list == LIST_LINGERING);
    return HTTP_LINGER_SILENCE;
}

static int64_t deadline_of(const struct acceptor *acceptor, enum connection_list list)
{
    return weft_after(weft__http_connection_timeout(acceptor, list));
}

static void wait_in(struct connection *connection, enum connection_list list, int64_t deadline)
{
    list_remove(connection);
    connection->deadline = deadline;
    connection->exchange = NULL;
    list_append(connection, list);
}

/* ---- the owner changes ---- */

bool weft__http_connection_release(struct connection *connection, struct partial_head *partial)
{
    struct acceptor *acceptor = connection->acceptor;
    enum connection_list list = partial != NULL ? LIST_READING : LIST_IDLE;
    int64_t deadline = deadline_of(acceptor, list);
    bool more = weft__http_connection_budget_spent(connection);
    weft_mutex_lock(&acceptor->lock);
    bool quiet = more || (atomic_u32_load_relaxed(&connection->readable) == 0 &&
                          atomic_u32_load_relaxed(&connection->ended) == 0);
    quiet = quiet && atomic_u32_load_relaxed(&acceptor->server->stopping) == 0;
    if (quiet) {
        connection->partial = partial;
        wait_in(connection, list, deadline);
        if (more)
            weft__http_set_again(acceptor->set, connection->fd, connection, true);
    }
    weft_mutex_unlock(&acceptor->lock);
    return quiet;
}

void weft__http_connection_take(struct connection *connection, struct exchange *exchange)
{
    weft_mutex_lock(&connection->acceptor->lock);
    wait_in(connection, LIST_BUSY, WEFT_NEVER);
    connection->exchange = exchange;
    weft_mutex_unlock(&connection->acceptor->lock);
}

void weft__http_connection_move(struct connection *connection, enum connection_list list)
{
    struct acceptor *acceptor = connection->acceptor;
    int64_t deadline = deadline_of(acceptor, list);
    weft_mutex_lock(&acceptor->lock);
    wait_in(connection, list, deadline);
    weft_mutex_unlock(&acceptor->lock);
}

/* ---- it comes and goes ---- */

static enum stage first_stage(const struct listener *listener)
{
    if (listener->proxy)
        return STAGE_PROXY;
    return listener->keys != NULL ? STAGE_HANDSHAKE : STAGE_REQUESTS;
}

bool weft__http_connection_open(struct acceptor *acceptor, int fd, const struct peer *peer,
                                const struct listener *listener)
{
    struct tls_keys *keys = listener->keys;
    struct connection *connection = weft__http_allocate(sizeof *connection);
    struct tls *tls = NULL;
    if (connection != NULL && keys != NULL && (tls = weft__http_tls_open(keys, fd)) == NULL) {
        weft__http_free(connection);
        connection = NULL;
    }
    if (connection == NULL) {
        weft__http_close_fd(fd);
        return false;
    }
    *connection = (struct connection){.watched = WATCHED_CONNECTION,
                                      .fd = fd,
                                      .acceptor = acceptor,
                                      .tls = tls,
                                      .stage = first_stage(listener),
                                      .peer = *peer};
    connection->deadline = deadline_of(acceptor, LIST_READING);

    /* Added to the set under the lock: no event of the connection is handled before it is in the
     * list. After a stop it is not added: an acceptor that has seen the stop has closed all in its
     * lists, and would not close one that comes later. */
    weft_mutex_lock(&acceptor->lock);
    int error = -ESHUTDOWN;
    if (atomic_u32_load_relaxed(&acceptor->server->stopping) == 0)
        error = tls != NULL ? weft__http_set_both(acceptor->set, fd, connection)
                            : weft__http_set_add(acceptor->set, fd, connection);
    bool first = error == 0 && acceptor->count++ == 0;
    if (error == 0)
        list_append(connection, LIST_READING);
    weft_mutex_unlock(&acceptor->lock);
    if (error != 0) {
        weft__http_tls_close(tls);
        weft__http_close_fd(fd);
        weft__http_free(connection);
        return false;
    }
    if (first) /* the acceptor may sleep without a deadline, and has one now */
        weft__http_wakeup_send(acceptor->wakeup);
    return true;
}

void weft__http_connection_close(struct connection *connection)
{
    struct acceptor *acceptor = connection->acceptor;
    weft_http_server *server = acceptor->server;
    weft__http_set_remove(acceptor->set, connection->fd);
    weft__http_tls_close(connection->tls);
    if (connection->list != LIST_LINGERING)
        weft__http_partial_head_put(server->partial_heads, connection->partial);
    weft__http_client_forget(connection);

    weft_mutex_lock(&acceptor->lock);
    /* Under the lock: a stop must not shut down a descriptor that is closed and used again. */
    weft__http_close_fd(connection->fd);
    list_remove(connection);
    connection->exchange = NULL;
    connection->next = acceptor->closed;
    acceptor->closed = connection;
    /* Before the acceptor can see that it has no connection left. */
    (void)atomic_i64_add_relaxed(&server->connections, -1);
    bool last = --acceptor->count == 0;
    weft_mutex_unlock(&acceptor->lock);
    if (last && atomic_u32_load_acquire(&server->stopping) != 0)
        weft__http_wakeup_send(acceptor->wakeup);
}

void weft__http_connection_linger(struct connection *connection)
{
    struct acceptor *acceptor = connection->acceptor;
    int64_t deadline = deadline_of(acceptor, LIST_LINGERING), end = weft_after(HTTP_LINGER_TIME);
    weft__http_partial_head_put(acceptor->server->partial_heads, connection->partial);
    connection->partial = NULL;
    weft__http_tls_close(connection->tls); /* sends the alert; what comes now is not decrypted */
    connection->tls = NULL;
    weft__http_end_sending(connection->fd);
    weft_mutex_lock(&acceptor->lock);
    /* After a stop the acceptor would not close it: see weft__http_connection_open. */
    bool stays = atomic_u32_load_relaxed(&acceptor->server->stopping) == 0;
    bool wake = false;
    if (stays) {
        int64_t before = acceptor->lists[LIST_LINGERING].count;
        wake = before == 0 || before >= HTTP_LINGERING_MAX;
        wait_in(connection, LIST_LINGERING, deadline);
        connection->linger_end = end;
        /* Requests an event for what came while a worker owned it, the end included. */
        weft__http_set_again(acceptor->set, connection->fd, connection, false);
    }
    weft_mutex_unlock(&acceptor->lock);
    if (!stays)
        weft__http_connection_close(connection);
    else if (wake) /* the acceptor may sleep for longer */
        weft__http_wakeup_send(acceptor->wakeup);
}

void weft__http_connection_discard(struct connection *connection)
{
    struct acceptor *acceptor = connection->acceptor;
    char rest[4096];
    int64_t got, size = 0;
    do /* until -EAGAIN: an end that comes with the last bytes raises no event of its own */
        got = weft__http_receive(connection->fd, rest, sizeof rest);
    while (got > 0 && (size += got) < HTTP_DISCARD_TURN);
    bool more = got > 0;
    connection->discards += more;
    if ((!more && got != -EAGAIN) || connection->discards > HTTP_DISCARD_TURNS ||
        weft_now() >= connection->linger_end) {
        weft__http_connection_close(connection);
        return;
    }
    if (size > 0)
        weft__http_connection_move(connection, LIST_LINGERING); /* renews its deadline */
    if (more)
        weft__http_set_again(acceptor->set, connection->fd, connection, false);
}

void weft__http_connections_reap(struct acceptor *acceptor)
{
    weft_mutex_lock(&acceptor->lock);
    struct connection *closed = acceptor->closed;
    acceptor->closed = NULL;
    weft_mutex_unlock(&acceptor->lock);
    while (closed != NULL) {
        struct connection *next = closed->next;
        weft__http_free(closed);
        closed = next;
    }
}

/* ---- bytes ---- */

bool weft__http_connection_budget_spent(const struct connection *connection)
{
    return connection->tls != NULL && weft__http_tls_budget_spent(connection->tls);
}

int64_t weft__http_connection_read(struct connection *connection, void *data, size_t size)
{
    return connection->tls != NULL ? weft__http_tls_read(connection->tls, data, size)
                                   : weft__http_receive(connection->fd, data, size);
}

int weft__http_connection_wait(struct connection *connection, int events, int64_t deadline)
{
    if (weft__http_connection_budget_spent(connection)) { /* it waits for others, not for bytes */
        weft__http_tls_budget_renew(connection->tls);
        /* Parks: behind a task that only yields the pool begins no other. */
        return weft_sleep(1) == -ECANCELED ? -ECANCELED : 0;
    }
    if (connection->tls != NULL)
        events = weft__http_tls_wants(connection->tls);
    int ready = weft_fd_wait(connection->fd, events, deadline);
    return ready > 0 ? 0 : ready;
}

/* Copies small pieces (the lines around a chunk) into one record: each record costs a system call
 * and a packet. */
static int64_t send_record(struct tls *tls, const struct iovec *pieces, int count)
{
    char together[4096];
    size_t size = 0;
    if (count == 1 || pieces[0].iov_len >= sizeof together)
        return weft__http_tls_write(tls, pieces[0].iov_base, pieces[0].iov_len);
    for (int i = 0; i < count && size < sizeof together; i++) {
        size_t room = sizeof together - size;
        size_t most = pieces[i].iov_len < room ? pieces[i].iov_len : room;
        if (most > 0)
            memcpy(together + size, pieces[i].iov_base, most);
        size += most;
    }
    return weft__http_tls_write(tls, together, size);
}

static int64_t send_some(struct connection *connection, const struct iovec *pieces, int count)
{
    if (connection->tls != NULL)
        return send_record(connection->tls, pieces, count);
    return weft__http_send(connection->fd, pieces, count);
}

/* Advances the pieces by `sent` bytes. Returns the number of pieces that are left. */
static int advance(struct iovec **pieces, int count, size_t sent)
{
    for (; count > 0 && sent >= (*pieces)->iov_len; ++*pieces, count--)
        sent -= (*pieces)->iov_len;
    if (count > 0) {
        (*pieces)->iov_base = (char *)(*pieces)->iov_base + sent;
        (*pieces)->iov_len -= sent;
    }
    return count;
}

/* Sends some of the pieces, or what a session of TLS took before and has not sent. Returns 0 if all
 * is out. */
static int64_t send_next(struct connection *connection, const struct iovec *pieces, int count)
{
    if (count > 0)
        return send_some(connection, pieces, count);
    return connection->tls != NULL ? weft__http_tls_flush(connection->tls) : 0;
}

int weft__http_connection_push(struct connection *connection, struct iovec **pieces, int *count,
                               size_t *sent_size)
{
    for (;;) {
        *count = advance(pieces, *count, 0);
        int64_t sent = send_next(connection, *pieces, *count);
        if (sent <= 0)
            return (int)sent;
        *sent_size += (size_t)sent;
        *count = advance(pieces, *count, (size_t)sent);
    }
}

int weft__http_connection_send_until(struct connection *connection, struct iovec *pieces, int count,
                                     int64_t deadline, size_t *sent)
{
    for (;;) {
        int error = weft__http_connection_push(connection, &pieces, &count, sent);
        if (error != -EAGAIN)
            return error;
        error = weft__http_connection_wait(connection, WEFT_WRITABLE, deadline);
        if (error != 0)
            return error;
    }
}
