/*
 * server.h: the server's parts, and who may touch what.
 *
 *   server      options, listeners, doors, the pool, the counts
 *   door        a fiber that watches connections nobody works on: it accepts, reads heads, keeps deadlines
 *   connection  a descriptor and a small record: all that an idle client costs
 *   exchange    a request and its response, with their buffers: from the first byte of the head to the end of the
 *               response; of a pool of objects
 *
 * Ownership. A connection belongs to one of two, which is its `state`:
 *
 *   WAITING  its door's: in one of the door's lists by deadline (reading, idle, lingering). Only the door reads from it,
 *            and closes it.
 *   BUSY     a worker's: in the door's list of busy ones, so that a stop can cut it off.
 *
 * Both change hands under the door's lock, which also guards the lists. The kernel tells the door
 * of each connection once per change (edge-triggered), whoever has it; nothing is armed or disarmed
 * for a request. What could be lost:
 *
 *   data | hand-back    The door, told of data for a BUSY one, sets `readable` under the lock. The worker, before it gives
 *                       the connection back, looks at it under the same lock, and if it is set reads on itself. Told
 *                       after that, the door finds it WAITING, and reads.
 *   data | short read   A read that filled less than it could has emptied the socket; what comes later is a new edge. A read
 *                       that filled all sets `readable`: there may be more, of which no edge tells.
 *   end with data       One edge for both. So an event that says that the peer has ended sets `ended`, whoever has the
 *                       connection, and from then on no short read counts as the last: somebody reads once more, and
 *                       finds the end.
 *   a turn of TLS       A session reads a bounded number of records in a turn (tls.h). One that has more to read is
 *                       the door's, also if a worker had it, and its event is asked for again: its socket is
 *                       readable, or writable, or becomes writable when the client takes what it was sent.
 *   reset | handler     The door, told that the client is gone while a worker has the connection, has the handler's context
 *                       cancelled (exchange.h). The connection leads to the exchange until the worker has given it
 *                       back or closed it, which is under the lock; only after that the exchange is given up.
 *   close | event       An event of a connection that a worker has closed may be in the door's hands. So only the door
 *                       frees the record, before it asks for events the next time.
 *
 * Lock order: a door's lock comes last; nothing waits under it, and of system calls only epoll_ctl
 * is made.
 */
#ifndef WEFT_HTTP_SERVER_H
#define WEFT_HTTP_SERVER_H

#include <weft/context.h>
#include <weft/http.h>
#include <weft/mutex.h>
#include <weft/object_pool.h>
#include <weft/pool.h>
#include <weft/wg.h>

#include "base/atomic.h"
#include "http/limit.h"
#include "http/networks.h"
#include "http/partial.h"
#include "http/sys.h"
#include "http/tls.h"

enum {
    HTTP_LISTENERS = 16,
    /* Of a door; beyond that the longest lingering one is closed. */
    HTTP_LINGERING_MOST = 1000,
    /* What is thrown away of one connection: in a turn, and how many such turns, 1 GiB in all. */
    HTTP_DISCARD_TURN = 256 * 1024,
    HTTP_DISCARD_TURNS = 4096,
};
/* A client that is to read its answer and still sends: without a byte, and in all. As nginx has it. */
#define HTTP_LINGER_SILENCE (5 * WEFT_S)
#define HTTP_LINGER_TIME (30 * WEFT_S)

/* What an event is about: the first field of whatever is in a set. */
enum watched { WATCHED_BELL, WATCHED_LISTENER, WATCHED_CONNECTION };

struct listener {
    enum watched watched;
    int fd;
    weft_listener *listener;
    struct tls_keys *keys; /* NULL: no TLS */
    bool proxy;            /* connections begin with a header of the PROXY protocol */
};

enum list { LIST_READING, LIST_IDLE, LIST_LINGERING, LIST_BUSY, LISTS };

/* What comes next over a new connection. */
enum stage {
    STAGE_PROXY, /* the header of the PROXY protocol */
    STAGE_SHAKE, /* the handshake of TLS */
    STAGE_HEADS, /* requests */
};

struct connection {
    enum watched watched;
    int fd;
    struct connection *next,
        *previous; /* in a list of its door; next also in the list of the dead */
    struct door *door;
    struct exchange *exchange; /* of the worker that has it; else NULL */
    struct tls *tls;
    struct peer *client; /* by PROXY, of a trusted peer; family 0: it did not say. NULL: the peer */
    union {
        struct partial *partial; /* or NULL */
        int64_t linger_end;      /* in LIST_LINGERING */
    };
    int64_t deadline;    /* while it waits */
    atomic_u32 readable; /* there may be something to read of which no event will tell */
    atomic_u32 ended;    /* the peer sends no more: behind what is there is the end */
    atomic_u32 reset;    /* and takes no more; only becomes 1 */
    uint8_t list;        /* enum list; LIST_BUSY: a worker's, also when it has closed it */
    uint8_t stage;       /* enum stage: the door's own */
    uint16_t discards;   /* whole turns of discarding */
    struct peer peer;
};

struct connections {
    struct connection *first, *last;
    int64_t count;
};

struct door {
    enum watched watched; /* of its bell */
    int bell;
    int set;
    weft_http_server *server;
    weft_mutex lock; /* guards what follows */
    struct connections lists[LISTS];
    struct connection *dead; /* closed, to be freed by the door */
    int64_t count;           /* connections, without the dead */
    weft_context *context;   /* under the server's: above those of its requests */
    bool told;               /* it knows of the stop: the door's own */
    int64_t deaf_until;      /* no descriptors left: no accept until then: the door's own */
};

struct weft_http_server {
    weft_http_options options;
    int64_t most_connections; /* by the options, and the limit of descriptors */
    weft_mutex lock;          /* guards listeners, their number, and the stop */
    struct listener listeners[HTTP_LISTENERS];
    int listener_count;
    atomic_u32 stopping;
    atomic_u32 cut; /* what is not answered by now is not answered at all */

    weft_pool *pool;
    weft_object_pool *exchanges;
    /* Above those of all requests: cancelled when the rest is cut off. It has the server as a value, under its address. */
    weft_context *context;
    /* Under it, above those of handlers that would not end by themselves. Cancelled by a stop. */
    weft_context *streams;
    struct limits *limits;     /* by address */
    struct networks *networks; /* trusted proxies; NULL: none */
    weft_mutex places;         /* guards `streaming`, and the pool's capacity with it */
    int64_t streaming;         /* workers that count as streams: the capacity is higher by that */
    struct log_queue *log;     /* NULL: the option is not set */
    struct partials *partials; /* memory of heads that are not whole */
    atomic_i64 body_memory;    /* bytes of bodies in memory, beyond HTTP_BODY_UNCOUNTED of each */
    atomic_i64 kept; /* bytes of answers that are to be sent when their handlers have returned */
    char *name;      /* of the field Server */

    struct door *doors;
    int door_count;
    weft_wg deaf;    /* doors that have not heard of the stop */
    weft_wg running; /* doors */

    atomic_u64 next_door;
    atomic_i64 connections, accepted, requests, refused, bad, timed_out, panicked, accept_errors,
        evicted;
};

/* ---- door.c ---- */

int weft__http_door_open(struct door *door, weft_http_server *server);
void weft__http_door_close(struct door *door);
void weft__http_door_run(void *door);

/* ---- connection.c ---- */

/* From a worker: the connection waits again, with the bytes of its next head that are there;
 * false if there is something to read first: then it is still the worker's. */
bool weft__http_release(struct connection *connection, struct partial *partial);
/* The connection is the worker's from now on, with the exchange. By the door. */
void weft__http_take(struct connection *connection, struct exchange *exchange);
/* The connection waits, in that list and with its deadline. By the door. */
void weft__http_move(struct connection *connection, enum list list);
/* How long a connection may stay in that list, but LIST_BUSY. */
int64_t weft__http_time_in(const struct door *door, enum list list);
/* A new one, given to a door; false if it could not be watched: it is closed then. */
bool weft__http_admit(struct door *door, int fd, const struct peer *peer,
                      const struct listener *listener);
/* Closes it; by whoever has it. */
void weft__http_close_connection(struct connection *connection);
/* The same after the client had time to read what was sent last: nothing more is sent, and what
 * the client still sends is thrown away by the door, for a bounded time and size; by whichever
 * has it. */
void weft__http_linger(struct connection *connection);
/* Throws away what there is of a lingering one, or a turn of it, and closes it at its end. By the door. */
void weft__http_discard(struct connection *connection);
/* Whether its session of TLS has more to read, of which no event will tell. */
bool weft__http_is_starved(const struct connection *connection);
/* Frees what was closed. By the door. */
void weft__http_bury(struct door *door);
/* Reads: as weft__http_receive, also through TLS. */
int64_t weft__http_connection_read(struct connection *connection, void *data, size_t size);
/* Sends of the pieces what goes without waiting, leaves those that are left, and adds up what was sent. 0: all is out; -EAGAIN;
 * an error. */
int weft__http_connection_push(struct connection *connection, struct iovec **pieces, int *count,
                               size_t *all);
/* Sends all, waiting as need be until the deadline; changes the pieces. */
int weft__http_connection_send_until(struct connection *connection, struct iovec *pieces, int count,
                                     int64_t deadline, size_t *sent);
/* Waits until it can be read from, or written to. 0; -ETIMEDOUT; -ECANCELED. */
int weft__http_connection_wait(struct connection *connection, int events, int64_t deadline);
void weft__http_peer_address(const struct peer *peer, weft_address *address);

/* ---- client.c ---- */

/* Whom a connection is from: the client that PROXY named, else the peer. */
const struct peer *weft__http_connection_client(const struct connection *connection);
/* Reads the PROXY header, and counts the client. 0; -EAGAIN; -EBADMSG if it is none; -EUSERS if the
 * client has as many connections as it may; -ECONNRESET if it has gone; -ENOMEM. By the door. */
int weft__http_read_proxy(struct connection *connection);
/* What the limit by address has counted of a connection that ends is given back. */
void weft__http_forget_client(struct connection *connection);

static inline void count_up(atomic_i64 *count)
{
    (void)atomic_i64_add_relaxed(count, 1);
}

#endif
