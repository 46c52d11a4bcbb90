/*
 * server.h: the server object, and a map of its parts. Calls go down this list:
 *
 *   server      options, listeners, acceptors, the worker pool, counters
 *   acceptor    a fiber that accepts connections, watches those without an exchange in progress,
 *               reads heads and keeps deadlines
 *   exchange    a request, its response and their buffers, from the first byte of the head to the
 *               end of the response; comes from an object pool
 *   connection  a descriptor and a small record: all that an idle client costs. connection.h says
 *               which part owns it when
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
#include "http/acceptor.h"

enum { HTTP_LISTENERS = 16 };

struct listener {
    enum watched watched;
    int fd;
    weft_listener *listener;
    struct tls_keys *keys; /* NULL: no TLS */
    bool proxy;            /* connections begin with a header of the PROXY protocol */
};

struct weft_http_server {
    weft_http_options options;
    int64_t connection_limit; /* the option, or what the limit of descriptors allows */
    weft_mutex lock;          /* guards listeners, their number, and the stop */
    struct listener listeners[HTTP_LISTENERS];
    int listener_count;
    atomic_u32 stopping;
    atomic_u32 cut; /* the stop's deadline has passed: requests are not answered any more */

    weft_pool *pool;
    weft_object_pool *exchanges;
    /* Above those of all requests; cancelled at the stop's deadline. It has the server as a value,
     * under the server's address. */
    weft_context *context;
    /* Under `context`, above those of streams, which would not end by themselves; cancelled by a
     * stop. */
    weft_context *streams;
    struct per_ip_limits *per_ip_limits;
    struct networks *networks;           /* trusted proxies; NULL: none */
    weft_mutex lent_lock;                /* guards `lent_places`, and the pool's capacity with it */
    int64_t lent_places;                 /* lend.c: the pool's capacity is higher by that */
    struct log_queue *log;               /* NULL: the option is not set */
    struct partial_heads *partial_heads; /* the allocator */
    atomic_i64 body_memory; /* bytes of bodies in memory, beyond the part that is not counted */
    atomic_i64 tail_bytes;  /* bytes of tails (response.h) in memory */
    char *name;             /* of the field Server; NULL: none */

    struct acceptor *acceptors;
    int acceptor_count;
    weft_wg accepting; /* acceptors that have not seen the stop: they may still accept */
    weft_wg running;   /* acceptors, and fibers that cancel a handler's context */

    atomic_u64 next_acceptor;
    atomic_i64 connections, accepted, requests, refused, bad, timed_out, panicked, accept_errors,
        evicted;
};

static inline void count_up(atomic_i64 *count)
{
    (void)atomic_i64_add_relaxed(count, 1);
}

#endif
