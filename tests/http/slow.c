/*
 * slow.c: clients that read their answers slowly: they hold no worker once the handler has
 * returned, and the rate bounds their time.
 */
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <weft/fiber.h>
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"
#include "http/sys.h"
#include "system.h"

enum { SLOW = 10, FILE_SIZE = 8 << 20, TEXT_SIZE = 1 << 20 };

static weft_sem left = WEFT_SEM_INIT(0), flushed = WEFT_SEM_INIT(0), begun = WEFT_SEM_INIT(0);
static _Atomic int outcome;
static int file;
static char *text;

HANDLER(serving)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/file") == 0) {
        int own = dup(file);
        CHECK_EQ(weft_http_send_file(response, own, 0, FILE_SIZE), 0);
        close(own);
        weft_sem_release(&left, 1);
    } else if (strncmp(path, "/text", 5) == 0) {
        CHECK_EQ(weft_http_reply(response, 200, NULL, text, TEXT_SIZE), 0);
        if (strcmp(path, "/text/flush") == 0)
            outcome = weft_http_flush(response);
        weft_sem_release(strcmp(path, "/text/flush") == 0 ? &flushed : &left, 1);
    } else if (strcmp(path, "/endless") == 0) {
        do
            outcome = weft_http_write(response, text, 65536);
        while (outcome == 0);
        weft_sem_release(&left, 1);
    } else if (strcmp(path, "/pieces") == 0) {
        weft_sem_release(&begun, 1);
        for (int i = 0; i < TEXT_SIZE; i += 65536)
            CHECK_EQ(weft_http_write(response, text + i, 65536), 0);
    } else if (strcmp(path, "/thinking") == 0) {
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(weft_http_write(response, text, 65536), 0);
            CHECK_EQ(weft_sleep(100 * WEFT_MS), 0);
        }
    } else {
        (void)weft_http_puts(response, "hello");
    }
}

/* The server's end of it. */
static int other_end(const struct client *client)
{
    struct sockaddr_in own = {0}, peer = {0};
    socklen_t size = sizeof own;
    CHECK(getsockname(client->fd, (struct sockaddr *)&own, &size) == 0);
    for (int fd = 0; fd < 1024; fd++) {
        size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && size == sizeof peer &&
            peer.sin_port == own.sin_port)
            return fd;
    }
    test_fail(__FILE__, __LINE__, "there is no other end");
}

/* With small buffers on both sides. */
static weft_http_server *begin(weft_http_options options)
{
    weft_http_server *server;
    weft_net_options small = {.send_buffer = 4096};
    options.handler = serving;
    CHECK_EQ(weft_http_open(&server, &options), 0);
    CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", &small), 0);
    return server;
}

static struct client slow_client(weft_http_server *server, const char *request)
{
    struct client client = client_of(dial_small(port_of(server, 0)));
    client_send(&client, request);
    return client;
}

static void check_answer(struct client *client, size_t size)
{
    struct answer answer = client_answer(client);
    CHECK_EQ(answer.size, size);
    for (size_t i = 0; i < size; i++)
        if (answer.body[i] != text[i % TEXT_SIZE])
            test_fail(__FILE__, __LINE__, "byte %zu", i);
    answer_free(&answer);
}

/* One worker; each client asks for something behind it as well. */
static void they_hold_no_worker(void)
{
    struct client clients[SLOW];
    weft_http_server *server = begin((weft_http_options){.max_workers = 1, .queue = 2 * SLOW});
    int before = open_descriptors();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SLOW; i++) {
            clients[i] =
                slow_client(server, i % 2 == 0 ? GET("/file") GET("/") : GET("/text") GET("/"));
            weft_sem_acquire(&left, 1);
        }
        AWAIT(stats_of(server).streams == SLOW);
        CHECK_ANSWER(ask(server, GET_CLOSE("/")), 200, "hello");
        for (int i = 0; i < SLOW; i++) {
            if (round == 0) { /* else they go */
                check_answer(&clients[i], i % 2 == 0 ? FILE_SIZE : TEXT_SIZE);
                EXPECT(&clients[i], 200, "hello");
            }
            client_close(&clients[i]);
        }
        AWAIT(stats_of(server).connections == 0 && stats_of(server).streams == 0);
        AWAIT(open_descriptors() == before);
    }
    end(server);
}

/* Nor do handlers that go on: one worker, and all of them wait in a write. */
static void nor_do_their_handlers(void)
{
    struct client clients[SLOW];
    weft_http_server *server = begin((weft_http_options){.max_workers = 1, .queue = -1});
    for (int i = 0; i < SLOW; i++) {
        clients[i] = slow_client(server, GET("/pieces"));
        weft_sem_acquire(&begun, 1);
        AWAIT(stats_of(server).streams == i + 1);
    }
    CHECK_ANSWER(ask(server, GET_CLOSE("/")), 200, "hello");
    for (int i = 0; i < SLOW; i++) {
        check_answer(&clients[i], TEXT_SIZE);
        client_close(&clients[i]);
    }
    AWAIT(stats_of(server).streams == 0 && stats_of(server).running == 0);
    end(server);
}

/* The kernel has little of what it may not send yet, however large its buffers are. */
static void little_is_sent_ahead(void)
{
    weft_http_server *server = serve(serving);
    struct client client = slow_client(server, GET("/file"));
    weft_sem_acquire(&left, 1);
    AWAIT(stats_of(server).streams == 1);
    int unsent = 0;
    CHECK(ioctl(other_end(&client), SIOCOUTQNSD, &unsent) == 0);
    CHECK(unsent > 0 && unsent <= 2 * HTTP_UNSENT);
    check_answer(&client, FILE_SIZE);
    close_and_end(&client, server);
}

/* A handler can wait for it; and beyond max_streams a worker does. */
static void others_wait(void)
{
    weft_http_server *server =
        begin((weft_http_options){.max_workers = 1, .max_streams = -1, .queue = -1});
    struct client client = slow_client(server, GET("/text/flush"));
    AWAIT(stats_of(server).running == 1);
    CHECK_EQ(weft_sem_try_acquire(&flushed, 1), -EAGAIN);
    check_answer(&client, TEXT_SIZE);
    weft_sem_acquire(&flushed, 1);
    CHECK_EQ(outcome, 0);
    AWAIT(stats_of(server).running == 0);
    client_send(&client, GET("/text"));
    weft_sem_acquire(&left, 1);
    struct client other = client_open(server);
    ASK(&other, GET("/"), 503, NULL);
    CHECK_EQ(stats_of(server).streams, 0);
    check_answer(&client, TEXT_SIZE);
    client_close(&client);
    close_and_end(&other, server);
}

/* A client that takes a little again and again does not keep within write_timeout alone. */
static void there_is_a_rate(void)
{
    weft_http_server *server = begin((weft_http_options){
        .write_timeout = 3600 * WEFT_S, .min_send_rate = 1000000000, .rate_grace = 50 * WEFT_MS});
    static const char *const requests[] = {GET("/endless"), GET("/text")};
    for (int i = 0; i < 2; i++) {
        char bytes[512];
        struct client client = slow_client(server, requests[i]);
        while (stats_of(server).timed_out == i && recv(client.fd, bytes, sizeof bytes, 0) > 0)
            usleep(5000);
        weft_sem_acquire(&left, 1);
        if (i == 0)
            CHECK_EQ(outcome, -ETIMEDOUT);
        AWAIT(stats_of(server).connections == 0);
        CHECK_EQ(stats_of(server).timed_out, i + 1);
        client_close(&client);
    }
    /* What the handler does meanwhile does not count. */
    struct client quick = client_asks(server, GET("/thinking"));
    struct answer answer = client_answer(&quick);
    CHECK_EQ(answer.size, 3 * 65536);
    answer_free(&answer);
    close_and_end(&quick, server);
}

int main(void)
{
    char name[] = "/tmp/weft-slow-XXXXXX";
    text = malloc(TEXT_SIZE);
    CHECK(text != NULL);
    for (int i = 0; i < TEXT_SIZE; i++)
        text[i] = (char)('a' + i % 23 + i / 4096 % 3);
    file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0);
    for (int i = 0; i < FILE_SIZE / TEXT_SIZE; i++)
        CHECK_EQ(write(file, text, TEXT_SIZE), TEXT_SIZE);
    RUN(they_hold_no_worker);
    RUN(nor_do_their_handlers);
    if (!test_emulated()) /* the emulator does not know SIOCOUTQNSD */
        RUN(little_is_sent_ahead);
    RUN(others_wait);
    RUN(there_is_a_rate);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    close(file);
    free(text);
    return 0;
}
