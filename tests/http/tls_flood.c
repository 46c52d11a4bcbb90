/*
 * tls_flood.c: clients that keep a session of TLS busy without data, by KeyUpdates. After some of
 * them in a row the session ends; with a byte between them it goes on, but in turns, and others
 * come first. The acceptor's look for events is caught by the linker.
 */
#include <stdatomic.h>

#include "http/sys.h"
#include "system.h"
#include "tls_pair.h"
#include "tls_server.h"

/* ---- acceptors that are held ---- */

static atomic_bool hold;
static atomic_int looks;

int __real_weft__http_set_look(int set, struct http_event *events, int most);
int __wrap_weft__http_set_look(int set, struct http_event *events, int most);
int __wrap_weft__http_set_look(int set, struct http_event *events, int most)
{
    while (atomic_load(&hold))
        (void)weft_sleep(WEFT_MS);
    int count = __real_weft__http_set_look(set, events, most);
    if (count > 0)
        atomic_fetch_add(&looks, 1);
    return count;
}

/* ---- clients ---- */

/* With or without an answer to be sent. False if the server has ended the connection. */
static bool update_key(struct client *client, int kind)
{
    int result;
    ERR_clear_error();
    if (SSL_key_update(client->ssl, kind) != 1)
        return false;
    while ((result = SSL_do_handshake(client->ssl)) != 1)
        if (!client_again(client, &result))
            return false;
    return true;
}

/* A byte of each text, and so many records without one before it. */
static void send_between(struct client *client, const char *text, int updates)
{
    for (; *text != '\0'; text++) {
        for (int i = 0; i < updates; i++)
            CHECK(update_key(client, SSL_KEY_UPDATE_NOT_REQUESTED));
        CHECK_EQ(client_write(client, text, 1), 1);
    }
}

/* ---- a session ---- */

static int turns, read_bytes;

static void read_in_turns(struct server *server)
{
    char data[100];
    int64_t got;
    turns = read_bytes = 0;
    for (;;) {
        got = weft__http_tls_read(server->tls, data, sizeof data);
        if (got > 0) {
            read_bytes += (int)got;
        } else if (got == -EAGAIN) {
            turns += weft__http_tls_budget_spent(server->tls);
            wait_for(server);
        } else {
            break;
        }
    }
    server->result = (int)got;
}

static void updates_without_end(void)
{
    struct server server;
    int fd = server_start(&server, keys, read_in_turns), updates = 0;
    struct client client = client_open(clients, fd, ordinary);
    CHECK_EQ(client_handshake(&client), 0);
    while (update_key(&client, SSL_KEY_UPDATE_REQUESTED))
        CHECK(++updates < 100000); /* some, which the sockets have taken; not all that it has */
    CHECK_EQ(server_result(&server), -EPROTO);
    client_close(&client, false);
    close(fd);
}

static void some_between_data(void)
{
    static const char text[] = "as many as it bears, and a byte, and again";
    struct server server;
    struct client client = pair_open(&server, keys, read_in_turns, ordinary);
    send_between(&client, text, 31);
    client_close(&client, true);
    CHECK_EQ(server_result(&server), 0);
    CHECK_EQ(read_bytes, sizeof text - 1);
    CHECK(turns >= (int)sizeof text - 3); /* of 32 records each: one for a byte, but at the ends */
    close(client.fd);
}

/* ---- a server ---- */

static void release_acceptor(void)
{
    atomic_store(&looks, 0);
    atomic_store(&hold, false);
}

/* All of it is there when the acceptor looks: it still takes many rounds, and others get theirs.
 * The last part is read by a worker, which has begun with the connection. */
static void a_head_takes_turns(void)
{
    int port;
    char twice[200];
    weft_http_server *server =
        serve_tls((weft_http_options){.handler = hello, .acceptors = 1}, &port);
    struct client client = connected(port, ordinary);
    struct client other = connected(port, ordinary);
    ask(&client, GET("/")); /* the handshake is over for both sides */
    expect_hello(&client);
    ask(&other, GET("/"));
    expect_hello(&other);

    (void)snprintf(twice, sizeof twice, "%s%s", GET("/"), GET("/"));
    atomic_store(&hold, true);
    send_between(&client, twice, 31);
    ask(&other, GET("/"));
    release_acceptor();
    expect_hello(&other);
    expect_hello(&client);
    expect_hello(&client);
    CHECK(atomic_load(&looks) >= (int)strlen(twice) / 2);
    hang_up(&other, true);
    hang_up(&client, true);
    end(server);
}

/* Each costs a handshake, so those behind them that cost less come between. */
static void newcomers_take_turns(void)
{
    enum { NEWCOMERS = 20 };
    int port, fds[NEWCOMERS];
    weft_http_server *server =
        serve_tls((weft_http_options){.handler = hello, .acceptors = 1}, &port);
    atomic_store(&hold, true);
    for (int i = 0; i < NEWCOMERS; i++)
        fds[i] = dial(port);
    release_acceptor();
    while (stats_of(server).accepted < NEWCOMERS)
        (void)weft_sleep(WEFT_MS);
    CHECK(atomic_load(&looks) >= NEWCOMERS);
    for (int i = 0; i < NEWCOMERS; i++)
        close(fds[i]);
    end(server);
}

static void a_flood_ends(void)
{
    int port, updates = 0;
    weft_http_server *server =
        serve_tls((weft_http_options){.handler = hello, .acceptors = 1}, &port);
    struct client client = connected(port, ordinary);
    while (update_key(&client, SSL_KEY_UPDATE_REQUESTED))
        CHECK(++updates < 100000);
    while (stats_of(server).connections > 0)
        (void)weft_sleep(WEFT_MS);
    hang_up(&client, false);
    end(server);
}

int main(void)
{
    pair_begin();
    int before = open_descriptors();
    RUN_BOTH(updates_without_end);
    RUN_BOTH(some_between_data);
    RUN_PLAIN(a_head_takes_turns, "acceptors wait for the kernel");
    RUN_PLAIN(newcomers_take_turns, "acceptors wait for the kernel");
    RUN_PLAIN(a_flood_ends, "acceptors wait for the kernel");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    pair_end();
    return 0;
}
