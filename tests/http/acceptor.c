/*
 * acceptor.c: an acceptor at moments that only the kernel, or another thread, brings about: no
 * descriptors, no memory, and changes between an event and its handling.
 *
 * The linker (--wrap) catches calls of the library's seam and of libweft: they return what a test
 * wants, or hold the acceptor for a moment.
 */
#include <weft/weft.h>

#include "http.h"
#include "http/server.h"
#include "http/sys.h"
#include "kernel.h"
#include "os/failure.h"
#include "os/os.h"
#include "system.h"

#define ACCEPT_PAUSE \
    (50 * WEFT_MS) /* how long an acceptor without descriptors does not ask for more */

/* The results of the wrapped calls, and a function that sees their events. */

typedef void watch_function(int set, const struct http_event *events, int count);

static struct fake fake_accept, fake_share, fake_go, fake_wait, fake_context, fake_objects,
    fake_pool;
static void (*_Atomic on_look)(int set);
static watch_function *_Atomic on_events;
static void (*_Atomic on_refusal)(const void *listener);
static _Atomic int last_accepted, removals, looks;
static _Atomic int64_t longest_wait;

#define SAYS(name, error, times) fake_plan(&fake_##name, 0, error, times)
#define SAYS_AFTER(name, skip, error, times) fake_plan(&fake_##name, skip, error, times)
#define SAID(name) CHECK_EQ(atomic_u32_load_acquire(&fake_##name.times), 0)
/* The text stays: a failing check may be printing it. */
#define SAYS_NO_MORE(name) atomic_u32_store_release(&fake_##name.times, 0)

#define WRAPPED(type, name, parameters) \
    type __real_##name parameters;      \
    type __wrap_##name parameters;      \
    type __wrap_##name parameters

WRAPPED(int, weft__http_accept, (int listener, struct peer *peer))
{
    if (fake_due(&fake_accept))
        return fake_accept.error;
    int fd = __real_weft__http_accept(listener, peer);
    if (fd >= 0)
        last_accepted = fd;
    return fd;
}

WRAPPED(int, weft__http_set_add_shared, (int set, int fd, void *what))
{
    void (*refusal)(const void *) = on_refusal;
    if (!fake_due(&fake_share))
        return __real_weft__http_set_add_shared(set, fd, what);
    if (refusal != NULL)
        refusal(what);
    return fake_share.error;
}

WRAPPED(void, weft__http_set_remove, (int set, int fd))
{
    removals++;
    __real_weft__http_set_remove(set, fd);
}

WRAPPED(int, weft__http_set_look, (int set, struct http_event *events, int most))
{
    void (*look)(int) = on_look;
    looks++;
    if (look != NULL)
        look(set);
    int count = __real_weft__http_set_look(set, events, most);
    watch_function *watch = on_events;
    if (watch != NULL && count > 0)
        watch(set, events, count);
    return count;
}

WRAPPED(int, weft_go, (void (*function)(void *), void *arg))
{
    return fake_due(&fake_go) ? fake_go.error : __real_weft_go(function, arg);
}

WRAPPED(int, weft_context_open,
        (weft_context * *context, weft_context *parent, const weft_context_options *options))
{
    return fake_due(&fake_context) ? fake_context.error
                                   : __real_weft_context_open(context, parent, options);
}

WRAPPED(int, weft_object_pool_open,
        (weft_object_pool * *pool, const weft_object_pool_options *options))
{
    return fake_due(&fake_objects) ? fake_objects.error
                                   : __real_weft_object_pool_open(pool, options);
}

WRAPPED(int, weft_pool_open, (weft_pool * *pool, const weft_pool_options *options))
{
    return fake_due(&fake_pool) ? fake_pool.error : __real_weft_pool_open(pool, options);
}

WRAPPED(int, weft_fd_wait, (int fd, int events, int64_t deadline))
{
    if (fake_due(&fake_wait))
        return fake_wait.error;
    int64_t time = deadline - weft_now();
    if (time > longest_wait) /* of the one acceptor that there is */
        longest_wait = time;
    return __real_weft_fd_wait(fd, events, deadline);
}

/* How far a test has come, shared with its acceptor. */

static _Atomic int stage;
static weft_sem gate = WEFT_SEM_INIT(0);    /* lets a handler go on */
static weft_sem entered = WEFT_SEM_INIT(0); /* a handler is in */

/* In an acceptor. */
static void hold_until(int number)
{
    while (stage < number)
        (void)weft_sleep(100 * WEFT_US);
}

HANDLER(gated)
{
    weft_sem_release(&entered, 1);
    weft_sem_acquire(&gate, 1);
    (void)weft_http_puts(response, "hello");
}

static weft_http_server *serve_one_acceptor(weft_http_handler handler)
{
    return SERVE(.handler = handler, .acceptors = 1);
}

static struct client client_that_asks(weft_http_server *server, const char *request)
{
    struct client client = client_asks(server, request);
    return client;
}

static void expect_hello(struct client *client)
{
    EXPECT(client, 200, "hello");
    client_close(client);
}

/* Local sockets: when connect returns, the connection is in the listener's queue. */

static const char *local_address(int number)
{
    static char text[2][64];
    snprintf(text[number], sizeof text[number], "unix:@weft-http-acceptor-%d-%d", (int)getpid(),
             number);
    return text[number];
}

static struct client client_local(int number)
{
    const char *name = local_address(number) + strlen("unix:@");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path + 1, name, strlen(name));
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, size) == 0);
    return client_of(fd);
}

/* Without descriptors the acceptor pauses accepting, without events meanwhile; then it accepts
 * again. */
static void no_room_for_connections(void)
{
    static const int no_room[] = {-EMFILE, -ENFILE, -ENOMEM, -ENOBUFS};
    weft_http_server *server = serve_one_acceptor(hello);
    for (size_t i = 0; i < sizeof no_room / sizeof no_room[0]; i++) {
        int64_t errors = stats_of(server).accept_errors, begun = weft_now();
        looks = 0;
        SAYS(accept, no_room[i], KERNEL_ALWAYS);
        struct client client = client_that_asks(server, GET("/"));
        AWAIT(stats_of(server).accept_errors >= errors + 3);
        CHECK(weft_now() - begun >= 2 * ACCEPT_PAUSE);
        int looked = looks;
        CHECK(looked <= 10 * (stats_of(server).accept_errors - errors + 1));
        SAYS_NO_MORE(accept);
        expect_hello(&client);
        AWAIT(stats_of(server).connections == 0);
    }
    CHECK_EQ(stats_of(server).accepted, 4);
    end(server);
}

/* An error of one connection does not stop the next one from being accepted. */
static void a_connection_that_is_gone(void)
{
    weft_http_server *server = serve_one_acceptor(hello);
    removals = 0;
    SAYS(accept, -ECONNABORTED, KERNEL_ALWAYS);
    struct client client = client_that_asks(server, GET("/"));
    AWAIT(stats_of(server).accept_errors > 200);
    CHECK_EQ(removals, 0); /* it still listens */
    SAYS_NO_MORE(accept);
    expect_hello(&client);
    CHECK_EQ(stats_of(server).accepted, 1);
    end(server);
}

/* Of two listeners none can be added again at first, then one. -EEXIST for that one the next time
 * is no error. */
static void listening_again_fails(void)
{
    weft_http_server *server = serve_one_acceptor(hello);
    CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", NULL), 0);
    int64_t begun = weft_now();
    SAYS(accept, -EMFILE, 1);
    SAYS(share, -ENOSPC, 3);
    struct client client = client_that_asks(server, GET("/"));
    expect_hello(&client);
    CHECK(weft_now() - begun >= 3 * ACCEPT_PAUSE);
    SAID(accept);
    SAID(share);
    end(server);
}

/* Several listeners have a connection waiting, and the first accept finds no descriptors: the
 * others are not tried. */
static uint32_t asked_before, asked;

static void hold_first_look(int set)
{
    (void)set;
    if (stage == 0) {
        stage = 1;
        hold_until(2);
    } else if (stage == 3) {
        asked = atomic_u32_load_relaxed(&fake_accept.calls) - asked_before;
        stage = 4;
    }
}

static void count_told(int set, const struct http_event *events, int count)
{
    (void)set;
    if (stage == 2) {
        CHECK_EQ(count, 2);
        for (int i = 0; i < count; i++)
            CHECK_EQ(*(const enum watched *)events[i].what, WATCHED_LISTENER);
        asked_before = atomic_u32_load_relaxed(&fake_accept.calls);
        stage = 3;
    }
}

static void no_room_for_any_listener(void)
{
    weft_http_server *server = serve_one_acceptor(hello);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_http_listen(server, local_address(i), NULL), 0);
    SAYS(accept, -EMFILE, KERNEL_ALWAYS);
    stage = 0;
    on_events = count_told;
    on_look = hold_first_look;
    struct client clients[2] = {client_local(0), client_local(1)};
    AWAIT(stage == 1);
    stage = 2;
    AWAIT(stage == 4);
    CHECK_EQ(asked, 1);
    on_look = NULL;
    on_events = NULL;
    SAYS_NO_MORE(accept);
    for (int i = 0; i < 2; i++) {
        client_send(&clients[i], GET("/"));
        expect_hello(&clients[i]);
    }
    end(server);
}

/* A listener that the second acceptor cannot watch is taken back from the first, which has an event
 * of it by then. */
static const void *_Atomic told_of;
static _Atomic int told_set;
static struct client early;

static void watch_for_listener(int set, const struct http_event *events, int count)
{
    for (int i = 0; i < count; i++)
        if (events[i].what == told_of) {
            told_set = set;
            stage = 1;
        }
}

static void watch_for_next_look(int set)
{
    if (stage == 1 && set == told_set)
        stage = 2;
}

static void connect_and_refuse(const void *listener)
{
    told_of = listener;
    on_events = watch_for_listener;
    early = client_local(0);
    AWAIT(stage == 1);
}

static void a_listener_that_is_taken_back(void)
{
    weft_http_server *server;
    weft_address address;
    weft_http_options options = {.handler = hello, .acceptors = 2};
    CHECK_EQ(weft_http_open(&server, &options), 0);
    stage = 0;
    on_look = watch_for_next_look;
    on_refusal = connect_and_refuse;
    removals = 0;
    SAYS_AFTER(share, 1, -ENOSPC, 1);
    CHECK_EQ(weft_http_listen(server, local_address(0), NULL), -ENOSPC);
    SAID(share);
    CHECK_EQ(removals, 1);
    client_end(&early);
    AWAIT(stage == 2); /* its events are handled */
    on_refusal = NULL;
    on_events = NULL;
    on_look = NULL;
    CHECK_EQ(stats_of(server).accepted, 0);
    CHECK_EQ(stats_of(server).accept_errors, 0);
    CHECK_EQ(weft_http_local(server, 0, &address), -ENOENT);
    CHECK_EQ(weft_http_listen(server, local_address(0), NULL), 0);
    for (int i = 0; i < 4; i++) { /* of both acceptors */
        struct client client = client_local(0);
        client_send(&client, GET("/"));
        expect_hello(&client);
    }
    end(server);
}

/* A client connects, and the server is stopped before the acceptor has handled the event: the
 * connection is not accepted. */
static void hold_listener(int set, const struct http_event *events, int count)
{
    (void)set;
    for (int i = 0; i < count; i++)
        if (stage == 0 && *(const enum watched *)events[i].what == WATCHED_LISTENER) {
            stage = 1;
            hold_until(2);
        }
}

static void stop(void *server)
{
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    stage = 3;
}

static void a_stop_before_the_acceptor_has_looked(void)
{
    weft_http_server *server = serve_one_acceptor(hello);
    stage = 0;
    on_events = hold_listener;
    struct client client = client_open(server);
    AWAIT(stage == 1);
    CHECK_EQ(weft_go(stop, server), 0);
    AWAIT(atomic_u32_load_acquire(&server->stopping) != 0);
    stage = 2;
    client_end(&client);
    AWAIT(stage == 3);
    on_events = NULL;
    CHECK_EQ(stats_of(server).accepted, 0);
    end(server);
}

/* A worker closes a connection of which the acceptor has an event: the record is there until the
 * event is handled. */
static weft_http_server *watched_server;

static void let_worker_close(int set, const struct http_event *events, int count)
{
    (void)set;
    for (int i = 0; i < count; i++)
        if (stage == 0 && *(const enum watched *)events[i].what == WATCHED_CONNECTION) {
            stage = 1;
            weft_sem_release(&gate, 1);
            while (stats_of(watched_server).connections != 0)
                (void)weft_sleep(100 * WEFT_US);
        }
}

static void an_event_of_a_closed_connection(void)
{
    watched_server = serve_one_acceptor(gated);
    struct client client = client_that_asks(watched_server, GET_CLOSE("/"));
    weft_sem_acquire(&entered, 1);
    stage = 0;
    on_events = let_worker_close;
    client_half_close(&client);
    EXPECT(&client, 200, "hello");
    client_end(&client);
    CHECK_EQ(stage, 1);
    on_events = NULL;
    end(watched_server);
}

/* An acceptor that has paused accepting wakes up for the deadlines of its connections, which
 * workers may release meanwhile. */
static void deadlines_while_accepting_is_paused(void)
{
    weft_http_server *server = SERVE(.handler = gated, .acceptors = 1, .idle_timeout = WEFT_MS);
    struct client busy = client_that_asks(server, GET("/"));
    weft_sem_acquire(&entered, 1);
    SAYS(accept, -EMFILE, KERNEL_ALWAYS);
    struct client waiting = client_that_asks(server, GET("/"));
    longest_wait = 0;
    AWAIT(stats_of(server).accept_errors > 2);
    CHECK(longest_wait <= 2 * WEFT_MS);
    SAYS_NO_MORE(accept);
    weft_sem_release(&gate, 2);
    expect_hello(&busy);
    expect_hello(&waiting);
    weft_sem_acquire(&entered, 1);
    end(server);
}

/* No memory for the acceptor's wait: it looks from time to time. */
static void an_acceptor_that_cannot_wait(void)
{
    int64_t begun = weft_now();
    SAYS(wait, -ENOMEM, KERNEL_ALWAYS);
    weft_http_server *server = serve_one_acceptor(hello);
    for (int i = 0; i < 3; i++) {
        struct client client = client_that_asks(server, GET("/"));
        expect_hello(&client);
    }
    AWAIT(atomic_u32_load_acquire(&fake_wait.calls) > 5);
    uint32_t calls = atomic_u32_load_acquire(&fake_wait.calls);
    CHECK(weft_now() - begun >= (calls - 1) * 10 * WEFT_MS);
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    SAYS_NO_MORE(wait);
    end(server);
}

/* No memory for a request: 503, which the client can read although its request was not read. */
static void no_memory_for_a_request(void)
{
    weft_http_server *server = serve_one_acceptor(hello);
    struct client client = client_open(server);
    char byte;
    AWAIT(stats_of(server).connections == 1);
    weft__os_fail(OS_MAP, 1, true);
    client_send(&client, GET("/"));
    struct answer answer = client_answer(&client);
    weft__os_fail(OS_MAP, 0, false);
    CHECK_EQ(answer.status, 503);
    CHECK_STR(answer_field(&answer, "Connection"), "close");
    CHECK_STR(answer_field(&answer, "Retry-After"), "1");
    CHECK_EQ(client.at, client.size);
    CHECK_EQ(recv(client.fd, &byte, 1, 0), 0); /* an end, and no reset */
    answer_free(&answer);
    client_close(&client);
    AWAIT(stats_of(server).connections == 0);
    CHECK_EQ(stats_of(server).refused, 1);
    CHECK_EQ(stats_of(server).requests, 0);
    client = client_that_asks(server, GET("/"));
    expect_hello(&client);
    end(server);
}

/* A server that cannot be opened leaves nothing behind. */

static int open_and_close(void)
{
    weft_http_server *const nothing = (weft_http_server *)(uintptr_t)0xdead, *server = nothing;
    weft_http_options options = {
        .handler = hello, .acceptors = 3, .name = "test", .max_per_ip = 10};
    int error = weft_http_open(&server, &options);
    CHECK_EQ(server == nothing, error != 0);
    if (error == 0)
        weft_http_close(server);
    return error;
}

static void a_part_that_cannot_be_made(void)
{
    int before = open_descriptors();
    struct fake *parts[] = {&fake_context, &fake_context, &fake_objects, &fake_pool};
    for (uint32_t i = 0; i < 4; i++) {
        fake_plan(parts[i], i == 1, -EAGAIN, 1);
        CHECK_EQ(open_and_close(), -EAGAIN);
        CHECK_EQ(atomic_u32_load_acquire(&parts[i]->times), 0);
        CHECK_EQ(open_descriptors(), before);
    }
    CHECK_EQ(open_and_close(), 0);
}

/* Some acceptors run by then: the open waits for them, even if its own context is cancelled. */
static void an_acceptor_that_does_not_start(void)
{
    int before = open_descriptors();
    weft_context *context;
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    for (uint32_t started = 0; started < 3; started++) {
        SAYS_AFTER(go, started, -ENOMEM, 1);
        if (started == 2) {
            CHECK_EQ(weft_context_bind(context, NULL), 0);
            weft_context_cancel(context);
        }
        CHECK_EQ(open_and_close(), -ENOMEM);
        SAID(go);
        CHECK_EQ(open_descriptors(), before);
    }
    CHECK_PTR(weft_context_current(), context);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    weft_http_server *server = serve_one_acceptor(hello);
    struct client client = client_that_asks(server, GET("/"));
    expect_hello(&client);
    end(server);
}

static void no_memory_for_a_server(void)
{
    int before = open_descriptors();
    uint32_t number = 0, calls, failed = 0;
    do {
        weft__os_fail(OS_ALLOC, ++number, false);
        int error = open_and_close();
        calls = weft__os_calls(OS_ALLOC);
        weft__os_fail(OS_ALLOC, 0, false);
        CHECK(error == 0 || error == -ENOMEM);
        failed += error != 0;
        CHECK_EQ(open_descriptors(), before);
    } while (calls >= number); /* until there was none to fail */
    CHECK(failed > 0);
}

static void small_pieces(void)
{
    for (int nagle = 0; nagle < 2; nagle++) {
        weft_http_server *server;
        weft_http_options options = {.handler = hello};
        weft_net_options net = {.nagle = nagle};
        int off = -1;
        socklen_t size = sizeof off;
        CHECK_EQ(weft_http_open(&server, &options), 0);
        CHECK_EQ(weft_http_listen(server, "tcp:127.0.0.1:0", &net), 0);
        struct client client = client_that_asks(server, GET("/"));
        EXPECT(&client, 200, "hello");
        CHECK_EQ(getsockopt(last_accepted, IPPROTO_TCP, TCP_NODELAY, &off, &size), 0);
        CHECK_EQ(off != 0, !nagle);
        close_and_end(&client, server);
    }
}

int main(void)
{
    CHECK_EQ(weft_go((void (*)(void *))(uintptr_t)weft_yield, NULL),
             0); /* the runtime's descriptors are there */
    RUN(no_memory_for_a_server);
    RUN(a_part_that_cannot_be_made);
    RUN(an_acceptor_that_does_not_start);
    int before = open_descriptors();
    RUN(no_room_for_connections);
    RUN(a_connection_that_is_gone);
    RUN(listening_again_fails);
    RUN(no_room_for_any_listener);
    RUN(a_listener_that_is_taken_back);
    RUN(a_stop_before_the_acceptor_has_looked);
    RUN(an_event_of_a_closed_connection);
    RUN(deadlines_while_accepting_is_paused);
    RUN(an_acceptor_that_cannot_wait);
    RUN(no_memory_for_a_request);
    RUN(small_pieces);
    AWAIT(open_descriptors() == before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
