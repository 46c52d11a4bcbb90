/*
 * listener.c: listening sockets, and accepting.
 *
 * The result of an accept is one of four kinds:
 *
 *   a connection
 *   nothing there          wait for the next connection
 *   a connection is gone   (aborted, a protocol error): try the next one
 *   no room for it         descriptors or memory: the connection stays in the backlog. There is no
 *                          event to wait for, so it is tried again after a pause, which grows from
 *                          1 to 100 ms. The pause is a wait for the descriptor with a deadline: a
 *                          close ends it.
 *
 * Every other error is one of the listener. So nothing that a peer or a full table of descriptors
 * does ends the loop of a server.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "net/conn.h"
#include "sched/core/cancel.h"
#include "sched/poll/descriptor.h"
#include "sched/runtime/runtime.h"

#define PAUSE_FIRST (1 * WEFT_MS)
#define PAUSE_MOST (100 * WEFT_MS)

struct weft_listener {
    struct socket socket;
    bool has_path; /* of a Unix socket: the close removes it */
    struct weft__os_file_id path_id;
};

/* Opening. */

static int start(const weft_address *address, const weft_net_options *options)
{
    int fd = weft__socket_open(address, options);
    if (fd < 0)
        return fd;
    int error = 0;
    if (((const struct sockaddr *)(const void *)address->bytes)->sa_family != AF_UNIX)
        error = weft__os_socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    bool bound = error == 0 && (error = weft__socket_bind(fd, address)) == 0;
    if (bound)
        error = weft__os_listen(fd, options->backlog > 0 ? options->backlog : INT16_MAX);
    if (error == 0)
        return fd;
    if (bound)
        weft__socket_unbind(address, NULL);
    weft__os_close(fd);
    return error;
}

static int make(weft_listener **listener, int fd, const weft_address *address)
{
    weft_listener *made = weft__os_alloc_zeroed(sizeof *made);
    int error = made != NULL ? weft__socket_begin(&made->socket, fd, SOCK_STREAM) : -ENOMEM;
    if (error != 0) {
        weft__os_free(made);
        return error;
    }
    made->has_path = weft__socket_bound_id(address, &made->path_id);
    *listener = made;
    return 0;
}

int weft_listener_open(weft_listener **listener, const char *address,
                       const weft_net_options *options)
{
    static const weft_net_options defaults;
    weft_address found[2], *where = found;
    if (listener == NULL || address == NULL)
        return -EINVAL;
    if (options == NULL)
        options = &defaults;
    int error = weft__net_options_check(options);
    if (error != 0)
        return error;
    int count = weft__socket_look_up(address, found, 2, WEFT_NEVER);
    if (count < 0)
        return count;
    if (where->type != SOCK_STREAM)
        return -EINVAL;
    int fd = start(where, options);
    if (count > 1 && weft__socket_no_family(fd))
        fd = start(++where, options);
    if (fd < 0)
        return fd;
    error = make(listener, fd, where);
    if (error != 0) {
        weft__socket_unbind(where, NULL);
        weft__os_close(fd);
    }
    return error;
}

/* Accepting. */

static bool is_gone(int64_t error)
{
    static const int errors[] = {ECONNABORTED, EPROTO,       ENETDOWN,    ENOPROTOOPT, EHOSTDOWN,
                                 ENONET,       EHOSTUNREACH, ENETUNREACH, EPERM};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (error == -errors[i])
            return true;
    return false;
}

static bool is_no_room(int64_t error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

/* An accept in progress. The memory comes first: a connection cannot be put back into the
 * backlog. */
struct acceptance {
    weft_conn *conn;
    int fd; /* accepted, and not the connection's yet; -1: none */
};

static int64_t try_accept(int fd, void *arg)
{
    struct acceptance *own = arg;
    if (own->conn == NULL && (own->conn = weft__os_alloc_zeroed(sizeof *own->conn)) == NULL)
        return -ENOMEM;
    int64_t got = own->fd;
    while (got < 0) {
        got = weft__os_accept(fd);
        if (got < 0 && !is_gone(got))
            return got;
    }
    own->fd = (int)got;
    return weft__socket_begin(&own->conn->socket, own->fd, SOCK_STREAM);
}

static int accept_end(struct acceptance *own, weft_conn **conn, int error)
{
    if (error == 0) {
        *conn = own->conn;
        return 0;
    }
    if (own->fd >= 0)
        weft__os_close(own->fd);
    weft__os_free(own->conn);
    return error;
}

/* Pauses for lack of room, at most until the deadline: 0, or why the wait ends. */
static int pause_accept(int fd, int64_t pause, int64_t deadline)
{
    int64_t until = weft_after(pause);
    uint32_t seen = weft__descriptor_seen(fd, OS_READABLE);
    int result = weft__descriptor_wait(fd, OS_READABLE, seen, until < deadline ? until : deadline);
    if (result == -ETIMEDOUT && until < deadline && weft__cancelled() == 0)
        return 0;
    return result;
}

int weft_listener_accept(weft_listener *listener, weft_conn **conn, int64_t deadline)
{
    if (listener == NULL || conn == NULL)
        return -EINVAL;
    struct socket *socket = &listener->socket;
    struct acceptance own = {NULL, -1};
    int64_t result = weft__socket_enter(socket);
    if (result != 0)
        return (int)result;
    for (int64_t pause = PAUSE_FIRST;; pause = pause < PAUSE_MOST ? pause * 2 : PAUSE_MOST) {
        result = weft__socket_repeat(socket, OS_READABLE, try_accept, &own, deadline);
        if (!is_no_room(result))
            break;
        result = pause_accept(socket->fd, pause, deadline);
        if (result != 0)
            break;
    }
    weft__socket_leave(socket);
    return accept_end(&own, conn, (int)result);
}

/* Names, handles, close. */

int weft_listener_local(weft_listener *listener, weft_address *address)
{
    return listener != NULL && address != NULL
               ? weft__socket_address(&listener->socket, false, address)
               : -EINVAL;
}

int weft_listener_fd(const weft_listener *listener)
{
    return listener != NULL ? listener->socket.fd : -EINVAL;
}

weft_listener *weft_listener_share(weft_listener *listener)
{
    if (listener != NULL)
        weft__socket_share(&listener->socket);
    return listener;
}

/* Removes the path while the name of the socket is known; of several closes only the first finds
 * it. If another server has removed the path meanwhile and bound its own socket there, it stays.
 * The inode number cannot be that of another file by now: the open socket keeps it. */
static void remove_path(weft_listener *listener)
{
    weft_address address;
    if (listener->has_path && !weft__runtime_forked() &&
        weft__socket_address(&listener->socket, false, &address) == 0)
        weft__socket_unbind(&address, &listener->path_id);
}

void weft_listener_close(weft_listener *listener)
{
    if (listener == NULL)
        return;
    remove_path(listener);
    weft__socket_close(&listener->socket);
}
