/*
 * tls_answers.c: answers that take another way through TLS than without: files, refusals, and the
 * alert at the end. Sends are caught by the linker, as in fault.c.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "http/exchange.h"
#include "system.h"
#include "tls_server.h"

static atomic_int no_room; /* so many sends find none */

int64_t __real_weft__http_send(int fd, const struct iovec *pieces, int count);
int64_t __wrap_weft__http_send(int fd, const struct iovec *pieces, int count);
int64_t __wrap_weft__http_send(int fd, const struct iovec *pieces, int count)
{
    if (atomic_load(&no_room) == 0)
        return __real_weft__http_send(fd, pieces, count);
    atomic_fetch_sub(&no_room, 1);
    return -EAGAIN;
}

enum { FILE_SIZE = 40000 };
static int file_fd;

/* So much that not a byte more goes into the socket. The client must not read it. */
static void fill(int fd)
{
    static const char junk[4096];
    while (send(fd, junk, sizeof junk, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    CHECK_EQ(errno, EAGAIN);
}

/* /file; /body, which reads one; /flushed, and then the socket is full for a moment; /filled: and
 * is. */
HANDLER(answer)
{
    const char *path = weft_http_path(request);
    if (strcmp(path, "/file") == 0) {
        CHECK_EQ(weft_http_send_file(response, file_fd, 0, FILE_SIZE), 0);
        return;
    }
    char *body;
    size_t size;
    if (strcmp(path, "/body") == 0)
        CHECK_EQ(weft_http_read_all(request, &body, &size), 0);
    CHECK_EQ(weft_http_puts(response, "hello"), 0);
    if (strcmp(path, "/hello") == 0 || strcmp(path, "/body") == 0)
        return;
    CHECK_EQ(weft_http_flush(response), 0);
    if (strcmp(path, "/flushed") == 0)
        atomic_store(&no_room, 3);
    else
        fill(exchange_of_request(request)->connection->fd);
}

static void files_are_sent(void)
{
    weft_http_server *server =
        serve_tls_at("tcp:127.0.0.1:0", (weft_http_options){.handler = answer});
    struct client client = connected(port_of(server), ordinary);
    static char body[FILE_SIZE];
    size_t size;
    for (int round = 0; round < 3; round++) {
        memset(body, 0, sizeof body);
        ask(&client, GET("/file"));
        CHECK_EQ(response(&client, body, sizeof body, &size), 200);
        CHECK_EQ(size, FILE_SIZE);
        for (size_t i = 0; i < size; i++)
            CHECK_EQ((uint8_t)body[i], i % 251);
    }
    hang_up(&client, true);
    end(server);
}

static void nonsense_is_refused(void)
{
    weft_http_server *server =
        serve_tls_at("tcp:127.0.0.1:0", (weft_http_options){.handler = answer});
    struct client client = connected(port_of(server), ordinary);
    char body[100], byte;
    size_t size;
    ask(&client, "nonsense\r\n\r\n");
    CHECK_EQ(response(&client, body, sizeof body, &size), 400);
    CHECK_EQ(client_read(&client, &byte, 1), 0); /* with the alert */
    hang_up(&client, true);
    CHECK_EQ(stats_of(server).bad, 1);
    end(server);
}

/* Beyond the limit there is no handshake, so no answer can be sent. */
static void connections_are_limited(void)
{
    weft_http_server *server = serve_tls_at(
        "tcp:127.0.0.1:0", (weft_http_options){.handler = answer, .max_connections = 1});
    struct client client = connected(port_of(server), ordinary);
    char body[100];
    size_t size;
    ask(&client, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    AWAIT(stats_of(server).running == 1);
    int fd = dial(port_of(server));
    CHECK_EQ(weft_fd_wait(fd, WEFT_READABLE, WEFT_NEVER), WEFT_READABLE);
    CHECK_EQ(recv(fd, body, sizeof body, 0), 0);
    close(fd);
    CHECK_EQ(stats_of(server).refused, 1);
    ask(&client, "x");
    CHECK_EQ(response(&client, body, sizeof body, &size), 200);
    hang_up(&client, true);
    end(server);
}

/* There is no room for the alert, but a moment later there is. */
static void the_end_is_told(void)
{
    weft_http_server *server =
        serve_tls_at("tcp:127.0.0.1:0", (weft_http_options){.handler = answer});
    struct client client = connected(port_of(server), ordinary);
    char data[1000];
    int all = 0, got;
    ask(&client, "GET /flushed HTTP/1.0\r\n\r\n");
    while ((got = client_read(&client, data + all, (int)sizeof data - 1 - all)) > 0)
        all += got;
    CHECK_EQ(got, 0);
    data[all] = '\0';
    CHECK(all > 9 && strcmp(data + all - 9, "\r\n\r\nhello") == 0);
    CHECK_EQ(atomic_load(&no_room), 0);
    hang_up(&client, false);
    end(server);
}

static int dial_path(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof to.sun_path);
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* A client that does not read gets no alert, and the server does not wait for it. */
static void the_end_is_not_waited_for_without_end(void)
{
    const char *path = in_folder("socket");
    char *address;
    CHECK(asprintf(&address, "unix:%s", path) > 0);
    weft_http_server *server = serve_tls_at(
        address, (weft_http_options){.handler = answer, .write_timeout = 20 * WEFT_MS});
    struct client client = client_open(clients, dial_path(path), ordinary);
    CHECK_EQ(client_handshake(&client), 0);
    ask(&client, "GET /filled HTTP/1.0\r\n\r\n");
    while (stats_of(server).requests == 0)
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
    CHECK_EQ(shutdown(client.fd, SHUT_WR), 0); /* else it would be listened to for a while */
    while (stats_of(server).connections > 0)
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
    hang_up(&client, false);
    end(server);
    (void)unlink(path);
    free(address);
}

static void make_file(void)
{
    char name[] = "/tmp/weft-tls-file-XXXXXX", bytes[FILE_SIZE];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i % 251);
    file_fd = mkstemp(name);
    CHECK(file_fd >= 0 && unlink(name) == 0);
    CHECK_EQ(write(file_fd, bytes, sizeof bytes), sizeof bytes);
}

int main(void)
{
    clients_begin();
    make_file();
    int before = open_descriptors();
    RUN(files_are_sent);
    RUN(nonsense_is_refused);
    RUN(connections_are_limited);
    RUN(the_end_is_told);
    RUN(the_end_is_not_waited_for_without_end);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    clients_end();
    return 0;
}
