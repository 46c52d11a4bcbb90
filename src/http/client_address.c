/*
 * client_address.c: the client's address, where a trusted proxy may name it.
 *
 *     socket ──▶ peer ──▶ PROXY, if the peer is trusted ──▶ the connection's client
 *                         field, if that one is trusted ──▶ the request's client
 *
 * Each step is believed only if the one before led to a trusted proxy. A PROXY header that names no
 * client (LOCAL, UNKNOWN) ends the chain: the proxy may have passed on what an unknown client sent,
 * so fields are not believed.
 *
 * The limits by address count a connection for its client (the peer when it is accepted, or the
 * client that PROXY names), and requests and streams for the request's client. A trusted proxy
 * itself is not counted.
 *
 * The PROXY header is left in the socket until it is whole. So no byte behind it, perhaps of a
 * handshake, has to be kept, and a partial header costs no memory.
 */
#include "http/client_address.h"

#include <errno.h>

#include "http/exchange.h"
#include "http/forwarded.h"
#include "http/networks.h"
#include "http/per_ip_limit.h"
#include "http/proxy.h"
#include "http/sys.h"

const struct peer *weft__http_connection_client(const struct connection *connection)
{
    const struct peer *client = connection->client;
    return client != NULL && client->family != 0 ? client : &connection->peer;
}

/* ---- PROXY ---- */

static int keep_client(struct connection *connection, const struct peer *named)
{
    weft_http_server *server = connection->acceptor->server;
    struct peer *client = weft__http_allocate(sizeof *client);
    if (client == NULL)
        return -ENOMEM;
    *client = *named;
    client->trusted = client->family != 0 && weft__http_networks_have(server->networks, client);
    if (!weft__http_per_ip_acquire(server->per_ip_limits, PER_IP_CONNECTIONS, client, 1)) {
        weft__http_free(client);
        return -EUSERS;
    }
    connection->client = client;
    return 0;
}

int weft__http_read_proxy(struct connection *connection)
{
    char bytes[HTTP_PROXY_MAX];
    struct peer client;
    bool ended = atomic_u32_load_relaxed(&connection->ended) != 0;
    int64_t got = weft__http_peek(connection->fd, bytes, sizeof bytes);
    if (got <= 0)
        return got == -EAGAIN ? -EAGAIN : -ECONNRESET;
    int64_t size = weft__http_parse_proxy(bytes, (size_t)got, &client);
    if (size == 0) /* the rest raises an event, unless the peer has ended */
        return ended ? -EBADMSG : -EAGAIN;
    if (size < 0)
        return (int)size;
    if (weft__http_receive(connection->fd, bytes, (size_t)size) != size)
        return -ECONNRESET;
    return connection->peer.trusted ? keep_client(connection, &client) : 0;
}

void weft__http_client_forget(struct connection *connection)
{
    struct per_ip_limits *limits = connection->acceptor->server->per_ip_limits;
    weft__http_per_ip_release(limits, PER_IP_CONNECTIONS, &connection->peer, 1);
    if (connection->client != NULL)
        weft__http_per_ip_release(limits, PER_IP_CONNECTIONS, connection->client, 1);
    weft__http_free(connection->client);
}

/* ---- requests ---- */

void weft__http_client_reset(struct exchange *exchange)
{
    exchange->client = *weft__http_connection_client(exchange->connection);
}

void weft__http_client_find(struct exchange *exchange)
{
    weft_http_server *server = exchange->server;
    const struct connection *connection = exchange->connection;
    const struct head *head = &exchange->request.head;
    bool unnamed = connection->client != NULL && connection->client->family == 0;
    weft_http_forwarding which = server->options.forwarded;
    if (which == WEFT_HTTP_FORWARDED_IGNORED || !exchange->client.trusted || unnamed)
        return;
    weft__http_forwarded(which, head->fields, head->count, server->networks, &exchange->client);
}
