/*
 * socket.h: what connections and listeners have in common: the descriptor, its users, and waiting
 * for it.
 */
#ifndef WEFT_NET_SOCKET_H
#define WEFT_NET_SOCKET_H

#include <sys/socket.h>
#include <weft/net.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"

/* The first member of a connection, and of a listener. */
struct socket {
    atomic_u64 word; /* closed, calls in progress, handles: see socket.c */
    int fd;
    uint16_t type;        /* SOCK_STREAM, SOCK_DGRAM */
    atomic_u32 immediate; /* calls in a row that did not wait */
};

/* Takes the descriptor over. On failure it is still the caller's. */
int weft__socket_begin(struct socket *socket, int fd, int type);
/* Around each call: between the two the descriptor is not closed and the socket is not freed. enter
 * returns -ESHUTDOWN if the socket is closed. leave may free it. */
int weft__socket_enter(struct socket *socket);
void weft__socket_leave(struct socket *socket);
/* One more handle, which has to be closed as well. */
void weft__socket_share(struct socket *socket);
/* Closes the socket, if it is not closed, and gives up one handle; the last frees it. */
void weft__socket_close(struct socket *socket);

/* Calls `try` until its result is not -EAGAIN, and waits for the event in between: that result, or
 * why a wait ended. Between enter and leave. */
typedef int64_t socket_try(int fd, void *call);
int64_t weft__socket_repeat(struct socket *socket, uint32_t event, socket_try *try, void *call,
                            int64_t deadline);

/* Opens a socket for the kind of address, with the options set. */
int weft__socket_open(const weft_address *address, const weft_net_options *options);
int weft__socket_bind(int fd, const weft_address *address);
/* The file that a bind has made at the path of the address; false if there is none. */
bool weft__socket_bound_id(const weft_address *address, struct weft__os_file_id *id);
/* Removes the path that a bind has made, if the address has one; with `id`, only if that file is
 * still there. */
void weft__socket_unbind(const weft_address *address, const struct weft__os_file_id *id);
int weft__socket_address(struct socket *socket, bool peer, weft_address *address);
/* Parses an address; a host that is a name is looked up, until the deadline. The number of
 * addresses found, `most` at most. */
int weft__socket_look_up(const char *text, weft_address *found, int most, int64_t deadline);
/* Whether the error means that this host has no addresses of that family. */
static inline bool weft__socket_no_family(int error)
{
    return error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL;
}
int weft__net_options_check(const weft_net_options *options);

/* AF_UNIX and so on; AF_UNSPEC for an empty address. In address.c. */
sa_family_t weft__address_family(const weft_address *address);

#endif
