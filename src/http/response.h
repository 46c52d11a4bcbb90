/*
 * response.h: a response: its status and fields, and how its head is written.
 */
#ifndef WEFT_HTTP_RESPONSE_H
#define WEFT_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/http.h>

struct exchange;

enum {
    HTTP_FIRST_FIELDS = 1024, /* room for fields in the exchange; more are allocated */
    HTTP_FIELDS_MAX = 65536,
};

/* How the end of the body is marked. */
enum framing {
    FRAMING_LENGTH,  /* by Content-Length */
    FRAMING_CHUNKED, /* by the last chunk */
    FRAMING_CLOSE,   /* by the end of the connection */
    FRAMING_NONE,    /* no body */
};

/* The end of a body that the client has not taken: bytes, then a part of a file. */
struct tail {
    char *bytes; /* or NULL */
    size_t size;
    int file; /* a duplicate of the handler's descriptor, if `left` is not 0 */
    int64_t offset, left;
};

struct weft_http_response {
    int status;
    char *first_fields; /* room in the exchange */
    char *fields;       /* "Name: value\r\n" one after another */
    size_t fields_size, fields_room;
    char *trailers; /* in the same form */
    size_t trailers_size;
    int64_t length;    /* as the handler set it; -1: not set */
    int64_t sent_body; /* bytes of the body that the handler has given */
    int error;         /* of sending: nothing more is sent */
    struct tail tail;
    int64_t waited;      /* time of all waits for the client to take bytes */
    int64_t transferred; /* bytes that it took since the first wait */
    size_t burst;        /* bytes that it took since the last wait */
    uint8_t framing;
    bool sent;  /* the head is committed: in `out`, or on its way */
    bool close; /* the handler wants the connection closed */
    bool has_date, has_server;
    bool events;             /* a stream of events */
    bool streaming;          /* its handler is bound to the context of streams */
    uint16_t stream_refusal; /* the status, if it was to be a stream and there are too many */
    bool upgraded;
    bool fields_own; /* `fields` has outgrown the exchange */
};

/* Whether a handler may answer with that status: 1xx are the server's. */
static inline bool is_status(int status)
{
    return status >= 200 && status <= 999;
}

void weft__http_response_begin(struct exchange *exchange);
void weft__http_response_free(struct exchange *exchange);
/* Adds a field that only the server may set. */
int weft__http_response_field(weft_http_response *response, const char *name, const char *value);
/* Removes a field, if it is set and the head is not sent. */
void weft__http_unset(weft_http_response *response, const char *name);
/* Whether the request was HEAD. */
int weft__http_is_head(const weft_http_response *response);
/* Writes the head to `out`; `whole`: all of the body is collected there. */
int weft__http_response_commit(struct exchange *exchange, bool whole);

#endif
