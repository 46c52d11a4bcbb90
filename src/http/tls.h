/*
 * tls.h: TLS of a connection: what the server needs of OpenSSL (tls.c), or of its absence (tls_none.c).
 *
 * Nothing here waits: what would have to says -EAGAIN, and weft__http_tls_wants tells what for. A session is used by one
 * fiber at a time.
 */
#ifndef WEFT_HTTP_TLS_H
#define WEFT_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/http.h>

struct tls_keys; /* certificate and key of a listener */
struct tls;      /* a session */

/* 0; as weft_http_listen_tls. */
int weft__http_tls_keys_open(struct tls_keys **keys, const weft_http_tls *options);
/* When its sessions are closed. NULL is fine. */
void weft__http_tls_keys_close(struct tls_keys *keys);

/* A session on a connected, non-blocking socket: a small record until the first byte is there.
 * NULL without memory. Reads and writes come after the handshake. */
struct tls *weft__http_tls_open(struct tls_keys *keys, int fd);
/* Goes on with the handshake. 0 when it is complete; -EAGAIN; -EPROTOTYPE if the client speaks plain HTTP; -EPROTO, or what the
 * socket says; -ENOMEM. */
int weft__http_tls_handshake(struct tls *tls);
/* As recv would, with a negative errno value instead of errno: -EAGAIN. 0: closed by the peer; a
 * close without the alert is -ECONNRESET. Bytes that are here already do not make the socket
 * readable: wait only after a read that said -EAGAIN. */
int64_t weft__http_tls_read(struct tls *tls, void *data, size_t size);
/* As send would. What was taken is counted, and goes out before anything that is written later, by
 * whichever call finds room; weft__http_tls_flush tells whether it is out. After -EAGAIN nothing of
 * the bytes was taken: the next write may bring others. -ENOMEM ends the session. */
int64_t weft__http_tls_write(struct tls *tls, const void *data, size_t size);
/* Sends what was taken and is not out yet. 0 if all is; -EAGAIN; or as a write. */
int weft__http_tls_flush(struct tls *tls);
/* A turn is a bounded number of records that the peer may have read, whatever it sends. When it is
 * over, reads and the handshake say -EAGAIN and the session is starved: the next turn need not wait
 * for the socket, but for others. */
void weft__http_tls_turn(struct tls *tls);
bool weft__http_tls_starved(const struct tls *tls);
/* WEFT_READABLE, WEFT_WRITABLE or both: what the last -EAGAIN needs, and what is unsent. */
int weft__http_tls_wants(const struct tls *tls);
/* Says that nothing more will be written: the alert by which the peer knows that all has come, to be sent before the end of
 * the socket's stream. What the peer sends can still be read. 0 when it is out; -EAGAIN; or as a write. */
int weft__http_tls_end(struct tls *tls);
/* Sends the alert, if that was not done and needs no waiting, and frees the session; the socket is the caller's to close. NULL is fine. */
void weft__http_tls_close(struct tls *tls);

#endif
