/*
 * per_ip_server.c: a server's limits on requests and streams of an address. limits.c has those on
 * connections.
 */
#include <weft/fiber.h>
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"
#include "system.h"

static weft_sem entered = WEFT_SEM_INIT(0), gate = WEFT_SEM_INIT(0);

/* Waits at the gate, except for "/"; "/events" is a stream. */
HANDLER(gated)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/") == 0) {
        (void)weft_http_puts(response, "hello");
        return;
    }
    if (strcmp(path, "/events") == 0 && weft_http_events(response) != 0)
        return;
    weft_sem_release(&entered, 1);
    weft_sem_acquire(&gate, 1);
    if (strcmp(path, "/wait") == 0)
        (void)weft_http_puts(response, "done");
}

static struct client client_from(const char *from, weft_http_server *server, const char *request)
{
    struct client client = client_of(dial_from(from, port_of(server, 0)));
    client_send(&client, request);
    return client;
}

static void expect_429(struct client *client, bool closes)
{
    CHECK_ANSWER(client_answer(client), 429, NULL, {"Retry-After", "7"},
                 {"Connection", closes ? "close" : NULL});
}

static void requests_of_an_address_are_limited(void)
{
    weft_http_server *server =
        SERVE(.handler = gated, .max_workers = 3, .max_requests_per_ip = 4, .retry_after = 7);
    struct client clients[4], other;
    for (int round = 0; round < 2; round++) {
        /* Three are answered and one waits: all count. */
        for (int i = 0; i < 4; i++) {
            clients[i] = client_from("127.0.0.1", server, GET("/wait"));
            AWAIT(stats_of(server).running + stats_of(server).queued == i + 1);
        }
        weft_sem_acquire(&entered, 3);
        struct client more = client_from("127.0.0.1", server, GET("/"));
        expect_429(&more, false);
        client_send(&more, GET("/") GET_CLOSE("/"));
        expect_429(&more, false);
        expect_429(&more, true);
        client_close(&more);
        /* Another one is not concerned, but for the queue. */
        other = client_from("127.0.0.2", server, GET("/"));
        AWAIT(stats_of(server).queued == 2);
        weft_sem_release(&gate, 4);
        EXPECT(&other, 200, "hello");
        client_close(&other);
        for (int i = 0; i < 4; i++)
            EXPECT(&clients[i], 200, "done");
        weft_sem_acquire(&entered, 1);
        /* What was answered counts no more; idle connections never. */
        for (int i = 0; i < 4; i++) {
            ASK(&clients[i], GET("/") GET("/"), 200, "hello");
            EXPECT(&clients[i], 200, "hello");
            client_close(&clients[i]);
        }
        AWAIT(stats_of(server).connections == 0);
    }
    CHECK_EQ(stats_of(server).refused, 6);
    end(server);
}

/* Of a connection that has many requests behind one another each is counted by itself. */
static void requests_in_a_row_are_one_at_a_time(void)
{
    weft_http_server *server = SERVE(.handler = gated, .max_requests_per_ip = 1);
    struct client client = client_open(server);
    for (int i = 0; i < 10; i++) {
        client_send(&client, GET("/") GET("/") GET("/") GET("/"));
        for (int j = 0; j < 4; j++)
            EXPECT(&client, 200, "hello");
    }
    close_and_end(&client, server);
}

/* Streams have a count of their own, and leave that of the requests. */
static void streams_of_an_address_are_limited(void)
{
    weft_http_server *server = SERVE(.handler = gated, .max_requests_per_ip = 1,
                                     .max_streams_per_ip = 2, .retry_after = 7);
    struct client clients[3];
    struct answer answer;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            clients[i] =
                client_from(i < 2 ? "127.0.0.1" : "127.0.0.2", server, GET_CLOSE("/events"));
            CHECK(client_head(&clients[i], &answer));
            CHECK_EQ(answer.status, 200);
            answer_free(&answer);
            weft_sem_acquire(&entered, 1);
        }
        struct client more = client_from("127.0.0.1", server, GET("/events"));
        expect_429(&more, false);
        ASK(&more, GET("/"), 200, "hello");
        client_close(&more);
        weft_sem_release(&gate, 3);
        for (int i = 0; i < 3; i++) {
            while (client_fill(&clients[i]))
                ;
            client_close(&clients[i]);
        }
        AWAIT(stats_of(server).connections == 0);
    }
    end(server);
}

/* A client of a Unix socket has no address, and this host is exempt by default. */
static void near_clients_are_spared(void)
{
    enum { MANY = 65 }; /* 64 is the least that an address has by default */
    static struct client clients[2 * MANY];
    weft_http_server *server =
        SERVE(.handler = gated, .max_workers = 2 * MANY, .max_streams = 2 * MANY);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char name[120];
    snprintf(to.sun_path, sizeof to.sun_path, "/tmp/weft-addresses-%d", (int)getpid());
    snprintf(name, sizeof name, "unix:%s", to.sun_path);
    CHECK_EQ(weft_http_listen(server, name, NULL), 0);
    for (int i = 0; i < 2 * MANY; i++) {
        if (i % 2 == 0) {
            clients[i] = client_open(server);
        } else {
            int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
            clients[i] = client_of(fd);
        }
        client_send(&clients[i], GET("/wait"));
        weft_sem_acquire(&entered, 1);
    }
    weft_sem_release(&gate, 2 * MANY);
    for (int i = 0; i < 2 * MANY; i++) {
        EXPECT(&clients[i], 200, "done");
        client_close(&clients[i]);
    }
    end(server);
}

int main(void)
{
    int before = open_descriptors();
    RUN(requests_of_an_address_are_limited);
    RUN(requests_in_a_row_are_one_at_a_time);
    RUN(streams_of_an_address_are_limited);
    RUN(near_clients_are_spared);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
