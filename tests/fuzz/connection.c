/*
 * connection.c: a whole connection: for any bytes in any pieces the server answers in order and in
 * form.
 *
 * The bytes are sent to a server of this process over a Unix socket, in pieces that they decide,
 * and then the client's side ends. The answer is read to its end: complete responses, each with a
 * valid status, and none after one that closes. At the end the server has no connection and no
 * request left, and answers another request.
 */
#include "fuzz.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "http/http.h"

static weft_http_server *server;
static char path[64];

/* The first letter of the path selects what the handler does with the body, and how it answers. */
static void anything(weft_http_request *request, weft_http_response *response, void *data)
{
    char piece[100], *body;
    size_t size;
    const char *name, *value;
    (void)data;
    for (int i = 0; weft_http_header_at(request, i, &name, &value) == 0; i++)
        CHECK(strlen(name) > 0 && weft_http_header(request, name) != NULL);
    (void)weft_http_query_value(request, "a");
    if (strcmp(weft_http_method(request), "HEAD") == 0)
        CHECK_EQ(weft_http_set(response, "X-Head", "1"), 0);
    switch (weft_http_path(request)[1]) {
    case 'a':
        if (weft_http_read_all(request, &body, &size) == 0)
            (void)weft_http_reply(response, 200, "text/plain", body, size);
        break;
    case 'b':
        while (weft_http_read(request, piece, sizeof piece) > 0)
            (void)weft_http_write(response, piece, 1);
        (void)weft_http_trailer(request, "a");
        break;
    case 'c':
        (void)weft_http_set_trailer(response, "X", "y");
        (void)weft_http_flush(response);
        (void)weft_http_puts(response, "chunk");
        break;
    case 'd':
        if (weft_http_upgrade(response, "x") == 0)
            while (weft_http_stream_read(response, piece, sizeof piece, WEFT_NEVER) > 0)
                ;
        break;
    case 'e':
        (void)!weft_http_read(request, piece, 1);
        (void)weft_http_error(response, 404, NULL);
        break;
    default:
        (void)weft_http_puts(response, "default");
        break;
    }
}

static void stop(void)
{
    weft_http_close(server);
    *strrchr(path, '/') = '\0';
    (void)rmdir(path);
}

static void start(void)
{
    char folder[] = "/tmp/weft-fuzz-XXXXXX";
    char address[80];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/socket", folder);
    snprintf(address, sizeof address, "unix:%s", path);
    weft_http_options options = {.handler = anything, .max_body = 10000, .max_header = 2000};
    CHECK_EQ(weft_http_open(&server, &options), 0);
    CHECK_EQ(weft_http_listen(server, address, NULL), 0);
    CHECK_EQ(atexit(stop), 0);
}

static struct client dial(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return client_of(fd);
}

/* Complete responses up to the end, or up to bytes after an upgrade. */
static void check_answers(struct client *client)
{
    bool last = false;
    while (!client_at_end(client)) {
        struct answer answer;
        CHECK(!last);
        CHECK(client_head(client, &answer));
        CHECK(client_rest(client, &answer, answer_field(&answer, "X-Head") != NULL));
        CHECK(answer.status == 100 || answer.status == 101 || answer.status == 200 ||
              (answer.status >= 400 && answer.status <= 505));
        const char *connection = answer_field(&answer, "Connection");
        last = connection != NULL && strcmp(connection, "close") == 0;
        bool upgraded = answer.status == 101;
        answer_free(&answer);
        if (upgraded)
            break;
    }
    while (client_fill(client))
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prng prng = fuzz_prng(data, size);
    if (server == NULL)
        start();
    struct client client = dial();
    uint32_t most = prng_below(&prng, 3) == 0 ? 1 + prng_below(&prng, 30) : (uint32_t)size + 1;
    size_t at = 0;
    while (at < size) {
        size_t piece = 1 + prng_below(&prng, most);
        if (piece > size - at)
            piece = size - at;
        if (!client_try_send(&client, data + at, piece))
            break;
        at += piece;
    }
    client_half_close(&client);
    check_answers(&client);
    client_close(&client);

    client = dial();
    client_send(&client, GET_CLOSE("/"));
    EXPECT(&client, 200, "default");
    CHECK(client_at_end(&client));
    client_close(&client);
    AWAIT(stats_of(server).connections == 0 && stats_of(server).running == 0);
    return 0;
}
