/*
 * lend.c: streams of events and upgraded connections hold none of max_workers, and have a bound of
 * their own.
 */
#include <poll.h>
#include <weft/fiber.h>
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"
#include "system.h"

enum { STREAMS = 100 };

static weft_sem entered = WEFT_SEM_INIT(0), left = WEFT_SEM_INIT(0);
static weft_sem streams = WEFT_SEM_INIT(0), gate = WEFT_SEM_INIT(0); /* let "/wait" go on */
static _Atomic int outcome;

/* "/events" and "/upgrade" go on until they are let, and "/wait" until the gate opens; others are
 * short. */
HANDLER(serving)
{
    const char *path = weft_http_path(request);
    int error = 0;
    if (strncmp(path, "/events", 7) == 0)
        error = weft_http_events(response);
    else if (strcmp(path, "/upgrade") == 0)
        error = weft_http_upgrade(response, "echo");
    else if (strcmp(path, "/wait") != 0) {
        (void)weft_http_puts(response, "hello");
        return;
    }
    if (error == 0) {
        weft_sem_release(&entered, 1);
        weft_sem *until = strcmp(path, "/wait") == 0 ? &gate : &streams;
        error = weft_sem_acquire_until(until, 1, WEFT_NEVER);
    }
    outcome = error;
    if (strcmp(path, "/events/panic") == 0)
        weft_panic("as it was told");
    weft_sem_release(&left, 1);
}

static void be_quiet(const weft_panic_info *info, weft_http_request *request, void *data)
{
    (void)info, (void)request, (void)data;
}

static struct client begin(weft_http_server *server, const char *path)
{
    struct client client = client_open(server);
    struct answer answer;
    char text[200];
    snprintf(text, sizeof text,
             "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", path);
    client_send(&client, text);
    CHECK(client_head(&client, &answer));
    CHECK_EQ(answer.status, strcmp(path, "/upgrade") == 0 ? 101 : 200);
    answer_free(&answer);
    weft_sem_acquire(&entered, 1);
    return client;
}

static void expect_hello(weft_http_server *server)
{
    CHECK_ANSWER(ask(server, GET_CLOSE("/")), 200, "hello");
}

/* Has the client's request wait in its handler. The worker of the last request may not be free yet
 * though its client has the answer: then there is a 503, and the next request. */
static void begin_wait(struct client *client)
{
    client_send(client, GET("/wait"));
    while (weft_sem_try_acquire(&entered, 1) != 0) {
        struct pollfd answered = {.fd = client->fd, .events = POLLIN};
        if (poll(&answered, 1, 1) == 1) {
            EXPECT(client, 503, NULL);
            client_send(client, GET("/wait"));
        }
    }
}

/* A single worker, and all of these at a time. */
static void streams_hold_no_worker(void)
{
    static struct client clients[STREAMS];
    weft_http_server *server = SERVE(.handler = serving, .max_workers = 1, .queue = -1);
    int count = test_scale(STREAMS);
    for (int i = 0; i < count; i++)
        clients[i] = begin(server, i % 2 == 0 ? "/events" : "/upgrade");
    CHECK_EQ(stats_of(server).streams, count);
    expect_hello(server);

    /* The one worker is still one. */
    struct client busy = client_open(server), more = client_open(server);
    begin_wait(&busy);
    ASK(&more, GET("/"), 503, NULL);

    weft_sem_release(&gate, 1);
    weft_sem_release(&streams, count);
    weft_sem_acquire(&left, count + 1);
    for (int i = 0; i < count; i++) {
        while (client_fill(&clients[i]) && i % 2 != 0)
            ;
        client_close(&clients[i]);
    }
    EXPECT(&busy, 200, "");
    client_close(&busy);
    AWAIT(stats_of(server).running == 0);
    AWAIT(stats_of(server).streams == 0);

    /* And is so when they have gone. */
    busy = client_open(server);
    begin_wait(&busy);
    ASK(&more, GET("/"), 503, NULL);
    weft_sem_release(&gate, 1);
    EXPECT(&busy, 200, "");
    weft_sem_acquire(&left, 1);
    client_close(&busy);
    close_and_end(&more, server);
}

/* More of them than there may be get 503, and the next can begin when one has ended, however. */
static void streams_are_limited(void)
{
    weft_http_server *server = SERVE(.handler = serving, .max_workers = 2, .max_streams = 2,
                                     .retry_after = 7, .on_panic = be_quiet);
    for (int i = 0; i < 3; i++) {
        struct client one = begin(server, i == 0 ? "/events/panic" : "/events");
        struct client other = begin(server, "/upgrade"), more = client_open(server);
        for (int j = 0; j < 2; j++) {
            client_send(&more, GET("/events"));
            CHECK_ANSWER(client_answer(&more), 503, NULL, {"Retry-After", "7"});
            weft_sem_acquire(&left, 1);
            CHECK_EQ(outcome, -EAGAIN);
        }
        ASK(&more, GET("/"), 200, "hello");
        client_close(&more);
        weft_sem_release(&streams, 2);
        weft_sem_acquire(&left, i == 0 ? 1 : 2);
        client_close(&one);
        client_close(&other);
        AWAIT(stats_of(server).running == 0);
        AWAIT(stats_of(server).streams == 0);
    }
    end(server);
}

/* A connection whose stream has ended goes on, with a worker that counts again. */
static void requests_behind_a_stream_count(void)
{
    weft_http_server *server = SERVE(.handler = serving, .max_workers = 1, .queue = 1);
    struct client client = begin(server, "/events"), busy = client_open(server);
    client_send(&client, GET("/") GET("/"));
    begin_wait(&busy);
    /* The stream ends while another has the worker: its next request waits for that. */
    weft_sem_release(&streams, 1);
    weft_sem_acquire(&left, 1);
    AWAIT(stats_of(server).queued == 1);
    CHECK_EQ(stats_of(server).requests, 1);
    AWAIT(stats_of(server).streams == 0);
    weft_sem_release(&gate, 1);
    weft_sem_acquire(&left, 1);
    free(client_take_to(&client, "0\r\n\r\n"));
    EXPECT(&client, 200, "hello");
    EXPECT(&client, 200, "hello");
    EXPECT(&busy, 200, "");
    client_close(&busy);
    close_and_end(&client, server);
}

/* A stop ends them and waits for them. */
static void a_stop_ends_them(void)
{
    weft_http_server *server = SERVE(.handler = serving, .max_workers = 1);
    struct client one = begin(server, "/events"), other = begin(server, "/upgrade");
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    weft_sem_acquire(&left, 2);
    CHECK_EQ(outcome, -ECANCELED);
    client_close(&one);
    client_close(&other);
    weft_http_close(server);
}

int main(void)
{
    int before = open_descriptors();
    RUN(streams_hold_no_worker);
    RUN(streams_are_limited);
    RUN(requests_behind_a_stream_count);
    RUN(a_stop_ends_them);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
