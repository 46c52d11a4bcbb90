/*
 * weft/net.h: sockets: TCP, UDP and Unix sockets in plain blocking code.
 *
 * A fiber that has to wait parks and its thread runs others meanwhile; a thread blocks. Each call takes a
 * deadline and ends when the caller's context (weft/context.h) does. What can be done without waiting is
 * done, even if the deadline has passed or the context is cancelled.
 *
 *     static void serve(void *arg)
 *     {
 *         weft_conn *conn = arg;
 *         char data[4096];
 *         int64_t got;
 *         while ((got = weft_conn_read(conn, data, sizeof data, weft_after(60 * WEFT_S))) > 0)
 *             if (weft_conn_write(conn, data, (size_t)got, weft_after(60 * WEFT_S)) != got)
 *                 break;
 *         weft_conn_close(conn);
 *     }
 *
 *     weft_listener *listener;
 *     weft_conn *conn;
 *     if (weft_listener_open(&listener, "tcp:127.0.0.1:7000", NULL) != 0)
 *         return 1;
 *     while (weft_listener_accept(listener, &conn, WEFT_NEVER) == 0)
 *         if (weft_go(serve, conn) != 0)
 *             weft_conn_close(conn);
 *
 * Addresses are texts such as "tcp:127.0.0.1:80", "tcp:[::1]:0", "udp:127.0.0.1:53", "unix:/run/my.sock":
 * see weft/address.h.
 *
 * Several at once. Any number of fibers and threads may use one connection or listener at the same time.
 * A write to a stream is not mixed with another: who comes later waits for its turn. Of several readers,
 * each gets what it finds. Those who accept at one listener are all woken by a new connection, and one gets
 * it.
 *
 * Closing. weft_conn_close may be called while others use the connection: their calls end with -ESHUTDOWN,
 * and the descriptor is closed when the last of them has left, so that its number cannot become something
 * else under their hands. But a call that begins after it would use memory that is gone. Who cannot rule
 * that out (a reader's loop here, a close there) has weft_conn_share give each of them a handle of its own;
 * then the first close closes, the others' calls say -ESHUTDOWN, and the last close frees.
 *
 * No call raises SIGPIPE. No call changes errno. An idle connection takes about 100 bytes of memory, the
 * kernel's part aside.
 *
 * Errors. Beside those that are named, every call may return what the kernel says of the socket:
 * -ECONNREFUSED, -ECONNRESET, -EPIPE, -EHOSTUNREACH, ...; and these, which are not repeated below:
 *   -EINVAL     an argument is NULL or makes no sense
 *   -ETIMEDOUT  the deadline passed; or the kernel gave the peer up
 *   -ECANCELED  the caller's context was cancelled (-ETIMEDOUT if by its deadline)
 *   -ESHUTDOWN  closed meanwhile
 *   -ENOMEM, -ENOSPC (the limit of epoll)   cannot be waited for
 *   -ECHILD     it would have to wait in a forked child. There, a close closes the child's copy only.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <sys/uio.h>

#include <weft/address.h>
#include <weft/base.h>
#include <weft/fd.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_conn weft_conn;
typedef struct weft_listener weft_listener;

/* Zero means default in every field. */
typedef struct weft_net_options {
    int backlog;    /* listener: connections that wait to be accepted. Default: the system's most */
    int reuse_port; /* not zero: several sockets may share the port, and the kernel spreads */
    int nagle;      /* not zero: TCP collects small writes. Default: they are sent at once */
    int keepalive;  /* TCP: seconds of silence before the peer is probed. Default: never */
    int receive_buffer; /* bytes, SO_RCVBUF. Default: the system's */
    int send_buffer;    /* bytes, SO_SNDBUF. Default: the system's */
    int ipv6_only;      /* not zero: an IPv6 socket takes no IPv4. Default: it does */
    const char *local;  /* dial: the address to come from, e.g. "tcp:10.0.0.1:0". Default: any */
    uintptr_t reserved[6];
} weft_net_options;

/* ---- connections ---- */

/* Connects to an address; a datagram socket is one whose peer is fixed.
 * A host may be a name: it is looked up, and its addresses are raced (RFC 8305). IPv6 and IPv4 take
 * turns; an attempt begins 250 ms after the one before it, or as soon as one fails; the first that
 * is connected wins, the others are closed. From a `local` address with a port only one attempt can
 * be made at a time: the next begins when the one before has failed.
 * Returns 0; -EADDRNOTAVAIL if there is no such name, else what weft_resolve may return; if all
 * addresses fail, the error of the last that did; -EMFILE, -ENFILE; what the start of the runtime may
 * return (weft/base.h).
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_dial(weft_conn **conn, const char *address,
                                          const weft_net_options *options, int64_t deadline);

/* Opens a datagram socket at an address of this machine, for weft_conn_receive_from and weft_conn_send_to. The
 * path of a Unix socket must not exist, and is the caller's to remove if this worked.
 * Returns 0; -EINVAL also for an address of streams; -EADDRINUSE; the rest as weft_conn_dial.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_bind(weft_conn **conn, const char *address,
                                          const weft_net_options *options);

/* Makes a connection of a socket: one end of a socketpair, or one that somebody handed over. The descriptor
 * becomes non-blocking and belongs to the connection, which closes it. On failure it stays the caller's.
 * Returns 0; -EBADF; -ENOTSOCK; -EBUSY if it belongs to a connection already.
 * Contexts: fiber, thread. Undefined: to close the descriptor otherwise. */
WEFT_API WEFT_MUST_USE int weft_conn_from_fd(weft_conn **conn, int fd);

/* The descriptor, for getsockopt and the like, and for weft_fd_wait; it stays the connection's. -EINVAL for
 * NULL.
 * Contexts: fiber, thread. */
WEFT_API int weft_conn_fd(const weft_conn *conn);

/* Reads what there is, at least one byte, at most `size`; of a datagram, what does not fit is lost.
 * Returns the number of bytes; 0 if the peer has closed its side, or if `size` is 0 (of a stream: at once).
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_read(weft_conn *conn, void *data, size_t size,
                                              int64_t deadline);

/* Reads until `size` bytes are there.
 * Returns `size`; less if the peer closed, the deadline passed, the context ended or an error came before
 * that (the next read tells which); or that error if nothing was read.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_read_full(weft_conn *conn, void *data, size_t size,
                                                   int64_t deadline);

/* Writes all; a datagram in one piece.
 * Returns `size`; less if the deadline passed, the context ended or an error came after a part of it was
 * written (the next write tells which); or that error if nothing was written.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_write(weft_conn *conn, const void *data, size_t size,
                                               int64_t deadline);

/* The same into and from several pieces of memory. `pieces` is not changed. Into at most 1024 pieces at a
 * time, and a datagram from at most as many: else -EMSGSIZE.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_readv(weft_conn *conn, const struct iovec *pieces,
                                               int count, int64_t deadline);
WEFT_API WEFT_MUST_USE int64_t weft_conn_writev(weft_conn *conn, const struct iovec *pieces,
                                                int count, int64_t deadline);

/* Sends `size` bytes of a file from `offset` on, without a copy where the kernel can. The place of the file
 * itself does not move.
 * Returns as weft_conn_write; also less if the file ends before.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_sendfile(weft_conn *conn, int file, int64_t offset,
                                                  size_t size, int64_t deadline);

/* Sends a datagram to an address.
 * Returns `size`; -EMSGSIZE if it is too large; -EAGAIN is never returned: it waits for room.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_send_to(weft_conn *conn, const void *data, size_t size,
                                                 const weft_address *to, int64_t deadline);

/* Receives a datagram, at most `size` bytes of it, and from whom it is; `from` may be NULL.
 * Returns the number of bytes, which may be 0.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_receive_from(weft_conn *conn, void *data, size_t size,
                                                      weft_address *from, int64_t deadline);

/* Ends one direction or both: WEFT_WRITABLE lets the peer see the end of the stream, when it has read what
 * was written before; WEFT_READABLE lets reads here see it.
 * Returns 0; -ENOTCONN.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_shutdown(weft_conn *conn, int directions);

/* The addresses of the two ends.
 * Returns 0; -ENOTCONN for the peer of a socket that has none.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_local(weft_conn *conn, weft_address *address);
WEFT_API WEFT_MUST_USE int weft_conn_peer(weft_conn *conn, weft_address *address);

/* A second handle of the same connection, to be closed as well: see "Closing" above. Returns conn.
 * Contexts: fiber, thread. */
WEFT_API weft_conn *weft_conn_share(weft_conn *conn);

/* Closes the connection and gives the handle up: see "Closing" above. Does not wait. NULL is fine.
 * Contexts: fiber, thread. Undefined: any use of the handle after it. */
WEFT_API void weft_conn_close(weft_conn *conn);

/* ---- listeners ---- */

/* Listens at an address of streams. TCP addresses may be reused at once after a restart. The path of a Unix
 * socket must not exist; it is removed if this fails, and by the close, unless another socket has been
 * bound there since.
 * Returns 0; -EINVAL also for an address of datagrams; -EADDRINUSE; -EACCES; -EMFILE, -ENFILE; what the
 * start of the runtime may return (weft/base.h).
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_listener_open(weft_listener **listener, const char *address,
                                              const weft_net_options *options);

/* The next connection. If there are no descriptors or no memory to be had for it (-EMFILE, -ENFILE,
 * -ENOBUFS, -ENOMEM) it tries again from time to time: the connection waits meanwhile.
 * Returns 0.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_listener_accept(weft_listener *listener, weft_conn **conn,
                                                int64_t deadline);

/* Where it listens: for port 0, with the port that was chosen.
 * Returns 0.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_listener_local(weft_listener *listener, weft_address *address);

/* As weft_conn_fd, weft_conn_share and weft_conn_close. */
WEFT_API int weft_listener_fd(const weft_listener *listener);
WEFT_API weft_listener *weft_listener_share(weft_listener *listener);
WEFT_API void weft_listener_close(weft_listener *listener);

WEFT_END

#endif
