/*
 * server.c: a simple server, a listener in front of a pool, under two faults that end other
 * servers: a lack of descriptors, which ends the accept loop, and a handler that panics, which ends
 * the process.
 */
#include "net.h"

#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"

enum { CAPACITY = 4 };

static struct {
    weft_listener *listener;
    weft_pool *pool;
    char address[WEFT_ADDRESS_TEXT];
    atomic_u32 panics; /* calls of on_panic */
    struct body body;
} server;

static void answer(weft_conn *conn, const char *status)
{
    char text[128];
    int length = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status);
    CHECK_EQ(weft_conn_write(conn, text, (size_t)length, WEFT_NEVER), length);
    weft_conn_close(conn);
}

/* The handler of a connection: the request decides how it ends. */
static void handle(void *arg)
{
    weft_conn *conn = arg;
    char request[256];
    int64_t got = weft_conn_read(conn, request, sizeof request - 1, WEFT_NEVER);
    CHECK(got > 0);
    request[got] = '\0';
    if (strncmp(request, "GET /panic", 10) == 0)
        weft_panic("the handler does not like this");
    answer(conn, "200 OK");
}

static void handler_panicked(const weft_panic_info *info, void (*function)(void *), void *arg,
                             void *data)
{
    CHECK_PTR((void *)(uintptr_t)function, (void *)(uintptr_t)handle);
    CHECK_STR(info->message, "the handler does not like this");
    atomic_u32_add_acq_rel(&server.panics, 1);
    answer(arg, "500 Internal Server Error");
}

/* Has a handle of its own: a close by another handle between two accepts would free the
 * listener. */
static void serve(void *arg)
{
    weft_listener *listener = arg;
    weft_conn *conn;
    int error;
    while ((error = weft_listener_accept(listener, &conn, WEFT_NEVER)) == 0)
        CHECK_EQ(weft_pool_submit(server.pool, handle, conn), 0);
    CHECK_EQ(error, -ESHUTDOWN); /* only the close ends it */
    weft_listener_close(listener);
}

static void server_start(void)
{
    weft_pool_options options = {.capacity = CAPACITY, .on_panic = handler_panicked};
    atomic_u32_store_relaxed(&server.panics, 0);
    listen_at(&server.listener, "tcp:127.0.0.1:0", server.address);
    CHECK_EQ(weft_pool_open(&server.pool, &options), 0);
    server.body = (struct body){.function = serve, .arg = weft_listener_share(server.listener)};
    body_start(&server.body);
}

static weft_pool_stats server_stop(void)
{
    weft_pool_stats stats;
    weft_listener_close(server.listener);
    body_join(&server.body);
    CHECK_EQ(weft_pool_stop(server.pool, WEFT_NEVER), 0);
    CHECK_EQ(weft_pool_stats_get(server.pool, &stats), 0);
    CHECK_EQ(weft_pool_close(server.pool), 0);
    return stats;
}

static weft_conn *connect_to_server(void)
{
    weft_conn *conn;
    CHECK_EQ(weft_conn_dial(&conn, server.address, NULL, WEFT_NEVER), 0);
    return conn;
}

static void ask(weft_conn *conn, const char *path, const char *status)
{
    char text[256];
    int length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n\r\n", path);
    CHECK_EQ(weft_conn_write(conn, text, (size_t)length, WEFT_NEVER), length);
    int64_t got = weft_conn_read_full(conn, text, sizeof text - 1, WEFT_NEVER);
    CHECK(got > 0); /* all until the server closes */
    text[got] = '\0';
    CHECK_EQ(strncmp(text + strlen("HTTP/1.1 "), status, strlen(status)), 0);
    weft_conn_close(conn);
}

/* Returns after `count` more attempts to accept. */
static void await_attempts(uint32_t count)
{
    weft__os_fail(OS_ACCEPT, UINT32_MAX, false);
    while (weft__os_calls(OS_ACCEPT) < count)
        weft_yield();
    weft__os_fail(OS_ACCEPT, 0, false);
}

/* Connections that arrive without a descriptor for them are served when there is one. */
static void fault_11_no_descriptors_do_not_end_the_listener(void)
{
    enum { CLIENTS = 3 };
    weft_conn *clients[CLIENTS];
    server_start();
    ask(connect_to_server(), "/", "200");
    weft_address address;
    CHECK_EQ(weft_address_parse(&address, server.address), 0);
    for (int round = 0; round < 3; round++) {
        /* Descriptors for the ends of the clients, and none for those of the server. */
        int ends[CLIENTS];
        for (int i = 0; i < CLIENTS; i++)
            CHECK((ends[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
        rlim_t before = no_more_descriptors();
        for (int i = 0; i < CLIENTS; i++) {
            CHECK_EQ(connect(ends[i], (const struct sockaddr *)(const void *)address.bytes,
                             address.size),
                     0);
            CHECK_EQ(weft_conn_from_fd(&clients[i], ends[i]), 0);
        }
        await_attempts(3);
        set_limit(before);
        for (int i = 0; i < CLIENTS; i++)
            ask(clients[i], "/", "200");
    }
    ask(connect_to_server(), "/", "200");
    CHECK_EQ(server_stop().completed, 3 * CLIENTS + 2);
}

/* That client gets a 500, and the server goes on. */
static void fault_12_a_handler_that_panics_answers_500(void)
{
    enum { ROUNDS = 3 * CAPACITY };
    server_start();
    for (int i = 0; i < ROUNDS; i++) {
        ask(connect_to_server(), "/panic", "500");
        ask(connect_to_server(), "/", "200");
    }
    weft_pool_stats stats = server_stop();
    CHECK_EQ(stats.panicked, ROUNDS);
    CHECK_EQ(stats.completed, 2 * ROUNDS);
    CHECK_EQ(atomic_u32_load_acquire(&server.panics), ROUNDS);
}

int main(void)
{
    RUN_PLAIN(fault_11_no_descriptors_do_not_end_the_listener, "about real time");
    RUN_BOTH(fault_12_a_handler_that_panics_answers_500);
    return 0;
}
