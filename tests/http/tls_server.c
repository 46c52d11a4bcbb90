/*
 * tls_server.c: a server that listens with TLS, and clients of it: OpenSSL's, and curl.
 */
#include <signal.h>
#include <spawn.h>

#include "limit_descriptors.h"
#include "system.h"
#include "tls_server.h"

static const char large[300000];

/* ---- the server ---- */

/* /hello; /flush: the same at once; /large; else the body of the request. */
HANDLER(answer)
{
    const char *path = weft_http_path(request);
    char piece[1000];
    int64_t got;
    CHECK(weft_http_is_tls(request) != 0);
    if (strcmp(path, "/hello") == 0) {
        (void)weft_http_puts(response, "hello");
    } else if (strcmp(path, "/flush") == 0) {
        (void)weft_http_puts(response, "hello");
        CHECK_EQ(weft_http_flush(response), 0);
    } else if (strcmp(path, "/large") == 0) {
        (void)weft_http_write(response, large, sizeof large);
    } else {
        while ((got = weft_http_read(request, piece, sizeof piece)) > 0)
            (void)weft_http_write(response, piece, (size_t)got);
        CHECK(got == 0 || got == -EFBIG);
    }
}

static weft_http_server *serve(weft_http_options options, int *port)
{
    options.handler = answer;
    return serve_tls(options, port);
}

/* ---- tests ---- */

static void one_connection_many_requests(void)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    int port;
    weft_http_server *server = serve((weft_http_options){0}, &port);
    for (int i = 0; i < 2; i++) {
        struct client client = connected(port, (struct client_options){.version = versions[i]});
        for (int round = 0; round < 10; round++) {
            ask_hello(&client);
        }
        ask(&client, GET("/hello") GET("/hello") GET("/hello")); /* in one record */
        for (int round = 0; round < 3; round++)
            expect_hello(&client);
        for (int round = 0; round < 3; round++) /* in three, which may come at once */
            ask(&client, GET("/hello"));
        for (int round = 0; round < 3; round++)
            expect_hello(&client);
        hang_up(&client, true);
    }
    AWAIT(stats_of(server).requests == 32); /* it is counted when it was sent */
    CHECK_EQ(stats_of(server).accepted, 2);
    end(server);
}

/* A head in many records, of which several lie in OpenSSL's buffer: nothing tells of them again. */
static void a_head_in_many_records(void)
{
    static const char request[] = GET("/hello");
    int port;
    weft_http_server *server = serve((weft_http_options){0}, &port);
    struct client client = connected(port, ordinary);
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof request - 1; i++)
            CHECK_EQ(client_write(&client, request + i, 1), 1);
        expect_hello(&client);
    }
    hang_up(&client, true);
    end(server);
}

/* What is flushed is one record, though it is a head, a line, the body and another line. */
static void few_records(void)
{
    int port;
    char data[4096];
    weft_http_server *server = serve((weft_http_options){0}, &port);
    struct client client = connected(port, ordinary);
    ask(&client, GET("/flush"));
    int got = client_read(&client, data, sizeof data - 1); /* never more than a record */
    CHECK(got > 0);
    data[got] = '\0';
    CHECK(strstr(data, "\r\n\r\n5\r\nhello\r\n") != NULL);
    hang_up(&client, true);
    end(server);
}

/* A body that ends with the connection: the alert comes, though there is no room for it at once. */
static void a_body_to_the_end(void)
{
    int port;
    char body[1000];
    weft_http_server *server = serve((weft_http_options){0}, &port);
    for (int round = 0; round < 20; round++) {
        struct client client = connected(port, ordinary);
        int all = 0, got;
        ask(&client, "GET /large HTTP/1.0\r\n\r\n");
        while ((got = client_read(&client, body, sizeof body)) > 0)
            all += got;
        CHECK_EQ(got, 0);
        CHECK(all > (int)sizeof large);
        hang_up(&client, false);
    }
    end(server);
}

static void bodies_both_ways(void)
{
    int port;
    weft_http_server *server = serve((weft_http_options){0}, &port);
    struct client client;
    char *body = malloc(sizeof large), request[200];
    size_t size;
    CHECK(body != NULL);
    client = connected(port, ordinary);
    memset(body, 'b', 5000);
    snprintf(request, sizeof request,
             "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n");
    ask(&client, request);
    for (int i = 0; i < 5000; i += 500)
        CHECK_EQ(client_write(&client, body + i, 500), 500);
    memset(body, 0, 5000);
    CHECK_EQ(response(&client, body, sizeof large, &size), 200);
    CHECK_EQ(size, 5000);
    CHECK(body[0] == 'b' && body[4999] == 'b');
    hang_up(&client, true);
    free(body);
    end(server);
}

/* A client that sends everything before it reads is not reset: it gets the answer. */
static void a_body_too_large(void)
{
    static const char body[1 << 20];
    char text[100];
    size_t size;
    int port;
    weft_http_server *server = serve((weft_http_options){.max_body = 1000}, &port);
    for (int round = 0; round < 5; round++) {
        struct client client = connected(port, ordinary);
        ask(&client, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n");
        for (size_t sent = 0; sent < 8388608;) {
            int part = client_write(&client, body, sizeof body);
            CHECK(part > 0);
            sent += (size_t)part;
        }
        CHECK_EQ(response(&client, text, sizeof text, &size), 413);
        CHECK_EQ(client_read(&client, text, 1), 0); /* with the alert */
        hang_up(&client, false);
    }
    end(server);
}

static void no_tls_at_all(void)
{
    static const char request[] = GET("/hello");
    int port;
    char data[1000] = "";
    size_t size = 0;
    ssize_t got;
    weft_http_server *server = serve((weft_http_options){0}, &port);
    int fd = dial(port);
    CHECK_EQ(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    do { /* it gets the reason in plain HTTP */
        CHECK_EQ(weft_fd_wait(fd, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
        got = recv(fd, data + size, sizeof data - 1 - size, 0);
        size += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    CHECK_EQ(got, 0);
    CHECK_EQ(strncmp(data, "HTTP/1.1 400 Bad Request\r\n", 26), 0);
    CHECK(strstr(data, "\r\nConnection: close\r\n") != NULL);
    const char *body = strstr(data, "\r\n\r\n");
    CHECK(body != NULL && strstr(body, "https") != NULL);
    CHECK_EQ(strtoul(strstr(data, "Content-Length: ") + 16, NULL, 10), strlen(body + 4));
    close(fd);
    fd = dial(port); /* bytes that are neither: closed */
    CHECK_EQ(send(fd, "\1\2\3nonsense", 11, MSG_NOSIGNAL), 11);
    CHECK_EQ(weft_fd_wait(fd, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    memset(data, 0, sizeof data);
    (void)!recv(fd, data, sizeof data, 0); /* an alert, perhaps */
    CHECK(strncmp(data, "HTTP", 4) != 0);
    close(fd);
    struct client client = connected(port, ordinary); /* it goes on */
    ask_hello(&client);
    hang_up(&client, true);
    CHECK_EQ(stats_of(server).bad, 2);
    end(server);
}

/* With one worker and no place to wait: handshakes that do not go on must not take it. */
static void stalled_handshakes(void)
{
    enum { STALLED = 20 };
    int port, fds[STALLED];
    char byte;
    weft_http_server *server = serve(
        (weft_http_options){.max_workers = 1, .queue = -1, .header_timeout = 300 * WEFT_MS}, &port);
    for (int i = 0; i < STALLED; i++) {
        fds[i] = dial(port);
        if (i % 2 == 0)
            CHECK_EQ(send(fds[i], "\x16\3\1\2\0\1", 6, MSG_NOSIGNAL), 6);
    }
    while (stats_of(server).accepted < STALLED)
        weft_yield();
    struct client client;
    do { /* it may itself be too slow for so short a time */
        client = client_open(clients, dial(port), ordinary);
        if (client_handshake(&client) == 0)
            break;
        hang_up(&client, false);
    } while (true);
    AWAIT(stats_of(server).running == 0);
    for (int i = 0; i < STALLED; i++) {
        CHECK_EQ(weft_fd_wait(fds[i], WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
        CHECK(recv(fds[i], &byte, 1, 0) <= 0);
        close(fds[i]);
    }
    CHECK(stats_of(server).timed_out >= STALLED);
    hang_up(&client, false);
    end(server);
}

enum { EACH = 50 };
static int many_port;
static weft_wg all_here;

static void be_one_of_many(void *arg)
{
    struct client client[EACH];
    int count = *(int *)arg;
    for (int i = 0; i < count; i++) {
        client[i] = connected(many_port, ordinary);
        ask_hello(&client[i]);
    }
    weft_wg_done(&all_here);
    CHECK_EQ(weft_wg_wait(&all_here), 0);
    for (int i = 0; i < count; i++) {
        ask_hello(&client[i]);
        hang_up(&client[i], true);
    }
}

/* How many may be open here: two descriptors each, and some for the rest. */
static int64_t connections_at_most(void)
{
    rlim_t most = all_descriptors();
    return most > 100000 ? 50000 : ((int64_t)most - 100) / 2;
}

/* All open at the same time, and all asking again then. */
static void many_connections(void)
{
    int64_t wanted = test_scale(1000), most = connections_at_most();
    int each = EACH, fibers = (int)(((wanted < most ? wanted : most) + EACH - 1) / EACH);
    weft_fiber **all = calloc((size_t)fibers, sizeof(weft_fiber *));
    weft_http_server *server = serve((weft_http_options){0}, &many_port);
    CHECK(all != NULL);
    CHECK_EQ(weft_wg_add(&all_here, fibers + 1), 0);
    for (int i = 0; i < fibers; i++)
        CHECK_EQ(weft_spawn(&all[i], be_one_of_many, &each,
                            &(weft_spawn_options){.stack_size = 128 * 1024}),
                 0);
    while (weft_wg_count(&all_here) > 1)
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
    CHECK_EQ(stats_of(server).connections, fibers * EACH);
    AWAIT(stats_of(server).running == 0);
    weft_wg_done(&all_here);
    for (int i = 0; i < fibers; i++)
        CHECK_EQ(weft_join(all[i]), 0);
    AWAIT(stats_of(server).requests == 2 * fibers * EACH);
    free(all);
    end(server);
}

static void resumed(void)
{
    int port;
    SSL_SESSION *session = NULL;
    weft_http_server *server = serve((weft_http_options){0}, &port);
    for (int round = 0; round < 2; round++) {
        struct client client = connected(port, (struct client_options){.resume = session});
        CHECK_EQ(SSL_session_reused(client.ssl), round);
        ask_hello(&client);
        SSL_SESSION_free(session);
        session = SSL_get1_session(client.ssl);
        hang_up(&client, true);
    }
    SSL_SESSION_free(session);
    end(server);
}

/* A client that we did not write. */
static void curl(void)
{
    int port, status = 0;
    char url[100], text[100] = "";
    const char *output = in_folder("output");
    pid_t child;
    weft_http_server *server = serve((weft_http_options){0}, &port);
    snprintf(url, sizeof url, "https://localhost:%d/hello", port);
    const char *root = in_folder("root.pem");
    char resolve[64];
    snprintf(resolve, sizeof resolve, "localhost:%d:127.0.0.1", port);
    const char *arguments[] = {"curl",     "--silent",  "--show-error", "--fail",   "--noproxy",
                               "*",        "--resolve", resolve,        "--cacert", root,
                               "--output", output,      "--output",     output,     url,
                               url,        NULL};
    char *given[17];
    memcpy(given, arguments, sizeof arguments);
    int error = posix_spawnp(&child, "curl", NULL, NULL, given, environ);
    if (error == 0) {
        CHECK_EQ(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
            error = ENOENT;
    }
    if (error != 0) {
        printf("there is no curl here: left out\n");
    } else {
        CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
        FILE *file = fopen(output, "r");
        CHECK(file != NULL);
        CHECK_EQ(fread(text, 1, sizeof text - 1, file), 5);
        CHECK_STR(text, "hello");
        fclose(file);
        (void)unlink(output);
    }
    end(server);
}

static void keys_that_are_none(void)
{
    weft_http_server *server;
    weft_http_tls tls = {.certificate = in_folder("chain.pem"), .key = in_folder("other.pem")};
    CHECK_EQ(weft_http_open(&server, NULL), 0);
    CHECK_EQ(weft_http_listen_tls(server, "tcp:127.0.0.1:0", NULL, NULL), -EINVAL);
    CHECK_EQ(weft_http_listen_tls(server, "tcp:127.0.0.1:0", NULL, &tls), -EINVAL);
    tls.key = "/no/such/key.pem";
    CHECK_EQ(weft_http_listen_tls(server, "tcp:127.0.0.1:0", NULL, &tls), -ENOENT);
    tls.key = in_folder("key.pem");
    CHECK_EQ(weft_http_listen_tls(server, "nonsense", NULL, &tls), -EINVAL);
    weft_http_close(server);
}

int main(void)
{
    clients_begin();
    int before = open_descriptors();
    RUN(keys_that_are_none);
    RUN(one_connection_many_requests);
    RUN(a_head_in_many_records);
    RUN(few_records);
    RUN(a_body_to_the_end);
    RUN(bodies_both_ways);
    RUN(a_body_too_large);
    RUN(no_tls_at_all);
    RUN(stalled_handshakes);
    RUN(resumed);
    RUN(curl);
    RUN(many_connections);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    clients_end();
    return 0;
}
