/*
 * body.h: the body of a request.
 */
#ifndef WEFT_HTTP_BODY_H
#define WEFT_HTTP_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/http.h>

struct exchange;

enum {
    /* Room in the buffer beyond the largest head. */
    HTTP_BODY_ROOM = 4096,
    /* A rest of a body up to this size is read and dropped, so that the connection can go on. */
    HTTP_DRAIN_MAX = 256 * 1024,
    /* Bytes of each body in memory that are not counted: most bodies need no more. */
    HTTP_BODY_UNCOUNTED = 64 * 1024,
};

void weft__http_body_begin(struct exchange *exchange);
/* How long the next wait may last, after waits of `waited` in all and `transferred` bytes since the
 * first of them: `grace`, and the time that the bytes take at `rate`, less `waited`; at least 0.
 * A negative rate does not limit. */
int64_t weft__http_wait_allowance(int64_t rate, int64_t grace, int64_t waited, int64_t transferred);
/* Gives back what is counted of the memory for the body. */
void weft__http_body_release_memory(struct exchange *exchange);
/* Whether the rest of the body is too large to be read and dropped. */
bool weft__http_body_is_large(const weft_http_request *request);
/* Reads and drops the rest of the body. Returns false if it is large or does not come soon. */
bool weft__http_body_drain(struct exchange *exchange);
/* The status for a request whose body could not be read; 0 if it could. */
int weft__http_body_status(const weft_http_request *request);

#endif
