/*
 * socket.c: the life of a socket: its users, its close, its waits.
 *
 * One word counts its users:
 *
 *     bit 0        closed
 *     bits 1-31    calls in progress
 *     bits 32-63   handles that are not given up
 *
 * A call enters only if the socket is not closed. So after the close the calls in progress get
 * fewer and never more, and one of them, or the close itself, is the last: that one closes the
 * descriptor. The one that takes the last count of all away (no call, no handle) frees the memory.
 *
 *     close             a call that waits               a call that is about to wait
 *     closed = 1
 *     shut: wake all    -ESHUTDOWN from its wait        -ESHUTDOWN: the descriptor is shut
 *     calls: 0?         leave: the last one closes      leave: the last one closes
 *
 * The descriptor is taken out of the poller before it is closed (sched/poll/descriptor.c), and its
 * number cannot be used for another file while a call is in progress: so no call reads from or
 * writes to a descriptor that is not its own.
 *
 * In a forked child the poller is not touched: its set is shared with the parent.
 *
 * Fairness: calls that never have to wait would keep the processor for ever. After EAGER_MOST of
 * them in a row the fiber yields.
 *
 * Rejected: a lock for readers (an event wakes all that wait, and each tries: nothing is lost, and
 * one reader, which is what almost all connections have, pays nothing); a reader that usually finds
 * the socket empty yields before it tries (other ready fibers may compute for long, and the read of
 * what is there waits for all of them).
 */
#include "net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "sched/poll/descriptor.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

#define CLOSED ((uint64_t)1)
#define CALL ((uint64_t)2)
#define HANDLE ((uint64_t)1 << 32)
#define CALLS (HANDLE - CALL)

enum { EAGER_MOST = 64 }; /* picked out of thin air */

/* Life. */

static void discard(int fd)
{
    if (!weft__runtime_forked())
        weft__descriptor_disown(fd);
    weft__os_close(fd);
}

int weft__socket_begin(struct socket *socket, int fd, int type)
{
    if (weft__runtime_forked())
        return -ECHILD;
    int error = weft__descriptor_own(fd);
    if (error != 0)
        return error;
    *socket = (struct socket){.fd = fd, .type = (uint16_t)type};
    atomic_u64_store_relaxed(&socket->word, HANDLE);
    return 0;
}

int weft__socket_enter(struct socket *socket)
{
    uint64_t word = atomic_u64_load_relaxed(&socket->word);
    do
        if (unlikely(word & CLOSED))
            return -ESHUTDOWN;
    while (!atomic_u64_cas_acq_rel(&socket->word, &word, word + CALL));
    return 0;
}

/* The last call of a closed socket has left. Unless `free`, the socket may have been freed
 * already. */
static noinline void finish(struct socket *socket, int fd, bool free)
{
    discard(fd);
    if (free)
        weft__os_free(socket);
}

void weft__socket_leave(struct socket *socket)
{
    int fd = socket->fd;
    /* acq_rel: all that the calls did comes before the close. */
    uint64_t after = atomic_u64_sub_acq_rel(&socket->word, CALL) - CALL;
    if (unlikely((after & CLOSED) && (after & CALLS) == 0))
        finish(socket, fd, after == CLOSED);
}

void weft__socket_share(struct socket *socket)
{
    atomic_u64_add_relaxed(&socket->word, HANDLE);
}

/* The first close counts as a call while it wakes the others, so that the descriptor stays open
 * meanwhile. */
void weft__socket_close(struct socket *socket)
{
    uint64_t word = atomic_u64_load_relaxed(&socket->word), after;
    do
        after = (word | CLOSED) - HANDLE + (word & CLOSED ? 0 : CALL);
    while (!atomic_u64_cas_acq_rel(&socket->word, &word, after));
    if (word & CLOSED) {
        if (after == CLOSED)
            weft__os_free(socket);
        return;
    }
    if (!weft__runtime_forked()) {
        bool fiber = enter_if_fiber();
        weft__descriptor_shut(socket->fd);
        leave_if_fiber(fiber);
    }
    weft__socket_leave(socket);
}

/* Waiting. */

static noinline void let_others_run(struct socket *socket)
{
    atomic_u32_store_relaxed(&socket->immediate, 0);
    if (weft_self() != NULL)
        weft_yield();
}

int64_t weft__socket_repeat(struct socket *socket, uint32_t event, socket_try *try, void *call,
                            int64_t deadline)
{
    for (;;) {
        uint32_t seen = weft__descriptor_seen(socket->fd, event);
        int64_t result = try(socket->fd, call);
        if (likely(result != -EAGAIN)) {
            uint32_t immediate = atomic_u32_load_relaxed(&socket->immediate) + 1;
            atomic_u32_store_relaxed(&socket->immediate, immediate);
            if (unlikely(immediate >= EAGER_MOST))
                let_others_run(socket);
            return result;
        }
        atomic_u32_store_relaxed(&socket->immediate, 0);
        result = weft__descriptor_wait(socket->fd, event, seen, deadline);
        if (unlikely(result < 0))
            return result;
    }
}

/* Opening. */

int weft__net_options_check(const weft_net_options *options)
{
    static const weft_net_options none;
    if (options->backlog < 0 || options->keepalive < 0 || options->receive_buffer < 0 ||
        options->send_buffer < 0 ||
        memcmp(options->reserved, none.reserved, sizeof none.reserved) != 0)
        return -EINVAL;
    return 0;
}

static int set_keepalive(int fd, int seconds)
{
    int error = weft__os_socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    if (error == 0)
        error = weft__os_socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    if (error == 0)
        error = weft__os_socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
    return error;
}

static int set_options(int fd, const weft_address *address, const weft_net_options *options)
{
    int family = ((const struct sockaddr *)(const void *)address->bytes)->sa_family;
    bool tcp = family != AF_UNIX && address->type == SOCK_STREAM;
    int error = 0;
    if (options->receive_buffer > 0)
        error = weft__os_socket_set(fd, SOL_SOCKET, SO_RCVBUF, options->receive_buffer);
    if (error == 0 && options->send_buffer > 0)
        error = weft__os_socket_set(fd, SOL_SOCKET, SO_SNDBUF, options->send_buffer);
    if (error == 0 && options->reuse_port && family != AF_UNIX)
        error = weft__os_socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (error == 0 && family == AF_INET6)
        error = weft__os_socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, options->ipv6_only != 0);
    if (error == 0 && tcp && !options->nagle)
        error = weft__os_socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (error == 0 && tcp && options->keepalive > 0)
        error = set_keepalive(fd, options->keepalive);
    return error;
}

int weft__socket_open(const weft_address *address, const weft_net_options *options)
{
    int family = ((const struct sockaddr *)(const void *)address->bytes)->sa_family;
    int fd = weft__os_socket(family, address->type);
    if (fd < 0)
        return fd;
    int error = set_options(fd, address, options);
    if (error == 0)
        return fd;
    weft__os_close(fd);
    return error;
}

int weft__socket_bind(int fd, const weft_address *address)
{
    return weft__os_bind(fd, address->bytes, address->size);
}

/* The path of a Unix socket; false if the address has none. */
static bool get_path(const weft_address *address, struct sockaddr_un *name)
{
    memcpy(name, address->bytes, sizeof *name);
    name->sun_path[sizeof name->sun_path - 1] = '\0';
    return name->sun_family == AF_UNIX && name->sun_path[0] != '\0';
}

bool weft__socket_bound_id(const weft_address *address, struct weft__os_file_id *id)
{
    struct sockaddr_un name;
    return get_path(address, &name) && weft__os_socket_id(name.sun_path, id);
}

void weft__socket_unbind(const weft_address *address, const struct weft__os_file_id *id)
{
    struct sockaddr_un name;
    if (get_path(address, &name))
        weft__os_socket_unlink(name.sun_path, id);
}

int weft__socket_address(struct socket *socket, bool peer, weft_address *address)
{
    weft_address got = {.type = socket->type};
    size_t size = sizeof got.bytes;
    int error = weft__socket_enter(socket);
    if (error != 0)
        return error;
    error = weft__os_socket_name(socket->fd, peer, got.bytes, &size);
    weft__socket_leave(socket);
    if (error != 0)
        return error;
    got.size = (uint16_t)size;
    *address = got;
    return 0;
}
