/*
 * panic.c: handlers that panic or crash: one request is lost, the server goes on.
 */
#include <weft/context.h>
#include <weft/runtime.h>
#include <weft/sem.h>
#include <weft/time.h>

#include "base/compiler.h"
#include "http.h"
#include "system.h"

static int told;
static char told_path[64], told_text[128];

static void on_panic(const weft_panic_info *info, weft_http_request *request, void *data)
{
    (void)data;
    told++;
    snprintf(told_path, sizeof told_path, "%s", weft_http_path(request));
    snprintf(told_text, sizeof told_text, "%.100s", info->message);
}

HANDLER(risky)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/fine") == 0) {
        CHECK_EQ(weft_context_error(weft_context_current()), 0);
        (void)weft_http_puts(response, "fine");
        return;
    }
    CHECK_EQ(weft_http_set(response, "X", "y"), 0);
    weft_http_status(response, 201);
    if (strcmp(path, "/collected") == 0)
        CHECK_EQ(weft_http_puts(response, "part"), 0);
    if (strcmp(path, "/replied") == 0)
        CHECK_EQ(weft_http_reply(response, 201, "text/plain", "whole", 5), 0);
    if (strcmp(path, "/sent") == 0) {
        CHECK_EQ(weft_http_puts(response, "part"), 0);
        CHECK_EQ(weft_http_flush(response), 0);
    }
    if (strcmp(path, "/context") == 0) {
        weft_context *context;
        CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
        CHECK_EQ(weft_context_bind(context, NULL), 0);
        weft_context_close(context);
    }
    weft_panic("no way on %s", path);
}

static weft_http_server *serve_risky(void)
{
    told = 0;
    return SERVE(.handler = risky, .on_panic = on_panic, .max_workers = 1);
}

static void expect_500(weft_http_server *server, const char *request)
{
    struct client client = client_asks(server, request);
    CHECK_ANSWER(client_answer(&client), 500, "500 Internal Server Error\n", {"X", NULL},
                 {"Connection", "close"});
    client_end(&client);
    CHECK_ANSWER(ask(server, GET("/fine")), 200, "fine");
}

static void panics_are_500(void)
{
    weft_http_server *server = serve_risky();
    expect_500(server, GET("/plain"));
    CHECK_STR(told_path, "/plain");
    CHECK_STR(told_text, "no way on /plain");
    expect_500(server, GET("/collected") GET("/fine"));
    expect_500(server, GET("/replied") GET("/fine")); /* nothing of it was on its way */
    CHECK_EQ(told, 3);
    CHECK_EQ(stats_of(server).panicked, 3);
    AWAIT(stats_of(server).running == 0);
    end(server);
}

/* What it had bound itself to does not stay with the worker. */
static void panics_leave_no_context(void)
{
    weft_http_server *server = serve_risky();
    for (int i = 0; i < 3; i++)
        expect_500(server, GET("/context"));
    end(server);
}

/* The client must see that there is more to come that does not. */
static void panics_after_the_head_cut_the_connection(void)
{
    weft_http_server *server = serve_risky();
    struct client client = client_open(server);
    struct answer answer;
    client_send(&client, GET("/sent") GET("/fine"));
    CHECK(!client_try_answer(&client, &answer, false));
    CHECK_EQ(answer.status, 201);
    CHECK_STR(answer.body, "part");
    answer_free(&answer);
    client_close(&client);
    CHECK_EQ(stats_of(server).panicked, 1);
    CHECK_ANSWER(ask(server, GET("/fine")), 200, NULL);
    end(server);
}

static weft_http_server *reported;

static void ask_for_panic(void)
{
    CHECK_ANSWER(ask(reported, GET("/plain")), 500, NULL);
}

static void panics_are_reported(void)
{
    reported = serve(risky);
    const char *text = test_stderr_of(ask_for_panic);
    CHECK(strstr(text, "no way on /plain") != NULL);
    end(reported);
}

static void on_panic_in_panic(const weft_panic_info *info, weft_http_request *request, void *data)
{
    on_panic(info, request, data);
    weft_panic("and again");
}

static void ask_for_two_panics(void)
{
    for (int i = 0; i < 3; i++)
        expect_500(reported, GET("/plain"));
}

/* on_panic may panic too: the client is answered, and the connection not lost. */
static void on_panic_may_panic(void)
{
    told = 0;
    reported = SERVE(.handler = risky, .on_panic = on_panic_in_panic, .max_workers = 1);
    const char *text = test_stderr_of(ask_for_two_panics);
    CHECK(strstr(text, "and again") != NULL);
    CHECK_EQ(told, 3);
    CHECK_EQ(stats_of(reported).panicked, 3);
    end(reported);
}

static void log_in_panic(const weft_http_log_entry *entry, void *data)
{
    (void)data;
    weft_panic("no log of %s", entry->method);
}

static void ask_for_logs(void)
{
    struct client client = client_open(reported);
    for (int i = 0; i < 3; i++) {
        ASK(&client, GET("/fine"), 200, "fine");
        CHECK_ANSWER(ask(reported, "what?\r\n\r\n"), 400, NULL);
    }
    client_close(&client);
}

/* Refusals are logged by the acceptor, without which no client would be served. */
static void logs_may_panic(void)
{
    reported = SERVE(.handler = risky, .log = log_in_panic, .acceptors = 1);
    const char *text = test_stderr_of(ask_for_logs);
    CHECK(strstr(text, "no log of GET") != NULL);
    end(reported);
}

/* ---- crashes ---- */

static weft_sem crashed = WEFT_SEM_INIT(0);

static void on_crash(const weft_panic_info *info, weft_http_request *request, void *data)
{
    (void)info;
    (void)data;
    told++;
    snprintf(told_path, sizeof told_path, "%s", weft_http_path(request));
    weft_sem_release(&crashed, 1);
}

HANDLER(crashing)
{
    CHECK_EQ(weft_http_set(response, "X", "y"), 0);
    if (strcmp(weft_http_path(request), "/crash") == 0) {
        volatile int *volatile nowhere = NULL;
        *nowhere = 1; /* NOLINT: that is the test */
    }
    (void)weft_http_puts(response, "fine");
}

static void crashes_take_down_their_connection(void)
{
    told = 0;
    weft_http_server *server =
        SERVE(.handler = crashing, .on_panic = on_crash, .isolate_crashes = 1, .max_workers = 1);
    for (int i = 0; i < 3; i++) {
        struct client client = client_open(server);
        struct answer answer;
        ASK(&client, GET("/") GET("/crash") GET("/"), 200, "fine");
        CHECK(!client_try_answer(&client, &answer, false));
        client_close(&client);
        weft_sem_acquire(&crashed, 1);
        CHECK_STR(told_path, "/crash");
        CHECK_ANSWER(ask(server, GET("/")), 200, NULL);
    }
    CHECK_EQ(stats_of(server).panicked, 3);
    CHECK_EQ(told, 3);
    AWAIT(stats_of(server).running == 0);
    CHECK_EQ(weft_http_stop(server, WEFT_NEVER), 0);
    weft_http_close(server);
}

int main(void)
{
    RUN(panics_are_500);
    int before = open_descriptors();
    RUN(panics_leave_no_context);
    RUN(panics_after_the_head_cut_the_connection);
    RUN(panics_are_reported);
    RUN(on_panic_may_panic);
    RUN(logs_may_panic);
    if (WEFT_ASAN || WEFT_TSAN)
        printf("crashes are not isolated under a sanitizer\n");
    else
        RUN(crashes_take_down_their_connection);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
