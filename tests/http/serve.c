/*
 * serve.c: a server in one call: it becomes ready, answers, and ends by a signal; and its errors.
 * The calls that fail are caught by the linker (failing_seam.h).
 */
#include <pthread.h>
#include <signal.h>

#include <weft/runtime.h>
#include <weft/signal.h>

#include "http.h"
#include "system.h"

enum call { ALLOCATE, RESIZE, SIGNALS, LOCAL, CALLS };

static const struct {
    int error;
} calls[CALLS] = {[ALLOCATE] = {-ENOMEM}, [SIGNALS] = {-EMFILE}, [LOCAL] = {-ENOBUFS}};

#include "failing_seam.h"

WRAP_AS(int, weft_signal_open,
        (weft_signal * *handle, const int *numbers, size_t count, size_t capacity), SIGNALS,
        calls[SIGNALS].error, (handle, numbers, count, capacity))
WRAP_AS(int, weft_http_local, (weft_http_server * server, int number, weft_address *address), LOCAL,
        calls[LOCAL].error, (server, number, address))

static int ready_calls;

static void ready(const char *address)
{
    int port = atoi(strrchr(address, ':') + 1);
    CHECK(strncmp(address, "tcp:127.0.0.1:", 14) == 0 && port > 0);
    struct client client = client_of(dial_from(NULL, port));
    ASK(&client, GET("/"), 200, "hello");
    client_close(&client);
    ready_calls++;
    CHECK_EQ(kill(getpid(), ready_calls == 1 ? SIGTERM : SIGINT), 0);
}

static void is_ended_by_a_signal(void)
{
    weft_http_options options = {.handler = hello};
    CHECK_EQ(weft_http_run(&options, "tcp:127.0.0.1:0", ready), 0);
    CHECK_EQ(weft_http_run(&options, "tcp:127.0.0.1:0", ready), 0);
    CHECK_EQ(ready_calls, 2);
    CHECK_EQ(weft_http_run(&options, "nonsense", ready), -EINVAL);
    options.max_workers = -1;
    CHECK_EQ(weft_http_run(&options, "tcp:127.0.0.1:0", ready), -EINVAL);
    CHECK_EQ(ready_calls, 2);
}

/* ---- without a function to call when ready ---- */

/* Who comes by a Unix socket has no address. */
HANDLER(nameless)
{
    weft_address peer;
    weft_http_peer(request, &peer);
    CHECK_EQ(peer.size, 0);
    CHECK_EQ(peer.type, 0);
    hello(request, response, data);
}

/* Asks as soon as the server listens, and ends it. */
static void *ask_and_end(void *arg)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", (const char *)arg);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    AWAIT(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    struct client client = client_of(fd);
    ASK(&client, GET("/"), 200, "hello");
    client_close(&client);
    CHECK_EQ(raise(SIGTERM), 0); /* here: ThreadSanitizer keeps it from a thread that is asleep */
    return NULL;
}

static void ready_may_be_null(void)
{
    char folder[] = "/tmp/weft-http-run-XXXXXX", text[64];
    weft_http_options options = {.handler = nameless};
    pthread_t thread;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(text, sizeof text, "unix:%s/socket", folder);
    CHECK_EQ(pthread_create(&thread, NULL, ask_and_end, text + 5), 0);
    CHECK_EQ(weft_http_run(&options, text, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(rmdir(folder), 0); /* the socket went with the server */
}

/* ---- what fails ---- */

static void what_fails_is_told(void)
{
    static const enum call failing[] = {SIGNALS, ALLOCATE, LOCAL};
    weft_http_options options = {.handler = hello};
    struct sigaction action;
    int before = ready_calls;
    for (int i = 0; i < 3; i++) {
        start_failing(failing[i], 1, false);
        CHECK_EQ(weft_http_run(&options, "tcp:127.0.0.1:0", ready), calls[failing[i]].error);
        stop_failing();
        CHECK_EQ(atomic_load(&plan.hits), 1);
        CHECK_EQ(ready_calls, before);
        CHECK_EQ(atomic_load(&plan.blocks), 0);
        CHECK_EQ(sigaction(SIGTERM, NULL, &action), 0); /* ends the program again */
        CHECK(action.sa_handler == SIG_DFL);
    }
    CHECK_EQ(weft_http_run(&options, "tcp:127.0.0.1:0", ready), 0);
    CHECK_EQ(ready_calls, before + 1);
}

int main(void)
{
    int before = open_descriptors();
    RUN(is_ended_by_a_signal);
    RUN(ready_may_be_null);
    RUN(what_fails_is_told);
    CHECK_EQ(atomic_load(&plan.blocks), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
