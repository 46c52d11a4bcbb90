/*
 * exchange.h: a request and its response while they are under way: their state and their buffers.
 *
 * The bytes that came in lie in `in`: the head from 0 on (its texts are there until the handler returns), then what was read
 * beyond it: of the body, or of the next request.
 *
 *     in   | head | ... | not used up yet: at .. in_size | room .. in_capacity |
 *     out  | the committed head: 0 .. body_at | body, not yet framed: body_at .. out_size | room |
 */
#ifndef WEFT_HTTP_EXCHANGE_H
#define WEFT_HTTP_EXCHANGE_H

#include "http/chunk.h"
#include "http/parse.h"
#include "http/request.h"
#include "http/server.h"

enum {
    HTTP_OUT = 16384,
    HTTP_BODY_ROOM = 4096,
    HTTP_FIRST_FIELDS = 1024,
    HTTP_FIELDS_MOST = 65536,
    /* A rest of the body that is smaller is read and forgotten, so that the connection can go on. */
    HTTP_DRAIN_MOST = 256 * 1024,
    /* Bytes of a body in memory that are not counted: most bodies need no more. */
    HTTP_BODY_UNCOUNTED = 64 * 1024,
    /* Bytes that are copied of the end of an answer, and of all such at a time. */
    HTTP_REST_MOST = 1 << 20,
    HTTP_RESTS_MOST = 64 << 20,
};

struct block { /* memory of the request's, freed with it */
    struct block *next;
    max_align_t bytes[];
};

struct weft_http_request {
    struct head head;
    char *path;
    struct {
        const char *name;
        char *value;
    } params[HTTP_PARAMS];
    int param_count;
    struct block *blocks;
    /* The body. */
    struct chunks chunks;
    const char *piece; /* of a chunk, decoded and not given out: in the buffer */
    size_t piece_size;
    int64_t left; /* of a body with a length */
    int64_t read; /* so many bytes were given out */
    int64_t limit;
    size_t unwaited;    /* bytes of the body that were there, since a wait for some */
    int64_t waited;     /* for bytes of the body, in all */
    int64_t paid;       /* bytes that have come since the first wait */
    int64_t held;       /* bytes of memory for the body that are counted: max_body_memory */
    int error;          /* of a read: all later ones say it again */
    bool done;          /* all was read */
    bool told_continue; /* 100 was sent, or need not be */
    struct field *trailers;
    int trailer_count;
};

/*
 * A handler is bound to a context of its request, which the door cancels when the client is gone. A cancellation may take a
 * while, as whatever hangs on the context is told by it: a fiber of its own does it, and meanwhile the exchange is kept.
 *
 *     NONE --handler begins--> OPEN --handler has returned--> NONE           the worker closes the context
 *                              OPEN --client is gone--> UNDER_WAY --> DONE   the worker parts, and closes it
 *                                                       UNDER_WAY --worker parts--> LEFT    the fiber closes it
 */
enum telling_state { TELLING_NONE, TELLING_OPEN, TELLING_UNDER_WAY, TELLING_DONE, TELLING_LEFT };

/* How the end of the body is told. */
enum framing {
    FRAMING_LENGTH,  /* by Content-Length */
    FRAMING_CHUNKED, /* by the last chunk */
    FRAMING_CLOSE,   /* by the end of the connection */
    FRAMING_NONE,    /* there is none */
};

/* The end of a body that is complete, which the client has not taken yet: bytes, then a part of a file. */
struct rest {
    char *bytes; /* or NULL */
    size_t size;
    int file; /* a descriptor of its own, if `left` is not 0 */
    int64_t offset, left;
};

struct weft_http_response {
    int status;
    char *first_fields; /* room in the exchange */
    char *fields;       /* "Name: value\r\n" one after another */
    size_t fields_size, fields_room;
    char *trailers; /* the same */
    size_t trailers_size;
    int64_t length;    /* as set by the handler; -1: not */
    int64_t sent_body; /* bytes of the body that were given to us */
    int error;         /* of sending: nothing more is sent */
    struct rest rest;
    int64_t waited;  /* for the client to take what was sent, in all */
    int64_t paid;    /* bytes that it has taken since the first wait */
    size_t unwaited; /* bytes that it has taken since the last wait */
    uint8_t framing;
    bool sent;  /* the head is committed: in `out`, or on its way */
    bool close; /* the handler wants the connection closed */
    bool has_date, has_server;
    bool events;      /* is a stream of events */
    bool streaming;   /* its handler is bound to the context of streams */
    uint16_t crowded; /* was to be a stream, of which there are too many: the status for that */
    bool upgraded;
    bool fields_own; /* `fields` has outgrown the exchange */
};

struct exchange {
    weft_http_server *server;
    struct connection *connection;
    atomic_u32 telling;    /* enum telling_state */
    weft_context *context; /* of the request; NULL: none, or there was no memory */
    weft_context *stream;  /* of the stream that it has become; guarded by the door's lock */
    bool keep;             /* the connection goes on after this response */
    bool lent;             /* its worker counts as a stream */
    uint8_t counted;       /* enum limit: what it is counted as; LIMIT_CONNECTIONS: as nothing */
    int64_t started;       /* when the head was whole, if there is a log */
    int64_t queued;        /* when it was given to the pool, in ticks */
    struct peer client;    /* who asks, and whom it is counted for: client.c */

    char *in;
    size_t in_capacity, in_size, at;
    size_t head_size;
    size_t seen;    /* of a head that is not whole: how far the parser looked */
    bool finishing; /* the handler has returned */
    bool flushing;  /* all is sent before anything else */
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

/* Whether a handler may answer with it: 1xx are the server's. */
static inline bool is_status(int status)
{
    return status >= 200 && status <= 999;
}

/* ---- exchange.c ---- */

/* Bytes of an exchange with the server's options, and what makes one of zeros. */
size_t weft__http_exchange_size(const weft_http_options *options);
int weft__http_exchange_construct(void *exchange, void *server);

enum taken {
    TAKEN_WHOLE,   /* a head is there */
    TAKEN_PARTLY,  /* not yet */
    TAKEN_ENDED,   /* the client is gone */
    TAKEN_REFUSED, /* *status says why */
};
/* Reads, without waiting, until a head is whole. */
enum taken weft__http_exchange_take(struct exchange *exchange, int *status);
/* Moves what is left behind the request to the beginning, for the next. */
void weft__http_exchange_next(struct exchange *exchange);
/* The bytes of a head that is not whole, to be kept: NULL if there are none; false without memory. */
bool weft__http_exchange_save(struct exchange *exchange, struct partial **partial);
/* Takes them up again. */
void weft__http_exchange_restore(struct exchange *exchange, struct connection *connection);
/* The request counts for its client's address; false if that has too many. And: no more, if it does. */
bool weft__http_count_in(struct exchange *exchange);
void weft__http_count_out(struct exchange *exchange);
/* Gives it back to the pool of objects. */
void weft__http_exchange_put(struct exchange *exchange);
/* Answers requests of the connection until there are no more: a task of the pool. */
void weft__http_exchange_run(void *exchange);
/* The client of a connection that a worker has is gone: whether its handler is to be told. Under the door's lock. And: it has
 * been told. */
bool weft__http_exchange_tell(struct exchange *exchange);
void weft__http_exchange_told(struct exchange *exchange);
/* Told by the pool of a handler that crashed. */
void weft__http_exchange_crashed(const weft_panic_info *info, void (*function)(void *), void *arg,
                                 void *server);

/* ---- client.c ---- */

/* Nothing is known of the request yet: it is whom the connection is from. */
void weft__http_client_begin(struct exchange *exchange);
/* Finds out who asks, with the head there. */
void weft__http_client_find(struct exchange *exchange);

/* ---- refuse.c ---- */

/* Answers without a worker and without waiting, without a body if it is one to `head`. False if it did not go out as a whole:
 * then nothing may follow. */
bool weft__http_refuse(struct connection *connection, int status, bool close, bool head);
/* For a client that speaks plain HTTP where TLS is spoken: 400, as plain as it asked. The connection ends. */
void weft__http_refuse_plain(struct connection *connection);
/* The same for one that is not let in; it is closed. */
void weft__http_turn_away(weft_http_server *server, int fd, bool tls);
void weft__http_refuse_log(struct exchange *exchange, int status);

/* ---- body.c ---- */

void weft__http_body_begin(struct exchange *exchange);
/* How long one more wait may be after so much waiting, for which so many bytes passed: 0 or more. */
int64_t weft__http_patience(int64_t rate, int64_t grace, int64_t waited, int64_t paid);
/* Gives back what is counted of the memory for the body. */
void weft__http_body_forget(struct exchange *exchange);
/* Whether what is left of it is too much to be read for nothing. */
bool weft__http_body_is_large(const weft_http_request *request);
/* Reads and forgets what is left, if that is little and comes soon; false if not. */
bool weft__http_body_drain(struct exchange *exchange);

/* ---- response.c, send.c ---- */

void weft__http_response_begin(struct exchange *exchange);
void weft__http_response_free(struct exchange *exchange);
/* Adds a field that only the server may set. */
int weft__http_response_field(weft_http_response *response, const char *name, const char *value);
/* Puts the head into `out`; `whole`: what is collected is all of the body. */
int weft__http_response_commit(struct exchange *exchange, bool whole);
/* Completes the response; its end lies in `out` still. */
void weft__http_response_end(struct exchange *exchange);
/* Sends all pieces, and waits for the client as long as its timeout and its rate allow. */
int weft__http_response_send(struct exchange *exchange, struct iovec *pieces, int count);
/* Forgets the rest, if there is one. */
void weft__http_rest_free(struct exchange *exchange);
/* Sends what is left of a response that is complete. */
int weft__http_response_flush(struct exchange *exchange);
/* The status with which a request whose body could not be read is to be answered; 0: could be. */
int weft__http_body_status(const weft_http_request *request);

/* ---- upgrade.c ---- */

/* From now on the handler is told when the server stops, and holds none of max_workers. -EAGAIN if there are too many such. */
int weft__http_response_stream(weft_http_response *response);
/* ---- places.c ---- */

/* Makes the worker count as a stream, so that another takes its place. 0; 503 or 429 if there are
 * too many. And: one that counted so has ended. */
int weft__http_lend(struct exchange *exchange);
void weft__http_end_stream(weft_http_server *server);
/* Waits for the client as weft__http_connection_wait, and holds none of max_workers meanwhile, if
 * there are not too many such. Adds the time of the wait itself to *waited. */
int weft__http_wait_away(struct exchange *exchange, int events, int64_t deadline, int64_t *waited);

/* ---- log.c ---- */

void weft__http_log(struct exchange *exchange, int status);
/* Of a connection that ends with its PROXY header, or without. */
void weft__http_log_proxy(const struct connection *connection, int status);

#endif
