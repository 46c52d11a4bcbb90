/*
 * conn.c: connections: made of a datagram address or of a descriptor, and their ends. dial.c
 * connects, conn_io.c reads and writes.
 */
#include "net/conn.h"

#include <sys/socket.h>

static const weft_net_options defaults;

int weft__conn_make(weft_conn **conn, int fd, int type)
{
    weft_conn *made = weft__os_alloc_zeroed(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    int error = weft__socket_begin(&made->socket, fd, type);
    if (error == 0)
        *conn = made;
    else
        weft__os_free(made);
    return error;
}

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
        weft__socket_unbind(where, NULL);
    weft__os_close(fd);
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
    int error = weft__os_socket_adopt(fd, &type);
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
    error = weft__os_socket_shutdown(conn->socket.fd, directions & WEFT_READABLE,
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
