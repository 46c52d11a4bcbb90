/*
 * upgrade.c: upgrades that are refused or fail, and the results of reads and writes of a stream.
 * streams.c has upgrades that work, and how a stop ends them. The calls that fail are caught by the
 * linker (failing_seam.h).
 */
#include <weft/runtime.h>
#include <weft/sem.h>

#include "http.h"
#include "http/sys.h"
#include "system.h"

enum call { ALLOCATE, RESIZE, SEND, CALLS };

static const struct {
    int error;
} calls[CALLS] = {[ALLOCATE] = {-ENOMEM}, [RESIZE] = {-ENOMEM}, [SEND] = {-EPIPE}};

#include "failing_seam.h"

WRAP(int64_t, send, (int fd, const struct iovec *pieces, int count), SEND, (fd, pieces, count))

#define UPGRADE(path)                                                           \
    "GET " path " HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: echo\r\n" \
    "\r\n"

/* One after the other: there is one server, and one client. */
static void (*_Atomic act)(weft_http_response *response);

HANDLER(handler)
{
    act(response);
}

static weft_http_server *server;

static struct client asked(void (*what)(weft_http_response *), const char *request)
{
    struct client client = client_open(server);
    act = what;
    client_send(&client, request);
    return client;
}

static void expect_upgrade(struct client *client)
{
    struct answer answer;
    CHECK(client_head(client, &answer));
    CHECK_EQ(answer.status, 101);
    CHECK_STR(answer_field(&answer, "Upgrade"), "echo");
    answer_free(&answer);
}

static void expect_text(struct client *client, const char *expected)
{
    char *text = client_take(client, strlen(expected));
    CHECK_STR(text, expected);
    free(text);
    client_end(client);
}

/* ---- without an upgrade, and without a stream ---- */

static void with_arguments(weft_http_response *response)
{
    char bytes[4];
    CHECK_EQ(weft_http_upgrade(response, NULL), -EINVAL);
    CHECK_EQ(weft_http_upgrade(response, "echo\r\nX: y"), -EINVAL);
    CHECK_EQ(weft_http_upgrade(response, "other"), -EINVAL);
    CHECK_EQ(weft_http_upgrade(response, "echo"), 0); /* nothing is left of those */
    CHECK_EQ(weft_http_stream_write(response, NULL, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_http_stream_write(response, NULL, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_http_stream_read(response, bytes, 0, WEFT_NEVER), 0);
    CHECK_EQ(weft_http_stream_write(response, "end", 3, WEFT_NEVER), 3);
}

static void arguments(void)
{
    struct client client = asked(with_arguments, UPGRADE("/"));
    expect_upgrade(&client);
    expect_text(&client, "end");
}

static void when_begun(weft_http_response *response)
{
    CHECK_EQ(weft_http_puts(response, "plain"), 0);
    CHECK_EQ(weft_http_upgrade(response, "echo"), -EBUSY);
}

/* What was written goes out as it was meant. */
static void too_late(void)
{
    struct client client = asked(when_begun, UPGRADE("/"));
    EXPECT(&client, 200, "plain");
    client_close(&client);
}

/* ---- in small pieces ---- */

static void by_fours(weft_http_response *response)
{
    char bytes[26];
    size_t size = 0;
    CHECK_EQ(weft_http_upgrade(response, "echo"), 0);
    while (size < sizeof bytes) {
        size_t room = sizeof bytes - size < 4 ? sizeof bytes - size : 4;
        int64_t got = weft_http_stream_read(response, bytes + size, room, WEFT_NEVER);
        CHECK(got > 0 && got <= (int64_t)room);
        size += (size_t)got;
    }
    CHECK_EQ(weft_http_stream_write(response, bytes, size, WEFT_NEVER), size);
}

/* What came behind the head is more than is asked for at once. */
static void in_small_pieces(void)
{
    struct client client = asked(by_fours, UPGRADE("/") "abcdefghijklmnopqrstuvwxyz");
    expect_upgrade(&client);
    expect_text(&client, "abcdefghijklmnopqrstuvwxyz");
}

/* ---- what fails ---- */

static void fill(weft_http_response *response, size_t size)
{
    char *value = text_of(size, 'v');
    int error;
    while ((error = weft_http_add(response, "X", value)) == 0)
        continue;
    CHECK_EQ(error, -EMSGSIZE);
    free(value);
}

static void with_all_fields(weft_http_response *response)
{
    fill(response, 1000);
    fill(response, 50);
    fill(response, 0);
    CHECK_EQ(weft_http_upgrade(response, "echo"), -EMSGSIZE);
    CHECK_EQ(weft_http_puts(response, "plain"), 0);
}

/* No room for one more field: the answer is still the handler's. */
static void no_room_for_a_field(void)
{
    struct client client = asked(with_all_fields, UPGRADE("/"));
    EXPECT(&client, 200, "plain");
    client_close(&client);
}

static void fail_with(weft_http_response *response, enum call call)
{
    char byte;
    start_failing(call, 1, false);
    CHECK_EQ(weft_http_upgrade(response, "echo"), calls[call].error);
    stop_failing();
    CHECK_EQ(atomic_load(&plan.hits), 1);
    CHECK_EQ(weft_http_stream_read(response, &byte, 1, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_http_stream_write(response, &byte, 1, WEFT_NEVER), -EINVAL);
}

static void without_memory(weft_http_response *response)
{
    char *value = text_of(40000, 'v'); /* a head that needs memory of its own */
    CHECK_EQ(weft_http_set(response, "X", value), 0);
    free(value);
    fail_with(response, ALLOCATE);
}

static void without_a_client(weft_http_response *response)
{
    fail_with(response, SEND);
}

/* It is not known what has gone out: the connection ends. */
static void failed_on_its_way(void)
{
    static void (*const ways[])(weft_http_response *) = {without_memory, without_a_client};
    for (int i = 0; i < 2; i++) {
        struct client client = asked(ways[i], UPGRADE("/"));
        client_end(&client);
        arguments(); /* the next one is served */
    }
}

/* ---- clients that do not read ---- */

static weft_sem full = WEFT_SEM_INIT(0);
static int64_t written;

static void until_full(weft_http_response *response)
{
    static const char piece[1 << 20];
    int64_t sent;
    CHECK_EQ(weft_http_upgrade(response, "echo"), 0);
    written = 0;
    while ((sent = weft_http_stream_write(response, piece, sizeof piece, WEFT_NOW)) > 0)
        written += sent;
    CHECK_EQ(sent, -ETIMEDOUT);
    weft_sem_release(&full, 1);
}

/* A write that ends at its deadline returns how much has gone out, and that much comes. */
static void writes_end_at_their_deadline(void)
{
    char bytes[65536];
    struct client client = asked(until_full, UPGRADE("/"));
    weft_sem_acquire(&full, 1);
    expect_upgrade(&client);
    int64_t came = (int64_t)(client.size - client.at);
    ssize_t got;
    while ((got = recv(client.fd, bytes, sizeof bytes, 0)) > 0)
        came += got;
    CHECK_EQ(got, 0);
    CHECK(written > 0);
    CHECK_EQ(came, written);
    client_close(&client);
}

/* ---- bytes that the handler does not read ---- */

static weft_sem come = WEFT_SEM_INIT(0);

static void without_reading(weft_http_response *response)
{
    CHECK_EQ(weft_http_upgrade(response, "echo"), 0);
    weft_sem_acquire(&come, 1);
    CHECK_EQ(weft_http_stream_write(response, "end", 3, WEFT_NEVER), 3);
}

/* A close with bytes unread would be a reset, which may take away what was written last. */
static void unread_bytes_do_not_reset_it(void)
{
    for (int i = 0; i < 20; i++) {
        struct client client = asked(without_reading, UPGRADE("/"));
        char bytes[4];
        expect_upgrade(&client);
        client_send(&client, "something");
        weft_sem_release(&come, 1);
        CHECK_EQ(recv(client.fd, bytes, 3, MSG_WAITALL), 3);
        CHECK_EQ(memcmp(bytes, "end", 3), 0);
        CHECK_EQ(recv(client.fd, bytes, 1, 0), 0); /* not ECONNRESET */
        client_close(&client);
    }
}

int main(void)
{
    int before = open_descriptors();
    server = SERVE(.handler = handler, .acceptors = 1);
    RUN(arguments);
    RUN(too_late);
    RUN(in_small_pieces);
    RUN(no_room_for_a_field);
    RUN(failed_on_its_way);
    RUN(writes_end_at_their_deadline);
    RUN(unread_bytes_do_not_reset_it);
    end(server);
    CHECK_EQ(atomic_load(&plan.blocks), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK_EQ(open_descriptors(), before);
    return 0;
}
