/*
 * connection.h: a client's connection: the record, its owner, and reading and writing.
 *
 * A connection has one owner, which follows from its list:
 *
 *   waiting  Its acceptor: in one of the acceptor's lists by deadline (reading, idle, lingering).
 *            Only the acceptor reads from it and closes it.
 *   busy     A worker: in the acceptor's list of busy connections, so that a stop can cut it off.
 *
 * The owner changes under the acceptor's lock, which also guards the lists. The kernel reports each
 * change of a connection once (edge-triggered) to the acceptor, also while a worker owns it. A
 * request arms and disarms nothing. What could be lost:
 *
 *   data | release      The acceptor, on an event of data for a busy connection, sets `readable`
 *                       under the lock. A worker looks at the flag under the same lock before it
 *                       releases the connection, and if it is set reads on. An event after that
 *                       finds the connection waiting, and the acceptor reads.
 *   data | short read   A read that filled less than its buffer has emptied the socket; what comes
 *                       later is a new edge. A read that filled the buffer sets `readable`: there
 *                       may be more, for which no edge comes.
 *   end with data       One edge reports both. An event that reports the peer's end sets `ended`,
 *                       also for a busy connection. From then on no short read counts as the last:
 *                       one more read finds the end.
 *   TLS record budget   A session reads a bounded number of records in a turn (tls.h). A connection
 *                       with more to read goes to the acceptor, also from a worker, and its event
 *                       is requested again: its socket is readable, or writable, or becomes
 *                       writable when the client takes what it was sent.
 *   reset | handler     The acceptor, on an event of a reset while a worker owns the connection,
 *                       starts a fiber that cancels the handler's context (exchange.h). The
 *                       connection points to its exchange until the worker releases or closes the
 *                       connection under the lock; only after that is the exchange put back.
 *   close | event       An event of a connection that a worker has closed may have been fetched
 *                       already. So only the acceptor frees the record, before it fetches again.
 *
 * Lock order: an acceptor's lock is innermost. Nothing waits under it; the only system calls
 * under it are epoll_ctl, shutdown and close.
 */
#ifndef WEFT_HTTP_CONNECTION_H
#define WEFT_HTTP_CONNECTION_H

#include <sys/uio.h>

#include "base/atomic.h"
#include "http/peer.h"

struct acceptor;
struct exchange;
struct listener;
struct partial_head;
struct tls;

enum {
    /* Lingering connections of an acceptor; beyond that the oldest is closed. */
    HTTP_LINGERING_MAX = 1000,
    /* Bytes discarded from one connection in a turn, and full turns: 1 GiB in all. */
    HTTP_DISCARD_TURN = 256 * 1024,
    HTTP_DISCARD_TURNS = 4096,
};
/* How long a lingering connection is kept without a byte, and in all: nginx's values. */
#define HTTP_LINGER_SILENCE (5 * WEFT_S)
#define HTTP_LINGER_TIME (30 * WEFT_S)

/* What an event is for: the first field of everything in an acceptor's set. */
enum watched { WATCHED_WAKEUP, WATCHED_LISTENER, WATCHED_CONNECTION };

enum connection_list { LIST_READING, LIST_IDLE, LIST_LINGERING, LIST_BUSY, LISTS };

/* What comes next on a new connection. */
enum stage {
    STAGE_PROXY,     /* the header of the PROXY protocol */
    STAGE_HANDSHAKE, /* of TLS */
    STAGE_REQUESTS,
};

struct connection {
    enum watched watched;
    int fd;
    struct connection *next, *previous; /* in a list of its acceptor; next: also when closed */
    struct acceptor *acceptor;
    struct exchange *exchange; /* of the worker that owns it; otherwise NULL */
    struct tls *tls;
    /* The client that the PROXY header of a trusted peer names; family 0: it named none. NULL: the
     * client is the peer. */
    struct peer *client;
    union {
        struct partial_head *partial; /* or NULL */
        int64_t linger_end;           /* in LIST_LINGERING */
    };
    int64_t deadline;    /* while it waits */
    atomic_u32 readable; /* there may be data for which no event will come */
    atomic_u32 ended;    /* the peer sends no more: the end follows what is there */
    atomic_u32 reset;    /* and takes no more; never becomes 0 again */
    uint8_t list;        /* enum connection_list; LIST_BUSY also after a worker has closed it */
    uint8_t stage;       /* enum stage; only the acceptor uses it */
    uint16_t discards;   /* full turns of discarding */
    struct peer peer;
};

struct connections {
    struct connection *first, *last;
    int64_t count;
};

/* A worker releases its connection: it waits again, with the bytes of its next head. Returns false
 * if there is something to read first; then the worker still owns it. */
bool weft__http_connection_release(struct connection *connection, struct partial_head *partial);
/* The acceptor gives the connection to a worker, with the exchange (or NULL). */
void weft__http_connection_take(struct connection *connection, struct exchange *exchange);
/* The acceptor puts the connection into that list, with the list's deadline. */
void weft__http_connection_move(struct connection *connection, enum connection_list list);
/* How long a connection may stay in a list other than LIST_BUSY. */
int64_t weft__http_connection_timeout(const struct acceptor *acceptor, enum connection_list list);
/* Makes a connection and gives it to an acceptor. Returns false if that failed; then `fd` is
 * closed. */
bool weft__http_connection_open(struct acceptor *acceptor, int fd, const struct peer *peer,
                                const struct listener *listener);
/* Closes the connection. Its owner calls this. */
void weft__http_connection_close(struct connection *connection);
/* Closes the connection after the client had time to read what was sent last: ends the sending
 * side, and the acceptor discards what the client still sends, for a bounded time and size. Its
 * owner calls this. */
void weft__http_connection_linger(struct connection *connection);
/* The acceptor discards what has come on a lingering connection, at most one turn of it, and closes
 * the connection at its end. */
void weft__http_connection_discard(struct connection *connection);
/* Whether the connection has TLS and its record budget is spent: there may be more to read, for
 * which no event will come. */
bool weft__http_connection_budget_spent(const struct connection *connection);
/* The acceptor frees its closed connections. */
void weft__http_connections_reap(struct acceptor *acceptor);

/* As weft__http_receive, also through TLS. */
int64_t weft__http_connection_read(struct connection *connection, void *data, size_t size);
/* Sends what goes without waiting, advances the pieces past it, and adds its size to `*sent`.
 * Returns 0 if all is out; -EAGAIN; or an error. */
int weft__http_connection_push(struct connection *connection, struct iovec **pieces, int *count,
                               size_t *sent);
/* Sends everything, and waits for the client until the deadline. Changes the pieces. */
int weft__http_connection_send_until(struct connection *connection, struct iovec *pieces, int count,
                                     int64_t deadline, size_t *sent);
/* Waits until the connection is readable or writable. Returns 0; -ETIMEDOUT; -ECANCELED. */
int weft__http_connection_wait(struct connection *connection, int events, int64_t deadline);

#endif
