/*
 * keepalive.c: connections that are used again: one request after another, pipelined, idle, and
 * passed back and forth between acceptor and worker.
 */
#include <pthread.h>

#include <weft/fiber.h>
#include <weft/object_pool.h>
#include <weft/runtime.h>
#include <weft/sem.h>
#include <weft/time.h>

#include "base/prng.h"
#include "http.h"
#include "http/server.h"
#include "sync/counts.h"
#include "system.h"

static weft_sem gate = WEFT_SEM_INIT(0), entered = WEFT_SEM_INIT(0);

/* Answers with its path, and the body if there is one. */
HANDLER(echo)
{
    char *body;
    size_t size;
    CHECK_EQ(weft_http_puts(response, weft_http_path(request)), 0);
    if (weft_http_content_length(request) != 0) {
        if (weft_http_read_all(request, &body, &size) != 0)
            return;
        CHECK_EQ(weft_http_write(response, body, size), 0);
    }
}

HANDLER(gated)
{
    weft_sem_release(&entered, 1);
    (void)!weft_sem_acquire_until(&gate, 1, WEFT_NEVER);
    echo(request, response, data);
}

static void connections_are_kept(void)
{
    weft_http_server *server = serve(echo);
    struct client client = client_open(server);
    for (int i = 0; i < 100; i++) {
        ASK(&client, i % 2 == 0 ? GET("/a") : "GET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            200, i % 2 == 0 ? "/a" : "/b");
    }
    CHECK_EQ(stats_of(server).accepted, 1);
    client_send(&client, GET_CLOSE("/last") GET("/never"));
    CHECK_ANSWER(client_answer(&client), 200, "/last", {"Connection", "close"});
    client_end(&client);

    client = client_open(server);
    ASK(&client, "GET /old HTTP/1.0\r\n\r\n", 200, "/old");
    client_end(&client);
    CHECK_EQ(stats_of(server).requests, 102);
    end(server);
}

/* ---- pipelining ---- */

/* Requests with numbers, some with bodies of either kind. */
static char *pipeline(int count)
{
    char *text = malloc((size_t)count * 200 + 1), *at = text;
    CHECK(text != NULL);
    for (int i = 0; i < count; i++)
        if (i % 5 == 3)
            at += sprintf(at, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", i);
        else if (i % 5 == 4)
            at += sprintf(at,
                          "POST /%d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "1\r\nx\r\n2\r\nyz\r\n0\r\n\r\n",
                          i);
        else
            at += sprintf(at, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
    return text;
}

static void expect_pipeline(struct client *client, int count)
{
    for (int i = 0; i < count; i++) {
        char expected[30];
        snprintf(expected, sizeof expected, "/%d%s", i,
                 i % 5 == 3   ? "abc"
                 : i % 5 == 4 ? "xyz"
                              : "");
        EXPECT(client, 200, expected);
    }
}

static void pipelines_are_answered_in_order(void)
{
    weft_http_server *server = serve(echo);
    struct client client = client_open(server);
    int count = 300;
    char *requests = pipeline(count);
    client_send(&client, requests);
    expect_pipeline(&client, count);
    free(requests);

    /* Cut in two at every place. */
    requests = pipeline(6);
    for (size_t cut = 1; cut < strlen(requests); cut++) {
        client_send_bytes(&client, requests, cut);
        if (cut % 3 == 0)
            usleep(100);
        client_send(&client, requests + cut);
        expect_pipeline(&client, 6);
    }
    free(requests);
    CHECK_EQ(stats_of(server).accepted, 1);
    close_and_end(&client, server);
}

/* More than all buffers hold: the sender has to wait for the answers to be read. */
static void *send_all(void *arg)
{
    void **arguments = arg;
    client_send(arguments[0], arguments[1]);
    return NULL;
}

static void long_pipelines(void)
{
    weft_http_server *server = serve(echo);
    struct client client = client_open(server), sender = client;
    int count = (int)test_scale(40000);
    char *requests = pipeline(count);
    void *arguments[] = {&sender, requests};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, send_all, arguments), 0);
    expect_pipeline(&client, count);
    pthread_join(thread, NULL);
    free(requests);
    close_and_end(&client, server);
}

/* A turn of a connection in exchange.c is shorter. */
#define BEYOND_A_TURN (1 * WEFT_MS)

/* Says how many others were answered before it. The first of them waits, and then computes. */
HANDLER(counting)
{
    int *count = data;
    if (strcmp(weft_http_path(request), "/other") == 0) {
        CHECK_EQ(weft_http_printf(response, "%d", *count), 0);
        return;
    }
    if (++*count == 1) {
        weft_sem_release(&entered, 1);
        weft_sem_acquire(&gate, 1);
        for (int64_t end = weft_after(BEYOND_A_TURN); weft_now() < end;)
            continue;
    }
}

/* A client with many requests does not keep the worker from clients that wait: behind a request
 * that took long, another client's is next. */
static void others_get_their_turn(void)
{
    enum { MANY = 300 };
    int count = 0;
    weft_http_server *server = SERVE(.handler = counting, .data = &count, .max_workers = 1);
    struct client busy = client_open(server), other = client_open(server);
    char requests[MANY * sizeof GET("/")] = "", *at = requests;
    for (int i = 0; i < MANY; i++)
        at = stpcpy(at, GET("/"));
    client_send(&busy, requests);
    weft_sem_acquire(&entered, 1);
    client_send(&other, GET("/other"));
    AWAIT(stats_of(server).queued == 1);
    weft_sem_release(&gate, 1);
    struct answer answer = client_answer(&other);
    CHECK_EQ(answer.status, 200);
    CHECK(atoi(answer.body) < 4);
    answer_free(&answer);
    for (int i = 0; i < MANY; i++)
        EXPECT(&busy, 200, "");
    client_close(&busy);
    close_and_end(&other, server);
}

/* Without room in the queue the worker goes on. */
static void long_pipelines_in_a_full_pool(void)
{
    int count = 70; /* as few bytes as come at once */
    weft_http_server *server = SERVE(.handler = echo, .max_workers = 1, .queue = -1);
    struct client client = client_open(server);
    char *requests = pipeline(count);
    client_send(&client, requests);
    expect_pipeline(&client, count);
    free(requests);
    CHECK_EQ(stats_of(server).refused, 0);
    close_and_end(&client, server);
}

static void half_close_is_no_hindrance(void)
{
    weft_http_server *server = serve(gated);
    for (int i = 0; i < 4; i++) {
        struct client client = client_open(server);
        if (i == 0) { /* the end comes with the request */
            client_send(&client, GET("/1") GET("/2"));
            client_half_close(&client);
            weft_sem_acquire(&entered, 1);
        } else { /* while it is worked on */
            client_send(&client, GET("/1"));
            weft_sem_acquire(&entered, 1);
            if (i >= 2)
                client_send(&client, GET("/2"));
            client_half_close(&client);
            if (i == 3)
                usleep(50000); /* one event may report both */
        }
        weft_sem_release(&gate, 1);
        EXPECT(&client, 200, "/1");
        if (i != 1) {
            weft_sem_acquire(&entered, 1);
            weft_sem_release(&gate, 1);
            EXPECT(&client, 200, "/2");
        }
        client_end(&client);
    }
    end(server);
}

/* Whether the acceptor has seen an event of its one busy connection. */
static bool was_told(weft_http_server *server)
{
    bool told = false;
    for (int i = 0; i < server->acceptor_count; i++) {
        struct acceptor *acceptor = &server->acceptors[i];
        weft_mutex_lock(&acceptor->lock);
        struct connection *connection = acceptor->lists[LIST_BUSY].first;
        told |= connection != NULL && atomic_u32_load_relaxed(&connection->readable) != 0;
        weft_mutex_unlock(&acceptor->lock);
    }
    return told;
}

/* Bytes behind the last request, while that is answered, are discarded; the answer gets through. */
static void the_last_answer_is_not_lost(void)
{
    weft_http_server *server = serve(gated);
    struct client client = client_open(server);
    char byte;
    client_send(&client, GET_CLOSE("/last"));
    weft_sem_acquire(&entered, 1);
    client_send(&client, "more");
    AWAIT(was_told(server));
    weft_sem_release(&gate, 1);
    EXPECT(&client, 200, "/last");
    CHECK_EQ(recv(client.fd, &byte, 1, 0), 0); /* an end, and no reset */
    close_and_end(&client, server);
}

/* The end comes together with a part of a head: the server does not wait for the rest. */
static void half_close_with_half_a_head(void)
{
    weft_http_server *server =
        SERVE(.handler = gated, .header_timeout = 3600 * WEFT_S, .idle_timeout = 3600 * WEFT_S);
    for (int i = 0; i < 2; i++) {
        struct client client = client_open(server);
        if (i == 1) { /* while a worker is busy */
            client_send(&client, GET("/1"));
            weft_sem_acquire(&entered, 1);
        }
        CHECK_EQ(send(client.fd, "GET / HT", 8, MSG_MORE | MSG_NOSIGNAL), 8);
        client_half_close(&client);
        if (i == 1) {
            AWAIT(was_told(server));
            weft_sem_release(&gate, 1);
            EXPECT(&client, 200, "/1");
        }
        client_end(&client);
    }
    end(server);
}

/* ---- idle ---- */

static void idle_connections_hold_nothing(void)
{
    enum { MANY = 50 };
    weft_http_server *server = serve(echo);
    struct client clients[MANY];
    for (int i = 0; i < MANY; i++) {
        clients[i] = client_open(server);
        ASK(&clients[i], GET("/"), 200, "/");
        if (i % 2 == 0)
            client_send(&clients[i], "GET /slow HTTP/1.1\r\nHo");
    }
    AWAIT(stats_of(server).idle == MANY / 2 && stats_of(server).reading == MANY / 2);
    AWAIT(counts_of(server->exchanges).out == 0 && stats_of(server).running == 0);
    weft_pool_stats pool;
    CHECK_EQ(weft_pool_stats_get(server->pool, &pool), 0);
    CHECK_EQ(pool.running, 0);
    CHECK_EQ(pool.queued, 0);
    for (int i = 0; i < MANY; i++) {
        ASK(&clients[i], i % 2 == 0 ? "st: a\r\n\r\n" : GET("/slow"), 200, "/slow");
        client_close(&clients[i]);
    }
    end(server);
}

static void idle_timeout(void)
{
    weft_http_server *server = SERVE(.handler = echo, .idle_timeout = 20 * WEFT_MS);
    struct client client = client_open(server);
    ASK(&client, GET("/"), 200, "/");
    CHECK(client_at_end(&client));
    AWAIT(stats_of(server).connections == 0);
    CHECK_EQ(stats_of(server).timed_out, 1);
    close_and_end(&client, server);
}

HANDLER(early)
{
    weft_sem_release(&entered, 1);
    weft_sem_acquire(&gate, 1);
    CHECK_EQ(weft_http_reply(response, 200, NULL, "early", 5), 0);
}

/* A client that does not end is not waited for; and the time for that is not one of the other
 * timeouts. */
static void lingering_ends(void)
{
    weft_http_server *server = SERVE(.handler = early, .header_timeout = 3600 * WEFT_S,
                                     .idle_timeout = 3600 * WEFT_S, .acceptors = 1);
    struct client client =
        client_asks(server, "POST / HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n");
    weft_sem_acquire(&entered, 1);
    usleep(50000); /* the acceptor may go to sleep: there is nothing to be seen of that */
    weft_sem_release(&gate, 1);
    EXPECT(&client, 200, "early");
    CHECK(client_at_end(&client));
    AWAIT(stats_of(server).connections == 0);
    close_and_end(&client, server);
}

static void header_timeout(void)
{
    weft_http_server *server = SERVE(.handler = echo, .header_timeout = 20 * WEFT_MS);
    /* Nothing came: there is nothing to answer. */
    struct client client = client_open(server);
    client_end(&client);
    /* A part came, of the first or a later request; unless this thread was too slow to send it:
     * then once more. */
    int64_t tries = 1;
    for (int i = 0; i < 2;) {
        struct answer answer;
        client = client_open(server);
        tries++;
        bool there = i == 0 || client_try_send(&client, GET("/"), strlen(GET("/")));
        if (there && i == 1) {
            there = client_try_answer(&client, &answer, false);
            answer_free(&answer);
        }
        there = there && client_try_send(&client, "GET / HTTP/1.1\r\nHost:", 21);
        if (there && client_try_answer(&client, &answer, false)) {
            CHECK_EQ(answer.status, 408);
            CHECK_STR(answer_field(&answer, "Connection"), "close");
            CHECK(client_at_end(&client));
            answer_free(&answer);
            i++;
        }
        client_close(&client);
    }
    AWAIT(stats_of(server).connections == 0);
    CHECK_EQ(stats_of(server).timed_out, tries);
    end(server);
}

/* Bytes that come one by one do not put off the deadline. */
static void header_timeout_is_for_the_whole(void)
{
    weft_http_server *server = SERVE(.handler = echo, .header_timeout = 50 * WEFT_MS);
    struct client client = client_asks(server, "GET / HTTP/1.1\r\nX: ");
    while (client_try_send(&client, "x", 1))
        usleep(1000);
    CHECK_EQ(stats_of(server).timed_out, 1);
    close_and_end(&client, server);
}

/* ---- data that comes while a worker is busy ---- */

/* A second request that comes while the first is answered, or just then, is found. Each client
 * asks, waits for nothing, a while or the answer, in pieces of any size, and counts. */
struct talker {
    weft_http_server *server;
    uint64_t seed;
    int rounds;
};

HANDLER(talk_now_and_then)
{
    switch (weft_http_path(request)[1]) {
    case 'y':
        weft_yield();
        break;
    case 's':
        (void)weft_sleep(20 * 1000);
        break;
    default:
        break;
    }
    echo(request, response, data);
}

static void send_in_pieces(struct client *client, const char *text, struct prng *random)
{
    size_t size = strlen(text);
    while (size > 0) {
        size_t piece = prng_below(random, 3) == 0 ? 1 + prng_below(random, (uint32_t)size) : size;
        client_send_bytes(client, text, piece);
        text += piece;
        size -= piece;
        if (size > 0 && prng_below(random, 4) == 0)
            usleep((unsigned)prng_below(random, 200));
    }
}

static void *talk(void *arg)
{
    struct talker *talker = arg;
    struct prng random;
    prng_seed(&random, talker->seed);
    struct client client = client_open(talker->server);
    for (int i = 0; i < talker->rounds; i++) {
        int burst = 1 + (int)prng_below(&random, 4);
        char expected[4][64], text[400];
        for (int j = 0; j < burst; j++) {
            const char *kind = &"nys"[prng_below(&random, 3)];
            snprintf(expected[j], sizeof expected[j], "/%c%d.%d", *kind, i, j);
            if (prng_below(&random, 4) == 0) {
                snprintf(text, sizeof text,
                         "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
                         expected[j]);
                strcat(expected[j], "hello");
            } else {
                snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", expected[j]);
            }
            send_in_pieces(&client, text, &random);
            if (prng_below(&random, 3) == 0)
                usleep((unsigned)prng_below(&random, 100));
        }
        for (int j = 0; j < burst; j++)
            EXPECT(&client, 200, expected[j]);
        if (prng_below(&random, 50) == 0) {
            client_close(&client);
            client = client_open(talker->server);
        }
    }
    client_close(&client);
    return NULL;
}

static void no_data_is_lost_between_acceptor_and_worker(void)
{
    enum { TALKERS = 16 };
    for (int acceptors = 1; acceptors <= 4; acceptors += 3) {
        weft_http_server *server =
            SERVE(.handler = talk_now_and_then, .acceptors = acceptors,
                  .header_timeout = 600 * WEFT_S, .idle_timeout = 600 * WEFT_S,
                  .body_timeout = 600 * WEFT_S);
        struct talker talkers[TALKERS];
        pthread_t threads[TALKERS];
        for (int i = 0; i < TALKERS; i++) {
            talkers[i] =
                (struct talker){server, (uint64_t)(i + acceptors * 100), (int)test_scale(500)};
            CHECK_EQ(pthread_create(&threads[i], NULL, talk, &talkers[i]), 0);
        }
        for (int i = 0; i < TALKERS; i++)
            pthread_join(threads[i], NULL);
        AWAIT(stats_of(server).connections == 0);
        weft_http_stats stats = stats_of(server);
        CHECK_EQ(stats.bad, 0);
        CHECK_EQ(stats.refused, 0);
        CHECK_EQ(stats.timed_out, 0);
        AWAIT(counts_of(server->exchanges).out == 0);
        end(server);
    }
}

int main(void)
{
    RUN(connections_are_kept);
    int before = open_descriptors();
    RUN(pipelines_are_answered_in_order);
    RUN(long_pipelines);
    RUN(others_get_their_turn);
    RUN(long_pipelines_in_a_full_pool);
    RUN(half_close_is_no_hindrance);
    RUN(half_close_with_half_a_head);
    RUN(the_last_answer_is_not_lost);
    RUN(idle_connections_hold_nothing);
    RUN(idle_timeout);
    RUN(lingering_ends);
    RUN(header_timeout);
    RUN(header_timeout_is_for_the_whole);
    RUN(no_data_is_lost_between_acceptor_and_worker);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
