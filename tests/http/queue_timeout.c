/*
 * queue_timeout.c: requests that were queued for too long, or whose client has gone meanwhile:
 * their handlers are not called, and those behind them are served at once.
 */
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"
#include "system.h"

enum { LATE = 20 };

static weft_sem entered = WEFT_SEM_INIT(0), gate = WEFT_SEM_INIT(0);
static _Atomic int calls;

HANDLER(gated)
{
    calls++;
    weft_sem_release(&entered, 1);
    weft_sem_acquire(&gate, 1);
    (void)weft_http_puts(response, "hello");
}

/* One worker, which is busy. */
static weft_http_server *begin(struct client *busy, int64_t queue_timeout)
{
    weft_http_server *server =
        SERVE(.handler = gated, .max_workers = 1, .acceptors = 1, .queue_timeout = queue_timeout);
    calls = 0;
    *busy = client_open(server);
    client_send(busy, GET("/"));
    weft_sem_acquire(&entered, 1);
    return server;
}

static void finish(weft_http_server *server, struct client *busy)
{
    weft_sem_release(&gate, 1);
    EXPECT(busy, 200, "hello");
    client_close(busy);
    AWAIT(stats_of(server).running == 0 && stats_of(server).queued == 0);
}

static void the_reset_are_not_answered(void)
{
    struct client busy, gone;
    weft_http_server *server = begin(&busy, 3600 * WEFT_S);
    for (int i = 0; i < LATE; i++) {
        struct linger reset = {.l_onoff = 1};
        gone = client_open(server);
        client_send(&gone, GET("/"));
        AWAIT(stats_of(server).queued == i + 1);
        CHECK(setsockopt(gone.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
        client_close(&gone);
    }
    /* The acceptor has seen them go when it has answered one that came after them. */
    struct client other = client_open(server);
    ASK(&other, "nonsense\r\n\r\n", 400, NULL);
    client_close(&other);
    finish(server, &busy);
    CHECK_EQ(calls, 1);
    CHECK_EQ(stats_of(server).refused, 0);
    end(server);
}

/* They may still read: they get an answer. */
static void the_ended_are_refused(void)
{
    struct client busy, ended[LATE];
    weft_http_server *server = begin(&busy, 3600 * WEFT_S);
    for (int i = 0; i < LATE; i++) {
        ended[i] = client_open(server);
        client_send(&ended[i], GET("/"));
        client_half_close(&ended[i]);
        AWAIT(stats_of(server).queued == i + 1);
    }
    usleep(150000); /* a wait for less than 100 ms is none */
    finish(server, &busy);
    for (int i = 0; i < LATE; i++) {
        EXPECT(&ended[i], 503, NULL);
        client_end(&ended[i]);
    }
    CHECK_EQ(calls, 1);
    CHECK_EQ(stats_of(server).refused, LATE);
    end(server);
}

static void the_queue_has_its_time(void)
{
    struct client busy, late[LATE];
    weft_http_server *server = begin(&busy, 20 * WEFT_MS);
    for (int i = 0; i < LATE; i++) {
        late[i] = client_open(server);
        client_send(&late[i], GET("/"));
        AWAIT(stats_of(server).queued == i + 1);
    }
    usleep(50000);
    finish(server, &busy);
    for (int i = 0; i < LATE; i++) {
        CHECK_ANSWER(client_answer(&late[i]), 503, NULL, {"Retry-After", "1"});
        client_close(&late[i]);
    }
    CHECK_EQ(calls, 1);
    end(server);
}

int main(void)
{
    int before = open_descriptors();
    RUN(the_reset_are_not_answered);
    RUN(the_ended_are_refused);
    RUN(the_queue_has_its_time);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
