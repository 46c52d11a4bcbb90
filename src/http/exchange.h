/*
 * exchange.h: a request and its response in progress: their state and their buffers.
 *
 * `in` has the bytes received: the head from 0 on, whose texts stay until the handler returns, then
 * what was read beyond the head: body, or the next request. `out` has the bytes to send.
 *
 *     in   | head | ... | not used yet: at .. in_size | room .. in_capacity |
 *     out  | committed head: 0 .. body_at | body, not framed yet: body_at .. out_size | room |
 *
 * A handler is bound to a context of its request. When the client is gone, the acceptor starts a
 * fiber that cancels that context: a cancellation may take a while, since it calls whatever hangs
 * on the context. The exchange is kept meanwhile:
 *
 *     NONE --handler begins--> OPEN --handler has returned--> NONE         the worker closes the
 *                                                                          context
 *                              OPEN --client is gone--> RUNNING --> DONE   the worker puts the
 *                                                                          exchange back and closes
 *                                                                          the context
 *                              RUNNING --worker puts it back--> LEFT       the fiber does both
 */
#ifndef WEFT_HTTP_EXCHANGE_H
#define WEFT_HTTP_EXCHANGE_H

#include "http/date.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"

enum { HTTP_OUT = 16384 };

enum cancel_state { CANCEL_NONE, CANCEL_OPEN, CANCEL_RUNNING, CANCEL_DONE, CANCEL_LEFT };

struct exchange {
    weft_http_server *server;
    struct connection *connection;
    atomic_u32 cancel_state; /* enum cancel_state */
    weft_context *context;   /* of the request; NULL: none, or no memory for one */
    weft_context *stream;    /* if it has become a stream; guarded by the acceptor's lock */
    bool waits_to_begin;     /* submitted by its acceptor, and not begun */
    bool keep;               /* the connection goes on after this response */
    bool lent;               /* its worker's place is lent */
    uint8_t counted;         /* enum per_ip_limit that counts it; PER_IP_CONNECTIONS: none does */
    int64_t started;         /* when the head was whole, if there is a log */
    int64_t queued;          /* when it was submitted to the pool, in ticks */
    struct peer client;      /* that limits count it for: client_address.c */

    char *in;
    size_t in_capacity, in_size, at;
    size_t head_size;
    size_t seen;    /* of a partial head: how far the parser looked */
    bool finishing; /* the handler has returned */
    bool flushing;  /* the tail is being sent */
    bool drained;   /* the last read has emptied the socket */

    char *out;
    size_t out_size, body_at;

    int64_t date_second; /* of `date` */
    char date[HTTP_DATE];

    weft_http_request request;
    weft_http_response response;
    /* Then: fields, trailers, path, in, out, first room for the response's fields. */
};

static inline struct exchange *exchange_of_request(const weft_http_request *request)
{
    return (struct exchange *)((char *)(uintptr_t)request - offsetof(struct exchange, request));
}

static inline struct exchange *exchange_of_response(const weft_http_response *response)
{
    return (struct exchange *)((char *)(uintptr_t)response - offsetof(struct exchange, response));
}

/* The size of an exchange with the server's options, and its constructor, from zeroed memory. */
size_t weft__http_exchange_size(const weft_http_options *options);
int weft__http_exchange_construct(void *exchange, void *server);

enum head_result {
    HEAD_WHOLE,
    HEAD_PARTIAL,
    HEAD_ENDED,   /* the client is gone */
    HEAD_REFUSED, /* with *status */
};
/* Reads, without waiting, until a head is whole. */
enum head_result weft__http_exchange_read_head(struct exchange *exchange, int *status);
/* Moves the bytes behind the request to the beginning, for the next request. */
void weft__http_exchange_next(struct exchange *exchange);
/* Copies the bytes of a partial head to `*partial`; NULL if there are none. Returns false without
 * memory. */
bool weft__http_exchange_save(struct exchange *exchange, struct partial_head **partial);
/* Begins with a connection, and with the partial head that was saved for it. */
void weft__http_exchange_restore(struct exchange *exchange, struct connection *connection);
/* Counts the request for its client's address. Returns false if that has too many. */
bool weft__http_count_in(struct exchange *exchange);
/* Takes that back, if the request is counted. */
void weft__http_count_out(struct exchange *exchange);
/* Refuses the request or the head with that status, counts it in `count`, lets the connection
 * linger, and puts the exchange back. */
void weft__http_exchange_refuse(struct exchange *exchange, int status, atomic_i64 *count,
                                bool head);
/* Puts the exchange back into the object pool. */
void weft__http_exchange_put(struct exchange *exchange);
/* A task of the pool: answers requests of the connection until there are no more. */
void weft__http_exchange_run(void *exchange);
/* The client of a busy connection is gone. Returns whether the caller must cancel the handler's
 * contexts, and call weft__http_exchange_cancel_end after that. Under the acceptor's lock. */
bool weft__http_exchange_cancel_begin(struct exchange *exchange);
void weft__http_exchange_cancel_end(struct exchange *exchange);
/* Called by the pool after a handler has crashed. */
void weft__http_exchange_crashed(const weft_panic_info *info, void (*function)(void *), void *arg,
                                 void *server);

#endif
