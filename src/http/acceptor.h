/*
 * acceptor.h: the fiber that accepts connections and watches those without an exchange in progress.
 */
#ifndef WEFT_HTTP_ACCEPTOR_H
#define WEFT_HTTP_ACCEPTOR_H

#include <weft/context.h>
#include <weft/http.h>
#include <weft/mutex.h>

#include "http/connection.h"

struct acceptor {
    enum watched watched; /* of its wake-up */
    int wakeup;
    int set;
    weft_http_server *server;
    weft_mutex lock; /* guards the lists, `closed` and `count` */
    struct connections lists[LISTS];
    struct connection *closed; /* to be freed by the acceptor */
    int64_t count;             /* connections, without the closed ones */
    weft_context *context;     /* under the server's, above those of its requests */
    atomic_u32 begun;          /* of `submitted`: those that have begun */
    /* Only the acceptor uses these. */
    uint32_t submitted; /* requests, to the pool */
    bool stop_seen;
    int64_t accept_paused_until; /* no descriptors were left; 0: not paused */
};

/* `acceptor` is zeroed memory. Returns 0, or a negative errno value. */
int weft__http_acceptor_open(struct acceptor *acceptor, weft_http_server *server);
/* After its fiber has ended, or was never started. */
void weft__http_acceptor_close(struct acceptor *acceptor);
/* The fiber's function. */
void weft__http_acceptor_run(void *acceptor);

#endif
