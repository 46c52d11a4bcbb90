/*
 * network.c: servers and clients over loopback: TCP, Unix sockets, UDP.
 *
 * A request is a message of the ledger: the server that reads it books it out, and answers. Each
 * request is read once, by one server; clients end their side and read to the end, since a close
 * with unread data would destroy data in transit. Some clients are rude: they connect, send
 * something that does not count, and disconnect.
 */
#include <sys/socket.h>

#include "soak.h"

enum { REQUESTS = 20, DATAGRAMS = 10, RUDE = 0x7fff, BULK = 3000 };

struct request {
    uint64_t id;
    uint32_t extra; /* bytes after the header */
    uint32_t rude;
};

struct server {
    weft_listener *listener;
    char address[WEFT_ADDRESS_TEXT];
    weft_wg serving;
    atomic_u32 failures; /* connections broken by rude clients */
};

struct service {
    struct server *server;
    weft_conn *conn;
};

/* Reads exactly `size` bytes by several calls, each of which may time out. 0: the stream ended
 * before. */
static int64_t read_all(weft_conn *conn, void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        int64_t got =
            weft_conn_read(conn, (char *)data + done, size - done, weft_after(20 * WEFT_MS));
        if (got == -ETIMEDOUT)
            continue;
        if (got <= 0)
            return done == 0 ? got : -EPROTO;
        done += (size_t)got;
    }
    return (int64_t)size;
}

static bool answer(weft_conn *conn, const struct request *request, char *bulk)
{
    struct iovec pieces[2] = {{.iov_base = (char *)(uintptr_t)request, .iov_len = sizeof *request},
                              {.iov_base = bulk, .iov_len = request->extra}};
    return weft_conn_writev(conn, pieces, 2, WEFT_NEVER) ==
           (int64_t)(sizeof *request + request->extra);
}

static void serve(void *arg)
{
    struct service *service = arg;
    struct server *server = service->server;
    weft_conn *conn = service->conn;
    struct request request;
    char bulk[BULK];
    free(service);
    while (read_all(conn, &request, sizeof request) == (int64_t)sizeof request) {
        CHECK(request.extra <= BULK);
        if (request.extra > 0 && read_all(conn, bulk, request.extra) != (int64_t)request.extra) {
            CHECK(request.rude == RUDE);
            break;
        }
        if (request.rude != RUDE)
            ledger_book_out(request.id, HAPPENED);
        if (!answer(conn, &request, bulk)) {
            CHECK(request.rude == RUDE);
            break;
        }
    }
    weft_conn_close(conn);
    weft_wg_done(&server->serving);
}

static void accept_all(void *arg)
{
    struct server *server = arg;
    weft_listener *listener = server->listener;
    weft_conn *conn;
    while (weft_listener_accept(listener, &conn, WEFT_NEVER) == 0) {
        struct service *service = malloc(sizeof *service);
        CHECK(service != NULL);
        *service = (struct service){server, conn};
        CHECK_EQ(weft_wg_add(&server->serving, 1), 0);
        CHECK_EQ(weft_go(serve, service), 0);
    }
    weft_listener_close(listener);
    weft_wg_done(&server->serving);
}

static void ask(weft_conn *conn, struct prng *prng)
{
    char out[sizeof(struct request) + BULK], in[sizeof(struct request) + BULK];
    struct request request = {.id = ledger_enter(BOOK_MESSAGES, "request"),
                              .extra = one_in(prng, 4) ? below(prng, BULK) : 0};
    size_t size = sizeof request + request.extra;
    memset(out, (int)below(prng, 256), sizeof out);
    memcpy(out, &request, sizeof request);
    CHECK_EQ(weft_conn_write(conn, out, size, WEFT_NEVER), size);
    CHECK_EQ(read_all(conn, in, size), size);
    CHECK(memcmp(in, out, size) == 0);
}

static void be_rude(weft_conn *conn, struct prng *prng)
{
    struct request request = {.rude = RUDE, .extra = below(prng, BULK)};
    (void)!weft_conn_write(conn, &request, sizeof request, soak_soon(prng));
    weft_conn_close(conn);
}

static void client(struct member *member)
{
    struct server *server = member->shared;
    struct prng *prng = &member->prng;
    weft_conn *conn;
    char rest;
    for (int turn = 0; turn < 2; turn++) {
        CHECK_EQ(weft_conn_dial(&conn, server->address, NULL, WEFT_NEVER), 0);
        if (one_in(prng, 8)) {
            be_rude(conn, prng);
            continue;
        }
        for (int i = 0; i < REQUESTS; i++) {
            ask(conn, prng);
            soak_pause(prng);
        }
        CHECK_EQ(weft_conn_shutdown(conn, WEFT_WRITABLE), 0);
        CHECK_EQ(read_all(conn, &rest, 1), 0);
        weft_conn_close(conn);
    }
}

static void streams(struct actor *actor)
{
    static atomic_u32 names;
    struct prng *prng = &actor->prng;
    struct server server;
    struct crew crew;
    weft_address address;
    memset(&server, 0, sizeof server);
    snprintf(server.address, sizeof server.address, "tcp:127.0.0.1:0");
    if (one_in(prng, 3)) /* an abstract name */
        snprintf(server.address, sizeof server.address, "unix:@weft-soak-%d-%u", (int)getpid(),
                 atomic_u32_add_relaxed(&names, 1));
    actor->doing = "has a server";
    CHECK_EQ(weft_listener_open(&server.listener, server.address, NULL), 0);
    CHECK_EQ(weft_listener_local(server.listener, &address), 0);
    CHECK_EQ(weft_address_format(&address, server.address, sizeof server.address), 0);
    weft_listener *shared = weft_listener_share(server.listener);
    CHECK_EQ(weft_wg_add(&server.serving, 1), 0);
    CHECK_EQ(weft_go(accept_all, &server), 0);
    crew_start(&crew, prng, between(prng, 1, 5), client, &server);
    crew_join(&crew);
    actor->doing = "closes its server";
    weft_listener_close(shared);
    CHECK_EQ(weft_wg_wait(&server.serving), 0);
}

/* Datagrams may be lost, but arrive at most once. */
static void datagrams(struct actor *actor)
{
    struct prng *prng = &actor->prng;
    weft_conn *here, *there;
    weft_address address, from;
    uint64_t ids[DATAGRAMS], id;
    actor->doing = "sends datagrams";
    CHECK_EQ(weft_conn_bind(&here, "udp:127.0.0.1:0", NULL), 0);
    CHECK_EQ(weft_conn_bind(&there, "udp:127.0.0.1:0", NULL), 0);
    CHECK_EQ(weft_conn_local(there, &address), 0);
    for (int i = 0; i < DATAGRAMS; i++) {
        ids[i] = ledger_enter(BOOK_MESSAGES, "datagram");
        CHECK_EQ(weft_conn_send_to(here, &ids[i], sizeof ids[i], &address, WEFT_NEVER),
                 sizeof ids[i]);
        soak_pause(prng);
    }
    while (weft_conn_receive_from(there, &id, sizeof id, &from, weft_after(WEFT_MS)) ==
           (int64_t)sizeof id)
        ledger_book_out(id, HAPPENED);
    for (int i = 0; i < DATAGRAMS; i++)
        if (!ledger_is_booked_out(ids[i]))
            ledger_book_out(ids[i], DROPPED);
    weft_conn_close(here);
    weft_conn_close(there);
}

/* Readers ended by a close. */
static void reader(struct member *member)
{
    char byte;
    weft_conn *conn = member->shared;
    int64_t got = weft_conn_read(conn, &byte, 1, WEFT_NEVER);
    CHECK(got == -ESHUTDOWN);
    weft_conn_close(conn);
}

static void closes(struct actor *actor)
{
    struct prng *prng = &actor->prng;
    int ends[2];
    weft_conn *near, *far;
    struct crew crew;
    uint32_t count = between(prng, 1, 4);
    actor->doing = "closes a connection that is read";
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(weft_conn_from_fd(&near, ends[0]), 0);
    CHECK_EQ(weft_conn_from_fd(&far, ends[1]), 0);
    for (uint32_t i = 0; i < count; i++)
        (void)weft_conn_share(near);
    crew_start(&crew, prng, count, reader, near);
    soak_pause(prng);
    weft_conn_close(near);
    crew_join(&crew);
    weft_conn_close(far);
}

void network_round(struct actor *actor)
{
    static void (*const rounds[])(struct actor *) = {streams, streams, datagrams, closes};
    rounds[below(&actor->prng, 4)](actor);
}
