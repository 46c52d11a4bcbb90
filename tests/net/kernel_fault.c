/*
 * kernel_fault.c: sockets where the kernel itself refuses, or a signal arrives: the seam begins
 * interrupted calls again and passes errors on; a listener survives errors of single connections,
 * and works without IPv6.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "kernel.h"
#include "os/failure.h"
#include "os/os.h"
#include <weft/weft.h>

FAKE(int, socket, (int family, int type, int protocol), (family, type, protocol))
FAKE(int, listen, (int fd, int backlog), (fd, backlog))
FAKE(int, connect, (int fd, const struct sockaddr *name, socklen_t size), (fd, name, size))
FAKE(int, bind, (int fd, const struct sockaddr *name, socklen_t size), (fd, name, size))

/* Without an error: a connection with a large number, as in a process with many descriptors. */
static int accept_high(int fd);
FAKE_WITH(int, accept4, (int fd, struct sockaddr *name, socklen_t *size, int flags),
          (fd, name, size, flags),
          fake_accept4.error != 0 ? (errno = fake_accept4.error, -1) : accept_high(fd))
FAKE(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t size),
     (fd, level, option, value, size))
FAKE(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *size),
     (fd, level, option, value, size))
FAKE(int, getpeername, (int fd, struct sockaddr *name, socklen_t *size), (fd, name, size))
FAKE(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
FAKE(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
FAKE(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
FAKE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
FAKE(ssize_t, sendfile, (int to, int from, off_t *offset, size_t size), (to, from, offset, size))

FAKE_FCNTL

enum { HIGH = 5000 };

static int accept_high(int fd)
{
    int got = accept(fd, NULL, NULL), high = fcntl(got, F_DUPFD_CLOEXEC, HIGH);
    CHECK(got >= 0 && high >= HIGH && close(got) == 0);
    return high;
}

/* The seam. */

static void interrupted_calls_begin_again(void)
{
    int pair[2], file = fileno(tmpfile());
    char got[4] = "";
    struct iovec piece = {.iov_base = (char[]){'a', 'b', 'c'}, .iov_len = 3}, room = {got, 3};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    CHECK_EQ(write(file, "abc", 3), 3);
    for (int way = 0; way < 3; way++) {
        KERNEL_SAYS(send, EINTR, 2);
        KERNEL_SAYS(sendmsg, EINTR, 2);
        KERNEL_SAYS(sendfile, EINTR, 2);
        CHECK_EQ(KEPT(way == 0   ? weft__os_send(pair[0], "abc", 3)
                      : way == 1 ? weft__os_send_pieces(pair[0], &piece, 1, NULL, 0)
                                 : weft__os_sendfile(pair[0], file, 0, 3)),
                 3);
        memset(got, 0, sizeof got);
        KERNEL_SAYS(recv, EINTR, 2);
        KERNEL_SAYS(recvmsg, EINTR, 2);
        CHECK_EQ(KEPT(way == 0 ? weft__os_receive(pair[1], got, 3)
                               : weft__os_receive_pieces(pair[1], &room, 1, NULL, NULL)),
                 3);
        CHECK_STR(got, "abc");
    }
    KERNEL_SAYS(send, 0, 0);
    KERNEL_SAYS(sendmsg, 0, 0);
    KERNEL_SAYS(sendfile, 0, 0);
    KERNEL_SAYS(recv, 0, 0);
    KERNEL_SAYS(recvmsg, 0, 0);
    close(pair[0]), close(pair[1]), close(file);
}

static void connecting_goes_on_after_a_signal(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    int listener = weft__os_socket(AF_INET, SOCK_STREAM);
    int fd = weft__os_socket(AF_INET, SOCK_STREAM);
    CHECK_EQ(weft__os_bind(listener, &name, sizeof name), 0);
    CHECK_EQ(weft__os_listen(listener, 5), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&name, &size), 0);
    CHECK_EQ(KEPT(weft__os_connected(fd)), -EAGAIN);
    KERNEL_SAYS(connect, EINTR, 1);
    CHECK_EQ(KEPT(weft__os_connect(fd, &name, sizeof name)), -EINPROGRESS);
    int error = weft__os_connect(fd, &name, sizeof name);
    CHECK(error == 0 || error == -EINPROGRESS);
    KERNEL_SAYS(accept4, EINTR, 2);
    int accepted = (int)KEPT(weft__os_accept(listener));
    KERNEL_SAID(accept4);
    CHECK(accepted >= 0);
    CHECK_EQ(KEPT(weft__os_connected(fd)), 0);
    close(accepted), close(fd), close(listener);
}

static void errors_are_passed_on(void)
{
    int fd = weft__os_socket(AF_INET, SOCK_STREAM), type = -7;
    KERNEL_SAYS(listen, EADDRINUSE, 1);
    CHECK_EQ(KEPT(weft__os_listen(fd, 5)), -EADDRINUSE);
    KERNEL_SAYS(setsockopt, EPERM, 1);
    CHECK_EQ(KEPT(weft__os_socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1)), -EPERM);
    KERNEL_SAYS(getsockopt, ENOTSOCK, 1);
    CHECK_EQ(KEPT(weft__os_connected(fd)), -ENOTSOCK);
    KERNEL_SAYS(getpeername, ENOBUFS, 1);
    CHECK_EQ(KEPT(weft__os_connected(fd)), -ENOBUFS);
    fake_plan(&fake_fcntl, 0, EBADF, 1);
    CHECK_EQ(KEPT(weft__os_socket_adopt(fd, &type)), -EBADF);
    fake_plan(&fake_fcntl, 1, EPERM, 1);
    CHECK_EQ(KEPT(weft__os_socket_adopt(fd, &type)), -EPERM);
    CHECK_EQ(KEPT(weft__os_socket_adopt(-1, &type)), -EBADF);
    CHECK_EQ(type, -7);
    CHECK_EQ(KEPT(weft__os_socket_shutdown(fd, true, true)), -ENOTCONN);
    close(fd);
}

static void each_half_is_shut_down(void)
{
    for (int halves = 1; halves <= 3; halves++) {
        int pair[2];
        char byte;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        CHECK_EQ(KEPT(weft__os_socket_shutdown(pair[0], halves & 1, halves & 2)), 0);
        CHECK_EQ(weft__os_receive(pair[0], &byte, 1), halves & 1 ? 0 : -EAGAIN);
        CHECK_EQ(weft__os_send(pair[0], "x", 1), halves & 2 ? -EPIPE : 1);
        close(pair[0]), close(pair[1]);
    }
}

static void names_need_room(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in got;
    size_t size = sizeof got;
    char byte;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    int fd = weft__os_socket(AF_INET, SOCK_DGRAM);
    CHECK_EQ(weft__os_bind(fd, &name, sizeof name), 0);
    CHECK_EQ(weft__os_socket_name(fd, false, &got, &size), 0);
    CHECK_EQ(size, sizeof got);
    CHECK_EQ(weft__os_send_pieces(fd, &piece, 1, &got, sizeof got), 1);
    struct sockaddr_in from = {0};
    CHECK_EQ(weft__os_receive_pieces(fd, &piece, 1, &from, &size), 1);
    CHECK_EQ(size, sizeof from); /* the room is full */
    CHECK_EQ(from.sin_port, got.sin_port);
    size = 4;
    memset(&got, 7, sizeof got);
    CHECK_EQ(weft__os_socket_name(fd, false, &got, &size), -ENAMETOOLONG);
    CHECK(size == 4 && ((char *)&got)[0] == 7);
    close(fd);
}

/* A SIGPIPE that was pending before, raised by other code, stays pending. */
static void a_broken_pipe_that_was_pending_stays(void)
{
    int pair[2], file = fileno(tmpfile());
    sigset_t pipe, before, pending;
    CHECK_EQ(write(file, "abc", 3), 3);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &pipe, &before), 0);
    for (int raised = 0; raised < 2; raised++) {
        if (raised)
            CHECK_EQ(raise(SIGPIPE), 0);
        CHECK_EQ(KEPT(weft__os_sendfile(pair[0], file, 0, 3)), -EPIPE);
        CHECK_EQ(sigpending(&pending), 0);
        CHECK_EQ(sigismember(&pending, SIGPIPE), raised);
    }
    CHECK_EQ(sigtimedwait(&pipe, NULL, &(struct timespec){0, 0}), SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    close(pair[0]), close(file);
}

static void only_sockets_are_unlinked(void)
{
    char path[] = "/tmp/weft-kernel-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0);
    weft__os_socket_unlink(path, NULL);
    CHECK_EQ(access(path, F_OK), 0);
    CHECK_EQ(unlink(path), 0);
    errno = EDOM;
    weft__os_socket_unlink(path, NULL); /* no file: no effect */
    CHECK_EQ(errno, EDOM);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    int fd = weft__os_socket(AF_UNIX, SOCK_STREAM);
    CHECK_EQ(weft__os_bind(fd, &name, sizeof name), 0);
    weft__os_socket_unlink(path, NULL);
    CHECK_EQ(access(path, F_OK), -1);
    close(fd), close(file);
}

/* Listeners. */

static struct {
    weft_listener *listener;
    weft_conn *accepted;
    char address[WEFT_ADDRESS_TEXT];
    int result;
} server;

static void server_open(const char *at)
{
    weft_address local;
    CHECK_EQ(weft_listener_open(&server.listener, at, NULL), 0);
    CHECK_EQ(weft_listener_local(server.listener, &local), 0);
    CHECK_EQ(weft_address_format(&local, server.address, sizeof server.address), 0);
}

/* After any error of a connection, the next connection is accepted. */
static void errors_of_a_connection_end_no_listener(void)
{
    static const int gone[] = {ECONNABORTED, EPROTO,       ENETDOWN,    ENOPROTOOPT, EHOSTDOWN,
                               ENONET,       EHOSTUNREACH, ENETUNREACH, EPERM};
    static const int no_room[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    server_open("tcp:127.0.0.1:0");
    for (size_t i = 0; i < sizeof gone / sizeof gone[0] + sizeof no_room / sizeof no_room[0]; i++) {
        size_t first = sizeof gone / sizeof gone[0];
        weft_conn *dialled;
        CHECK_EQ(weft_conn_dial(&dialled, server.address, NULL, WEFT_NEVER), 0);
        KERNEL_SAYS(accept4, i < first ? gone[i] : no_room[i - first], 3);
        CHECK_EQ(weft_listener_accept(server.listener, &server.accepted, WEFT_NEVER), 0);
        KERNEL_SAID(accept4);
        weft_conn_close(server.accepted);
        weft_conn_close(dialled);
    }
    /* Any other error is one of the listener. */
    server.accepted = NULL;
    KERNEL_SAYS(accept4, EINVAL, 1);
    CHECK_EQ(weft_listener_accept(server.listener, &server.accepted, WEFT_NEVER), -EINVAL);
    CHECK_PTR(server.accepted, NULL);
    weft_listener_close(server.listener);
}

static void accept_one(void *unused)
{
    server.result = weft_listener_accept(server.listener, &server.accepted, WEFT_NEVER);
}

/* A deadline and a context end the wait for room, also when the pause has grown. */
static void a_wait_for_room_can_end(void)
{
    weft_conn *dialled;
    server_open("tcp:127.0.0.1:0");
    CHECK_EQ(weft_conn_dial(&dialled, server.address, NULL, WEFT_NEVER), 0);
    KERNEL_SAYS(accept4, ENFILE, KERNEL_ALWAYS);
    CHECK_EQ(weft_listener_accept(server.listener, &server.accepted, weft_after(WEFT_MS)),
             -ETIMEDOUT);
    weft_context *context;
    weft_fiber *fiber;
    weft_context_options limit = {.timeout = 300 * WEFT_MS};
    CHECK_EQ(weft_context_open(&context, NULL, &limit), 0);
    weft_spawn_options options = {.context = context};
    CHECK_EQ(weft_spawn(&fiber, accept_one, NULL, &options), 0);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(server.result, -ETIMEDOUT);
    weft_context_close(context);
    KERNEL_SAYS(accept4, 0, 0);
    CHECK_EQ(weft_listener_accept(server.listener, &server.accepted, WEFT_NEVER), 0);
    weft_conn_close(server.accepted);
    weft_conn_close(dialled);
    weft_listener_close(server.listener);
}

/* Without memory for a connection that it has accepted, the call waits for memory, and closes the
 * connection at its deadline. */
static void an_accepted_connection_is_not_lost(void)
{
    weft_conn *dialled;
    char byte;
    struct rlimit limits;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limits), 0);
    if (limits.rlim_max < 2 * HIGH)
        return;
    rlim_t before = limits.rlim_cur;
    limits.rlim_cur = limits.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limits), 0);
    server_open("tcp:127.0.0.1:0");
    CHECK_EQ(weft_conn_dial(&dialled, server.address, NULL, WEFT_NEVER), 0);
    server.accepted = NULL;
    KERNEL_SAYS(accept4, 0, 1);
    weft__os_fail(OS_MAP, 1, true); /* the table of descriptors */
    CHECK_EQ(weft_listener_accept(server.listener, &server.accepted, weft_after(5 * WEFT_MS)),
             -ETIMEDOUT);
    weft__os_fail(OS_MAP, 0, false);
    KERNEL_SAID(accept4);
    CHECK_PTR(server.accepted, NULL);
    CHECK_EQ(weft_conn_read(dialled, &byte, 1, WEFT_NEVER), 0); /* it was closed */
    weft_conn_close(dialled);
    limits.rlim_cur = before;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limits), 0);
    weft_listener_close(server.listener);
}

/* "All addresses" are all of IPv4 where there is no IPv6. */
static void without_ipv6(void)
{
    weft_address local;
    weft_conn *conn;
    KERNEL_SAYS(socket, EAFNOSUPPORT, 1);
    server_open("tcp::0");
    KERNEL_SAID(socket);
    CHECK_EQ(strncmp(server.address, "tcp:0.0.0.0:", 12), 0);
    weft_listener_close(server.listener);
    KERNEL_SAYS(socket, EAFNOSUPPORT, 1);
    CHECK_EQ(weft_conn_bind(&conn, "udp::0", NULL), 0);
    KERNEL_SAID(socket);
    CHECK_EQ(weft_conn_local(conn, &local), 0);
    CHECK_EQ(weft_address_format(&local, server.address, sizeof server.address), 0);
    CHECK_EQ(strncmp(server.address, "udp:0.0.0.0:", 12), 0);
    weft_conn_close(conn);
    KERNEL_SAYS(bind, EADDRNOTAVAIL, 1); /* IPv6 that is turned off */
    server_open("tcp::0");
    CHECK_EQ(strncmp(server.address, "tcp:0.0.0.0:", 12), 0);
    weft_listener_close(server.listener);
    /* Without either. */
    KERNEL_SAYS(socket, EAFNOSUPPORT, 2);
    CHECK_EQ(weft_listener_open(&server.listener, "tcp::0", NULL), -EAFNOSUPPORT);
    KERNEL_SAYS(socket, ENFILE, 1); /* after another error IPv4 is not tried */
    CHECK_EQ(weft_conn_bind(&conn, "udp::0", NULL), -ENFILE);
}

/* Whichever option cannot be set, the socket is closed. */
static void options_that_are_refused(void)
{
    static const weft_net_options all = {.keepalive = 10,
                                         .receive_buffer = 4096,
                                         .send_buffer = 4096,
                                         .reuse_port = 1,
                                         .ipv6_only = 1};
    enum { OPTIONS = 7 };
    server_open("tcp:127.0.0.1:0");
    int free = dup(0);
    close(free);
    for (uint32_t i = 0; i <= OPTIONS; i++) {
        weft_conn *conn = NULL;
        KERNEL_SAYS_AFTER(setsockopt, i, ENOBUFS, 1);
        int error = weft_conn_dial(&conn, server.address, &all, WEFT_NEVER);
        CHECK_EQ(error, i < OPTIONS ? -ENOBUFS : 0);
        KERNEL_SAYS(setsockopt, 0, 0);
        weft_conn_close(conn);
        int now = dup(0);
        CHECK_EQ(now, free);
        close(now);
    }
    weft_listener_close(server.listener);
    /* Options of the network are not set for Unix sockets. */
    KERNEL_SAYS_AFTER(setsockopt, 2, ENOBUFS, 1);
    CHECK_EQ(weft_listener_open(&server.listener, "unix:@weft-kernel-options", &all), 0);
    KERNEL_SAYS(setsockopt, 0, 0);
    weft_listener_close(server.listener);
}

/* A dial to a full backlog is tried again at growing intervals, until there is room, or the dial is
 * cancelled. */

static int dialled_with;

static void dial_local(void *address)
{
    weft_conn *conn;
    dialled_with = weft_conn_dial(&conn, address, NULL, WEFT_NEVER);
    if (dialled_with == 0)
        weft_conn_close(conn);
}

static void a_full_backlog(void)
{
    char address[] = "unix:@weft-kernel-backlog";
    server_open(address);
    KERNEL_SAYS(connect, EAGAIN, 9);
    dial_local(address);
    CHECK_EQ(dialled_with, 0);
    KERNEL_SAID(connect);
    weft_context *context;
    weft_fiber *fiber;
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    weft_spawn_options options = {.context = context};
    KERNEL_SAYS(connect, EAGAIN, KERNEL_ALWAYS);
    CHECK_EQ(weft_spawn(&fiber, dial_local, address, &options), 0);
    while (atomic_u32_load_acquire(&fake_connect.calls) < 2)
        weft_yield();
    weft_context_cancel(context);
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(dialled_with, -ECANCELED);
    KERNEL_SAYS(connect, 0, 0);
    weft_context_close(context);
    weft_listener_close(server.listener);
}

/* A dial that fails removes the path that it was bound to. */
static void a_local_path_goes_with_a_failed_dial(void)
{
    char path[] = "/tmp/weft-kernel-XXXXXX", local[64], unused[64];
    weft_conn *conn;
    close(mkstemp(path));
    CHECK_EQ(unlink(path), 0);
    snprintf(local, sizeof local, "unix:%s", path);
    snprintf(unused, sizeof unused, "unix:%s-unused", path);
    weft_net_options options = {.local = local};
    CHECK_EQ(weft_conn_dial(&conn, unused, &options, WEFT_NEVER), -ENOENT);
    CHECK_EQ(access(path, F_OK), -1);
}

/* The bytes read before an error are returned first. */
static void a_read_that_breaks_off(void)
{
    weft_conn *dialled;
    char bytes[8] = "";
    server_open("tcp:127.0.0.1:0");
    CHECK_EQ(weft_conn_dial(&dialled, server.address, NULL, WEFT_NEVER), 0);
    CHECK_EQ(weft_listener_accept(server.listener, &server.accepted, WEFT_NEVER), 0);
    CHECK_EQ(weft_conn_write(dialled, "abc", 3, WEFT_NEVER), 3);
    KERNEL_SAYS_AFTER(recv, 1, ECONNRESET, 1);
    CHECK_EQ(weft_conn_read_full(server.accepted, bytes, sizeof bytes, WEFT_NEVER), 3);
    CHECK_STR(bytes, "abc");
    KERNEL_SAYS(recv, ECONNRESET, 1);
    CHECK_EQ(weft_conn_read_full(server.accepted, bytes, sizeof bytes, WEFT_NEVER), -ECONNRESET);
    weft_conn_close(dialled);
    weft_conn_close(server.accepted);
    weft_listener_close(server.listener);
}

int main(void)
{
    RUN(interrupted_calls_begin_again);
    RUN(connecting_goes_on_after_a_signal);
    RUN(errors_are_passed_on);
    RUN(each_half_is_shut_down);
    RUN(names_need_room);
    RUN(a_broken_pipe_that_was_pending_stays);
    RUN(only_sockets_are_unlinked);
    RUN(errors_of_a_connection_end_no_listener);
    RUN(a_wait_for_room_can_end);
    RUN(an_accepted_connection_is_not_lost);
    RUN(without_ipv6);
    RUN(options_that_are_refused);
    RUN(a_full_backlog);
    RUN(a_local_path_goes_with_a_failed_dial);
    RUN(a_read_that_breaks_off);
    return 0;
}
