/*
 * client.c: who the client is, where a trusted proxy may say so.
 *
 *     socket ──▶ peer ──▶ PROXY, if the peer is trusted ──▶ the connection's client
 *                         field, if that one is trusted ──▶ the request's client
 *
 * Each step is believed only if the one before led to a trusted proxy. What PROXY leaves open
 * (LOCAL, UNKNOWN) ends it: the proxy may have passed on what an unknown client sent, so a field is
 * not believed there.
 *
 * The limits by address count a connection for its client (the peer when it is accepted, or whom
 * PROXY names), requests and streams for the request's. A trusted proxy itself is not counted.
 *
 * The PROXY header is read without taking it from the socket until it is whole: no byte of what is
 * behind it, a handshake perhaps, has to be kept anywhere, and a part of it costs the server
 * nothing.
 */
#include <errno.h>

#include "http/exchange.h"
#include "http/forwarded.h"
#include "http/proxy.h"

const struct peer *weft__http_connection_client(const struct connection *connection)
{
    const struct peer *client = connection->client;
    return client != NULL && client->family != 0 ? client : &connection->peer;
}

/* ---- PROXY ---- */

static int keep_client(struct connection *connection, const struct peer *said)
{
    weft_http_server *server = connection->door->server;
    struct peer *client = weft__http_allocate(sizeof *client);
    if (client == NULL)
        return -ENOMEM;
    *client = *said;
    client->trusted = client->family != 0 && weft__http_networks_have(server->networks, client);
    if (!weft__http_limits_enter(server->limits, LIMIT_CONNECTIONS, client, 1)) {
        weft__http_free(client);
        return -EUSERS;
    }
    connection->client = client;
    return 0;
}

int weft__http_read_proxy(struct connection *connection)
{
    char bytes[HTTP_PROXY_MOST];
    struct peer client;
    bool ended = atomic_u32_load_relaxed(&connection->ended) != 0;
    int64_t got = weft__http_peek(connection->fd, bytes, sizeof bytes);
    if (got <= 0)
        return got == -EAGAIN ? -EAGAIN : -ECONNRESET;
    int64_t size = weft__http_parse_proxy(bytes, (size_t)got, &client);
    if (size == 0) /* of the rest an event tells, if there is one */
        return ended ? -EBADMSG : -EAGAIN;
    if (size < 0)
        return (int)size;
    if (weft__http_receive(connection->fd, bytes, (size_t)size) != size)
        return -ECONNRESET;
    return connection->peer.trusted ? keep_client(connection, &client) : 0;
}

void weft__http_forget_client(struct connection *connection)
{
    struct limits *limits = connection->door->server->limits;
    weft__http_limits_leave(limits, LIMIT_CONNECTIONS, &connection->peer, 1);
    if (connection->client != NULL)
        weft__http_limits_leave(limits, LIMIT_CONNECTIONS, connection->client, 1);
    weft__http_free(connection->client);
}

/* ---- requests ---- */

void weft__http_client_begin(struct exchange *exchange)
{
    exchange->client = *weft__http_connection_client(exchange->connection);
}

void weft__http_client_find(struct exchange *exchange)
{
    weft_http_server *server = exchange->server;
    const struct connection *connection = exchange->connection;
    const struct head *head = &exchange->request.head;
    bool unsaid = connection->client != NULL && connection->client->family == 0;
    weft_http_forwarding which = server->options.forwarded;
    if (which == WEFT_HTTP_FORWARDED_IGNORED || !exchange->client.trusted || unsaid)
        return;
    weft__http_forwarded(which, head->fields, head->count, server->networks, &exchange->client);
}
