/*
 * conn.h: the struct of a connection.
 */
#ifndef WEFT_NET_CONN_H
#define WEFT_NET_CONN_H

#include <weft/mutex.h>

#include "net/socket.h"

struct weft_conn {
    struct socket socket;
    weft_mutex writing; /* of a stream: held for a whole write */
};

_Static_assert(sizeof(struct weft_conn) <= 64, "very many connections may be idle");

/* Makes a connection of a descriptor. On failure the descriptor is still the caller's. */
int weft__conn_make(weft_conn **conn, int fd, int type);

#endif
