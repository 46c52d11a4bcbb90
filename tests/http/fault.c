/*
 * fault.c: the server when system calls fail: each call of its seam (src/http/sys.h) fails in turn,
 * the first, the second, and so on until the scenario has no more of them; once, and from then on
 * for ever. After each run the failure was reported, nothing has leaked, and the server answers
 * again.
 *
 * The linker (--wrap) catches the calls.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>

#include <weft/weft.h>

#include "http/http.h"
#include "http/sys.h"
#include "system.h"

enum call {
    ALLOCATE,
    RESIZE,
    SET_OPEN,
    SET_ADD,
    SET_SHARED,
    WAKEUP,
    ACCEPT,
    RECEIVE,
    PEEK,
    SEND,
    SEND_FILE,
    CALLS
};

static const struct {
    const char *name;
    int error;
} calls[CALLS] = {
    [ALLOCATE] = {"allocate", 0},
    [RESIZE] = {"resize", 0},
    [SET_OPEN] = {"set_open", -EMFILE},
    [SET_ADD] = {"set_add", -ENOSPC},
    [SET_SHARED] = {"set_add_shared", -ENOSPC},
    [WAKEUP] = {"wakeup_open", -EMFILE},
    [ACCEPT] = {"accept", -EMFILE},
    [RECEIVE] = {"receive", -ECONNRESET},
    [PEEK] = {"peek", -ECONNRESET},
    [SEND] = {"send", -EPIPE},
    [SEND_FILE] = {"send_from_file", -EPIPE},
};

#include "http/failing_seam.h"

struct peer;
WRAP(int, set_open, (void), SET_OPEN, ())
WRAP(int, set_add, (int set, int fd, void *what), SET_ADD, (set, fd, what))
WRAP(int, set_add_shared, (int set, int fd, void *what), SET_SHARED, (set, fd, what))
WRAP(int, wakeup_open, (void), WAKEUP, ())
WRAP(int, accept, (int listener, struct peer *peer), ACCEPT, (listener, peer))
WRAP(int64_t, receive, (int fd, void *data, size_t size), RECEIVE, (fd, data, size))
WRAP(int64_t, peek, (int fd, void *data, size_t size), PEEK, (fd, data, size))
WRAP(int64_t, send, (int fd, const struct iovec *pieces, int count), SEND, (fd, pieces, count))
WRAP(int64_t, send_from_file, (int fd, int file, int64_t offset, size_t size), SEND_FILE,
     (fd, file, offset, size))

/* The scenario. */

static int file;

HANDLER(handler)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/body") == 0) {
        char *body;
        size_t size;
        if (weft_http_read_all(request, &body, &size) ==
            0) /* otherwise the server answers with the reason */
            weft_http_reply(response, 200, "text/plain", body, size);
    } else if (strcmp(path, "/file") == 0) {
        weft_http_send_file(response, file, 0, 100);
    } else if (strcmp(path, "/fields") == 0) {
        char value[900];
        memset(value, 'v', sizeof value - 1);
        value[sizeof value - 1] = '\0';
        int error = weft_http_set(response, "One", value);
        if (error == 0)
            error = weft_http_set(response, "Two", value);
        if (error == 0)
            error = weft_http_set_trailer(response, "Three", "3");
        if (error == 0)
            error = weft_http_printf(response, "%2000d", 1);
        if (error != 0)
            weft_http_error(response, 503, NULL);
    } else {
        const char *name = weft_http_query_value(request, "name");
        weft_http_printf(response, "hello %s", name != NULL ? name : "-");
    }
}

/* Says a request in two pieces, so that mostly a head is kept meanwhile (either way is right); the
 * status of the answer, 0 if the connection ended. What is answered with 200 is there. */
static int say(struct client *client, const char *text)
{
    struct answer answer;
    if (!client_try_send(client, text, 10))
        return 0;
    (void)weft_sleep(WEFT_MS);
    if (!client_try_send(client, text + 10, strlen(text) - 10))
        return 0;
    bool whole = client_try_answer(client, &answer, false);
    int status = whole ? answer.status : 0;
    if (status == 200)
        CHECK(answer.size >= 5);
    answer_free(&answer);
    return status;
}

static const char *const requests[] = {
    "GET /?name=you HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "GET /file HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /fields HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
};

/* A PROXY header in front of a request. */
static int say_proxied(weft_http_server *server)
{
    struct client client = client_of(dial_from(NULL, port_of(server, 1)));
    int status = 0;
    if (client_try_send(&client, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", 36))
        status = say(&client, "GET /?name=you HTTP/1.1\r\nHost: a\r\n"
                              "X-Forwarded-For: 192.0.2.3\r\n\r\n");
    client_close(&client);
    return status;
}

/* Each answer is right, or says that the server could not, or the connection ends: then another
 * goes on. */
static void ask_all(weft_http_server *server)
{
    struct client client = client_open(server);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        int status = say(&client, requests[i]);
        /* 429: no memory to count the request for its client. */
        CHECK(status == 200 || status == 429 || status == 503 || status == 500 || status == 0);
        if (status != 200) {
            client_close(&client);
            client = client_open(server);
        }
    }
    client_close(&client);
    int status = say_proxied(server);
    /* 429: no memory to count the request for its client. */
    CHECK(status == 200 || status == 429 || status == 503 || status == 500 || status == 0);
}

/* Two listeners: the second is behind a proxy. */
static int listen_twice(weft_http_server *server)
{
    static const weft_http_listen_options proxied = {.proxy = 1};
    weft_address address;
    int error = 0;
    if (weft_http_local(server, 0, &address) != 0)
        error = weft_http_listen(server, "tcp:127.0.0.1:0", NULL);
    if (error == 0 && weft_http_local(server, 1, &address) != 0)
        error = weft_http_listen_with(server, "tcp:127.0.0.1:0", &proxied);
    return error;
}

/* A run; whether something failed in it. */
static bool run(enum call call, long number, bool forever)
{
    int descriptors = open_descriptors();
    weft_http_options options = {.handler = handler,
                                 .max_per_ip = 1000,
                                 .name = "test",
                                 .acceptors = 1,
                                 .trusted_proxies = "127.0.0.1, 192.0.2.1",
                                 .forwarded = WEFT_HTTP_X_FORWARDED_FOR};
    weft_http_server *server = NULL;
    start_failing(call, number, forever);
    int error = weft_http_open(&server, &options);
    CHECK(error == 0 || error == -ENOMEM || error == calls[call].error);
    if (error == 0) {
        error = listen_twice(server);
        CHECK(error == 0 || error == calls[call].error);
        struct client early = {.fd = -1};
        if (error == 0 && !forever)
            ask_all(server);
        if (error == 0 && forever) { /* it may get an answer when the failing has an end, or not */
            early = client_open(server);
            (void)client_try_send(&early, requests[0], strlen(requests[0]));
            (void)weft_sleep(WEFT_MS);
        }
        stop_failing();
        if (early.fd >= 0)
            client_close(&early);
        if (error != 0)
            CHECK_EQ(listen_twice(server), 0);
        ask_all(server);
        struct client client = client_open(server);
        for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
            CHECK_EQ(say(&client, requests[i]), 200);
        client_close(&client);
        CHECK_EQ(say_proxied(server), 200);
        end(server);
    }
    stop_failing();
    CHECK_EQ(atomic_load(&plan.blocks), 0);
    CHECK_EQ(open_descriptors(), descriptors);
    return atomic_load(&plan.hits) > 0;
}

static void each_call_fails_once(void)
{
    for (int call = 0; call < CALLS; call++) {
        long number = 1;
        while (run(call, number, false))
            number++;
        printf("    %s: %ld\n", calls[call].name, number - 1);
        CHECK(number > 1); /* the scenario has some */
    }
}

static void each_call_fails_for_a_while(void)
{
    for (int call = 0; call < CALLS; call++)
        for (long number = 1; number < 4; number++)
            (void)run(call, number, true);
}

int main(void)
{
    char name[] = "/tmp/weft-http-fault-XXXXXX";
    char block[100] = {0};
    file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    CHECK_EQ(write(file, block, sizeof block), sizeof block);
    CHECK_EQ(weft_go((void (*)(void *))(uintptr_t)weft_yield, NULL),
             0); /* the runtime's descriptors are there */
    RUN(each_call_fails_once);
    RUN(each_call_fails_for_a_while);
    return 0;
}
