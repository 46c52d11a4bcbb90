/*
 * socket.h: what connections and listeners have in common: the descriptor, its users, waiting for it.
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
    atomic_u64 word; /* closed, calls inside, handles: see socket.c */
    int fd;
    uint16_t type;      /* SOCK_STREAM, SOCK_DGRAM */
    atomic_u32 at_once; /* calls in a row that did not have to wait */
};

/* Takes the descriptor over; 0, or -errno and it is still the caller's. */
int weft__socket_begin(struct socket *socket, int fd, int type);
/* Around each call: 0, or -ESHUTDOWN; the descriptor is not closed between the two. Leaving frees it if it
 * was closed for good. */
int weft__socket_enter(struct socket *socket);
void weft__socket_leave(struct socket *socket);
void weft__socket_share(struct socket *socket);
/* Closes it, if it is not closed, and gives one handle up. */
void weft__socket_close(struct socket *socket);

/* Tries until the result is not -EAGAIN, waiting for the event in between. Inside. */
typedef int64_t socket_try(int fd, void *call);
int64_t weft__socket_repeat(struct socket *socket, uint32_t event, socket_try *try, void *call,
                            int64_t deadline);

/* A new one of the kind of address, with the options set. */
int weft__socket_open(const weft_address *address, const weft_net_options *options);
int weft__socket_bind(int fd, const weft_address *address);
/* Which file a bind has made at the path of the address; false if there is none. */
bool weft__socket_bound_id(const weft_address *address, struct weft__os_file_id *id);
/* Removes the path that a bind has made, if the address is one; with `id`, only if it still leads to that file. */
void weft__socket_unbind(const weft_address *address, const struct weft__os_file_id *id);
int weft__socket_address(struct socket *socket, bool peer, weft_address *address);
/* Reads an address; a host that is a name is looked up. The number of those found, `most` at most, or
 * -errno. */
int weft__socket_look_up(const char *text, weft_address *found, int most, int64_t deadline);
/* The machine has no addresses of that kind. */
static inline bool weft__socket_no_family(int error)
{
    return error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL;
}
int weft__net_options_check(const weft_net_options *options);

/* address.c: AF_UNIX and so on; AF_UNSPEC if it is none. */
sa_family_t weft__address_family(const weft_address *address);

#endif
