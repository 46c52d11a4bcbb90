/*
 * tls_streams.c: an upgraded connection over TLS whose client does not read for a while: a write
 * that gave up has taken the bytes that it returned, and the stream goes on behind them.
 */
#include <signal.h>
#include <weft/sem.h>

#include "system.h"
#include "tls_server.h"

#define UPGRADE                                                              \
    "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: x" \
    "\r\n\r\n"

enum { SECOND = 50000 };

static weft_sem full = WEFT_SEM_INIT(0);
static int64_t taken; /* of the first message; before `full` is posted */

/* Writes pieces of the first message until one is not taken. */
static void fill(weft_http_response *response)
{
    static char first[40000];
    int64_t sent;
    memset(first, 'a', sizeof first);
    CHECK_EQ(weft_http_upgrade(response, "x"), 0);
    taken = 0;
    while ((sent = weft_http_stream_write(response, first, sizeof first, WEFT_NOW)) > 0)
        taken += sent;
    CHECK_EQ(sent, -ETIMEDOUT);
    weft_sem_release(&full, 1);
}

HANDLER(then_another)
{
    static char second[SECOND];
    memset(second, 'b', sizeof second);
    fill(response);
    CHECK_EQ(weft_http_stream_write(response, second, SECOND, WEFT_NEVER), SECOND);
}

HANDLER(then_the_end)
{
    fill(response);
}

/* The client answers when it has all of it. */
HANDLER(then_a_read)
{
    char byte;
    fill(response);
    CHECK_EQ(weft_http_stream_read(response, &byte, 1, WEFT_NEVER), 1);
}

/* A client that begins to read when the handler has found no more room. */
static struct client begin(weft_http_server **server, weft_http_handler handler)
{
    int port;
    char head[12];
    *server = serve_tls((weft_http_options){.handler = handler}, &port);
    struct client client = connected(port, ordinary);
    ask(&client, UPGRADE);
    weft_sem_acquire(&full, 1);
    client_read_all(&client, head, sizeof head);
    CHECK_EQ(memcmp(head, "HTTP/1.1 101", sizeof head), 0);
    for (unsigned last = 0; last != 0x0d0a0d0a;) {
        client_read_all(&client, head, 1);
        last = last << 8 | (unsigned char)head[0];
    }
    return client;
}

static void expect(struct client *client, char byte, int64_t count)
{
    char *data = malloc((size_t)count);
    CHECK(data != NULL);
    client_read_all(client, data, (int)count);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(data[i], byte);
    free(data);
}

static void expect_end(struct client *client, weft_http_server *server)
{
    char byte;
    CHECK_EQ(client_read(client, &byte, 1), 0);
    hang_up(client, true);
    end(server);
}

static void another_message_follows(void)
{
    weft_http_server *server;
    struct client client = begin(&server, then_another);
    expect(&client, 'a', taken);
    expect(&client, 'b', SECOND);
    expect_end(&client, server);
}

static void the_end_follows(void)
{
    weft_http_server *server;
    struct client client = begin(&server, then_the_end);
    expect(&client, 'a', taken);
    expect_end(&client, server);
}

static void a_read_follows(void)
{
    weft_http_server *server;
    struct client client = begin(&server, then_a_read);
    expect(&client, 'a', taken);
    CHECK_EQ(client_write(&client, "x", 1), 1);
    expect_end(&client, server);
}

int main(void)
{
    clients_begin();
    int before = open_descriptors();
    RUN(another_message_follows);
    RUN(the_end_follows);
    RUN(a_read_follows);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    clients_end();
    return 0;
}
