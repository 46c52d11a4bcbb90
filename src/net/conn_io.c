/*
 * conn_io.c: reading from and writing to connections.
 *
 * Each transfer is tried first, outside the runtime, and waits only if the kernel would have to. A
 * write to a stream holds the mutex of the connection until all is written, so that the writes of
 * two fibers are not mixed. Datagrams are whole in any case, and reads need no order.
 *
 * A write to a stream that ends early (deadline, context, error) returns how much was written. The
 * next call returns the reason, which still holds then.
 */
#include <sys/socket.h>

#include "net/conn.h"
#include "sched/core/cancel.h"
#include "sched/poll/descriptor.h"

enum { PIECES_MOST = 1024 /* IOV_MAX */, PIECES_AT_ONCE = 64 };

#define PAUSE_FIRST (1 * WEFT_MS)
#define PAUSE_MOST (50 * WEFT_MS)
#define SENDFILE_AT_ONCE ((size_t)1 << 20) /* bytes: bounds how long a try takes */

/* The arguments of an attempt; each kind uses some. */
struct transfer {
    void *data;
    const void *source;
    size_t size;
    const struct iovec *pieces;
    size_t count;
    weft_address *from;
    const weft_address *to;
    int file;
    int64_t offset;
};

static int64_t try_read(int fd, void *call)
{
    const struct transfer *transfer = call;
    return weft__os_receive(fd, transfer->data, transfer->size);
}

static int64_t try_write(int fd, void *call)
{
    const struct transfer *transfer = call;
    return weft__os_send(fd, transfer->source, transfer->size);
}

static int64_t try_read_pieces(int fd, void *call)
{
    const struct transfer *transfer = call;
    if (transfer->from == NULL)
        return weft__os_receive_pieces(fd, transfer->pieces, transfer->count, NULL, NULL);
    weft_address from = {.type = SOCK_DGRAM};
    size_t size = sizeof from.bytes;
    int64_t got = weft__os_receive_pieces(fd, transfer->pieces, transfer->count, from.bytes, &size);
    from.size = (uint16_t)size;
    if (got >= 0)
        *transfer->from = from;
    return got;
}

static int64_t try_write_pieces(int fd, void *call)
{
    const struct transfer *transfer = call;
    const weft_address *to = transfer->to;
    return weft__os_send_pieces(fd, transfer->pieces, transfer->count,
                                to != NULL ? to->bytes : NULL, to != NULL ? to->size : 0);
}

static int64_t try_sendfile(int fd, void *call)
{
    const struct transfer *transfer = call;
    size_t size = transfer->size < SENDFILE_AT_ONCE ? transfer->size : SENDFILE_AT_ONCE;
    return weft__os_sendfile(fd, transfer->file, transfer->offset, size);
}

static int64_t once(weft_conn *conn, uint32_t event, socket_try *try, struct transfer *transfer,
                    int64_t deadline)
{
    int64_t result = weft__socket_enter(&conn->socket);
    if (unlikely(result != 0))
        return result;
    result = weft__socket_repeat(&conn->socket, event, try, transfer, deadline);
    weft__socket_leave(&conn->socket);
    return result;
}

/* Reading. */

int64_t weft_conn_read(weft_conn *conn, void *data, size_t size, int64_t deadline)
{
    struct transfer transfer = {.data = data, .size = size};
    if (conn == NULL || (data == NULL && size > 0))
        return -EINVAL;
    if (size == 0 && conn->socket.type == SOCK_STREAM)
        return 0; /* with datagrams, a read of 0 bytes drops the next one */
    return once(conn, OS_READABLE, try_read, &transfer, deadline);
}

int64_t weft_conn_read_full(weft_conn *conn, void *data, size_t size, int64_t deadline)
{
    size_t done = 0;
    do {
        int64_t got = weft_conn_read(conn, (char *)data + done, size - done, deadline);
        if (got < 0 && done == 0)
            return got;
        if (got <= 0)
            break;
        done += (size_t)got;
    } while (done < size);
    return (int64_t)done;
}

int64_t weft_conn_readv(weft_conn *conn, const struct iovec *pieces, int count, int64_t deadline)
{
    if (conn == NULL || pieces == NULL || count < 0)
        return -EINVAL;
    if (count > PIECES_MOST)
        return -EMSGSIZE;
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size |= pieces[i].iov_len;
    if (size == 0 && conn->socket.type == SOCK_STREAM)
        return 0;
    struct transfer transfer = {.pieces = pieces, .count = (size_t)count};
    return once(conn, OS_READABLE, try_read_pieces, &transfer, deadline);
}

int64_t weft_conn_receive_from(weft_conn *conn, void *data, size_t size, weft_address *from,
                               int64_t deadline)
{
    struct iovec piece = {.iov_base = data, .iov_len = size};
    struct transfer transfer = {.pieces = &piece, .count = 1, .from = from};
    if (conn == NULL || (data == NULL && size > 0))
        return -EINVAL;
    return once(conn, OS_READABLE, try_read_pieces, &transfer, deadline);
}

/* Writing. */

/* Removes the bytes that were written from the transfer. */
typedef void transfer_advance(struct transfer *transfer, size_t sent);

/* Writes all, or until nothing more can be written: how much, or the error if that is nothing. */
static int64_t write_all(weft_conn *conn, socket_try *try, transfer_advance *advance,
                         struct transfer *transfer, int64_t deadline)
{
    struct socket *socket = &conn->socket;
    bool stream = socket->type == SOCK_STREAM;
    int64_t total = 0;
    int64_t result = weft__socket_enter(socket);
    if (unlikely(result != 0))
        return result;
    if (stream && (result = weft_mutex_lock_until(&conn->writing, deadline)) != 0) {
        weft__socket_leave(socket);
        return result;
    }
    do {
        result = weft__socket_repeat(socket, OS_WRITABLE, try, transfer, deadline);
        if (result > 0) {
            total += result;
            advance(transfer, (size_t)result);
        }
    } while (result > 0 && stream && transfer->size > 0);
    if (stream)
        weft_mutex_unlock(&conn->writing);
    weft__socket_leave(socket);
    return total > 0 ? total : result;
}

static void advance_plain(struct transfer *transfer, size_t sent)
{
    transfer->source = (const char *)transfer->source + sent;
    transfer->size -= sent;
}

int64_t weft_conn_write(weft_conn *conn, const void *data, size_t size, int64_t deadline)
{
    struct transfer transfer = {.source = data, .size = size};
    if (conn == NULL || (data == NULL && size > 0))
        return -EINVAL;
    return write_all(conn, try_write, advance_plain, &transfer, deadline);
}

static void advance_file(struct transfer *transfer, size_t sent)
{
    transfer->offset += (int64_t)sent;
    transfer->size -= sent;
}

int64_t weft_conn_sendfile(weft_conn *conn, int file, int64_t offset, size_t size, int64_t deadline)
{
    struct transfer transfer = {.file = file, .offset = offset, .size = size};
    if (conn == NULL || offset < 0)
        return -EINVAL;
    return write_all(conn, try_sendfile, advance_file, &transfer, deadline);
}

/* Pieces written to a stream. They are the caller's and must not change, so PIECES_AT_ONCE at a
 * time are copied, the first without the part that was written before. */
struct pieces {
    struct transfer transfer; /* `size` counts all bytes that are left */
    const struct iovec *next; /* not yet copied */
    int left;
    struct iovec copies[PIECES_AT_ONCE];
};

static void fill(struct pieces *pieces)
{
    struct transfer *transfer = &pieces->transfer;
    transfer->pieces = pieces->copies;
    for (transfer->count = 0; transfer->count < PIECES_AT_ONCE && pieces->left > 0; pieces->left--)
        pieces->copies[transfer->count++] = *pieces->next++;
}

static void advance_pieces(struct transfer *transfer, size_t sent)
{
    struct pieces *pieces = container_of(transfer, struct pieces, transfer);
    transfer->size -= sent;
    while (transfer->count > 0 && sent >= transfer->pieces->iov_len) {
        sent -= transfer->pieces->iov_len;
        transfer->pieces++;
        transfer->count--;
    }
    if (transfer->count == 0) {
        fill(pieces);
        return;
    }
    struct iovec *first = &pieces->copies[transfer->pieces - pieces->copies];
    first->iov_base = (char *)first->iov_base + sent;
    first->iov_len -= sent;
}

static int64_t send_once(weft_conn *conn, struct transfer *transfer, int64_t deadline)
{
    return once(conn, OS_WRITABLE, try_write_pieces, transfer, deadline);
}

int64_t weft_conn_writev(weft_conn *conn, const struct iovec *pieces, int count, int64_t deadline)
{
    if (conn == NULL || pieces == NULL || count < 0)
        return -EINVAL;
    if (conn->socket.type != SOCK_STREAM) {
        struct transfer whole = {.pieces = pieces, .count = (size_t)count};
        return count <= PIECES_MOST ? send_once(conn, &whole, deadline) : -EMSGSIZE;
    }
    struct pieces all = {.next = pieces, .left = count};
    for (int i = 0; i < count; i++)
        all.transfer.size += pieces[i].iov_len;
    fill(&all);
    return write_all(conn, try_write_pieces, advance_pieces, &all.transfer, deadline);
}

/* An unconnected Unix socket is reported as writable although the queue of the receiver is full:
 * there is no event to wait for, other than its own close. So it tries again after pauses. */
static int64_t send_to_unix(weft_conn *conn, struct transfer *transfer, int64_t deadline)
{
    struct socket *socket = &conn->socket;
    int64_t result = weft__socket_enter(socket);
    if (unlikely(result != 0))
        return result;
    for (int64_t pause = PAUSE_FIRST;; pause = pause < PAUSE_MOST ? pause * 2 : PAUSE_MOST) {
        result = weft__socket_repeat(socket, OS_WRITABLE, try_write_pieces, transfer, WEFT_NOW);
        if (result != -ETIMEDOUT || weft_now() >= deadline)
            break;
        int64_t until = weft_after(pause);
        result = weft__descriptor_wait(socket->fd, 0, 0, until < deadline ? until : deadline);
        if (result != -ETIMEDOUT || weft__cancelled() != 0)
            break;
    }
    weft__socket_leave(socket);
    return result;
}

int64_t weft_conn_send_to(weft_conn *conn, const void *data, size_t size, const weft_address *to,
                          int64_t deadline)
{
    struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct transfer transfer = {.pieces = &piece, .count = 1, .to = to};
    if (conn == NULL || to == NULL || to->size > sizeof to->bytes || (data == NULL && size > 0))
        return -EINVAL;
    return weft__address_family(to) == AF_UNIX ? send_to_unix(conn, &transfer, deadline)
                                               : send_once(conn, &transfer, deadline);
}
