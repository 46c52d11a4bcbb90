/*
 * request.h: a request: its head, its parameters and the state of its body.
 */
#ifndef WEFT_HTTP_REQUEST_H
#define WEFT_HTTP_REQUEST_H

#include <stddef.h>

#include <weft/http.h>

#include "http/chunk.h"
#include "http/parse.h"

enum { HTTP_PARAMS = 16 };

struct block { /* memory of the request, freed with it */
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
    /* The body: body.c. */
    struct chunks chunks;
    const char *piece; /* of a chunk: decoded, not yet read by the handler, in the buffer */
    size_t piece_size;
    int64_t left;        /* bytes still to come, of a body with a length */
    int64_t read;        /* bytes given to the handler */
    int64_t limit;       /* max_body, or as the handler set it */
    size_t burst;        /* bytes that came since the last wait for some */
    int64_t waited;      /* time of all waits for the body */
    int64_t transferred; /* bytes that came since the first wait */
    int64_t held;        /* bytes of memory counted against max_body_memory */
    int error;           /* of a read: all later ones return it too */
    bool done;           /* all was read */
    bool continue_sent;  /* 100 was sent, or need not be */
    struct field *trailers;
    int trailer_count;
};

/* Sets a parameter for weft_http_param, or replaces the one of that name. `name` stays the
 * caller's; the value (`size` bytes) is copied. Returns 0; -ENOMEM; -ENOSPC beyond HTTP_PARAMS. */
int weft__http_param_set(weft_http_request *request, const char *name, const char *value,
                         size_t size);
/* Memory that is freed after the handler has returned; NULL without memory. */
void *weft__http_request_allocate(weft_http_request *request, size_t size);

#endif
