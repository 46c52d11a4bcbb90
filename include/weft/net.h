/*
 * weft/net.h: sockets: TCP, UDP and Unix sockets in plain blocking code.
 *
 * A fiber that has to wait parks, and its thread runs other fibers meanwhile; a thread blocks. Each
 * call that can wait has a deadline, and ends when the context of the caller (weft/context.h) is
 * cancelled. What can be done without waiting is done, also after the deadline and in a cancelled
 * context.
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
 * Addresses are texts such as "tcp:127.0.0.1:80", "tcp:[::1]:0", "udp:127.0.0.1:53",
 * "unix:/run/my.sock": weft/address.h has all forms.
 *
 * Sharing. Any number of fibers and threads may use one connection or listener at the same time. A
 * write to a stream is not mixed with another: a second writer waits for the first. Each reader
 * gets the bytes that it finds. A new connection wakes all callers of weft_listener_accept, and one
 * of them gets it.
 *
 * Closing. weft_conn_close may be called while other calls use the connection. Those end with
 * -ESHUTDOWN, and the descriptor is closed when the last of them has returned, so that its number
 * is not used for another file meanwhile. But a call that begins after the close would use freed
 * memory. A program that cannot rule that out (a loop that reads here, a close there) gives each
 * side a handle of its own by weft_conn_share. Then the first close closes the connection, calls by
 * the other handles return -ESHUTDOWN, and the last close frees it. All of this holds for
 * listeners, too.
 *
 * No call raises SIGPIPE. No call changes errno. An idle connection takes about 100 bytes of
 * memory, besides the kernel's.
 *
 * Errors. Every call may return what the kernel reports for the socket: -ECONNREFUSED, -ECONNRESET,
 * -EPIPE, -EHOSTUNREACH, ...; and these, which are not repeated below:
 *   -EINVAL     an argument is NULL or has no meaning
 *   -ETIMEDOUT  the deadline passed; or the kernel gave up the peer
 *   -ECANCELED  the context of the caller was cancelled (-ETIMEDOUT if by its deadline)
 *   -ESHUTDOWN  the connection or listener was closed meanwhile
 *   -ENOMEM, -ENOSPC (the limit of epoll)   the call would have to wait, and cannot
 *   -ECHILD     the call would have to wait in a forked child. There, a close closes the child's
 *               copy.
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
    int backlog;        /* listener: connections that wait to be accepted. Default: the most */
    int reuse_port;     /* not zero: several sockets may share the port; the kernel distributes */
    int nagle;          /* not zero: TCP collects small writes. Default: they are sent at once */
    int keepalive;      /* TCP: seconds of silence before the peer is probed. Default: never */
    int receive_buffer; /* bytes, SO_RCVBUF. Default: the system's */
    int send_buffer;    /* bytes, SO_SNDBUF. Default: the system's */
    int ipv6_only;      /* not zero: an IPv6 socket accepts no IPv4. Default: it does */
    const char *local;  /* dial: the address to bind to, e.g. "tcp:10.0.0.1:0". Default: any */
    uintptr_t reserved[6]; /* must be zero */
} weft_net_options;

/* ---- connections ---- */

/* Connects to an address. A datagram socket gets a fixed peer. `options` may be NULL.
 *
 * A host that is a name is looked up, and its addresses are raced (RFC 8305): IPv6 and IPv4 take
 * turns, an attempt begins 250 ms after the one before, or as soon as one fails, the first that is
 * connected wins, and the others are closed. With a port in options->local only one attempt can be
 * made at a time: the next begins when the one before has failed.
 * Returns 0; -EADDRNOTAVAIL if there is no such name, else an error of weft_resolve; the error of
 * the last attempt if all failed; -EMFILE, -ENFILE; an error of the start of the runtime
 * (weft/base.h).
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_dial(weft_conn **conn, const char *address,
                                          const weft_net_options *options, int64_t deadline);

/* Opens a datagram socket at an address of this host, for weft_conn_receive_from and
 * weft_conn_send_to. The path of a Unix socket must not exist; it is not removed by the close.
 * `options` may be NULL. A host that is a name is looked up, which may take long.
 * Returns 0; -EINVAL also for an address of streams; -EADDRINUSE; otherwise as weft_conn_dial.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_bind(weft_conn **conn, const char *address,
                                          const weft_net_options *options);

/* Makes a connection of a socket that the program has opened, such as one end of a socketpair. The
 * descriptor becomes non-blocking and belongs to the connection, which closes it. On an error it is
 * still the caller's.
 * Returns 0; -EBADF; -ENOTSOCK; -EBUSY if it belongs to a connection already.
 * Contexts: fiber, thread.
 * Undefined: closing the descriptor other than by weft_conn_close. */
WEFT_API WEFT_MUST_USE int weft_conn_from_fd(weft_conn **conn, int fd);

/* The descriptor of the connection, for getsockopt and the like, and for weft_fd_wait. It belongs
 * to the connection.
 * Returns the descriptor; -EINVAL for NULL.
 * Contexts: fiber, thread.
 * Undefined: closing the descriptor; making it blocking. */
WEFT_API int weft_conn_fd(const weft_conn *conn);

/* Reads what there is, at least one byte and at most `size`. The rest of a datagram that does not
 * fit is lost.
 * Returns the number of bytes; 0 at the end of the stream (the peer has closed its side), for an
 * empty datagram, and at once for a `size` of 0 on a stream.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_read(weft_conn *conn, void *data, size_t size,
                                              int64_t deadline);

/* Reads until `size` bytes have arrived.
 * Returns `size`; fewer if the end of the stream, the deadline, a cancelled context or an error
 * came first (the next read returns which); that error if nothing was read.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_read_full(weft_conn *conn, void *data, size_t size,
                                                   int64_t deadline);

/* Writes all bytes; a datagram as a whole.
 * Returns `size`; fewer if the deadline, a cancelled context or an error ended the call after a
 * part was written (the next write returns which); that error if nothing was written.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_write(weft_conn *conn, const void *data, size_t size,
                                               int64_t deadline);

/* Reads into `count` pieces of memory (<sys/uio.h>), in their order. `pieces` is not changed.
 * Returns as weft_conn_read, where `size` is that of all pieces; -EMSGSIZE for more than 1024
 * pieces.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_readv(weft_conn *conn, const struct iovec *pieces,
                                               int count, int64_t deadline);

/* Writes `count` pieces of memory, in their order; a datagram as a whole. `pieces` is not changed.
 * Returns as weft_conn_write, where `size` is that of all pieces; -EMSGSIZE for a datagram of more
 * than 1024 pieces.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_writev(weft_conn *conn, const struct iovec *pieces,
                                                int count, int64_t deadline);

/* Sends `size` bytes of a file from `offset` on, without a copy where the kernel can. The position
 * of the file does not move. Reads of a disk hold the thread of the caller.
 * Returns as weft_conn_write; fewer also if the file ends first.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_sendfile(weft_conn *conn, int file, int64_t offset,
                                                  size_t size, int64_t deadline);

/* Sends a datagram to an address. Waits while there is no room for it.
 * Returns `size`; -EMSGSIZE if it is too large.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_send_to(weft_conn *conn, const void *data, size_t size,
                                                 const weft_address *to, int64_t deadline);

/* Receives a datagram, at most `size` bytes of it, and stores the address of its sender; `from` may
 * be NULL.
 * Returns the number of bytes, which may be 0.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int64_t weft_conn_receive_from(weft_conn *conn, void *data, size_t size,
                                                      weft_address *from, int64_t deadline);

/* Ends one direction of the connection, or both. WEFT_WRITABLE: the peer sees the end of the stream
 * after what was written before. WEFT_READABLE: reads here see the end of the stream.
 * Returns 0; -ENOTCONN.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_shutdown(weft_conn *conn, int directions);

/* Stores the address of this end.
 * Returns 0.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_local(weft_conn *conn, weft_address *address);

/* Stores the address of the other end.
 * Returns 0; -ENOTCONN if the socket has no peer.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_conn_peer(weft_conn *conn, weft_address *address);

/* Makes another handle of the connection, which has to be closed as well: see "Closing" above. Keep
 * the handle in a variable: if the fiber that it is for cannot be spawned, close it here.
 *
 *     weft_conn *other = weft_conn_share(conn);
 *     if (weft_go(reader, other) != 0)
 *         weft_conn_close(other);
 *
 * Returns conn; NULL for NULL.
 * Contexts: fiber, thread. */
WEFT_API weft_conn *weft_conn_share(weft_conn *conn);

/* Closes the connection and gives up the handle: see "Closing" above. Does not wait. NULL is
 * allowed.
 * Contexts: fiber, thread.
 * Undefined: any use of this handle after it. */
WEFT_API void weft_conn_close(weft_conn *conn);

/* ---- listeners ---- */

/* Listens at an address of streams. A TCP address can be used again at once after a restart. The
 * path of a Unix socket must not exist; the close removes it, unless another socket has been bound
 * there since. `options` may be NULL. A host that is a name is looked up, which may take long.
 * Returns 0; -EINVAL also for an address of datagrams; -EADDRINUSE; -EACCES; -EMFILE, -ENFILE; an
 * error of weft_resolve; an error of the start of the runtime (weft/base.h).
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_listener_open(weft_listener **listener, const char *address,
                                              const weft_net_options *options);

/* Waits for the next connection. Without descriptors or memory for it (-EMFILE, -ENFILE, -ENOBUFS,
 * -ENOMEM) the connection stays in the backlog, and the call tries again after pauses of 1 to 100
 * ms.
 * Returns 0, and the connection.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_listener_accept(weft_listener *listener, weft_conn **conn,
                                                int64_t deadline);

/* Stores the address that it listens at; for port 0, with the port that the system chose.
 * Returns 0.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_listener_local(weft_listener *listener, weft_address *address);

/* The descriptor of the listener. It belongs to the listener.
 * Returns the descriptor; -EINVAL for NULL.
 * Contexts: fiber, thread.
 * Undefined: closing the descriptor; making it blocking. */
WEFT_API int weft_listener_fd(const weft_listener *listener);

/* Makes another handle of the listener, which has to be closed as well: see "Closing" above.
 * Returns listener; NULL for NULL.
 * Contexts: fiber, thread. */
WEFT_API weft_listener *weft_listener_share(weft_listener *listener);

/* Closes the listener and gives up the handle: see "Closing" above. Does not wait. NULL is allowed.
 * Contexts: fiber, thread.
 * Undefined: any use of this handle after it. */
WEFT_API void weft_listener_close(weft_listener *listener);

WEFT_END

#endif
