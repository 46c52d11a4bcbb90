/*
 * uploads.c: handlers that wait for a body hold none of max_workers, and have a place again before
 * they go on.
 */
#include <weft/fiber.h>
#include <weft/mutex.h>
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"

#define UPLOAD(path) "POST " path " HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\n"
#define UPLOAD_CHUNKS(path) "POST " path " HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"

enum { UPLOADS = 20 };

static weft_sem entered = WEFT_SEM_INIT(0), gate = WEFT_SEM_INIT(0), left = WEFT_SEM_INIT(0);
static weft_mutex lock = WEFT_MUTEX_INIT;
static _Atomic int active, most_active, outcome;

/* Counts handlers at work. */
static void work(void)
{
    int now = ++active;
    most_active = now > most_active ? now : most_active;
    (void)weft_sleep(1 * WEFT_MS);
    active--;
}

/* "/lock" holds the lock while it reads, "/wait" works until the gate opens. */
HANDLER(serving)
{
    const char *path = weft_http_path(request);
    char bytes[16];
    int64_t got, size = 0;
    if (strcmp(path, "/lock") == 0)
        weft_mutex_lock(&lock);
    weft_sem_release(&entered, 1);
    if (strcmp(path, "/wait") == 0)
        weft_sem_acquire(&gate, 1);
    while ((got = weft_http_read(request, bytes, sizeof bytes)) > 0) {
        size += got;
        work();
    }
    work();
    if (strcmp(path, "/lock") == 0)
        weft_mutex_unlock(&lock);
    outcome = (int)got;
    (void)weft_http_printf(response, "%d", (int)size);
    weft_sem_release(&left, 1);
}

static weft_http_server *begin(weft_http_options options)
{
    options.handler = serving;
    active = most_active = 0;
    return serve_with(options);
}

static struct client upload(weft_http_server *server, const char *request)
{
    struct client client = client_asks(server, request);
    weft_sem_acquire(&entered, 1);
    return client;
}

/* All begin, others are answered meanwhile; and when all go on at once, one is at work at a
 * time. */
static void they_hold_no_worker(void)
{
    struct client clients[UPLOADS];
    weft_http_server *server = begin((weft_http_options){.max_workers = 1, .queue = 1});
    for (int i = 0; i < UPLOADS; i++) {
        clients[i] = upload(server, i % 2 == 0 ? UPLOAD("/") : UPLOAD_CHUNKS("/"));
        AWAIT(stats_of(server).streams == i + 1);
    }
    CHECK_ANSWER(ask(server, GET_CLOSE("/")), 200, "0");
    weft_sem_acquire(&entered, 1);
    struct client busy = upload(server, GET("/wait"));
    for (int i = 0; i < UPLOADS; i++)
        client_send(&clients[i], i % 2 == 0 ? "abcd" : "4\r\nabcd\r\n0\r\n\r\n");
    AWAIT(stats_of(server).queued == UPLOADS); /* beyond the queue of 1: they are in already */
    CHECK_EQ(most_active, 1);
    weft_sem_release(&gate, 1);
    for (int i = 0; i < UPLOADS; i++) {
        EXPECT(&clients[i], 200, "4");
        client_close(&clients[i]);
    }
    EXPECT(&busy, 200, "0");
    client_close(&busy);
    CHECK_EQ(most_active, 1);
    AWAIT(stats_of(server).streams == 0 && stats_of(server).running == 0);
    weft_sem_acquire(&left, UPLOADS + 2);
    end(server);
}

/* The handler with the place waits for a lock of one that waits for a place. */
static void a_lock_is_not_held_for_ever(void)
{
    weft_http_server *server =
        begin((weft_http_options){.max_workers = 1, .queue_timeout = 20 * WEFT_MS});
    struct client first = upload(server, UPLOAD("/lock")), other = client_open(server);
    AWAIT(stats_of(server).streams == 1);
    client_send(&other, GET("/lock"));
    AWAIT(stats_of(server).running == 2);
    ASK(&first, "abcd", 200, "4");
    EXPECT(&other, 200, "0");
    AWAIT(stats_of(server).streams == 0 && stats_of(server).running == 0);
    weft_sem_acquire(&entered, 1);
    weft_sem_acquire(&left, 2);
    client_close(&first);
    close_and_end(&other, server);
}

/* Nor does a client that goes meanwhile wait for a place. */
static void the_gone_wait_for_none(void)
{
    weft_http_server *server = begin((weft_http_options){.max_workers = 1});
    struct client gone = upload(server, UPLOAD("/"));
    AWAIT(stats_of(server).streams == 1);
    struct client busy = upload(server, GET("/wait"));
    struct linger reset = {.l_onoff = 1};
    CHECK(setsockopt(gone.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    client_close(&gone);
    weft_sem_acquire(&left, 1);
    CHECK(outcome == -ECONNRESET || outcome == -ECANCELED);
    weft_sem_release(&gate, 1);
    EXPECT(&busy, 200, "0");
    AWAIT(stats_of(server).streams == 0);
    weft_sem_acquire(&left, 1);
    close_and_end(&busy, server);
}

/* Beyond max_streams they hold their workers; a stop cuts both kinds off. */
static void there_is_a_bound(void)
{
    weft_http_server *server = begin(
        (weft_http_options){.max_workers = 1, .max_streams = 1, .queue = -1, .queue_timeout = 1});
    struct client one = upload(server, UPLOAD("/")), more = client_open(server);
    AWAIT(stats_of(server).streams == 1);
    struct client other = upload(server, UPLOAD("/"));
    ASK(&more, GET("/"), 503, NULL);
    CHECK_EQ(stats_of(server).streams, 1);
    CHECK_EQ(weft_http_stop(server, WEFT_NOW), -ETIMEDOUT);
    weft_sem_acquire(&left, 2);
    weft_http_close(server);
    client_close(&one);
    client_close(&other);
    client_close(&more);
}

int main(void)
{
    RUN(they_hold_no_worker);
    RUN(a_lock_is_not_held_for_ever);
    RUN(the_gone_wait_for_none);
    RUN(there_is_a_bound);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
