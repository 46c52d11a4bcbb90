/*
 * response_fault.c: responses when a certain call fails: no memory for a field, a head or a body, a
 * client that goes in the middle, a kernel that cannot send files. Each time the handler gets the
 * error, nothing is left behind, and the server goes on. (fault.c lets every call fail, but checks
 * less of the result.)
 *
 * The calls are caught as in fault.c; the handler chooses the one that fails.
 */
#include <fcntl.h>

#include <weft/runtime.h>

#include "http/exchange.h"
#include "http/http.h"
#include "system.h"

enum call { ALLOCATE, RESIZE, RECEIVE, SEND, READ_FILE, CALLS };

static struct {
    int error;
} calls[CALLS];

#include "http/failing_seam.h"

WRAP(int64_t, receive, (int fd, void *data, size_t size), RECEIVE, (fd, data, size))
WRAP(int64_t, send, (int fd, const struct iovec *pieces, int count), SEND, (fd, pieces, count))
WRAP(int64_t, read_file, (int file, void *data, size_t size, int64_t offset), READ_FILE,
     (file, data, size, offset))

static void fail_at(enum call call, int number, int error)
{
    calls[call].error = error;
    start_failing(call, number, false);
}

/* It has failed, once. */
static void has_failed(void)
{
    CHECK_EQ(atomic_load(&plan.hits), 1);
    stop_failing();
}

/* Files: sent by the kernel, or refused by it, or not sent at all but counted. */
static struct {
    atomic_int refusal; /* 0: none */
    atomic_bool count;
    atomic_llong counted, calls;
} kernel;

int64_t __real_weft__http_send_from_file(int fd, int file, int64_t offset, size_t size);
int64_t __wrap_weft__http_send_from_file(int fd, int file, int64_t offset, size_t size);
int64_t __wrap_weft__http_send_from_file(int fd, int file, int64_t offset, size_t size)
{
    int refusal = atomic_load(&kernel.refusal);
    if (refusal != 0)
        return refusal;
    if (!atomic_load(&kernel.count))
        return __real_weft__http_send_from_file(fd, file, offset, size);
    CHECK_EQ(atomic_load(&kernel.counted), offset);
    CHECK(size <= (size_t)1 << 30); /* what the kernel takes in one call, and some more */
    atomic_fetch_add(&kernel.counted, (long long)size);
    atomic_fetch_add(&kernel.calls, 1);
    return (int64_t)size;
}

/* ---- no memory ---- */

/* Every request is answered, without what failed. */
HANDLER(poor)
{
    const char *path = weft_http_path(request);
    char *value = text_of(5000, 'v'), *body = NULL;
    size_t size = 7;
    bool resizes = strcmp(path, "/trailer") == 0 || strcmp(path, "/body") == 0;
    CHECK_EQ(weft_http_set(response, "Y", "small"), 0);
    fail_at(resizes ? RESIZE : ALLOCATE, 1, 0);
    if (strcmp(path, "/set") == 0) /* what was set before stays */
        CHECK_EQ(weft_http_set(response, "Y", value), -ENOMEM);
    else if (strcmp(path, "/date") == 0)
        CHECK_EQ(weft_http_set(response, "Date", value), -ENOMEM);
    else if (strcmp(path, "/setf") == 0)
        CHECK_EQ(weft_http_setf(response, "X", "%s", value), -ENOMEM);
    else if (strcmp(path, "/printf") == 0)
        CHECK_EQ(weft_http_printf(response, "%s", value), -ENOMEM);
    else if (strcmp(path, "/trailer") == 0)
        CHECK_EQ(weft_http_set_trailer(response, "X", "y"), -ENOMEM);
    else /* "/begin" and "/body": at its beginning, and when it has turned out to be large */
        CHECK_EQ(weft_http_read_all(request, &body, &size), -ENOMEM);
    has_failed();
    CHECK(body == NULL && size == 7);
    CHECK_EQ(weft_http_puts(response, "poor"), 0);
    free(value);
}

static void no_memory_is_no_end(void)
{
    static const char *const paths[] = {"/set",     "/date", "/setf", "/printf",
                                        "/trailer", "/body", "/begin"};
    weft_http_server *server = serve_with((weft_http_options){.handler = poor, .acceptors = 1});
    struct client client = client_open(server);
    char *body = text_of(10000, 'b'), *request;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        CHECK(asprintf(&request,
                       "POST %s HTTP/1.1\r\n" HOST "TE: trailers\r\nTransfer-Encoding: chunked\r\n"
                       "\r\n%zx\r\n%s\r\n0\r\n\r\n",
                       paths[i], strlen(body), body) > 0);
        client_send(&client, request);
        struct answer answer = client_answer(&client);
        CHECK_EQ(answer.status, 200);
        CHECK_STR(answer.body, "poor");
        CHECK(!answer.chunked);
        CHECK_STR(answer_field(&answer, "Y"), "small");
        CHECK(answer_field(&answer, "X") == NULL);
        CHECK(answer_field(&answer, "Date") != NULL);
        answer_free(&answer);
        free(request);
        if (i >= 5) /* where the body ends is not known: nothing can follow it */
            CHECK(client_at_end(&client));
        if (i == 5) {
            client_close(&client);
            client = client_open(server);
        }
    }
    client_close(&client);
    CHECK_EQ(stats_of(server).accepted, 2);
    end(server);
    free(body);
    CHECK_EQ(atomic_load(&plan.blocks), 0);
}

/* A head of more than the buffer holds needs memory when it is committed, by whatever does that.
 * Without it nothing can be said, and all that follows says so again. */
static const char *const commits[] = {"/write", "/flush", "/reply", "/file", "/end", "/events"};
static int file_fd;

HANDLER(large_head)
{
    const char *path = weft_http_path(request);
    char *value = text_of(20000, 'v');
    int error = -ENOMEM;
    if (strcmp(path, "/fine") == 0) {
        free(value);
        CHECK_EQ(weft_http_puts(response, "fine"), 0);
        return;
    }
    CHECK_EQ(weft_http_set(response, "X", value), 0);
    fail_at(ALLOCATE, 1, 0);
    if (strcmp(path, "/write") == 0)
        error = weft_http_write(response, value, 20000);
    else if (strcmp(path, "/flush") == 0)
        error = weft_http_flush(response);
    else if (strcmp(path, "/reply") == 0)
        error = weft_http_reply(response, 200, NULL, "reply", 5);
    else if (strcmp(path, "/file") == 0)
        error = weft_http_send_file(response, file_fd, 0, 5);
    else if (strcmp(path, "/events") == 0)
        error = weft_http_events(response);
    free(value);
    CHECK_EQ(error, -ENOMEM);
    if (strcmp(path, "/end") == 0)
        return; /* by the server, when there is nothing more to come */
    has_failed();
    CHECK_EQ(weft_http_puts(response, "more"), -ENOMEM);
    CHECK_EQ(weft_http_flush(response), -ENOMEM);
    CHECK_EQ(weft_http_send_file(response, file_fd, 0, 5), -ENOMEM);
}

static void no_memory_for_a_head(void)
{
    weft_http_server *server =
        serve_with((weft_http_options){.handler = large_head, .acceptors = 1});
    for (size_t i = 0; i < sizeof commits / sizeof commits[0]; i++) {
        struct client client = client_open(server);
        struct answer answer = fetch(&client, "GET", "/fine", 1); /* it has all that it needs */
        CHECK_STR(answer.body, "fine");
        answer_free(&answer);
        char request[100];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", commits[i]);
        client_send(&client, request);
        CHECK(client_at_end(&client)); /* not a byte has come */
        AWAIT(stats_of(server).connections == 0);
        if (strcmp(commits[i], "/end") == 0)
            has_failed();
        client_close(&client);
    }
    end(server);
    CHECK_EQ(atomic_load(&plan.blocks), 0);
}

HANDLER(plain)
{
    CHECK_EQ(weft_http_puts(response, weft_http_path(request)), 0);
    if (strcmp(weft_http_path(request), "/poor") == 0)
        fail_at(ALLOCATE, 1, 0);
}

/* There is no room for the beginning of the next request: the connection ends, but this one is
 * answered. */
static void no_memory_to_keep_a_head(void)
{
    weft_http_server *server = serve_with((weft_http_options){.handler = plain, .acceptors = 1});
    struct client client = client_open(server);
    client_send(&client, GET("/poor") "GET /ne");
    EXPECT(&client, 200, "/poor");
    CHECK(client_at_end(&client));
    has_failed();
    client_close(&client);
    client = client_open(server);
    client_send(&client, GET("/next"));
    EXPECT(&client, 200, "/next");
    client_close(&client);
    end(server);
    CHECK_EQ(atomic_load(&plan.blocks), 0);
}

/* ---- clients that are gone ---- */

HANDLER(told)
{
    const char *path = weft_http_path(request);
    char *text = text_of(20000, 't');
    if (strcmp(path, "/fine") == 0) {
        CHECK_EQ(weft_http_puts(response, "fine"), 0);
    } else if (strcmp(path, "/events") == 0) { /* -EPIPE for HEAD is no failure */
        bool head = strcmp(weft_http_method(request), "HEAD") == 0;
        if (!head)
            CHECK_EQ(weft_http_events(response), 0);
        fail_at(SEND, 1, -ECONNRESET);
        CHECK_EQ(head ? weft_http_events(response) : weft_http_event(response, "a", "b", "c"),
                 -ECONNRESET);
        has_failed();
        if (!head) {
            CHECK_EQ(weft_http_event(response, "a", "b", "c"), -ECONNRESET);
            CHECK_EQ(weft_http_event_ping(response), -ECONNRESET);
        }
    } else {
        fail_at(SEND, 1, -ECONNRESET);
        CHECK_EQ(strcmp(path, "/flush") == 0 ? weft_http_flush(response)
                                             : weft_http_write(response, text, 20000),
                 -ECONNRESET);
        has_failed();
        CHECK_EQ(weft_http_puts(response, "more"), -ECONNRESET);
        CHECK_EQ(weft_http_flush(response), -ECONNRESET);
        CHECK_EQ(weft_http_send_file(response, file_fd, 0, 5), -ECONNRESET);
    }
    free(text);
}

static void who_writes_is_told(void)
{
    static const char *const paths[] = {"/flush", "/write", "/events"};
    weft_http_server *server = serve_with((weft_http_options){.handler = told, .acceptors = 1});
    for (int i = 0; i < 6; i++) {
        struct client client = client_open(server);
        char request[100];
        snprintf(request, sizeof request, "%s %s HTTP/1.1\r\n" HOST "\r\n",
                 i % 2 == 0 ? "GET" : "HEAD", paths[i / 2]);
        client_send(&client, request);
        while (client_fill(&client))
            ;
        CHECK(client.size == 0 || i == 4); /* the head of the stream was sent */
        client_close(&client);
        struct answer answer = ask(server, GET("/fine"));
        CHECK_STR(answer.body, "fine");
        answer_free(&answer);
    }
    end(server);
    CHECK_EQ(atomic_load(&plan.blocks), 0);
}

/* An event of an end, and yet nothing to read: the server does not read again for ever. */
HANDLER(until_the_end)
{
    struct connection *connection = exchange_of_request(request)->connection;
    CHECK_EQ(weft_http_puts(response, "end"), 0);
    while (atomic_u32_load_relaxed(&connection->ended) == 0)
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
    calls[RECEIVE].error = -EAGAIN;
    start_failing(RECEIVE, 1, true);
}

static void an_end_that_is_not_read(void)
{
    weft_http_server *server =
        serve_with((weft_http_options){.handler = until_the_end, .acceptors = 1});
    struct client client = client_open(server);
    client_send(&client, GET("/"));
    client_half_close(&client);
    EXPECT(&client, 200, "end");
    CHECK(client_at_end(&client));
    AWAIT(stats_of(server).connections == 0);
    CHECK(atomic_load(&plan.hits) > 0);
    stop_failing();
    client_close(&client);
    end(server);
}

/* ---- files ---- */

enum { FILE_SIZE = 40000 }; /* more than go through memory at once */
static _Atomic int outcome;

HANDLER(filed)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/unreadable") == 0)
        fail_at(READ_FILE, 3, -EIO); /* the try, a piece, and */
    else if (strcmp(path, "/gone") == 0)
        fail_at(SEND, 3, -EPIPE); /* the head, a piece, and */
    outcome = weft_http_send_file(response, file_fd, 0, FILE_SIZE + (strcmp(path, "/short") == 0));
}

/* Through memory, where the kernel cannot. */
static void files_are_copied(void)
{
    static const struct {
        const char *path;
        int outcome;
        size_t size; /* of the body that comes */
    } rows[] = {{"/whole", 0, FILE_SIZE},
                {"/short", -EIO, FILE_SIZE},
                {"/unreadable", -EIO, HTTP_OUT},
                {"/gone", -EPIPE, HTTP_OUT}};
    static const int refusals[] = {-EINVAL, -ENOSYS};
    weft_http_server *server = serve_with((weft_http_options){.handler = filed, .acceptors = 1});
    for (size_t i = 0; i < 8; i++) {
        struct client client = client_open(server);
        struct answer answer;
        char request[100];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", rows[i / 2].path);
        atomic_store(&kernel.refusal, refusals[i % 2]);
        client_send(&client, request);
        CHECK(client_head(&client, &answer));
        CHECK_EQ(atoi(answer_field(&answer, "Content-Length")), FILE_SIZE + (i / 2 == 1));
        answer.body = client_take(&client, rows[i / 2].size);
        CHECK(answer.body != NULL);
        for (size_t at = 0; at < rows[i / 2].size; at++)
            CHECK_EQ((uint8_t)answer.body[at], at % 251);
        AWAIT(stats_of(server).requests == (int64_t)i + 1);
        CHECK_EQ(outcome, rows[i / 2].outcome);
        if (outcome != 0)
            CHECK(client_at_end(&client));
        if (i >= 4)
            has_failed();
        answer_free(&answer);
        client_close(&client);
        AWAIT(stats_of(server).connections == 0);
    }
    atomic_store(&kernel.refusal, 0);
    end(server);
    CHECK_EQ(atomic_load(&plan.blocks), 0);
}

/* Of a file that is larger than the kernel sends in one call every byte is sent once: here it only
 * says that it does. */
HANDLER(large)
{
    atomic_store(&kernel.count, true);
    outcome = weft_http_send_file(response, file_fd, 0, 5LL << 30);
    atomic_store(&kernel.count, false);
}

static void files_of_gigabytes(void)
{
    weft_http_server *server = serve_with((weft_http_options){.handler = large, .acceptors = 1});
    struct client client = client_open(server);
    struct answer answer;
    client_send(&client, GET_CLOSE("/"));
    CHECK(client_head(&client, &answer));
    CHECK_STR(answer_field(&answer, "Content-Length"), "5368709120");
    CHECK(client_at_end(&client));
    CHECK_EQ(outcome, 0);
    CHECK_EQ(atomic_load(&kernel.counted), 5LL << 30);
    CHECK(atomic_load(&kernel.calls) >= 5);
    answer_free(&answer);
    client_close(&client);
    end(server);
}

int main(void)
{
    char name[] = "/tmp/weft-http-response-XXXXXX", bytes[FILE_SIZE];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i % 251);
    file_fd = mkstemp(name);
    CHECK(file_fd >= 0 && unlink(name) == 0);
    CHECK_EQ(write(file_fd, bytes, sizeof bytes), sizeof bytes);
    RUN(no_memory_is_no_end);
    int before = open_descriptors();
    RUN(no_memory_for_a_head);
    RUN(no_memory_to_keep_a_head);
    RUN(who_writes_is_told);
    RUN(an_end_that_is_not_read);
    RUN(files_are_copied);
    RUN(files_of_gigabytes);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
