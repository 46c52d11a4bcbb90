/*
 * conn.h: the record of a connection.
 */
#ifndef WEFT_NET_CONN_H
#define WEFT_NET_CONN_H

#include <weft/mutex.h>

#include "net/socket.h"

struct weft_conn {
    struct socket socket;
    weft_mutex writing; /* a write to a stream is not mixed with another */
};

_Static_assert(sizeof(struct weft_conn) <= 64, "there may be very many, idle");

/* Makes one of a descriptor; 0, or -errno and the descriptor is still the caller's. */
int weft__conn_make(weft_conn **conn, int fd, int type);

#endif
