/*
 * server.c: a server's life: open, listen, stop, close; and its figures.
 */
#include <pthread.h>

#include <weft/context.h>
#include <weft/fiber.h>
#include <weft/pool.h>
#include <weft/runtime.h>
#include <weft/sem.h>
#include <weft/time.h>
#include <weft/wg.h>

#include "http.h"
#include "system.h"

static weft_sem gate = WEFT_SEM_INIT(0);    /* lets a handler go on */
static weft_sem entered = WEFT_SEM_INIT(0); /* a handler is in */
static _Atomic int outcome;                 /* of a handler's wait */

/* Waits for the gate, or the end of its context; then says hello. */
HANDLER(gated)
{
    weft_sem_release(&entered, 1);
    outcome = weft_sem_acquire_until(&gate, 1, WEFT_NEVER);
    (void)weft_http_puts(response, "hello");
}

static void refuses_bad_options(void)
{
    weft_http_server *server;
    weft_http_options good = {.handler = hello};
    weft_http_tls tls = {.certificate = "/not/there", .key = "/not/there"};
    weft_address address;
    char *long_name = text_of(256, 'a');
    CHECK_EQ(weft_http_open(NULL, &good), -EINVAL);
    weft_http_options bad[] = {
        {.max_workers = -1},
        {.max_workers = WEFT_UNLIMITED},
        {.queue = -2},
        {.queue_timeout = -1},
        {.queue = WEFT_UNLIMITED},
        {.max_connections = -1},
        {.descriptor_reserve = -1},
        {.max_per_ip = -1},
        {.max_requests_per_ip = -1},
        {.max_streams_per_ip = -1},
        {.retry_after = -1},
        {.header_timeout = -1},
        {.idle_timeout = -1},
        {.body_timeout = -1},
        {.write_timeout = -1},
        {.min_body_rate = -2},
        {.min_send_rate = -2},
        {.min_send_rate = 1000000001},
        {.max_streams = -2},
        {.max_streams = 100000001},
        {.min_body_rate = 1000000001},
        {.rate_grace = -1},
        {.max_header = 1},
        {.max_header = (1 << 20) + 1},
        {.max_fields = -1},
        {.max_fields = 1001},
        {.max_body = -1},
        {.acceptors = -1},
        {.name = "a\r\nb: c"},
        {.name = long_name},
        {.reserved = {1}},
        {.reserved = {[sizeof good.reserved / sizeof good.reserved[0] - 1] = 1}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (weft_http_open(&server, &bad[i]) != -EINVAL)
            test_fail(__FILE__, __LINE__, "options %zu were taken", i);
    CHECK_EQ(weft_http_listen(NULL, "tcp:127.0.0.1:0", NULL), -EINVAL);
    CHECK_EQ(weft_http_listen_tls(NULL, "tcp:127.0.0.1:0", NULL, &tls), -EINVAL);
    CHECK_EQ(weft_http_local(NULL, 0, &address), -EINVAL);
    CHECK_EQ(weft_http_stop(NULL, WEFT_NOW), -EINVAL);
    weft_http_close(NULL);
    good.name = long_name + 1;
    CHECK_EQ(weft_http_open(&server, &good), 0);
    weft_http_close(server);
    free(long_name);
}

static void answers_without_options(void)
{
    weft_http_server *server;
    CHECK_EQ(weft_http_open(&server, NULL), 0);
    CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", NULL), 0);
    CHECK_ANSWER(ask(server, GET("/")), 404, NULL);
    end(server);
}

static void timeouts_may_be_endless(void)
{
    weft_http_server *server =
        SERVE(.handler = hello, .header_timeout = WEFT_NEVER, .idle_timeout = WEFT_NEVER,
              .body_timeout = WEFT_NEVER, .write_timeout = WEFT_NEVER);
    struct client client = client_open(server);
    for (int i = 0; i < 3; i++) {
        ASK(&client, GET("/"), 200, "hello");
    }
    AWAIT(stats_of(server).idle == 1);
    end(server);
    client_close(&client);
}

static void listens_at_several_addresses(void)
{
    char path[] = "/tmp/weft-http-XXXXXX", text[64];
    CHECK(mkdtemp(path) != NULL);
    snprintf(text, sizeof text, "unix:%s/socket", path);
    weft_http_server *server = serve(hello);
    weft_address address;
    CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", NULL), 0);
    CHECK_EQ(weft_http_listen(server, text, NULL), 0);
    CHECK_EQ(weft_http_local(server, 2, &address), 0);
    CHECK_EQ(weft_http_local(server, 3, &address), -ENOENT);
    CHECK_EQ(weft_http_local(server, -1, &address), -ENOENT);
    CHECK_EQ(weft_http_local(server, 0, NULL), -EINVAL);
    CHECK(port_of(server, 0) != port_of(server, 1));

    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", text + 5);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    struct client clients[] = {client_open(server), client_of(dial_from(NULL, port_of(server, 1))),
                               client_of(fd)};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            ASK(&clients[i], GET("/"), 200, "hello");
        }
    CHECK_EQ(weft_http_listen(server, text, NULL), -EADDRINUSE);
    CHECK_EQ(weft_http_listen(server, "udp:127.0.0.1:0", NULL), -EINVAL);
    CHECK_EQ(weft_http_listen(server, "nonsense", NULL), -EINVAL);
    CHECK_EQ(weft_http_listen(server, NULL, NULL), -EINVAL);
    for (int i = 3; i < 16; i++)
        CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", NULL), 0);
    CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", NULL), -ENOSPC);
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    for (int i = 0; i < 3; i++) {
        client_end(&clients[i]);
    }
    CHECK(access(to.sun_path, F_OK) != 0);
    CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", NULL), -ESHUTDOWN);
    CHECK_EQ(weft_http_local(server, 0, &address), -ENOENT);
    weft_http_close(server);
    CHECK(rmdir(path) == 0);
}

/* Who comes over a local socket has no address, whatever name that has. */
HANDLER(say_peer)
{
    weft_address address;
    weft_http_peer(request, &address);
    (void)weft_http_printf(response, "%d", (int)address.size);
}

static void local_clients_may_have_names(void)
{
    char path[] = "/tmp/weft-http-XXXXXX", text[64];
    struct sockaddr_un to = {.sun_family = AF_UNIX}, from = {.sun_family = AF_UNIX};
    CHECK(mkdtemp(path) != NULL);
    snprintf(text, sizeof text, "unix:%s/socket", path);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", text + 5);
    snprintf(from.sun_path, sizeof from.sun_path, "%s/longer-than-IPv6", path);
    weft_http_server *server = SERVE(.handler = say_peer, .max_per_ip = 1);
    CHECK_EQ(weft_http_listen(server, text, NULL), 0);
    struct client clients[2];
    for (int named = 0; named < 2; named++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        if (named)
            CHECK_EQ(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
        CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
        clients[named] = client_of(fd);
        ASK(&clients[named], GET("/"), 200, "0");
    }
    for (int i = 0; i < 2; i++)
        client_close(&clients[i]);
    end(server);
    CHECK(unlink(from.sun_path) == 0 && rmdir(path) == 0);
}

/* What is in is answered, and then the connection closed; what is idle, or has not wholly come, is
 * closed at once. */
struct stop {
    weft_http_server *server;
    int64_t deadline;
    int result;
    weft_wg done;
};

static void stop_in_fiber(void *arg)
{
    struct stop *stop = arg;
    stop->result = weft_http_stop(stop->server, stop->deadline);
    weft_wg_done(&stop->done);
}

static void stop_begin(struct stop *stop)
{
    CHECK_EQ(weft_wg_add(&stop->done, 1), 0);
    CHECK_EQ(weft_go(stop_in_fiber, stop), 0);
}

static void stop_lets_requests_end(void)
{
    weft_http_server *server = serve(gated);
    struct client busy = client_open(server), idle = client_open(server),
                  partial = client_open(server), fresh = client_open(server);
    weft_sem_release(&gate, 1);
    ASK(&idle, GET("/"), 200, "hello");
    weft_sem_acquire(&entered, 1);
    client_send(&partial, "GET / HT");
    client_send(&busy, GET("/"));
    weft_sem_acquire(&entered, 1);
    AWAIT(stats_of(server).connections == 4);

    struct stop stop = {.server = server, .deadline = WEFT_NEVER};
    stop_begin(&stop);
    CHECK(client_at_end(&idle));
    CHECK(client_at_end(&partial));
    CHECK(client_at_end(&fresh));
    CHECK_EQ(weft_wg_count(&stop.done), 1);
    CHECK(client_is_quiet(&busy));
    weft_sem_release(&gate, 1);
    struct answer answer = client_answer(&busy);
    CHECK_EQ(answer.status, 200);
    CHECK_STR(answer_field(&answer, "Connection"), "close");
    CHECK_STR(answer.body, "hello");
    CHECK(client_at_end(&busy));
    CHECK_EQ(weft_wg_wait(&stop.done), 0);
    CHECK_EQ(stop.result, 0);
    CHECK_EQ(outcome, 0);
    answer_free(&answer);
    CHECK_EQ(weft_http_stop(server, WEFT_NOW), 0);
    CHECK_EQ(stats_of(server).connections, 0);
    weft_http_close(server);
    client_close(&busy);
    client_close(&idle);
    client_close(&partial);
    client_close(&fresh);
    CHECK_EQ(weft_sem_available(&entered), 0);
}

/* A handler whose context is cancelled may still answer, if it is quick. */
static void expect_cut(struct client *client)
{
    struct answer answer;
    (void)client_try_answer(client, &answer, false);
    answer_free(&answer);
    CHECK(client_at_end(client));
}

static void stop_cuts_off_at_its_deadline(void)
{
    weft_http_server *server = SERVE(.handler = gated, .max_workers = 1);
    struct client busy = client_open(server), queued = client_open(server);
    client_send(&busy, GET("/"));
    weft_sem_acquire(&entered, 1);
    client_send(&queued, GET("/"));
    AWAIT(stats_of(server).queued == 1);
    CHECK_EQ(weft_http_stop(server, weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    expect_cut(&busy);
    CHECK(client_at_end(&queued));
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0); /* by now they have ended */
    CHECK_EQ(outcome, -ECANCELED);
    CHECK_EQ(weft_sem_available(&entered), 0);
    weft_http_close(server);
    client_close(&busy);
    client_close(&queued);
}

/* No request was cut off: a stop without time returns so too. */
static void stop_of_an_idle_server_needs_no_time(void)
{
    for (int64_t i = test_scale(200); i > 0; i--) {
        weft_http_server *server = serve(hello);
        struct client client = client_open(server);
        ASK(&client, GET("/"), 200, "hello");
        AWAIT(stats_of(server).idle == 1);
        CHECK_EQ(weft_http_stop(server, WEFT_NOW), 0);
        weft_http_close(server);
        client_close(&client);
    }
}

/* At /events as a stream, which has a context of its own. */
HANDLER(stopper)
{
    weft_http_server **server = data;
    if (strcmp(weft_http_path(request), "/events") == 0)
        CHECK_EQ(weft_http_events(response), 0);
    outcome = weft_http_stop(*server, WEFT_NOW);
    (void)weft_http_puts(response, "still here");
}

static void stop_from_a_handler_is_refused(void)
{
    static weft_http_server *server;
    server = SERVE(.handler = stopper, .data = &server);
    struct client client = client_open(server);
    for (int i = 0; i < 2; i++) {
        ASK(&client, GET("/"), 200, "still here");
        CHECK_EQ(outcome, -EDEADLK);
    }
    outcome = 0;
    ASK(&client, GET("/events"), 200, "still here");
    CHECK_EQ(outcome, -EDEADLK);
    close_and_end(&client, server);
}

static void stop_is_cancelled_with_its_context(void)
{
    weft_http_server *server = serve(gated);
    struct client client = client_open(server);
    weft_context *context;
    client_send(&client, GET("/"));
    weft_sem_acquire(&entered, 1);
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    expect_cut(&client);
    weft_http_close(server);
    CHECK_EQ(outcome, -ECANCELED);
    weft_context_close(context);
    client_close(&client);
}

static void close_stops(void)
{
    weft_http_server *server = serve(gated);
    struct client busy = client_open(server), idle = client_open(server);
    client_send(&busy, GET("/"));
    weft_sem_acquire(&entered, 1);
    weft_http_close(server);
    CHECK_EQ(outcome, -ECANCELED);
    expect_cut(&busy);
    CHECK(client_at_end(&idle));
    client_close(&busy);
    client_close(&idle);
    server = serve(hello);
    weft_http_close(server);
}

/* The queue of the listener has connections in it while it stops, and several acceptors take
 * them. */
static weft_http_server *stormed;
static int stormed_port;

static void *storm(void *arg)
{
    int64_t *left = arg;
    while (__atomic_load_n(left, __ATOMIC_RELAXED) > 0) {
        struct sockaddr_in to = {
            .sin_family = AF_INET,
            .sin_port = htons((uint16_t)__atomic_load_n(&stormed_port, __ATOMIC_RELAXED))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && ((uintptr_t)fd & 1) == 0)
            (void)!send(fd, GET("/"), strlen(GET("/")), MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static void stop_while_connections_come(void)
{
    int64_t left = test_scale(300);
    pthread_t threads[2];
    stormed_port = 9;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, storm, &left), 0);
    while (__atomic_load_n(&left, __ATOMIC_RELAXED) > 0) {
        stormed = SERVE(.handler = hello, .acceptors = 4, .max_per_ip = 50);
        __atomic_store_n(&stormed_port, port_of(stormed, 0), __ATOMIC_RELAXED);
        AWAIT(stats_of(stormed).accepted > 3);
        CHECK_EQ(weft_http_stop(stormed, WEFT_NEVER), 0);
        CHECK_EQ(stats_of(stormed).connections, 0);
        weft_http_close(stormed);
        __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void figures_add_up(void)
{
    weft_http_server *server = serve(gated);
    weft_http_stats stats;
    CHECK_EQ(weft_http_stats_get(NULL, &stats), -EINVAL);
    CHECK_EQ(weft_http_stats_get(server, NULL), -EINVAL);
    struct client client = client_open(server);
    AWAIT(stats_of(server).accepted == 1);
    CHECK_EQ(stats_of(server).connections, 1);
    client_send(&client, "GET / HTTP/1.1\r\n");
    AWAIT(stats_of(server).reading == 1);
    CHECK_EQ(stats_of(server).idle, 0);
    client_send(&client, "Host: a\r\n\r\n");
    weft_sem_acquire(&entered, 1);
    stats = stats_of(server);
    CHECK_EQ(stats.running, 1);
    CHECK_EQ(stats.reading, 0);
    CHECK_EQ(stats.idle, 0);
    CHECK_EQ(stats.requests, 0);
    weft_sem_release(&gate, 1);
    EXPECT(&client, 200, "hello");
    AWAIT(stats_of(server).idle == 1 && stats_of(server).running == 0);
    stats = stats_of(server);
    CHECK_EQ(stats.requests, 1);
    CHECK_EQ(stats.connections, 1);
    ASK(&client, "nonsense\r\n\r\n", 400, NULL);
    client_close(&client);
    AWAIT(stats_of(server).connections == 0);
    stats = stats_of(server);
    CHECK_EQ(stats.bad, 1);
    CHECK_EQ(stats.requests, 1);
    CHECK_EQ(stats.refused, 0);
    CHECK_EQ(stats.timed_out, 0);
    CHECK_EQ(stats.idle + stats.reading, 0);
    end(server);
}

int main(void)
{
    RUN(refuses_bad_options);
    RUN(answers_without_options);
    RUN(timeouts_may_be_endless);
    int before = open_descriptors();
    RUN(listens_at_several_addresses);
    RUN(local_clients_may_have_names);
    RUN(stop_lets_requests_end);
    RUN(stop_cuts_off_at_its_deadline);
    RUN(stop_of_an_idle_server_needs_no_time);
    RUN(stop_from_a_handler_is_refused);
    RUN(stop_is_cancelled_with_its_context);
    RUN(close_stops);
    RUN(figures_add_up);
    RUN(stop_while_connections_come);
    AWAIT(open_descriptors() == before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
