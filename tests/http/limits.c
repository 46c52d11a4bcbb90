/*
 * limits.c: requests, connections and descriptors beyond the limits.
 */
#include <pthread.h>

#include <weft/fiber.h>
#include <weft/runtime.h>
#include <weft/sem.h>
#include <weft/time.h>

#include "http.h"
#include "http/server.h"
#include "limit_descriptors.h"
#include "system.h"

static weft_sem gate = WEFT_SEM_INIT(0), entered = WEFT_SEM_INIT(0);

HANDLER(gated)
{
    weft_sem_release(&entered, 1);
    (void)!weft_sem_acquire_until(&gate, 1, WEFT_NEVER);
    (void)weft_http_puts(response, "done");
}

static void expect_503(struct client *client, bool closes)
{
    CHECK_ANSWER(client_answer(client), 503, "503 Service Unavailable\n", {"Retry-After", "7"},
                 {"Connection", closes ? "close" : NULL});
    if (closes)
        CHECK(client_at_end(client));
}

/* ---- workers and their queue ---- */

static void requests_beyond_the_queue_are_refused(void)
{
    weft_http_server *server =
        SERVE(.handler = gated, .max_workers = 2, .queue = 3, .retry_after = 7);
    struct client busy[5], more = client_open(server);
    for (int i = 0; i < 5; i++) {
        busy[i] = client_open(server);
        client_send(&busy[i], GET("/"));
        if (i < 2)
            weft_sem_acquire(&entered, 1);
        else
            AWAIT(stats_of(server).queued == i - 1);
    }
    CHECK_EQ(stats_of(server).running, 2);
    /* Refused at once, by no worker; the connection goes on. */
    for (int i = 0; i < 3; i++) {
        client_send(&more, GET("/"));
        expect_503(&more, false);
    }
    client_send(&more, GET("/") GET("/") "GET /");
    expect_503(&more, false);
    expect_503(&more, false);
    /* A response to HEAD has no body, this one neither. */
    client_send(&more, " HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n" GET("/"));
    expect_503(&more, false);
    struct answer answer;
    CHECK(client_try_answer(&more, &answer, true));
    CHECK_EQ(answer.status, 503);
    answer_free(&answer);
    expect_503(&more, false);
    CHECK_EQ(stats_of(server).refused, 8);
    CHECK_EQ(stats_of(server).requests, 0);
    /* With a body it does not. */
    client_send(&more, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" GET("/"));
    expect_503(&more, true);
    client_close(&more);
    more = client_open(server);
    client_send(&more, GET_CLOSE("/"));
    expect_503(&more, true);
    client_close(&more);

    /* Admitted requests get their answers; then there is room again. */
    weft_sem_release(&gate, 5);
    for (int i = 0; i < 5; i++) {
        EXPECT(&busy[i], 200, "done");
        client_close(&busy[i]);
    }
    weft_sem_acquire(&entered, 3);
    more = client_open(server);
    weft_sem_release(&gate, 1);
    ASK(&more, GET("/"), 200, "done");
    weft_sem_acquire(&entered, 1);
    client_close(&more);
    CHECK_EQ(stats_of(server).refused, 10);
    AWAIT(stats_of(server).requests == 6);
    end(server);
}

static void there_may_be_no_queue(void)
{
    weft_http_server *server =
        SERVE(.handler = gated, .max_workers = 1, .queue = -1, .retry_after = 7);
    struct client busy = client_open(server), more = client_open(server);
    client_send(&busy, GET("/"));
    weft_sem_acquire(&entered, 1);
    client_send(&more, GET("/"));
    expect_503(&more, false);
    weft_sem_release(&gate, 1);
    EXPECT(&busy, 200, "done");
    client_close(&busy);
    close_and_end(&more, server);
}

/* A client sends requests and does not read the answers: no answer is lost, or cut in its middle,
 * while later ones come. */
static void refusals_are_whole_or_the_end(void)
{
    weft_http_server *server =
        SERVE(.handler = gated, .max_workers = 1, .queue = -1, .retry_after = 7);
    weft_net_options small = {.send_buffer = 4096};
    CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", &small), 0);
    struct client busy = client_open(server);
    struct client flood = client_of(dial_small(port_of(server, 1)));
    client_send(&busy, GET("/"));
    weft_sem_acquire(&entered, 1);
    int64_t before = -1;
    for (int i = 0; i < 3000 && stats_of(server).refused > before; i++) {
        before = stats_of(server).refused;
        if (send(flood.fd, GET("/"), strlen(GET("/")), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        /* One by one, until the server does not read any more. */
        for (int tries = 0; tries < 100 && stats_of(server).refused == before; tries++)
            usleep(100);
    }
    client_half_close(&flood);
    int64_t answers = 0;
    struct answer answer;
    while (client_try_answer(&flood, &answer, false)) {
        CHECK_EQ(answer.status, 503);
        answer_free(&answer);
        answers++;
    }
    answer_free(&answer);
    CHECK(answers > 0 && stats_of(server).refused - answers <= 1);
    weft_sem_release(&gate, 1);
    EXPECT(&busy, 200, "done");
    client_close(&busy);
    close_and_end(&flood, server);
}

/* A client that sends refused requests without end does not keep the acceptor from others. */
static void *send_without_end(void *arg)
{
    struct client *client = arg;
    while (client_try_send(client, GET("/") GET("/") GET("/") GET("/"), 4 * strlen(GET("/"))))
        ;
    return NULL;
}

static void *read_without_end(void *arg)
{
    struct client *client = arg;
    char bytes[65536];
    while (recv(client->fd, bytes, sizeof bytes, 0) > 0)
        ;
    return NULL;
}

static void refusals_do_not_hold_the_acceptor(void)
{
    weft_http_server *server =
        SERVE(.handler = gated, .max_workers = 1, .queue = -1, .acceptors = 1);
    struct client busy = client_open(server), flood = client_open(server);
    pthread_t threads[2];
    client_send(&busy, GET("/"));
    weft_sem_acquire(&entered, 1);
    CHECK_EQ(pthread_create(&threads[0], NULL, read_without_end, &flood), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, send_without_end, &flood), 0);
    /* It is not served without end. For a while its bytes are discarded, and others are served. */
    pthread_join(threads[0], NULL);
    struct client other = client_open(server);
    ASK(&other, GET("/"), 503, NULL);
    client_close(&other);
    CHECK_EQ(shutdown(flood.fd, SHUT_RDWR), 0);
    pthread_join(threads[1], NULL);
    weft_sem_release(&gate, 1);
    EXPECT(&busy, 200, "done");
    client_close(&busy);
    close_and_end(&flood, server);
}

/* ---- connections ---- */

static void connections_are_limited(void)
{
    weft_http_server *server = SERVE(.handler = gated, .max_connections = 3, .retry_after = 7);
    struct client in[3];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            in[i] = client_open(server);
            client_send(&in[i], GET("/"));
            weft_sem_acquire(&entered, 1);
        }
        for (int i = 0; i < 5; i++) {
            struct client out = client_open(server);
            expect_503(&out, true);
            client_close(&out);
        }
        CHECK_EQ(stats_of(server).refused, (round + 1) * 5);
        weft_sem_release(&gate, 3);
        for (int i = 0; i < 3; i++) {
            EXPECT(&in[i], 200, "done");
            client_close(&in[i]);
        }
        AWAIT(stats_of(server).connections == 0);
    }
    CHECK_EQ(stats_of(server).accepted, 24);
    end(server);
}

static struct client client_from6(const char *from, int port)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    CHECK(inet_pton(AF_INET6, from, &to.sin6_addr) == 1);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return client_of(fd);
}

static void connections_of_an_address_are_limited(void)
{
    weft_http_server *server = SERVE(.handler = hello, .max_per_ip = 2, .retry_after = 7);
    static const char *const from[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3"};
    struct client clients[6];
    for (int i = 0; i < 6; i++) {
        clients[i] = client_of(dial_from(from[i / 2], port_of(server, 0)));
        ASK(&clients[i], GET("/"), 200, "hello");
    }
    for (int i = 0; i < 3; i++) {
        struct client out = client_of(dial_from(from[i], port_of(server, 0)));
        expect_503(&out, true);
        client_close(&out);
    }
    /* One less of the second, and there is room for one of that. */
    client_close(&clients[2]);
    AWAIT(stats_of(server).connections == 5);
    clients[2] = client_of(dial_from(from[1], port_of(server, 0)));
    ASK(&clients[2], GET("/"), 200, "hello");
    struct client out = client_of(dial_from(from[0], port_of(server, 0)));
    expect_503(&out, true);
    client_close(&out);
    for (int i = 0; i < 6; i++)
        client_close(&clients[i]);
    AWAIT(stats_of(server).connections == 0);
    end(server);
}

/* An IPv4 address is the same in whatever form it comes; ::1 is another. */
static void addresses_of_ipv6_are_limited(void)
{
    weft_http_server *server = SERVE(.handler = hello, .max_per_ip = 2, .retry_after = 7);
    int error = weft_http_listen(server, "tcp:[::]:0", NULL);
    if (error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL) {
        printf("no IPv6 here\n");
        end(server);
        return;
    }
    CHECK_EQ(error, 0);
    int port = port_of(server, 1);
    struct client ipv4[] = {client_open(server), client_of(dial_from(NULL, port))};
    struct client ipv6[] = {client_from6("::1", port), client_from6("::1", port)};
    for (int i = 0; i < 2; i++) {
        ASK(&ipv4[i], GET("/"), 200, "hello");
        ASK(&ipv6[i], GET("/"), 200, "hello");
    }
    struct client out[] = {client_open(server), client_of(dial_from(NULL, port)),
                           client_from6("::1", port)};
    for (int i = 0; i < 3; i++) {
        expect_503(&out[i], true);
        client_close(&out[i]);
    }
    for (int i = 0; i < 2; i++) {
        client_close(&ipv4[i]);
        client_close(&ipv6[i]);
    }
    AWAIT(stats_of(server).connections == 0);
    end(server);
}

/* ---- descriptors ---- */

static rlim_t no_more_descriptors(void)
{
    int lowest = dup(0);
    CHECK(lowest >= 0);
    close(lowest);
    return limit_descriptors((rlim_t)lowest);
}

/* Waits until the acceptor has seen that there are none. */
static void await_errors(weft_http_server *server, int64_t before)
{
    AWAIT(stats_of(server).accept_errors > before);
}

static void no_descriptors_is_no_end(void)
{
    weft_http_server *server = SERVE(.handler = hello, .acceptors = 2);
    struct client in = client_open(server);
    ASK(&in, GET("/"), 200, "hello");
    for (int round = 0; round < 3; round++) {
        /* The client's own descriptor is there; the server finds none for its side. */
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port_of(server, 0))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int64_t errors = stats_of(server).accept_errors;
        AWAIT(stats_of(server).connections == 1);
        rlim_t before = no_more_descriptors();
        CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
        struct client late = client_of(fd);
        client_send(&late, GET("/"));
        await_errors(server, errors);
        /* Those that are in are served meanwhile. */
        ASK(&in, GET("/"), 200, "hello");
        CHECK(client_is_quiet(&late));
        limit_descriptors(before);
        EXPECT(&late, 200, "hello");
        client_close(&late);
    }
    close_and_end(&in, server);
}

/* To listen somewhere else meanwhile does no harm, and a stop finds its end. */
static void listen_and_stop_without_descriptors(void)
{
    for (int way = 0; way < 2; way++) {
        weft_http_server *server = SERVE(.handler = hello, .acceptors = 1);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int spare = dup(0);
        CHECK(fd >= 0 && spare >= 0);
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port_of(server, 0))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        rlim_t before = no_more_descriptors();
        CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
        struct client late = client_of(fd);
        client_send(&late, GET("/"));
        await_errors(server, 0);
        if (way == 0) {
            close(spare);
            int error = -EMFILE;
            while (error == -EMFILE) { /* the acceptor may be faster */
                error = weft_http_listen(server, "tcp:127.0.0.1:0", NULL);
                limit_descriptors(before);
            }
            CHECK_EQ(error, 0);
            EXPECT(&late, 200, "hello");
            struct client second = client_of(dial_from(NULL, port_of(server, 1)));
            ASK(&second, GET("/"), 200, "hello");
            client_close(&second);
            close_and_end(&late, server);
        } else {
            CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
            limit_descriptors(before);
            client_end(&late);
            close(spare);
            weft_http_close(server);
        }
    }
}

/* With requests in progress an acceptor that has paused accepting lives on after the stop has
 * closed its listeners. */
static void paused_acceptors_see_a_stop(void)
{
    weft_http_server *server = SERVE(.handler = gated, .acceptors = 1);
    struct client busy = client_asks(server, GET("/"));
    weft_sem_acquire(&entered, 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port_of(server, 0))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rlim_t before = no_more_descriptors();
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    await_errors(server, 0);
    CHECK_EQ(weft_http_stop(server, weft_after(5 * WEFT_MS)), -ETIMEDOUT);
    limit_descriptors(before);
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    /* By now the descriptors of its listeners may be used again: it does not add them again. */
    CHECK_EQ(server->acceptors[0].accept_paused_until, 0);
    weft_http_close(server);
    close(fd);
    client_close(&busy);
}

/* A connection that is gone before it is accepted. */
static void aborted_connections_are_passed_over(void)
{
    weft_http_server *server = serve(hello);
    for (int64_t i = 0; i < test_scale(500); i++) {
        struct client client = client_open(server);
        struct linger reset = {.l_onoff = 1};
        CHECK(setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
        if (i % 2 == 0)
            client_send(&client, "GET /");
        client_close(&client);
    }
    struct client client = client_open(server);
    ASK(&client, GET("/"), 200, "hello");
    client_close(&client);
    AWAIT(stats_of(server).connections == 0);
    end(server);
}

int main(void)
{
    RUN(requests_beyond_the_queue_are_refused);
    int before = open_descriptors();
    RUN(there_may_be_no_queue);
    RUN(refusals_are_whole_or_the_end);
    RUN(refusals_do_not_hold_the_acceptor);
    RUN(connections_are_limited);
    RUN(connections_of_an_address_are_limited);
    RUN(addresses_of_ipv6_are_limited);
    RUN(no_descriptors_is_no_end);
    RUN(listen_and_stop_without_descriptors);
    RUN(paused_acceptors_see_a_stop);
    RUN(aborted_connections_are_passed_over);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
