/*
 * weft/http.h: an HTTP/1.1 server on a pool, with bounded memory under floods. (libweft-http)
 *
 *     static void hello(weft_http_request *request, weft_http_response *response, void *data)
 *     {
 *         weft_http_reply(response, 200, "text/plain", "hello\n", 6);
 *     }
 *
 *     weft_http_options options = { .handler = hello };
 *     return weft_http_run(&options, "tcp:127.0.0.1:8080", NULL) != 0; // until SIGINT or SIGTERM
 *
 * or, with control of its start and end:
 *
 *     weft_http_server *server;
 *     if (weft_http_open(&server, &options) != 0 ||
 *         weft_http_listen(server, "tcp:127.0.0.1:8080", NULL) != 0)
 *         return 1;
 *     ...                                                       // it serves
 *     error = weft_http_stop(server, weft_after(10 * WEFT_S));  // lets requests in progress end
 *     weft_http_close(server);
 *
 * A handler is plain blocking code in a fiber of the server's pool: it may sleep, wait, use sockets
 * and files, and take its time. A connection that is idle, or whose request has not wholly come in,
 * holds no fiber: it is a descriptor and a small record. The head of a request is read before a
 * worker is asked for.
 *
 * Limits. At most max_workers requests are answered at a time, and `queue` requests wait for that.
 * At most max_connections are open, and one address has a share of them (max_per_ip). A new
 * connection beyond max_connections takes the place of the one that has waited longest: idle after
 * a request, or with a partial head. Beyond these limits the answer is 503 with Retry-After at
 * once, without a worker. Heads and bodies are bounded in size (431, 413), and everything that a
 * client can delay has a deadline.
 *
 * Strict parsing. A request that is ambiguous is refused with 400, and the connection closed:
 * Content-Length with Transfer-Encoding, two lengths, a bare LF, a folded line, a space before the
 * colon, a malformed chunk size, a request of HTTP/1.1 without Host or with two.
 *
 * A handler is bound to a context (weft/context.h) of its request. The context is cancelled when
 * the client is found gone: its connection was reset (a client that has only ended its side may
 * still read; see end_is_gone). Then waits in the handler end with -ECANCELED; a clean-up that has
 * to wait unbinds itself first. The context ends with the request: work that goes on after that
 * needs another.
 *
 * If a handler panics (weft/panic.h) the answer is 500, if nothing was sent, and the panic is
 * counted; the server goes on.
 *
 * Texts. All texts of a request end with a zero, and are valid until the handler returns.
 *
 * Routes with parameters are in weft/http_router.h, folders of files in weft/http_files.h.
 *
 * Only the handler's own fiber may call the functions of a request and its response. Those that
 * return nothing have no effect when it is too late for them (the head is on its way). If the
 * request or response is NULL they return -EINVAL, or NULL for a text, or do nothing.
 */
#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include <stdarg.h>

#include <weft/address.h>
#include <weft/base.h>
#include <weft/net.h>
#include <weft/panic.h>
#include <weft/pool.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_http_server weft_http_server;
typedef struct weft_http_request weft_http_request;
typedef struct weft_http_response weft_http_response;

/* Answers a request. When it returns, the response is complete; one without a status is 200, one
 * without a body has none. */
typedef void (*weft_http_handler)(weft_http_request *request, weft_http_response *response,
                                  void *data);

/* ---- the server ---- */

/* A request that was answered or refused. The texts are valid during the call. */
typedef struct weft_http_log_entry {
    const weft_address *peer; /* the socket's */
    const char *method;       /* "-" if the request could not be read */
    const char *target;       /* as it came: "/a%20b?c"; "-" */
    const char *referer;      /* "" if there is none */
    const char *agent;        /* "" */
    int version;              /* 10 or 11; 0 */
    int status;               /* of the response */
    int64_t bytes;            /* of its body; 0 if no handler answered */
    int64_t nanoseconds;      /* from the whole head to the end of the response */
    /* The client, as weft_http_client gives it; NULL: the peer. For a head that could not be read,
     * the connection's client. */
    const weft_address *client;
    uintptr_t reserved[4];
} weft_http_log_entry;

/* The field in which trusted proxies name their clients. */
typedef enum weft_http_forwarding {
    WEFT_HTTP_FORWARDED_IGNORED, /* none is believed */
    WEFT_HTTP_X_FORWARDED_FOR,
    WEFT_HTTP_FORWARDED, /* RFC 7239 */
} weft_http_forwarding;

/* Zero means default in every field. */
typedef struct weft_http_options {
    /* Answers all requests. Default: 404. */
    weft_http_handler handler;
    void *data; /* given to the handler, to log and to on_panic */

    /* Requests that are answered at a time, at most 10,000,000. Default 1,000. */
    int64_t max_workers;
    /* Requests that may wait for a worker, at most 100,000,000. Default 1,000. -1: none. */
    int64_t queue;
    /* Requests that hold none of max_workers, at most 100,000,000 at a time: streams of events,
     * upgraded connections, handlers that wait for their client in a read of the body or a write,
     * and responses of which the client has not taken the end, though the handler has returned.
     * Beyond it weft_http_events and weft_http_upgrade return -EAGAIN, and the answer is 503 if the
     * handler gives none; the other requests hold a worker. Default 10,000. -1: none. */
    int64_t max_streams;
    /* How long a request may wait for a worker: 503 beyond that. Default 30 s. A client that has
     * reset its connection by then is not answered; one that has ended its side gets 503 if it
     * waited for more than 100 ms, since most are gone. */
    int64_t queue_timeout;
    /* Connections that may be open, at most 100,000,000. Default 100,000. Each needs a descriptor,
     * so there are never more than the process may have, less descriptor_reserve. weft_http_open
     * raises the soft limit (RLIMIT_NOFILE) for that, as far as the hard one allows, and leaves it
     * raised: a program that uses select() for other descriptors should set keep_limit. */
    int64_t max_connections;
    /* Descriptors for handlers and the rest of the program, at most 100,000,000. Default: an
     * eighth of the limit, and at least 32. One connection may always be open. */
    int64_t descriptor_reserve;
    /* What one IPv4 address, or one /64 of IPv6, may have: connections, requests that are answered
     * or wait for a worker, and streams. Beyond that: 503 for a connection, 429 for a request or a
     * stream, with Retry-After. A number holds for all addresses, but not for Unix sockets;
     * WEFT_UNLIMITED: no limit. Default: a quarter of max_connections (as bounded by descriptors),
     * max_workers and max_streams, but at least 64; no limit for loopback and private addresses,
     * where proxies are. Trusted proxies are not counted. Their clients are: by connections if the
     * PROXY protocol names them, by requests and streams also if `forwarded` does. */
    int64_t max_per_ip, max_requests_per_ip, max_streams_per_ip;
    /* Seconds in Retry-After, at most 86,400. Default 1. */
    int retry_after;

    /* Time for a whole head, from its first byte; on a new connection from its start. Default
     * 10 s. */
    int64_t header_timeout;
    /* Time between two requests. Default 60 s. */
    int64_t idle_timeout;
    /* Time without a byte of the body in a read. Default 30 s. */
    int64_t body_timeout;
    /* Bytes of a body in each second that a handler waits for it, at most 1,000,000,000: a slower
     * client times out (-ETIMEDOUT, 408), after a grace of rate_grace in all. Time in which the
     * handler does something else does not count. Default 500 bytes, 10 s. A rate of -1: none. */
    int64_t min_body_rate, rate_grace;
    /* Bytes of a response that a client must take for each second in which it keeps the handler
     * waiting, after a grace of rate_grace in all. Default 500 bytes. -1: none. */
    int64_t min_send_rate;
    /* Time without a byte of the response taken by the client. Default 30 s. */
    int64_t write_timeout;

    /* Bytes of a request's line and header fields, 256 to 1 MiB: 431. Default 16,384. */
    size_t max_header;
    /* Header fields, at most 1,000: 431. Default 100. */
    int max_fields;
    /* Bytes of a body: 413; a handler may change it (weft_http_max_body). Default 8 MiB;
     * WEFT_UNLIMITED. */
    int64_t max_body;

    /* The access log: called once for each request that was answered or refused, after its end, in
     * a fiber of its own, one call at a time. It may block: requests do not wait for it. Entries
     * wait for it in up to 4 MiB of memory; beyond that they are dropped, and counted in
     * `log_dropped`. weft_http_log_line makes a line of an entry. If it panics that is reported on
     * stderr. Default: none. */
    void (*log)(const weft_http_log_entry *entry, void *data);
    /* Called after a handler's panic. If it panics itself, that is reported on stderr. Default: a
     * report on stderr. */
    void (*on_panic)(const weft_panic_info *info, weft_http_request *request, void *data);
    /* Not 0: a handler that crashes takes down only its own connection, as
     * weft_pool_options.isolate_crashes. */
    int isolate_crashes;
    /* Bytes of a worker's stack, as weft_pool_options. */
    size_t stack_size;
    /* The field Server, less than 256 bytes; copied. Default: none is sent. */
    const char *name;
    /* Fibers that accept connections and watch idle ones, at most 1,000. Default: one for each
     * processor. */
    int acceptors;
    /* Not 0: weft_http_open leaves the limit of descriptors as it is. */
    int keep_limit;
    /* Not 0: a client that ends its side counts as gone, as in other servers, and is not answered
     * any more. By default only a reset does: HTTP lets a client end its side and read on. */
    int end_is_gone;

    /* Proxies that are believed when they name their clients: addresses and networks (CIDR) of IPv4
     * and IPv6, and "unix" for all peers of Unix sockets, separated by commas or blanks:
     * "127.0.0.1, 10.0.0.0/8, 2001:db8::/32". Copied. Default: none. */
    const char *trusted_proxies;
    /* The one field in which they name the client. A proxy passes on fields that it does not know,
     * so it must set this one, or add to it. Behind several proxies in a row, the client is the
     * last address that is not trusted; if the field cannot be read, the last address that is
     * known. Default: no field is believed. The PROXY protocol is an option of a listener:
     * weft_http_listen_with. */
    weft_http_forwarding forwarded;
    /* Bytes of bodies that weft_http_read_all may hold in memory at a time, beyond the first 64 KiB
     * of each: 503. An address may have a quarter of that; private addresses have no such limit,
     * unless max_requests_per_ip is set. Default 1 GiB; WEFT_UNLIMITED. */
    int64_t max_body_memory;
    uintptr_t reserved[3]; /* must be zero */
} weft_http_options;

/* Makes a server without an address. The options are copied; handler and data must stay valid.
 * Returns 0; -EINVAL if server is NULL, a number is out of range, a reserved field is set,
 * trusted_proxies is malformed, or missing though `forwarded` is set; -EMFILE,
 * -ENFILE; or as weft_pool_open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_open(weft_http_server **server,
                                          const weft_http_options *options);

/* Serves at a stream address, such as "tcp:0.0.0.0:80", "tcp:[::1]:0", "unix:/run/my.sock". May be
 * called several times.
 * Returns 0; -ESHUTDOWN after a stop; -ENOSPC for more than 16 addresses; or as weft_listener_open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_listen(weft_http_server *server, const char *address,
                                            const weft_net_options *options);

/* Certificates of a listener with TLS: files in PEM. Zero means default in every field but the
 * first two. */
typedef struct weft_http_tls {
    const char *certificate; /* with those between it and the root, in order */
    const char *key;
    /* For TLS 1.2, in OpenSSL's notation. Default: ECDHE with AES-GCM or ChaCha20-Poly1305. */
    const char *ciphers;
    int min_version; /* 12 or 13. Default 12 */
    /* An OCSP response in DER: the authority's statement on the certificate. It is stapled for
     * clients that ask (RFC 6066), until it is out of date. Default: none. */
    const char *ocsp;
    uintptr_t reserved[4]; /* must be zero */
} weft_http_tls;

/* Serves at an address as weft_http_listen does, over TLS 1.2 and 1.3, with HTTP/1 only: a client
 * that offers protocols (ALPN), but neither http/1.1 nor http/1.0, is refused. Keys are
 * exchanged by X25519, P-256 or P-384, and by X25519MLKEM768 with OpenSSL 3.5: no client can ask
 * for the slow ones. Sessions are resumed by tickets; there is no renegotiation. A key that needs a
 * password cannot be used. A client that sends more than 32 records in a row without a byte of data
 * (KeyUpdates, empty records) is cut off.
 * Returns as weft_http_listen; -ENOTSUP if the library was built without TLS; -EINVAL if a
 * certificate, key or OCSP response cannot be used: the reason is written to stderr; -ENOENT,
 * -EACCES if it cannot be read.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_listen_tls(weft_http_server *server, const char *address,
                                                const weft_net_options *options,
                                                const weft_http_tls *tls);

/* Zero means default in every field. */
typedef struct weft_http_listen_options {
    const weft_net_options *net;
    const weft_http_tls *tls; /* NULL: no TLS */
    /* Not 0: each connection begins with a header of the PROXY protocol, version 1 or 2, before
     * anything else, TLS included, and at most 4,096 bytes long. It names the client, if the peer
     * is one of weft_http_options.trusted_proxies; from other peers the header is read and not
     * believed. A connection without it, with a malformed one, or with one that is not whole by
     * header_timeout, is closed without an answer, counted in `bad` or `timed_out`, and logged: as
     * the method "PROXY", with status 400 or 408. If it names no address (LOCAL, UNKNOWN, a Unix
     * socket) the client is the peer. */
    int proxy;
    uintptr_t reserved[4]; /* must be zero */
} weft_http_listen_options;

/* Serves at an address as weft_http_listen and weft_http_listen_tls do, and also behind a proxy
 * that speaks the PROXY protocol. Options may be NULL.
 * Returns as they do; -EINVAL if a reserved field is set, or PROXY is asked for and the server
 * trusts no proxies.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_listen_with(weft_http_server *server, const char *address,
                                                 const weft_http_listen_options *options);

/* Where it listens: the first address is number 0. For port 0, with the port that was chosen.
 * Returns 0; -EINVAL; -ENOENT if there is no such number.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_local(weft_http_server *server, int number,
                                           weft_address *address);

/* Stops accepting, closes idle connections, and lets requests in progress end; each connection is
 * closed after that. At the deadline the other requests are cut off: their connections are closed,
 * and the contexts of their handlers cancelled. It may be called again, also by several fibers at
 * once.
 * Returns 0 if all were answered; -ETIMEDOUT if some were cut off; -ECANCELED; -EINVAL.
 * Contexts: fiber, thread; not a handler of the server's: -EDEADLK. */
WEFT_API WEFT_MUST_USE int weft_http_stop(weft_http_server *server, int64_t deadline);

/* Stops at once if it was not stopped, waits until all handlers have returned and the option `log`
 * has been called for all entries, and frees the server. NULL is fine.
 * Contexts: fiber, thread; not a handler of the server's.
 * Undefined: any use after it. */
WEFT_API void weft_http_close(weft_http_server *server);

/* A server in one call: opens it, listens, calls ready (if it is not NULL) with the address as
 * text, with the port that was chosen, waits for SIGINT or SIGTERM, stops with ten seconds for
 * requests in progress, and closes. Returns 0; or as weft_http_open, weft_http_listen,
 * weft_signal_open and weft_http_stop. Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_http_run(const weft_http_options *options, const char *address,
                                         void (*ready)(const char *address));

typedef struct weft_http_stats {
    int64_t connections; /* open */
    int64_t idle;        /* of those, without a request that has begun to come in */
    int64_t reading;     /* of those, with a partial head */
    int64_t running;     /* requests being answered */
    int64_t queued;      /* requests that wait for a worker */
    /* Counts since it was opened. */
    int64_t accepted;
    int64_t requests;      /* answered by a handler */
    int64_t refused;       /* 503 without a handler: connections and requests */
    int64_t bad;           /* 4xx and 5xx by the parser: malformed, too large */
    int64_t timed_out;     /* connections closed by a deadline */
    int64_t panicked;      /* handlers */
    int64_t accept_errors; /* such as no descriptors left */
    int64_t evicted;       /* waiting connections, closed in favour of new ones */
    int64_t streams;       /* now: of those running, those that hold no worker */
    int64_t log_dropped;   /* entries that `log` was not called for, as it was too slow */
    uintptr_t reserved[1];
} weft_http_stats;

/* Returns 0; -EINVAL; -ECHILD in a forked child.
 * Contexts: fiber, thread, handler. */
WEFT_API int weft_http_stats_get(weft_http_server *server, weft_http_stats *stats);

/* Writes an entry as a line of the Combined Log Format into a text of `size` bytes, with a line end
 * and a zero. Without enough room the longest of the client's texts are cut, and end with three
 * dots; from about 120 bytes on the other parts of the line are whole. The client's bytes are
 * escaped: \xHH for those that are not printable, and for quotes and backslashes.
 * Returns the number of bytes, without the zero; -EINVAL.
 * Contexts: fiber, thread. */
WEFT_API int weft_http_log_line(const weft_http_log_entry *entry, char *text, size_t size);

/* ---- the request ---- */

WEFT_API const char *weft_http_method(const weft_http_request *request); /* "GET" */
/* The path, with %XX decoded and without the query: "/a b". It begins with a slash, except the "*"
 * of OPTIONS. It has no segment "." or "..": they were resolved, and a path above the root is 400.
 * A %2F stays as it is. */
WEFT_API const char *weft_http_path(const weft_http_request *request);
WEFT_API const char *weft_http_target(const weft_http_request *request); /* as it came */
/* What follows the question mark, as it came; "" if nothing does. */
WEFT_API const char *weft_http_query(const weft_http_request *request);
/* The first value of a name in the query, with %XX and + decoded; "" for a name alone. NULL if
 * there is none, or no memory. */
WEFT_API const char *weft_http_query_value(weft_http_request *request, const char *name);
/* 10 or 11. */
WEFT_API int weft_http_version(const weft_http_request *request);
/* The value of a header field, whose case does not matter; of several, the first. NULL if there is
 * none. */
WEFT_API const char *weft_http_header(const weft_http_request *request, const char *name);
/* All fields in their order, from 0 on. Returns 0; -ENOENT. */
WEFT_API int weft_http_header_at(const weft_http_request *request, int number, const char **name,
                                 const char **value);
/* A parameter of the route (weft/http_router.h), decoded; NULL if there is none of that name. */
WEFT_API const char *weft_http_param(const weft_http_request *request, const char *name);
/* The other end of the connection: behind a proxy, the proxy. Without an address (size 0) for a
 * Unix socket. */
WEFT_API void weft_http_peer(const weft_http_request *request, weft_address *address);
/* The client: the one that a trusted proxy names, otherwise the peer. Its port is 0 if the proxy
 * does not give it. */
WEFT_API void weft_http_client(const weft_http_request *request, weft_address *address);
/* Not 0: over TLS. */
WEFT_API int weft_http_is_tls(const weft_http_request *request);
/* Bytes of the body as announced; 0 without a body; -1 if it is chunked. */
WEFT_API int64_t weft_http_content_length(const weft_http_request *request);
/* Sets the limit for this body, before it is read. 0: any body is too large. A negative one has no
 * effect. */
WEFT_API void weft_http_max_body(weft_http_request *request, int64_t bytes);

/* Reads the bytes of the body that have come, at least one, at most `size`. Waits at most
 * body_timeout for them. While it waits the handler holds none of max_workers, so more handlers
 * than that can have begun: take what is scarce (a lock, a connection of a database) when the body
 * has come. After the wait it queues for a place, before requests that have not begun; after
 * queue_timeout it goes on without one, since the others may hold all places and wait for it.
 * Returns the number of bytes; 0 at its end; -EFBIG beyond the limit (the answer is 413 if the
 * handler gives none); -EBADMSG if a chunk is malformed (400); -ECONNRESET if the client
 * went away, or ended its side before the end of the body (400); -ETIMEDOUT (408); -ECANCELED. */
WEFT_API WEFT_MUST_USE int64_t weft_http_read(weft_http_request *request, void *data, size_t size);
/* Reads all of the body, or the rest of it. It is valid until the handler returns, with a zero
 * behind it.
 * Returns 0; as weft_http_read; -ENOMEM without memory, or beyond max_body_memory (503). */
WEFT_API WEFT_MUST_USE int weft_http_read_all(weft_http_request *request, char **body,
                                              size_t *size);
/* A trailer field, when the body has been read to its end; NULL. */
WEFT_API const char *weft_http_trailer(const weft_http_request *request, const char *name);

/* ---- the response ---- */

/* Sets the status; 200 by default. One out of range (200 to 999) has no effect. */
WEFT_API void weft_http_status(weft_http_response *response, int status);
/* The text of a status: "Not Found". */
WEFT_API const char *weft_http_status_text(int status);
/* weft_http_set and weft_http_setf replace the header fields of that name; weft_http_add adds one.
 * They return 0; -EINVAL if the name is no token, or the value has a control character (such as CR
 * or LF, so bytes of a client cannot become a field of their own), or for fields of the server:
 * Connection (but "close" may be set), Transfer-Encoding, Upgrade, Keep-Alive, Trailer; -EBUSY if
 * the head is on its way; -ENOMEM, -EMSGSIZE beyond 64 KiB in all. Content-Length may be set: then
 * a body that is longer is not sent (-EMSGSIZE), and one that is shorter ends the connection. */
WEFT_API int weft_http_set(weft_http_response *response, const char *name, const char *value);
WEFT_API int weft_http_add(weft_http_response *response, const char *name, const char *value);
WEFT_API int weft_http_setf(weft_http_response *response, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds to the body. Small pieces are collected. A body that is complete before anything had to be
 * sent gets its Content-Length; a larger one is sent in chunks as it grows (to HTTP/1.0: until the
 * end of the connection). A response without a body (HEAD, 204, 304) sends none of it; the call
 * still reports that the client went away.
 * If the length of a body is known (it was set, or by weft_http_reply or weft_http_send_file), the
 * call need not wait until the client has taken the end: up to 1 MiB, or a part of a file, is sent
 * when the handler has returned. weft_http_flush waits for it. A handler that waits for its client
 * holds none of max_workers meanwhile.
 * Returns 0; -EMSGSIZE beyond the Content-Length that was set; -EPIPE, -ECONNRESET if the client
 * went away; -ETIMEDOUT if it takes nothing, or too slowly (min_send_rate); -ECANCELED. */
WEFT_API int weft_http_write(weft_http_response *response, const void *data, size_t size);
WEFT_API int weft_http_puts(weft_http_response *response, const char *text);
WEFT_API int weft_http_printf(weft_http_response *response, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sends what was collected, or the head alone.
 * Returns as weft_http_write. */
WEFT_API int weft_http_flush(weft_http_response *response);
/* Adds `size` bytes of a file from `offset` on, without a copy where the kernel can. The descriptor
 * may be closed after that; the file must not change until all was sent. As the first piece of a
 * body whose length was not set it is the whole body, and more is -EMSGSIZE: to send several, set
 * Content-Length or flush first.
 * Returns as weft_http_write; -EIO if the file ends early. If it cannot be read (-EBADF, -EISDIR,
 * -ESPIPE) and the head is not on its way, nothing was sent: the handler may give another
 * answer. */
WEFT_API int weft_http_send_file(weft_http_response *response, int file, int64_t offset,
                                 int64_t size);
/* Adds a trailer field, to be sent after the last chunk. Before the head is sent its name is
 * announced in Trailer; after that it is sent if the body goes out in chunks. Without effect if the
 * client does not accept trailers (TE: trailers).
 * Returns 0; -EINVAL as weft_http_set, and for fields that a reader needs before the body
 * (Content-Length, Content-Type, Content-Encoding, Host); -ENOMEM; -EMSGSIZE. */
WEFT_API int weft_http_set_trailer(weft_http_response *response, const char *name,
                                   const char *value);
/* Whether the head is on its way: status and header can no longer be changed. */
WEFT_API int weft_http_sent(const weft_http_response *response);

/* A whole response in one call; content_type may be NULL. The data follows what was written before.
 * Returns as weft_http_write; -EINVAL if the status is out of range; -EBUSY if the head is on
 * its way. */
WEFT_API int weft_http_reply(weft_http_response *response, int status, const char *content_type,
                             const void *data, size_t size);
/* An error as text: the text of its status, and `detail` if that is not NULL. Drops what was
 * written before, and a Content-Length and Content-Encoding that were set. A status out of range is
 * 500. Returns as weft_http_reply. */
WEFT_API int weft_http_error(weft_http_response *response, int status, const char *detail);
/* Answers 301, 302, 303, 307 or 308 with a location. -EINVAL for another status, or if the location
 * has a control character. */
WEFT_API int weft_http_redirect(weft_http_response *response, int status, const char *location);

/* ---- server-sent events ---- */

/* Begins a stream of events: status 200, text/event-stream, not cached. Such a handler does not end
 * by itself: when the server stops, its context is cancelled at once, so that its waits end with
 * -ECANCELED. It holds none of max_workers from here on.
 * Returns as weft_http_flush; -EBUSY if the head is on its way; -EPIPE for HEAD, after the head was
 * sent, since no events follow; -EAGAIN beyond max_streams: nothing was sent, and the answer is 503
 * if the handler gives none. */
WEFT_API WEFT_MUST_USE int weft_http_events(weft_http_response *response);
/* Sends an event at once; `event` and `id` may be NULL. Data may have several lines.
 * Returns as weft_http_write; -EINVAL if event or id contain a line end, or the response is no
 * stream of events. After an error the client is gone: return from the handler. */
WEFT_API WEFT_MUST_USE int weft_http_event(weft_http_response *response, const char *event,
                                           const char *data, const char *id);
/* Sends a comment, which a page does not see: it shows whether the client is still there. */
WEFT_API WEFT_MUST_USE int weft_http_event_ping(weft_http_response *response);

/* ---- upgrade ---- */

/* Answers 101 with `protocol` (and the fields that were set). After that the connection does not
 * speak HTTP any more: weft_http_stream_read and weft_http_stream_write pass its bytes. It is
 * closed when the handler returns. When the server stops, the handler's context is cancelled at
 * once. The handler holds none of max_workers from here on. Returns 0; -EINVAL if the request does
 * not ask for that protocol (Upgrade, Connection), or has a body that was not read to its end;
 * -EBUSY if something was sent; -EAGAIN beyond max_streams, as weft_http_events; or as
 * weft_http_write. */
WEFT_API WEFT_MUST_USE int weft_http_upgrade(weft_http_response *response, const char *protocol);
/* Returns as weft_conn_read and weft_conn_write; -EINVAL without an upgrade. A write that ends
 * by its deadline returns how many bytes it has taken, or -ETIMEDOUT if none; the next write may
 * have other bytes. Over TLS up to a record (16 KiB) of what was taken may still be in the session:
 * it goes out before anything else, by the next write, in the waits of a read, or when the handler
 * returns (within write_timeout). -ENOMEM without memory for it: then the stream is broken, and
 * every later call fails. */
WEFT_API WEFT_MUST_USE int64_t weft_http_stream_read(weft_http_response *response, void *data,
                                                     size_t size, int64_t deadline);
WEFT_API WEFT_MUST_USE int64_t weft_http_stream_write(weft_http_response *response,
                                                      const void *data, size_t size,
                                                      int64_t deadline);

WEFT_END

#endif
