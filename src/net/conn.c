/*
 * conn.c: connections: made by dialling, from a datagram address, from a descriptor; and what ends them.
 * Reading and writing are in transfer.c.
 *
 * Dialling. The socket is non-blocking; the kernel says that the connect is in progress, and makes the
 * socket writable when it is decided. A wake-up alone decides nothing: the kernel is asked, and if it does
 * not know yet the wait goes on. A Unix socket whose listener has a full backlog is not "in progress": there
 * is nothing to wait for, so it is tried again after a pause.
 */
#include "net/conn.h"

#include <sys/socket.h>

#include "base/assert.h"

enum { ADDRESSES_MOST = 16 };

#define PAUSE_FIRST (200 * WEFT_US)
#define PAUSE_MOST (20 * WEFT_MS)

static const weft_net_options defaults;

int weft__conn_make(weft_conn **conn, int fd, int type)
{
    weft_conn *made = weft__sys_alloc_zeroed(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    int error = weft__socket_begin(&made->socket, fd, type);
    if (error == 0)
        *conn = made;
    else
        weft__sys_free(made);
    return error;
}

/* Dialling. */

static int64_t try_connected(int fd, void *unused)
{
    (void)unused;
    return weft__sys_connected(fd);
}

static int connect_to(struct socket *socket, const weft_address *address, int64_t deadline)
{
    for (int64_t pause = PAUSE_FIRST;; pause = pause < PAUSE_MOST ? pause * 2 : pause) {
        int error = weft__sys_connect(socket->fd, address->bytes, address->size);
        if (error == -EINPROGRESS)
            return (int)weft__socket_repeat(socket, SYS_WRITABLE, try_connected, NULL, deadline);
        if (error != -EAGAIN)
            return error;
        int64_t until = weft_after(pause);
        if (deadline < until)
            return -ETIMEDOUT;
        error = weft_sleep_until(until);
        if (error != 0)
            return error;
    }
}

static int dial_one(weft_conn **conn, const weft_address *address, const weft_net_options *options,
                    const weft_address *local, int64_t deadline)
{
    weft_conn *made;
    int fd = weft__socket_open(address, options);
    if (fd < 0)
        return fd;
    int error = local != NULL ? weft__socket_bind(fd, local) : 0;
    bool bound = local != NULL && error == 0;
    if (error == 0)
        error = weft__conn_make(&made, fd, address->type);
    if (error != 0) {
        weft__sys_close(fd);
    } else if ((error = connect_to(&made->socket, address, deadline)) != 0) {
        weft_conn_close(made);
    } else {
        *conn = made;
        return 0;
    }
    if (bound)
        weft__socket_unbind(local);
    return error;
}

int weft_conn_dial(weft_conn **conn, const char *address, const weft_net_options *options,
                   int64_t deadline)
{
    weft_address found[ADDRESSES_MOST], local = {0};
    if (conn == NULL || address == NULL)
        return -EINVAL;
    if (options == NULL)
        options = &defaults;
    int error = weft__net_options_check(options);
    if (error == 0 && options->local != NULL)
        error = weft_address_parse(&local, options->local);
    if (error != 0)
        return error;
    int count = weft__socket_look_up(address, found, ADDRESSES_MOST, deadline);
    if (count < 0)
        return count;
    if (options->local != NULL && local.type != found[0].type)
        return -EINVAL;
    for (int i = 0; i < count; i++) {
        error =
            dial_one(conn, &found[i], options, options->local != NULL ? &local : NULL, deadline);
        if (error == 0 || error == -ETIMEDOUT || error == -ECANCELED)
            break;
    }
    return error;
}

/* Others. */

static int bind_one(weft_conn **conn, const weft_address *where, const weft_net_options *options)
{
    int fd = weft__socket_open(where, options);
    if (fd < 0)
        return fd;
    int error = weft__socket_bind(fd, where);
    bool bound = error == 0;
    if (error == 0)
        error = weft__conn_make(conn, fd, where->type);
    if (error == 0)
        return 0;
    if (bound)
        weft__socket_unbind(where);
    weft__sys_close(fd);
    return error;
}

int weft_conn_bind(weft_conn **conn, const char *address, const weft_net_options *options)
{
    weft_address found[2];
    if (conn == NULL || address == NULL)
        return -EINVAL;
    if (options == NULL)
        options = &defaults;
    int error = weft__net_options_check(options);
    if (error != 0)
        return error;
    int count = weft__socket_look_up(address, found, 2, WEFT_NEVER);
    if (count < 0)
        return count;
    if (found[0].type != SOCK_DGRAM)
        return -EINVAL;
    error = bind_one(conn, &found[0], options);
    if (count > 1 && weft__socket_no_family(error))
        error = bind_one(conn, &found[1], options);
    return error;
}

int weft_conn_from_fd(weft_conn **conn, int fd)
{
    int type;
    if (conn == NULL)
        return -EINVAL;
    int error = weft__sys_socket_adopt(fd, &type);
    return error != 0 ? error : weft__conn_make(conn, fd, type);
}

int weft_conn_fd(const weft_conn *conn)
{
    return conn != NULL ? conn->socket.fd : -EINVAL;
}

int weft_conn_shutdown(weft_conn *conn, int directions)
{
    if (conn == NULL || directions <= 0 || (directions & ~(WEFT_READABLE | WEFT_WRITABLE)) != 0)
        return -EINVAL;
    int error = weft__socket_enter(&conn->socket);
    if (error != 0)
        return error;
    error = weft__sys_socket_shutdown(conn->socket.fd, directions & WEFT_READABLE,
                                      directions & WEFT_WRITABLE);
    weft__socket_leave(&conn->socket);
    return error;
}

int weft_conn_local(weft_conn *conn, weft_address *address)
{
    return conn != NULL && address != NULL ? weft__socket_address(&conn->socket, false, address)
                                           : -EINVAL;
}

int weft_conn_peer(weft_conn *conn, weft_address *address)
{
    return conn != NULL && address != NULL ? weft__socket_address(&conn->socket, true, address)
                                           : -EINVAL;
}

weft_conn *weft_conn_share(weft_conn *conn)
{
    if (conn != NULL)
        weft__socket_share(&conn->socket);
    return conn;
}

void weft_conn_close(weft_conn *conn)
{
    if (conn != NULL)
        weft__socket_close(&conn->socket);
}
