/*
 * streams.c: server-sent events and upgrades, and how a stop ends them.
 */
#include <weft/fiber.h>
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"
#include "system.h"

/* ---- events ---- */

static _Atomic int outcome;
static weft_sem next = WEFT_SEM_INIT(0);

HANDLER(eventful)
{
    CHECK_EQ(weft_http_event(response, NULL, "too early", NULL), -EINVAL);
    CHECK_EQ(weft_http_event_ping(response), -EINVAL);
    CHECK_EQ(weft_http_events(response), 0);
    CHECK_EQ(weft_http_events(response), -EBUSY);
    CHECK_EQ(weft_http_event(response, "a\nb", "x", NULL), -EINVAL);
    CHECK_EQ(weft_http_event(response, NULL, "x", "a\rb"), -EINVAL);
    CHECK_EQ(weft_http_event(response, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_http_event(response, NULL, "one", NULL), 0);
    weft_sem_acquire(&next, 1);
    CHECK_EQ(weft_http_event(response, "kind", "two\nlines\r\nor\rfour", "7"), 0);
    weft_sem_acquire(&next, 1);
    CHECK_EQ(weft_http_event_ping(response), 0);
    CHECK_EQ(weft_http_event(response, NULL, "", NULL), 0);
    CHECK_EQ(weft_http_event(response, NULL, "line\n", NULL), 0);
    int error;
    while ((error = weft_sem_acquire_until(&next, 1, WEFT_NEVER)) == 0)
        if ((error = weft_http_event(response, NULL, "more", NULL)) != 0)
            break;
    outcome = error;
}

static void check_piece(struct client *client, const char *expected)
{
    char *text = client_take(client, strlen(expected));
    CHECK_STR(text, expected);
    free(text);
}

static void events_are_sent_at_once(void)
{
    weft_http_server *server = serve(eventful);
    struct client client = client_open(server);
    struct answer answer;
    client_send(&client, GET("/"));
    CHECK(client_head(&client, &answer));
    CHECK_STR(answer_field(&answer, "Content-Type"), "text/event-stream");
    CHECK_STR(answer_field(&answer, "Cache-Control"), "no-store");
    answer_free(&answer);
    check_piece(&client, "b\r\ndata: one\n\n\r\n");
    weft_sem_release(&next, 1);
    check_piece(&client, "3d\r\nevent: kind\nid: 7\ndata: two\ndata: lines\ndata: or\n"
                         "data: four\n\n\r\n");
    weft_sem_release(&next, 1);
    check_piece(&client, "3\r\n:\n\n\r\n8\r\ndata: \n\n\r\nc\r\ndata: line\n\n\r\n");
    /* A client that goes away is found out. */
    client_close(&client);
    while (stats_of(server).connections > 0) {
        if (weft_sem_available(&next) == 0)
            weft_sem_release(&next, 1);
        usleep(100);
    }
    CHECK(outcome == -EPIPE || outcome == -ECONNRESET || outcome == -ECANCELED);
    while (weft_sem_try_acquire(&next, 1) == 0)
        ;
    end(server);
}

static void streams_end_with_the_server(void)
{
    weft_http_server *server = serve(eventful);
    struct client client = client_open(server);
    struct answer answer;
    weft_sem_release(&next, 2);
    client_send(&client, GET("/"));
    CHECK(client_head(&client, &answer));
    answer_free(&answer);
    free(client_take_to(&client, "data: line\n\n\r\n"));
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    CHECK_EQ(outcome, -ECANCELED);
    check_piece(&client, "0\r\n\r\n");
    client_end(&client);
    weft_http_close(server);
}

/* Goes on until an event fails. */
HANDLER(stubborn)
{
    weft_http_status(response, 204); /* a stream is 200 */
    int error = weft_http_events(response);
    while (error == 0) {
        error = weft_http_event(response, NULL, "on and on", NULL);
        if (error == 0)
            error = weft_sleep(WEFT_MS);
    }
    outcome = error;
}

/* HEAD gets no events: otherwise the handler would never see that its client is gone. */
static void streams_are_not_for_head(void)
{
    weft_http_server *server = serve(stubborn);
    struct client client = client_open(server);
    struct answer answer;
    for (int i = 0; i < 2; i++) {
        client_send(&client, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK(client_try_answer(&client, &answer, true));
        CHECK_EQ(answer.status, 200);
        CHECK_STR(answer_field(&answer, "Content-Type"), "text/event-stream");
        answer_free(&answer);
        AWAIT(stats_of(server).requests == i + 1);
        CHECK_EQ(outcome, -EPIPE);
    }
    client_send(&client, GET("/"));
    CHECK(client_head(&client, &answer));
    CHECK_EQ(answer.status, 200);
    answer_free(&answer);
    check_piece(&client, "11\r\ndata: on and on\n\n\r\n");
    client_close(&client);
    AWAIT(stats_of(server).connections == 0);
    end(server);
}

/* Where a stream cannot begin nothing is sent, and another answer can be given. */
HANDLER(full)
{
    char *value = text_of(1000, 'v');
    while (weft_http_add(response, "X", value) == 0)
        ;
    while (weft_http_add(response, "X", "") == 0)
        ;
    free(value);
    CHECK_EQ(weft_http_events(response), -EMSGSIZE);
    CHECK_EQ(weft_http_event(response, NULL, "none", NULL), -EINVAL);
    CHECK_EQ(weft_http_reply(response, 500, NULL, "no room", 7), 0);
}

static void streams_need_room(void)
{
    weft_http_server *server = serve(full);
    CHECK_ANSWER(ask(server, GET("/")), 500, "no room", {"Content-Type", NULL});
    end(server);
}

/* A length is kept to, also in the midst of an event. */
HANDLER(measured)
{
    CHECK_EQ(weft_http_set(response, "Content-Length", "10"), 0);
    CHECK_EQ(weft_http_events(response), 0);
    CHECK_EQ(weft_http_event(response, NULL, "x", NULL), 0);
    CHECK_EQ(weft_http_event(response, NULL, "x", NULL), -EMSGSIZE);
    CHECK_EQ(weft_http_event(response, "x", "x", "x"), -EMSGSIZE);
    CHECK_EQ(weft_http_event_ping(response), -EMSGSIZE);
    CHECK_EQ(weft_http_puts(response, "z"), 0);
}

static void streams_of_a_length(void)
{
    weft_http_server *server = serve(measured);
    CHECK_ANSWER(ask(server, GET("/")), 200, "data: x\n\nz");
    end(server);
}

/* A stream ends with the server, of which a forked child knows nothing. */
HANDLER(forking)
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ(weft_http_events(response), -ECHILD);
        CHECK_EQ(weft_http_sent(response), 0);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(weft_http_puts(response, "parent"), 0);
}

static void streams_are_not_of_children(void)
{
    weft_http_server *server = serve(forking);
    CHECK_ANSWER(ask(server, GET("/")), 200, "parent");
    end(server);
}

/* ---- upgrades ---- */

HANDLER(upgraded)
{
    char bytes[64];
    int64_t got;
    CHECK_EQ(weft_http_stream_read(response, bytes, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_http_stream_write(response, bytes, 1, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_http_set(response, "X", "y"), 0);
    outcome = weft_http_upgrade(response, "echo");
    if (outcome != 0) {
        CHECK_EQ(weft_http_error(response, 426, NULL), 0);
        return;
    }
    CHECK_EQ(weft_http_upgrade(response, "echo"), -EBUSY);
    CHECK(weft_http_puts(response, "no") != 0);
    CHECK_EQ(weft_http_stream_read(response, NULL, 1, WEFT_NOW), -EINVAL);
    while ((got = weft_http_stream_read(response, bytes, sizeof bytes, WEFT_NEVER)) > 0)
        CHECK_EQ(weft_http_stream_write(response, bytes, (size_t)got, WEFT_NEVER), got);
    outcome = (int)got;
}

#define ASK_UPGRADE \
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: x, echo\r\n\r\n"

static void upgrades(void)
{
    weft_http_server *server = serve(upgraded);
    struct client client = client_open(server);
    struct answer answer;
    client_send(&client, ASK_UPGRADE "behind");
    CHECK(client_head(&client, &answer));
    CHECK_EQ(answer.status, 101);
    CHECK_STR(answer_field(&answer, "Upgrade"), "echo");
    CHECK_STR(answer_field(&answer, "Connection"), "Upgrade");
    CHECK_STR(answer_field(&answer, "X"), "y");
    CHECK(answer_field(&answer, "Content-Length") == NULL);
    answer_free(&answer);
    check_piece(&client, "behind");
    for (int i = 0; i < 100; i++) {
        client_send(&client, GET("/"));
        check_piece(&client, GET("/"));
    }
    client_half_close(&client);
    client_end(&client);
    CHECK_EQ(outcome, 0);

    /* Not asked for. */
    client = client_open(server);
    ASK(&client, GET("/"), 426, NULL);
    ASK(&client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 426,
        NULL);
    ASK(&client, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\n\r\n", 426, NULL);
    CHECK_EQ(outcome, -EINVAL);

    /* With a body that was not read: that is not of the new protocol. */
    outcome = 0;
    ASK(&client,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n"
        "Content-Length: 6\r\n\r\nbehind",
        426, NULL);
    CHECK_EQ(outcome, -EINVAL);
    client_close(&client);

    /* A stop ends them. */
    client = client_open(server);
    client_send(&client, ASK_UPGRADE "x");
    CHECK(client_head(&client, &answer));
    answer_free(&answer);
    check_piece(&client, "x");
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    CHECK_EQ(outcome, -ECANCELED);
    client_end(&client);
    weft_http_close(server);
}

int main(void)
{
    RUN(events_are_sent_at_once);
    int before = open_descriptors();
    RUN(streams_end_with_the_server);
    RUN(streams_are_not_for_head);
    RUN(streams_need_room);
    RUN(streams_of_a_length);
    RUN(streams_are_not_of_children);
    RUN(upgrades);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
