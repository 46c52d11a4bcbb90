/*
 * disconnect.c: a handler's context is cancelled when its client is gone. Bytes behind the request,
 * and an end of the client's side alone, are no sign of that.
 */
#include <pthread.h>

#include <weft/fiber.h>
#include <weft/pool.h>
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"
#include "system.h"

static weft_sem entered = WEFT_SEM_INIT(0), gate = WEFT_SEM_INIT(0), left = WEFT_SEM_INIT(0);
static _Atomic int outcome, cleaned;
static weft_context *kept;
static weft_pool *hung;

static void clean(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(1), -ECANCELED);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_sleep(1), 0);
    cleaned++;
}

static void wait_for_gate(weft_http_response *response)
{
    weft_sem_release(&entered, 1);
    outcome = weft_sem_acquire_until(&gate, 1, WEFT_NEVER);
    (void)weft_http_puts(response, "done");
    weft_sem_release(&left, 1);
}

static void panic_when_told(void)
{
    WEFT_DEFER(clean, NULL);
    weft_sem_release(&entered, 1);
    outcome = weft_sem_acquire_until(&gate, 1, WEFT_NEVER);
    weft_sem_release(&left, 1);
    weft_panic("no client");
}

static void one_event(weft_http_response *response)
{
    CHECK_EQ(weft_http_events(response), 0);
    CHECK_EQ(weft_http_event(response, NULL, "one", NULL), 0);
}

/* ---- tasks of a handler's own pool ---- */

static void wait_without_context(void *arg)
{
    weft_context *before;
    (void)arg;
    CHECK_EQ(weft_context_bind(NULL, &before), 0);
    weft_sem_acquire(&gate, 1);
    CHECK_EQ(weft_context_bind(before, NULL), 0);
}

static void drop_slowly(void (*function)(void *), void *arg, void *data)
{
    (void)function, (void)arg, (void)data;
    cleaned++;
    weft_sem_acquire(&gate, 1);
}

static void hang_pool(void)
{
    weft_pool_options options = {
        .capacity = 1, .queue = 1, .context = weft_context_current(), .on_drop = drop_slowly};
    CHECK_EQ(weft_pool_open(&hung, &options), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(weft_pool_submit(hung, wait_without_context, NULL), 0);
}

HANDLER(serving)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/") == 0) {
        (void)weft_http_puts(response, "hello");
    } else if (strcmp(path, "/keep") == 0) {
        CHECK_EQ(weft_context_open(&kept, weft_context_current(), NULL), 0);
        CHECK_EQ(weft_context_error(kept), 0);
    } else if (strcmp(path, "/panic") == 0) {
        panic_when_told();
    } else {
        if (strcmp(path, "/events") == 0)
            one_event(response);
        else if (strcmp(path, "/upgrade") == 0)
            CHECK_EQ(weft_http_upgrade(response, "echo"), 0);
        else if (strcmp(path, "/pool") == 0)
            hang_pool();
        wait_for_gate(response);
    }
}

static void be_quiet(const weft_panic_info *info, weft_http_request *request, void *data)
{
    (void)info, (void)request, (void)data;
}

static weft_http_server *begin(weft_http_options options)
{
    options.handler = serving;
    options.on_panic = be_quiet;
    outcome = 1;
    cleaned = 0;
    return serve_with(options);
}

static struct client send_request(weft_http_server *server, const char *path)
{
    struct client client = client_open(server);
    char text[200];
    snprintf(text, sizeof text,
             "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", path);
    client_send(&client, text);
    return client;
}

static void reset(struct client *client)
{
    struct linger now = {.l_onoff = 1};
    CHECK(setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    client_close(client);
}

static void a_reset_is_told(void)
{
    static const char *const paths[] = {"/wait", "/events", "/upgrade", "/panic"};
    weft_http_server *server = begin((weft_http_options){.max_workers = 2});
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            struct client client = send_request(server, paths[i]);
            weft_sem_acquire(&entered, 1);
            if (round == 1) /* also behind what was not read */
                client_send(&client, GET("/") GET("/"));
            reset(&client);
            weft_sem_acquire(&left, 1);
            CHECK_EQ(outcome, -ECANCELED);
            AWAIT(stats_of(server).connections == 0 && stats_of(server).running == 0);
        }
        CHECK_EQ(cleaned, round + 1);
        CHECK_EQ(stats_of(server).panicked, round + 1);
    }
    CHECK_EQ(stats_of(server).requests, 12);
    end(server);
}

/* Who ends his side may read on; and what comes behind the request is the next. */
static void no_others_are_gone(void)
{
    weft_http_server *server = begin((weft_http_options){.acceptors = 1});
    struct client client = send_request(server, "/wait");
    weft_sem_acquire(&entered, 1);
    client_send(&client, GET("/") GET("/wait"));
    client_half_close(&client);
    /* The acceptor has seen that when it has answered one that came after it. */
    struct client other = client_open(server);
    ASK(&other, GET("/"), 200, "hello");
    client_close(&other);
    CHECK_EQ(weft_sem_try_acquire(&left, 1), -EAGAIN);
    weft_sem_release(&gate, 2);
    EXPECT(&client, 200, "done");
    EXPECT(&client, 200, "hello");
    EXPECT(&client, 200, "done");
    client_end(&client);
    weft_sem_acquire(&left, 2);
    weft_sem_acquire(&entered, 1);
    CHECK_EQ(outcome, 0);
    end(server);
}

/* With end_is_gone it counts as gone. */
static void an_end_can_be_taken_for_that(void)
{
    weft_http_server *server = begin((weft_http_options){.end_is_gone = 1});
    for (int i = 0; i < 10; i++) {
        struct client client = send_request(server, i % 2 == 0 ? "/wait" : "/events");
        weft_sem_acquire(&entered, 1);
        if (i % 3 == 0)
            client_send(&client, GET("/wait"));
        client_half_close(&client);
        weft_sem_acquire(&left, 1);
        CHECK_EQ(outcome, -ECANCELED);
        while (client_fill(&client))
            ;
        client_close(&client);
    }
    AWAIT(stats_of(server).connections == 0);
    CHECK_EQ(stats_of(server).requests, 10);
    end(server);
}

/* The context of a request is that of no other, and ends with it. */
static void a_context_is_of_one_request(void)
{
    weft_http_server *server = begin((weft_http_options){.max_workers = 1});
    struct client client = client_open(server);
    for (int i = 0; i < 3; i++) {
        ASK(&client, GET("/keep") GET("/"), 200, "");
        EXPECT(&client, 200, "hello");
        CHECK_EQ(weft_context_error(kept), -ECANCELED);
        weft_context_close(kept);
    }
    close_and_end(&client, server);
}

/* A cancellation that takes its time holds up neither the server nor the handler. */
static void it_may_take_a_while(void)
{
    weft_http_server *server = begin((weft_http_options){.acceptors = 1, .max_workers = 1});
    struct client client = send_request(server, "/pool");
    weft_sem_acquire(&entered, 1);
    reset(&client);
    weft_sem_acquire(&left, 1);
    CHECK_EQ(outcome, -ECANCELED);
    AWAIT(stats_of(server).connections == 0 && cleaned == 1);
    for (int i = 0; i < 3; i++) {
        CHECK_ANSWER(ask(server, GET_CLOSE("/")), 200, "hello");
    }
    weft_sem_release(&gate, 2);
    CHECK_EQ(weft_pool_close(hung), 0);
    end(server);
}

/* At any moment: before, in and after the handler. */
static void *come_and_go(void *arg)
{
    weft_http_server *server = arg;
    unsigned seed = 7;
    for (int i = 0; i < test_scale(1000); i++) {
        struct client client = client_open(server);
        for (int j = rand_r(&seed) % 4; j >= 0; j--)
            (void)client_try_send(&client, GET("/"), strlen(GET("/")));
        int bytes = rand_r(&seed) % 100;
        if (bytes < 60)
            free(client_take(&client, (size_t)bytes));
        reset(&client);
    }
    return NULL;
}

static void at_any_moment(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    weft_http_server *server = begin((weft_http_options){.acceptors = 2});
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, come_and_go, server), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_ANSWER(ask(server, GET_CLOSE("/")), 200, "hello");
    AWAIT(stats_of(server).connections == 0);
    end(server);
}

int main(void)
{
    int before = open_descriptors();
    RUN(a_reset_is_told);
    RUN(no_others_are_gone);
    RUN(an_end_can_be_taken_for_that);
    RUN(a_context_is_of_one_request);
    RUN(it_may_take_a_while);
    RUN(at_any_moment);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
