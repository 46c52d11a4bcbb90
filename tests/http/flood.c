/*
 * flood.c: small floods: admitted requests are answered, others refused; slow clients cost neither
 * a worker nor memory; and an honest client is served as before. The large version is bench/flood.
 */
#include <pthread.h>

#include <weft/weft.h>

#include "everywhere.h"
#include "http/http.h"
#include "http/limit_descriptors.h"
#include "system.h"

static weft_wg gate;

/* Answers when the gate is opened. */
HANDLER(behind_the_gate)
{
    weft_wg_wait(&gate);
    hello(request, response, data);
}

/* Gives the others a chance to come in between. */
HANDLER(takes_a_moment)
{
    weft_sleep(WEFT_MS);
    hello(request, response, data);
}

/* Both ends are in this process: as many connections as it has descriptors for. */
static int crowd(int64_t full)
{
    rlim_t most = all_descriptors();
    int64_t room = most > 1000000 ? 1000000 : (int64_t)most;
    int64_t count = test_scale(full);
    return (int)(count < room / 2 - 100 ? count : room / 2 - 100);
}

static struct client *clients_open(weft_http_server *server, int count)
{
    struct client *clients = calloc((size_t)count, sizeof *clients);
    CHECK(clients != NULL);
    for (int i = 0; i < count; i++)
        clients[i] = client_open(server);
    return clients;
}

static void clients_close(struct client *clients, int count)
{
    for (int i = 0; i < count; i++)
        client_close(&clients[i]);
    free(clients);
}

static void be_honest(weft_http_server *server)
{
    struct client client = client_open(server);
    for (int i = 0; i < 10; i++) {
        client_send(&client, GET("/"));
        EXPECT(&client, 200, "hello");
    }
    client_close(&client);
}

/* ---- beyond the limits requests are refused, admitted ones answered ---- */

static void refuses_beyond_its_limits(void)
{
    enum { ADMITTED = 5 };
    weft_http_server *server = serve_with((weft_http_options){
        .handler = behind_the_gate, .max_workers = 2, .queue = 3, .retry_after = 7});
    int beyond = (int)test_scale(200);
    weft_wg_init(&gate, 1);
    struct client *admitted = clients_open(server, ADMITTED);
    for (int i = 0; i < ADMITTED; i++)
        client_send(&admitted[i], GET("/"));
    AWAIT(stats_of(server).running == 2 && stats_of(server).queued == 3);

    struct client *refused = clients_open(server, beyond);
    for (int i = 0; i < beyond; i++) {
        client_send(&refused[i], GET("/"));
        struct answer answer = client_answer(&refused[i]);
        CHECK_EQ(answer.status, 503);
        CHECK_STR(answer_field(&answer, "Retry-After"), "7");
        answer_free(&answer);
    }
    CHECK_EQ(stats_of(server).refused, beyond);
    AWAIT(stats_of(server).running == 2 && stats_of(server).queued == 3); /* as before */
    for (int i = 0; i < ADMITTED; i++)
        CHECK(client_is_quiet(&admitted[i]));

    weft_wg_done(&gate);
    for (int i = 0; i < ADMITTED; i++)
        EXPECT(&admitted[i], 200, "hello");
    /* A refused client may ask again, on the same connection. */
    for (int i = 0; i < beyond; i++) {
        client_send(&refused[i], GET("/"));
        EXPECT(&refused[i], 200, "hello");
    }
    clients_close(refused, beyond);
    clients_close(admitted, ADMITTED);
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0); /* by then all is counted */
    CHECK_EQ(stats_of(server).requests, ADMITTED + beyond);
    end(server);
}

static void refuses_connections_beyond_its_limit(void)
{
    enum { MOST = 10 };
    weft_http_server *server =
        serve_with((weft_http_options){.handler = behind_the_gate, .max_connections = MOST});
    int beyond = (int)test_scale(100);
    weft_wg_init(&gate, 1);
    struct client *inside = clients_open(server, MOST);
    for (int i = 0; i < MOST; i++)
        client_send(&inside[i], GET("/"));
    AWAIT(stats_of(server).running == MOST);
    for (int i = 0; i < beyond; i++) {
        struct client client = client_open(server);
        struct answer answer = client_answer(&client); /* without having asked */
        CHECK_EQ(answer.status, 503);
        CHECK_STR(answer_field(&answer, "Retry-After"), "1");
        answer_free(&answer);
        CHECK(client_at_end(&client));
        client_close(&client);
    }
    CHECK_EQ(stats_of(server).refused, beyond);
    weft_wg_done(&gate);
    for (int i = 0; i < MOST; i++)
        EXPECT(&inside[i], 200, "hello");
    clients_close(inside, MOST);
    AWAIT(stats_of(server).connections == 0);
    be_honest(server);
    end(server);
}

struct burst {
    weft_http_server *server;
    int requests;
    int64_t good, refused; /* of the one thread */
    pthread_t thread;
};

static void *burst_run(void *arg)
{
    struct burst *burst = arg;
    struct client client = client_open(burst->server);
    for (int i = 0; i < burst->requests; i++) {
        client_send(&client, GET("/"));
        struct answer answer = client_answer(&client);
        CHECK(answer.status == 200 || answer.status == 503);
        burst->good += answer.status == 200;
        burst->refused += answer.status == 503;
        const char *connection = answer_field(&answer, "Connection");
        bool closes = connection != NULL && strcmp(connection, "close") == 0;
        answer_free(&answer);
        if (closes) { /* too many were refused here, one behind the other */
            CHECK(client_at_end(&client));
            client_close(&client);
            client = client_open(burst->server);
        }
    }
    client_close(&client);
    return NULL;
}

static void answers_all_that_it_admits(void)
{
    enum { THREADS = 16 };
    weft_http_server *server =
        serve_with((weft_http_options){.handler = takes_a_moment, .max_workers = 2, .queue = 4});
    struct burst bursts[THREADS] = {0};
    int64_t good = 0, refused = 0, sent = 0;
    for (int i = 0; i < THREADS; i++) {
        bursts[i] = (struct burst){.server = server, .requests = (int)test_scale(300)};
        CHECK_EQ(pthread_create(&bursts[i].thread, NULL, burst_run, &bursts[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(bursts[i].thread, NULL), 0);
        good += bursts[i].good;
        refused += bursts[i].refused;
        sent += bursts[i].requests;
    }
    CHECK_EQ(good + refused, sent);
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    CHECK_EQ(stats_of(server).requests, good);
    CHECK_EQ(stats_of(server).refused, refused);
    CHECK(good > 0);
    end(server);
}

/* ---- slow clients ---- */

static void slowloris_delays_no_client(void)
{
    weft_http_server *server = serve_with((weft_http_options){
        .handler = hello, .max_workers = 2, .queue = 2, .header_timeout = 3600 * WEFT_S});
    int count = crowd(2000);
    struct client *slow = clients_open(server, count);
    for (int i = 0; i < count; i++)
        client_send(&slow[i], "GET / HTTP/1.1\r\nHo");
    AWAIT(stats_of(server).reading == count);
    be_honest(server);
    for (int i = 0; i < count; i++) /* a little more, and still not all */
        client_send(&slow[i], "st: a\r\nX-Field:");
    be_honest(server);
    AWAIT(stats_of(server).running == 0);
    CHECK_EQ(stats_of(server).queued, 0);
    CHECK_EQ(stats_of(server).refused, 0);
    /* They were slow, not wrong: when the rest comes they are answered. One by one: there are but
     * few places. */
    for (int i = 0; i < count; i++) {
        client_send(&slow[i], " value\r\n\r\n");
        EXPECT(&slow[i], 200, "hello");
    }
    clients_close(slow, count);
    end(server);
}

static void slowloris_ends_at_the_deadline(void)
{
    weft_http_server *server =
        serve_with((weft_http_options){.handler = hello, .header_timeout = 50 * WEFT_MS});
    int count = crowd(200);
    struct client *slow = clients_open(server, count);
    for (int i = 0; i < count; i++)
        (void)client_try_send(&slow[i], "GET / HTTP/1.1\r\n", 16);
    for (int i = 0; i < count; i++) {
        /* A field now and then does not help; the end of the head never comes. */
        while (client_is_quiet(&slow[i]) && client_try_send(&slow[i], "X: y\r\n", 6))
            usleep(1000);
        while (client_fill(&slow[i]))
            ;
    }
    AWAIT(stats_of(server).connections == 0);
    CHECK_EQ(stats_of(server).timed_out, count);
    CHECK_EQ(stats_of(server).requests, 0);
    clients_close(slow, count);
    end(server);
}

static void a_head_without_end_is_refused(void)
{
    weft_http_server *server =
        serve_with((weft_http_options){.handler = hello, .max_header = 4096});
    static const char field[] = "X-Some-Field: some value\r\n";
    int count = (int)test_scale(50);
    for (int i = 0; i < count; i++) {
        struct client client = client_open(server);
        client_send(&client, "GET / HTTP/1.1\r\n");
        while (client_is_quiet(&client) && client_try_send(&client, field, sizeof field - 1))
            ;
        EXPECT(&client, 431, NULL);
        client_close(&client);
    }
    CHECK_EQ(stats_of(server).bad, count);
    be_honest(server);
    end(server);
}

/* ---- memory ---- */

static int64_t heap(void)
{
    return (int64_t)heap_in_use();
}

/* Only what the server has is to be counted. */
static void client_forget(struct client *client)
{
    free(client->bytes);
    client->bytes = NULL;
    client->at = client->size = client->room = 0;
}

/* Under a sanitizer this is 0: its own heap does not say. The rest of the test is the same
 * there. */
static void idle_connections_are_small(void)
{
    enum { BYTES_MOST = 512 };
    weft_http_server *server =
        serve_with((weft_http_options){.handler = hello, .max_workers = 1, .queue = 1});
    int count = crowd(4000);
    be_honest(server);
    AWAIT(stats_of(server).connections == 0);
    struct client *idle = clients_open(server, count);
    AWAIT(stats_of(server).connections == count);
    int64_t before = heap();
    for (int i = 0; i < count; i++) {
        client_send(&idle[i], GET("/"));
        EXPECT(&idle[i], 200, "hello");
        client_forget(&idle[i]);
    }
    AWAIT(stats_of(server).idle == count);
    AWAIT(stats_of(server).running == 0);
    /* An answer more has left nothing behind, but for the buffers of the few that were under way at
     * once. */
    CHECK(heap() - before < 1024 * 1024);
    be_honest(server);

    before = heap();
    clients_close(idle, count);
    AWAIT(stats_of(server).connections == 0);
    be_honest(server); /* by now the acceptor has freed the records */
    int64_t freed = before - heap() - count * (int64_t)sizeof(struct client);
    CHECK(freed <= count * (int64_t)BYTES_MOST);
    end(server);
}

static int64_t many_bytes(void)
{
    return test_scale(256) * 1024 * 1024;
}

HANDLER(much)
{
    static const char piece[65536];
    if (strcmp(weft_http_path(request), "/much") != 0) {
        hello(request, response, data);
        return;
    }
    for (int64_t sent = 0; sent < many_bytes(); sent += (int64_t)sizeof piece)
        if (weft_http_write(response, piece, sizeof piece) != 0)
            return;
}

static void a_slow_reader_fills_no_memory(void)
{
    enum { READERS = 8 };
    weft_http_server *server = serve_with((weft_http_options){.handler = much, .max_workers = 10});
    struct client *readers = clients_open(server, READERS);
    be_honest(server);
    int64_t before = heap();
    for (int i = 0; i < READERS; i++) {
        client_send(&readers[i], GET("/much"));
        char *line = client_take_to(&readers[i], "\r\n\r\n");
        CHECK(line != NULL);
        free(line);
    }
    be_honest(server);
    AWAIT(stats_of(server).running == READERS); /* and no more: the honest one has its answer */
    CHECK(heap() - before < 8 * 1024 * 1024);   /* of READERS times 256 MB */
    clients_close(readers, READERS);
    AWAIT(stats_of(server).running == 0);
    end(server);
}

static void a_reader_that_stops_is_cut_off(void)
{
    weft_http_server *server = serve_with((weft_http_options){
        .handler = much, .max_workers = 1, .queue = 1, .write_timeout = 50 * WEFT_MS});
    struct client stuck = client_open(server);
    client_send(&stuck, GET("/much"));
    AWAIT(stats_of(server).requests == 1); /* without a byte being read */
    AWAIT(stats_of(server).connections == 0);
    be_honest(server);
    client_close(&stuck);
    end(server);
}

/* ---- one that never waits lets others go on ---- */

enum { TURN_MOST = 65536, UNREAD_LEAST = 8 * TURN_MOST };

static struct {
    int64_t size;        /* of what lies in the kernel before it is read */
    atomic_u32 at, over; /* turns of a fiber that is always ready */
    uint32_t turns;      /* of those: while it was read */
} upload;

static void take_turns(void *arg)
{
    (void)arg;
    for (; atomic_u32_load_acquire(&upload.over) == 0; weft_yield())
        (void)atomic_u32_add_relaxed(&upload.at, 1);
}

/* A body, or what another protocol sends. */
HANDLER(read_what_is_there)
{
    char part[4096];
    bool upgrade = strcmp(weft_http_path(request), "/upgrade") == 0;
    CHECK(!upgrade || weft_http_upgrade(response, "echo") == 0);
    weft_wg_wait(&gate);
    uint32_t before = atomic_u32_load_relaxed(&upload.at);
    for (int64_t got, size = 0; size < upload.size; size += got) {
        got = upgrade ? weft_http_stream_read(response, part, sizeof part, WEFT_NEVER)
                      : weft_http_read(request, part, sizeof part);
        CHECK(got > 0);
    }
    upload.turns = atomic_u32_load_relaxed(&upload.at) - before;
    if (!upgrade)
        CHECK_EQ(weft_http_reply(response, 200, "text/plain", "hello", 5), 0);
}

/* As much of a body as the kernel takes while it is not read. */
static int64_t send_unread(struct client *client)
{
    static const char piece[4096];
    int64_t size = 0;
    ssize_t sent;
    while ((sent = send(client->fd, piece, sizeof piece, MSG_DONTWAIT)) > 0)
        size += sent;
    return size;
}

static void turns_are_taken(const char *request)
{
    processors_begin(1);
    /* With a second machine the reader could go on while the system does not run the other's
     * thread. */
    CHECK_EQ(weft_configure(&(weft_config){.processors = 1, .max_machines = 1}), 0);
    weft_http_server *server =
        serve_with((weft_http_options){.handler = read_what_is_there, .max_body = WEFT_UNLIMITED});
    struct client client = client_open(server);
    weft_fiber *other;
    int room = 1 << 20;
    CHECK(setsockopt(client.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    weft_wg_init(&gate, 1);
    client_send(&client, request);
    AWAIT(stats_of(server).running == 1);
    upload.size = send_unread(&client);
    atomic_u32_store_relaxed(&upload.over, 0);
    CHECK_EQ(weft_spawn(&other, take_turns, NULL, NULL), 0);
    AWAIT(atomic_u32_load_relaxed(&upload.at) > 0);
    weft_wg_done(&gate);
    struct answer answer;
    CHECK(client_head(&client, &answer));
    CHECK(answer.status == 200 || answer.status == 101);
    answer_free(&answer);
    AWAIT(stats_of(server).running == 0 || answer.status == 200);
    atomic_u32_store_release(&upload.over, 1);
    CHECK_EQ(weft_join(other), 0);
    CHECK(upload.size >= UNREAD_LEAST);
    CHECK(upload.turns >= upload.size / TURN_MOST / 2);
    client_close(&client);
    end(server);
    processors_end();
}

static void an_upload_lets_others_go_on(void)
{
    turns_are_taken("POST / HTTP/1.1\r\n" HOST "Content-Length: 1000000000\r\n\r\n");
}

static void an_upgraded_connection_lets_others_go_on(void)
{
    turns_are_taken("GET /upgrade HTTP/1.1\r\n" HOST
                    "Connection: upgrade\r\nUpgrade: echo\r\n\r\n");
}

/* ---- a body that is not sent lets others go on ---- */

/* A client has a turn of 32 writes; some turns of all come before an answer. */
enum { UNSENT_CLIENTS = 20, UNSENT_MOST = 100 * 32 * UNSENT_CLIENTS };

static atomic_i64 unsent_writes;

/* HEAD: writes until its client is gone. */
HANDLER(write_what_is_not_sent)
{
    static const char block[4096];
    if (strcmp(weft_http_method(request), "HEAD") != 0) {
        CHECK_EQ(weft_http_reply(response, 200, "text/plain", "hello", 5), 0);
        return;
    }
    while (weft_http_write(response, block, sizeof block) == 0)
        (void)atomic_i64_add_relaxed(&unsent_writes, 1);
}

/* The most writes of the others while a request is answered. In a fiber: the processor is
 * shared. */
static void ask_beside_them(void *arg)
{
    static const char request[] = GET("/");
    char address[64], answer[1000];
    weft_conn *conn;
    int64_t *most = arg;
    (void)snprintf(address, sizeof address, "tcp:127.0.0.1:%lld", (long long)*most);
    *most = 0;
    CHECK_EQ(weft_conn_dial(&conn, address, NULL, WEFT_NEVER), 0);
    for (int i = 0; i < 10; i++) {
        int64_t before = atomic_i64_load_relaxed(&unsent_writes);
        CHECK_EQ(weft_conn_write(conn, request, sizeof request - 1, WEFT_NEVER),
                 (int64_t)sizeof request - 1);
        int64_t got = weft_conn_read(conn, answer, sizeof answer, WEFT_NEVER);
        CHECK(got > 12 && memcmp(answer, "HTTP/1.1 200", 12) == 0);
        int64_t writes = atomic_i64_load_relaxed(&unsent_writes) - before;
        *most = writes > *most ? writes : *most;
    }
    weft_conn_close(conn);
}

static void a_body_that_is_not_sent_lets_others_go_on(void)
{
    processors_begin(1);
    weft_http_server *server = serve(write_what_is_not_sent);
    struct client *clients = clients_open(server, UNSENT_CLIENTS);
    weft_fiber *honest;
    int64_t most = port_of(server, 0);
    for (int i = 0; i < UNSENT_CLIENTS; i++)
        client_send(&clients[i], "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    AWAIT(stats_of(server).running == UNSENT_CLIENTS);
    CHECK_EQ(weft_spawn(&honest, ask_beside_them, &most, NULL), 0);
    CHECK_EQ(weft_join(honest), 0);
    CHECK(most > 0 && most < UNSENT_MOST);
    clients_close(clients, UNSENT_CLIENTS);
    end(server);
    processors_end();
}

/* ---- an open connection does not wait for all that want to be accepted ---- */

enum { NEW = 120, NEW_FIRST = 20 };

static struct {
    int open; /* a client's descriptor */
    uint32_t begun, before_open;
    weft_sem answered;
} crowded;

/* Of the new connections: parks, as a handler that waits for its client. Some of them have begun
 * when the request over the open connection is sent. */
HANDLER(park)
{
    static const char open[] = GET("/open");
    if (strcmp(weft_http_path(request), "/open") == 0) {
        crowded.before_open = crowded.begun;
        weft_sem_release(&crowded.answered, 1);
    } else if (strcmp(weft_http_path(request), "/new") == 0) {
        if (++crowded.begun == NEW_FIRST)
            CHECK_EQ(send(crowded.open, open, sizeof open - 1, MSG_NOSIGNAL), sizeof open - 1);
        weft_wg_wait(&gate);
    } else {
        weft_sem_release(&crowded.answered, 1);
    }
    hello(request, response, data);
}

/* A fiber of the only machine: while it does not wait, nothing else runs. */
static void come_all_at_once(void *arg)
{
    (void)arg;
    weft_http_server *server = serve(park);
    struct client open = client_open(server);
    crowded.open = open.fd;
    weft_sem_init(&crowded.answered, 0);
    weft_wg_init(&gate, 1);
    client_send(&open, GET("/"));
    weft_sem_acquire(&crowded.answered, 1);
    struct client *clients = clients_open(server, NEW);
    for (int i = 0; i < NEW; i++)
        client_send(&clients[i], GET("/new"));
    weft_sem_acquire(&crowded.answered, 1);
    weft_wg_done(&gate);
    CHECK(crowded.before_open >= NEW_FIRST);
    CHECK(crowded.before_open < NEW * 2 / 3);
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    weft_http_close(server);
    clients_close(clients, NEW);
    client_close(&open);
}

static void an_open_connection_is_before_the_new(void)
{
    on_one_machine(come_all_at_once, NULL);
}

int main(void)
{
    RUN(refuses_beyond_its_limits);
    RUN(refuses_connections_beyond_its_limit);
    RUN(answers_all_that_it_admits);
    RUN(slowloris_delays_no_client);
    RUN(slowloris_ends_at_the_deadline);
    RUN(a_head_without_end_is_refused);
    RUN(idle_connections_are_small);
    RUN(a_slow_reader_fills_no_memory);
    RUN(a_reader_that_stops_is_cut_off);
    RUN(an_upload_lets_others_go_on);
    RUN(an_upgraded_connection_lets_others_go_on);
    RUN(a_body_that_is_not_sent_lets_others_go_on);
    RUN(an_open_connection_is_before_the_new);
    return 0;
}
