/*
 * send_file.c: files as bodies: whole, in parts, in chunks, shorter than announced; and clients
 * that go away or do not read meanwhile.
 */
#include <fcntl.h>

#include <weft/runtime.h>

#include "http.h"
#include "system.h"

static int file_fd;
static int64_t file_size;
static _Atomic int outcome;

HANDLER(filed)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/chunked") == 0)
        CHECK_EQ(weft_http_puts(response, "before "), 0);
    if (strncmp(path, "/bad/", 5) == 0) {
        const char *name = path + 5;
        int ends[2], bad = 100000; /* not open */
        CHECK_EQ(pipe(ends), 0);
        if (strcmp(name, "pipe") == 0)
            bad = ends[0];
        else if (strcmp(name, "writable") == 0)
            bad = open("/dev/null", O_WRONLY | O_CLOEXEC);
        else if (strcmp(name, "folder") == 0)
            bad = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        outcome = weft_http_send_file(response, bad, 0, 10);
        CHECK_EQ(weft_http_sent(response), 0);
        CHECK_EQ(weft_http_error(response, 404, NULL), 0);
        if (bad != ends[0] && bad != 100000)
            close(bad);
        close(ends[0]), close(ends[1]);
        return;
    }
    if (strcmp(path, "/part") == 0) {
        CHECK_EQ(weft_http_send_file(response, file_fd, 5, 10), 0);
        return;
    }
    CHECK_EQ(weft_http_send_file(response, -1, 0, 1), -EINVAL);
    CHECK_EQ(weft_http_send_file(response, file_fd, -1, 1), -EINVAL);
    CHECK_EQ(weft_http_send_file(response, file_fd, 0, -1), -EINVAL);
    outcome = weft_http_send_file(response, file_fd, 0, file_size);
    if (strcmp(path, "/chunked") == 0)
        CHECK_EQ(weft_http_puts(response, " behind"), 0);
}

static void make_file(size_t size)
{
    char name[] = "/tmp/weft-http-XXXXXX";
    file_fd = mkstemp(name);
    CHECK(file_fd >= 0 && unlink(name) == 0);
    char *bytes = text_of(size, 0);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i % 251);
    CHECK_EQ(write(file_fd, bytes, size), size);
    file_size = (int64_t)size;
    free(bytes);
}

static void check_file(const char *bytes, size_t size)
{
    CHECK_EQ(size, file_size);
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)bytes[i] != i % 251)
            test_fail(__FILE__, __LINE__, "byte %zu is another", i);
}

static void files_are_sent(void)
{
    make_file((size_t)test_scale(16 << 20));
    weft_http_server *server = serve(filed);
    struct client client = client_open(server);
    struct answer answer = fetch(&client, "GET", "/", 1);
    CHECK(!answer.chunked);
    check_file(answer.body, answer.size);
    answer_free(&answer);
    CHECK_EQ(outcome, 0);
    answer = fetch(&client, "HEAD", "/", 1);
    CHECK_EQ(atoll(answer_field(&answer, "Content-Length")), file_size);
    answer_free(&answer);
    answer = fetch(&client, "GET", "/part", 1);
    CHECK_EQ(answer.size, 10);
    CHECK_EQ(answer.body[0], 5);
    answer_free(&answer);
    answer = fetch(&client, "GET", "/chunked", 1);
    CHECK(answer.chunked);
    CHECK(memcmp(answer.body, "before ", 7) == 0);
    CHECK(memcmp(answer.body + answer.size - 7, " behind", 7) == 0);
    check_file(answer.body + 7, answer.size - 14);
    answer_free(&answer);
    file_size = 0;
    answer = fetch(&client, "GET", "/", 1);
    CHECK_EQ(answer.size, 0);
    answer_free(&answer);
    close_and_end(&client, server);
    close(file_fd);
}

static void files_that_are_shorter_end_the_connection(void)
{
    make_file(5000);
    file_size = 10000;
    weft_http_server *server = serve(filed);
    struct client client = client_open(server);
    struct answer answer;
    client_send(&client, GET("/"));
    CHECK(!client_try_answer(&client, &answer, false));
    CHECK_EQ(outcome, -EIO);
    CHECK_EQ(client.size - client.at, 5000);
    answer_free(&answer);
    close_and_end(&client, server);
    close(file_fd);
}

/* Things that sendfile cannot send. */
HANDLER(piped)
{
    int zero = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    CHECK(zero >= 0);
    CHECK_EQ(weft_http_send_file(response, zero, 0, 3), 0);
    close(zero);
}

static void files_of_the_kernel_are_sent(void)
{
    weft_http_server *server = serve(piped);
    struct answer answer = ask(server, GET("/"));
    CHECK_EQ(answer.size, 3);
    answer_free(&answer);
    end(server);
}

/* A file beside what else a response can have: a length, trailers, chunks. */
HANDLER(together)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/length") == 0) {
        CHECK_EQ(weft_http_set(response, "Content-Length", "7"), 0);
        CHECK_EQ(weft_http_send_file(response, file_fd, 0, 8), -EMSGSIZE);
        CHECK_EQ(weft_http_sent(response), 0);
        CHECK_EQ(weft_http_send_file(response, file_fd, 0, 5), 0);
        CHECK_EQ(weft_http_send_file(response, file_fd, 0, 3), -EMSGSIZE);
        CHECK_EQ(weft_http_send_file(response, file_fd, 5, 2), 0);
    } else if (strcmp(path, "/trailer") == 0) {
        CHECK_EQ(weft_http_set_trailer(response, "X-Sum", "21"), 0);
        CHECK_EQ(weft_http_send_file(response, file_fd, 0, 7), 0);
    } else {
        CHECK_EQ(weft_http_flush(response), 0);
        CHECK_EQ(weft_http_send_file(response, file_fd, 0, 3), 0);
        CHECK_EQ(weft_http_send_file(response, file_fd, 0, 0), 0); /* a chunk of none is the last */
        CHECK_EQ(weft_http_send_file(response, file_fd, 3, 4), 0);
    }
}

static void files_beside_other_things(void)
{
    static const char *const requests[] = {GET("/length"), GET("/chunks"),
                                           "GET /trailer HTTP/1.1\r\n" HOST
                                           "TE: trailers\r\nConnection: TE\r\n\r\n"};
    make_file(7);
    weft_http_server *server = serve(together);
    struct client client = client_open(server);
    for (int i = 0; i < 3; i++) {
        client_send(&client, requests[i]);
        struct answer answer = client_answer(&client);
        CHECK_EQ(answer.status, 200);
        CHECK_EQ(answer.chunked, i > 0);
        check_file(answer.body, answer.size);
        CHECK_STR(answer.trailer, i == 2 ? "X-Sum: 21\r\n" : "");
        answer_free(&answer);
    }
    close_and_end(&client, server);
    close(file_fd);
}

/* A client that goes away while it is sent to does no harm. */
HANDLER(endless)
{
    static const char block[10000];
    outcome = weft_http_flush(response); /* else the length would be that of one file */
    while (outcome == 0)
        outcome = strcmp(weft_http_path(request), "/file") == 0
                      ? weft_http_send_file(response, file_fd, 0, file_size)
                      : weft_http_write(response, block, sizeof block);
}

static void clients_that_go_away(void)
{
    make_file(1 << 20);
    weft_http_server *server = serve(endless);
    for (int i = 0; i < 20; i++) {
        struct client client = client_open(server);
        if (i >= 16) /* of which nothing is sent that could fail */
            client_send(&client, "HEAD ");
        client_send(&client, (i % 2 == 0 ? GET("/") : GET("/file")) + (i >= 16 ? 4 : 0));
        CHECK(client_fill(&client));
        if (i % 4 < 2) {
            struct linger reset = {.l_onoff = 1};
            CHECK(setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
        }
        client_close(&client);
        AWAIT(stats_of(server).connections == 0);
        CHECK(outcome == -EPIPE || outcome == -ECONNRESET);
    }
    end(server);
    close(file_fd);
}

/* As large as no buffers are. */
HANDLER(huge)
{
    outcome = weft_http_send_file(response, file_fd, 0, file_size);
}

static void write_timeout(void)
{
    make_file(1);
    file_size = 1 << 28;
    CHECK_EQ(ftruncate(file_fd, file_size), 0);
    for (int i = 0; i < 2; i++) {
        weft_http_server *server =
            SERVE(.handler = i == 0 ? endless : huge, .write_timeout = 20 * WEFT_MS);
        struct client client = client_asks(server, GET("/"));
        AWAIT(stats_of(server).timed_out == 1);     /* nothing is read meanwhile */
        CHECK_EQ(outcome, i == 0 ? -ETIMEDOUT : 0); /* the end of a file is not waited for */
        AWAIT(stats_of(server).connections == 0);
        close_and_end(&client, server);
    }
    close(file_fd);
}

/* An unreadable descriptor is an error before a head has gone out: the handler can still give
 * another answer. */
static void bad_descriptors_send_no_head(void)
{
    static const struct {
        const char *path;
        int error;
    } rows[] = {{"/bad/closed", -EBADF},
                {"/bad/writable", -EBADF},
                {"/bad/pipe", -ESPIPE},
                {"/bad/folder", -EISDIR}};
    weft_http_server *server = serve(filed);
    struct client client = client_open(server);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct answer answer = fetch(&client, "GET", rows[i].path, 1);
        CHECK_EQ(answer.status, 404);
        CHECK_EQ(outcome, rows[i].error);
        answer_free(&answer);
    }
    close_and_end(&client, server);
}

/* A write that sends nothing cannot fail, except when the server has cut the request off. */
static void nothing_is_sent_for_ever(void)
{
    weft_http_server *server = serve(endless);
    struct client client = client_asks(server, "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    CHECK(client_fill(&client));
    CHECK_EQ(weft_http_stop(server, WEFT_NOW), -ETIMEDOUT);
    weft_http_close(server);
    CHECK_EQ(outcome, -ECANCELED);
    client_close(&client);
}

int main(void)
{
    RUN(files_are_sent);
    int before = open_descriptors();
    RUN(bad_descriptors_send_no_head);
    RUN(files_that_are_shorter_end_the_connection);
    RUN(files_of_the_kernel_are_sent);
    RUN(files_beside_other_things);
    RUN(clients_that_go_away);
    RUN(write_timeout);
    RUN(nothing_is_sent_for_ever);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
