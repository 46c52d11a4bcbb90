/*
 * connection.c: a connection: how it comes, changes hands, and goes. Who may touch what is told in server.h.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/fd.h>
#include <weft/fiber.h>

#include "http/server.h"

/* Lists. Under the door's lock. */

static void list_remove(struct connection *connection)
{
    struct connections *list = &connection->door->lists[connection->list];
    *(connection->previous != NULL ? &connection->previous->next : &list->first) = connection->next;
    *(connection->next != NULL ? &connection->next->previous : &list->last) = connection->previous;
    list->count--;
}

static void list_append(struct connection *connection, enum list which)
{
    struct connections *list = &connection->door->lists[which];
    connection->list = (uint8_t)which;
    connection->next = NULL;
    connection->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = connection;
    list->last = connection;
    list->count++;
}

/* Every list is in the order of its deadlines: all of a list have the same time. */
int64_t weft__http_time_in(const struct door *door, enum list list)
{
    const weft_http_options *options = &door->server->options;
    if (list == LIST_READING)
        return options->header_timeout;
    if (list == LIST_IDLE)
        return options->idle_timeout;
    must(list == LIST_LINGERING);
    return HTTP_LINGER_SILENCE;
}

static int64_t deadline_of(const struct door *door, enum list list)
{
    return weft_after(weft__http_time_in(door, list));
}

static void wait_in(struct connection *connection, enum list list, int64_t deadline)
{
    list_remove(connection);
    connection->deadline = deadline;
    connection->exchange = NULL;
    list_append(connection, list);
}

/* Changing hands. */

bool weft__http_release(struct connection *connection, struct partial *partial)
{
    struct door *door = connection->door;
    enum list list = partial != NULL ? LIST_READING : LIST_IDLE;
    int64_t deadline = deadline_of(door, list);
    bool starved = weft__http_is_starved(connection);
    weft_mutex_lock(&door->lock);
    bool quiet = starved || (atomic_u32_load_relaxed(&connection->readable) == 0 &&
                             atomic_u32_load_relaxed(&connection->ended) == 0);
    quiet = quiet && atomic_u32_load_relaxed(&door->server->stopping) == 0;
    if (quiet) {
        connection->partial = partial;
        wait_in(connection, list, deadline);
        if (starved)
            weft__http_set_again(door->set, connection->fd, connection, true);
    }
    weft_mutex_unlock(&door->lock);
    return quiet;
}

void weft__http_take(struct connection *connection, struct exchange *exchange)
{
    weft_mutex_lock(&connection->door->lock);
    wait_in(connection, LIST_BUSY, WEFT_NEVER);
    connection->exchange = exchange;
    weft_mutex_unlock(&connection->door->lock);
}

void weft__http_move(struct connection *connection, enum list list)
{
    struct door *door = connection->door;
    int64_t deadline = deadline_of(door, list);
    weft_mutex_lock(&door->lock);
    wait_in(connection, list, deadline);
    weft_mutex_unlock(&door->lock);
}

/* Coming and going. */

static enum stage first_stage(const struct listener *listener)
{
    if (listener->proxy)
        return STAGE_PROXY;
    return listener->keys != NULL ? STAGE_SHAKE : STAGE_HEADS;
}

bool weft__http_admit(struct door *door, int fd, const struct peer *peer,
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
                                      .door = door,
                                      .tls = tls,
                                      .stage = first_stage(listener),
                                      .peer = *peer};
    connection->deadline = deadline_of(door, LIST_READING);

    /* In the set while the lock is held: no event of it is looked at before it is in the list. A door that knows of a stop
     * has looked at its lists under the lock: what came after that nobody would close. */
    weft_mutex_lock(&door->lock);
    int error = -ESHUTDOWN;
    if (atomic_u32_load_relaxed(&door->server->stopping) == 0)
        error = tls != NULL ? weft__http_set_both(door->set, fd, connection)
                            : weft__http_set_add(door->set, fd, connection);
    bool first = error == 0 && door->count++ == 0;
    if (error == 0)
        list_append(connection, LIST_READING);
    weft_mutex_unlock(&door->lock);
    if (error != 0) {
        weft__http_tls_close(tls);
        weft__http_close_fd(fd);
        weft__http_free(connection);
        return false;
    }
    if (first) /* it may be waiting for ever, and has a deadline to keep now */
        weft__http_bell_ring(door->bell);
    return true;
}

void weft__http_close_connection(struct connection *connection)
{
    struct door *door = connection->door;
    weft_http_server *server = door->server;
    weft__http_set_remove(door->set, connection->fd);
    weft__http_tls_close(connection->tls);
    if (connection->list != LIST_LINGERING)
        weft__http_partial_put(server->partials, connection->partial);
    weft__http_forget_client(connection);

    weft_mutex_lock(&door->lock);
    /* Under the lock, so that a stop does not cut a number that is somebody else's by then. */
    weft__http_close_fd(connection->fd);
    list_remove(connection);
    connection->exchange = NULL;
    connection->next = door->dead;
    door->dead = connection;
    (void)atomic_i64_add_relaxed(&server->connections,
                                 -1); /* before the door can see its last one gone */
    bool last = --door->count == 0;
    weft_mutex_unlock(&door->lock);
    if (last && atomic_u32_load_acquire(&server->stopping) != 0)
        weft__http_bell_ring(door->bell);
}

void weft__http_linger(struct connection *connection)
{
    struct door *door = connection->door;
    int64_t deadline = deadline_of(door, LIST_LINGERING), end = weft_after(HTTP_LINGER_TIME);
    weft__http_partial_put(door->server->partials, connection->partial);
    connection->partial = NULL;
    weft__http_tls_close(connection->tls); /* says the end; what comes now is not even decrypted */
    connection->tls = NULL;
    weft__http_end_sending(connection->fd);
    weft_mutex_lock(&door->lock);
    /* A door that knows of a stop has looked at its lists, as in weft__http_admit. */
    bool stays = atomic_u32_load_relaxed(&door->server->stopping) == 0;
    bool tell = false;
    if (stays) {
        int64_t before = door->lists[LIST_LINGERING].count;
        tell = before == 0 || before >= HTTP_LINGERING_MOST;
        wait_in(connection, LIST_LINGERING, deadline);
        connection->linger_end = end;
        /* What has come while it was not the door's own, also its end, is an event once more. */
        weft__http_set_again(door->set, connection->fd, connection, false);
    }
    weft_mutex_unlock(&door->lock);
    if (!stays)
        weft__http_close_connection(connection);
    else if (tell) /* the door may be sleeping for longer than that */
        weft__http_bell_ring(door->bell);
}

void weft__http_discard(struct connection *connection)
{
    struct door *door = connection->door;
    char rest[4096];
    int64_t got, size = 0;
    do /* until -EAGAIN: an end that comes with the last bytes raises no event of its own */
        got = weft__http_receive(connection->fd, rest, sizeof rest);
    while (got > 0 && (size += got) < HTTP_DISCARD_TURN);
    bool more = got > 0;
    connection->discards += more;
    if ((!more && got != -EAGAIN) || connection->discards > HTTP_DISCARD_TURNS ||
        weft_now() >= connection->linger_end) {
        weft__http_close_connection(connection);
        return;
    }
    if (size > 0)
        weft__http_move(connection, LIST_LINGERING); /* so much for the silence */
    if (more)
        weft__http_set_again(door->set, connection->fd, connection, false);
}

void weft__http_bury(struct door *door)
{
    weft_mutex_lock(&door->lock);
    struct connection *dead = door->dead;
    door->dead = NULL;
    weft_mutex_unlock(&door->lock);
    while (dead != NULL) {
        struct connection *next = dead->next;
        weft__http_free(dead);
        dead = next;
    }
}

/* Bytes. */

bool weft__http_is_starved(const struct connection *connection)
{
    return connection->tls != NULL && weft__http_tls_starved(connection->tls);
}

int64_t weft__http_connection_read(struct connection *connection, void *data, size_t size)
{
    return connection->tls != NULL ? weft__http_tls_read(connection->tls, data, size)
                                   : weft__http_receive(connection->fd, data, size);
}

int weft__http_connection_wait(struct connection *connection, int events, int64_t deadline)
{
    if (weft__http_is_starved(connection)) { /* has waited for others only */
        weft__http_tls_turn(connection->tls);
        /* It parks: a pool begins no task behind one that only yields. */
        return weft_sleep(1) == -ECANCELED ? -ECANCELED : 0;
    }
    if (connection->tls != NULL)
        events = weft__http_tls_wants(connection->tls);
    int ready = weft_fd_wait(connection->fd, events, deadline);
    return ready > 0 ? 0 : ready;
}

/* Small pieces (the lines around a chunk) go into one record: each costs a call of the system and a
 * packet. */
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

/* Takes so many bytes off the pieces; the number of those that are left. */
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

/* Sends some of the pieces, or what a session of TLS has taken before and not sent. 0: all is out. */
static int64_t send_next(struct connection *connection, const struct iovec *pieces, int count)
{
    if (count > 0)
        return send_some(connection, pieces, count);
    return connection->tls != NULL ? weft__http_tls_flush(connection->tls) : 0;
}

int weft__http_connection_push(struct connection *connection, struct iovec **pieces, int *count,
                               size_t *all)
{
    for (;;) {
        *count = advance(pieces, *count, 0);
        int64_t sent = send_next(connection, *pieces, *count);
        if (sent <= 0)
            return (int)sent;
        *all += (size_t)sent;
        *count = advance(pieces, *count, (size_t)sent);
    }
}

int weft__http_connection_send_until(struct connection *connection, struct iovec *pieces, int count,
                                     int64_t deadline, size_t *sent)
{
    for (;;) {
        int error = weft__http_connection_push(connection, &pieces, &count, sent);
        if (error == -EAGAIN)
            error = weft__http_connection_wait(connection, WEFT_WRITABLE, deadline);
        else
            return error;
        if (error != 0)
            return error;
    }
}

void weft__http_peer_address(const struct peer *peer, weft_address *address)
{
    memset(address, 0, sizeof *address);
    if (peer->family == 4) {
        struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(peer->port)};
        memcpy(&ipv4.sin_addr, peer->ip, 4);
        memcpy(address->bytes, &ipv4, sizeof ipv4);
        address->size = sizeof ipv4;
    } else if (peer->family == 6) {
        struct sockaddr_in6 ipv6 = {
            .sin6_family = AF_INET6, .sin6_port = htons(peer->port), .sin6_scope_id = peer->scope};
        memcpy(&ipv6.sin6_addr, peer->ip, 16);
        memcpy(address->bytes, &ipv6, sizeof ipv6);
        address->size = sizeof ipv6;
    }
    if (address->size != 0)
        address->type = SOCK_STREAM;
}
