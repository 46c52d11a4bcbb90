/*
 * socket.h: sockets. Rules of all calls: os/os.h.
 *
 * All are non-blocking: a call that would have to wait returns -EAGAIN. No call raises SIGPIPE.
 * Addresses are struct sockaddr of their family, with their size.
 */
#ifndef WEFT_OS_SOCKET_H
#define WEFT_OS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct iovec;

/* ---- making one ready for use ---- */

/* A new socket: AF_..., SOCK_.... [OS_SOCKET] */
int weft__os_socket(int family, int type);

/* Makes a socket that the program has opened non-blocking; its SOCK_... type. -ENOTSOCK if it is
 * none. */
int weft__os_socket_adopt(int fd, int *type);

/* Sets an integer option, as setsockopt. [OS_SOCKET] */
int weft__os_socket_set(int fd, int level, int option, int value);

/* [OS_SOCKET] */
int weft__os_bind(int fd, const void *address, size_t size);

/* [OS_SOCKET] */
int weft__os_listen(int fd, int backlog);

/* 0 when connected; -EINPROGRESS when that goes on: the socket becomes writable when it is decided,
 * and weft__os_connected says how. -EAGAIN for a Unix socket whose listener's backlog is full:
 * nothing was begun. [OS_SOCKET] */
int weft__os_connect(int fd, const void *address, size_t size);

/* How a connect in progress ended: 0, or its error; -EAGAIN if it has not. */
int weft__os_connected(int fd);

/* The next connection of a listener's backlog. -EMFILE and -ENFILE leave it there. [OS_ACCEPT] */
int weft__os_accept(int fd);

/* ---- transfer ---- */

/* Receives up to `size` bytes, or a datagram of which the rest is dropped. 0 at the end of a
 * stream. [OS_READ] */
ssize_t weft__os_receive(int fd, void *data, size_t size);

/* Sends up to `size` bytes, or a datagram as a whole: how many. [OS_WRITE] */
ssize_t weft__os_send(int fd, const void *data, size_t size);

/* weft__os_receive into several pieces (IOV_MAX at most). Stores the address of the sender if
 * `from` is not NULL: *from_size is the room there, then the size. [OS_READ] */
ssize_t weft__os_receive_pieces(int fd, const struct iovec *pieces, size_t count, void *from,
                                size_t *from_size);

/* weft__os_send of several pieces (IOV_MAX at most), to the address if `to` is not NULL.
 * [OS_WRITE] */
ssize_t weft__os_send_pieces(int fd, const struct iovec *pieces, size_t count, const void *to,
                             size_t to_size);

/* Sends up to `size` bytes of a file from `offset` on, without moving its position: how many, 0 at
 * its end. Reads the file, so it may wait for a disk. [OS_WRITE] */
ssize_t weft__os_sendfile(int fd, int file, int64_t offset, size_t size);

/* Ends one direction of a connection, or both. */
int weft__os_socket_shutdown(int fd, bool reading, bool writing);

/* ---- names ---- */

/* The address of the socket, or of its peer: *size is the room, then the size. -ENAMETOOLONG if it
 * does not fit. */
int weft__os_socket_name(int fd, bool peer, void *address, size_t *size);

/* The number of a network interface, for scoped IPv6 addresses; 0 if there is none of that name. */
uint32_t weft__os_link_number(const char *name);

/* Identifies a file for as long as something keeps it. */
struct weft__os_file_id {
    uint64_t device, inode;
};

/* Which file is at the path, not following a symbolic link, if that is a socket; false
 * otherwise. */
bool weft__os_socket_id(const char *path, struct weft__os_file_id *id);

/* Removes the path if a socket is there; with `id`, only if it is that one. */
void weft__os_socket_unlink(const char *path, const struct weft__os_file_id *id);

#endif
