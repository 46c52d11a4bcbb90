/*
 * tls.h: TLS for a connection, by OpenSSL (tls.c) or without it (tls_none.c).
 *
 * No call waits: it returns -EAGAIN instead, and weft__http_tls_wants says what to wait for. One
 * fiber at a time may use a session.
 */
#ifndef WEFT_HTTP_TLS_H
#define WEFT_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/http.h>

struct tls_keys; /* certificate and key of a listener */
struct tls;      /* a session */

/* Returns as weft_http_listen_tls. */
int weft__http_tls_keys_open(struct tls_keys **keys, const weft_http_tls *options);
/* After all its sessions were closed. NULL is fine. */
void weft__http_tls_keys_close(struct tls_keys *keys);

/* A session on a connected, non-blocking socket: a small record until the first byte comes. NULL
 * without memory. The handshake comes before reads and writes. */
struct tls *weft__http_tls_open(struct tls_keys *keys, int fd);
/* Goes on with the handshake. Returns 0 when it is complete; -EAGAIN; -EPROTOTYPE if the client
 * speaks plain HTTP; -EPROTO, or the socket's error; -ENOMEM. */
int weft__http_tls_handshake(struct tls *tls);
/* As recv, with a negative errno value instead of errno. 0: closed by the peer; a close without the
 * alert is -ECONNRESET. Bytes that the session holds already do not make the socket readable: wait
 * only after -EAGAIN. */
int64_t weft__http_tls_read(struct tls *tls, void *data, size_t size);
/* As send. Bytes that were taken are counted, and go out before any that are written later, by the
 * next call that finds room; weft__http_tls_flush says whether they are out. After -EAGAIN none of
 * the bytes was taken: the next write may bring others. -ENOMEM ends the session. */
int64_t weft__http_tls_write(struct tls *tls, const void *data, size_t size);
/* Sends bytes that were taken and are not out. Returns 0 if all are; -EAGAIN; or as a write. */
int weft__http_tls_flush(struct tls *tls);
/* The record budget bounds the number of records that a session reads in a turn, whatever the peer
 * sends. When it is spent, reads and the handshake return -EAGAIN. The caller then lets others run
 * and renews it; it need not wait for the socket. */
void weft__http_tls_budget_renew(struct tls *tls);
bool weft__http_tls_budget_spent(const struct tls *tls);
/* WEFT_READABLE, WEFT_WRITABLE or both: what the last -EAGAIN needs, and what unsent bytes need. */
int weft__http_tls_wants(const struct tls *tls);
/* Sends the alert that nothing more will be written, by which the peer knows that all has come. It
 * must come before the end of the socket's stream. What the peer sends can still be read. Returns 0
 * when it is out; -EAGAIN; or as a write. */
int weft__http_tls_end(struct tls *tls);
/* Sends the alert, if it was not sent and needs no waiting, and frees the session. The caller
 * closes the socket. NULL is fine. */
void weft__http_tls_close(struct tls *tls);

#endif
