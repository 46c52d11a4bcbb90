/*
 * log.c: the access log: its entries, and their lines.
 */
#include <weft/runtime.h>

#include "base/atomic.h"
#include "http.h"
#include "system.h"

enum { LINES = 16 };
static char logged[LINES][700];
static int logged_count, logged_status[LINES];
static int64_t logged_bytes[LINES], logged_time[LINES];

static void log_it(const weft_http_log_entry *entry, void *data)
{
    (void)data;
    int i = __atomic_load_n(&logged_count, __ATOMIC_RELAXED);
    CHECK(i < LINES);
    logged_status[i] = entry->status;
    logged_bytes[i] = entry->bytes;
    logged_time[i] = entry->nanoseconds;
    int used = weft_http_log_line(entry, logged[i], sizeof logged[i]);
    CHECK_EQ(used, strlen(logged[i]));
    __atomic_store_n(&logged_count, i + 1, __ATOMIC_RELEASE);
}

/* The line without the time in brackets. */
static void check_line(int i, const char *expected)
{
    AWAIT(__atomic_load_n(&logged_count, __ATOMIC_ACQUIRE) > i);
    char *from = strchr(logged[i], '['), *to = strchr(logged[i], ']');
    CHECK(from != NULL && to - from == 27);
    CHECK(memcmp(to - 6, " +0000", 6) == 0);
    memmove(from + 1, to, strlen(to) + 1);
    CHECK_STR(logged[i], expected);
    CHECK(logged_time[i] >= 0 && logged_time[i] < 3600 * WEFT_S);
}

/* /whole: five bytes; /long: more than is collected. */
HANDLER(short_or_long)
{
    static const char large[40011];
    if (strcmp(weft_http_path(request), "/whole") == 0)
        CHECK_EQ(weft_http_puts(response, "whole"), 0);
    else
        CHECK_EQ(weft_http_write(response, large, sizeof large), 0);
}

static void requests_are_logged(void)
{
    weft_http_server *server = SERVE(.handler = short_or_long, .log = log_it, .acceptors = 1);
    /* A path that is refused; then what cannot be read at all. */
    struct client client = client_open(server);
    ASK(&client, GET("/../x"), 400, NULL);
    check_line(0, "127.0.0.1 - - [] \"GET /../x HTTP/1.1\" 400 0 \"-\" \"-\"\n");
    client_close(&client);
    client = client_open(server);
    ASK(&client, "nonsense\r\n\r\n", 400, NULL);
    check_line(1, "127.0.0.1 - - [] \"- - HTTP/0.0\" 400 0 \"-\" \"-\"\n");
    client_close(&client);
    client = client_open(server);
    ASK(&client,
        "GET /whole?x=%22 HTTP/1.1\r\nHost: a\r\nReferer: http://r/\r\n"
        "User-Agent: me \"\\\x80\r\n\r\n",
        200, "whole");
    check_line(2, "127.0.0.1 - - [] \"GET /whole?x=%22 HTTP/1.1\" 200 5 \"http://r/\" "
                  "\"me \\x22\\x5c\\x80\"\n");
    CHECK_EQ(logged_bytes[2], 5);
    CHECK_EQ(logged_status[2], 200);
    ASK(&client, GET("/long"), 200, NULL);
    check_line(3, "127.0.0.1 - - [] \"GET /long HTTP/1.1\" 200 40011 \"-\" \"-\"\n");
    close_and_end(&client, server);
    CHECK_EQ(logged_count, 4);
}

static void lines_are_cut(void)
{
    weft_http_log_entry entry = {
        .method = "GET", .target = "/\x01", .referer = "", .agent = "", .version = 11};
    char text[100];
    CHECK_EQ(weft_http_log_line(NULL, text, sizeof text), -EINVAL);
    CHECK_EQ(weft_http_log_line(&entry, NULL, sizeof text), -EINVAL);
    CHECK_EQ(weft_http_log_line(&entry, text, 1), -EINVAL);
    for (size_t size = 2; size <= sizeof text; size++) {
        memset(text, 'x', sizeof text);
        int used = weft_http_log_line(&entry, text, size);
        CHECK(used > 0 && (size_t)used < size);
        CHECK_EQ(text[used], '\0');
        CHECK_EQ(text[used - 1], '\n');
        CHECK_EQ(strlen(text), used);
        CHECK(size == sizeof text || text[size] == 'x');
    }
    CHECK(strstr(text, "GET /\\x01 HTTP/1.1") != NULL);
}

static int count_of(const char *text, char character)
{
    int count = 0;
    for (; *text != '\0'; text++)
        count += *text == character;
    return count;
}

/* The client's texts are cut, not what is behind them: the line can be parsed at any size. */
static void long_texts_leave_the_line_whole(void)
{
    static char target[3000], agent[3000], text[4000];
    memset(target, 't', sizeof target - 1);
    memset(agent, '\x01', sizeof agent - 1);
    target[0] = '/';
    weft_http_log_entry entry = {.method = "GET",
                                 .target = target,
                                 .referer = "",
                                 .agent = "",
                                 .version = 11,
                                 .status = 200,
                                 .bytes = 77};
    int used = weft_http_log_line(&entry, text, 200);
    CHECK_EQ(used, 199);
    CHECK(strstr(text, "tttt... HTTP/1.1\" 200 77 \"-\" \"-\"\n") != NULL);
    CHECK(strstr(text, "\"GET /ttt") != NULL);
    /* What is short stays as it is. */
    entry.agent = agent;
    entry.referer = "http://r/";
    used = weft_http_log_line(&entry, text, 300);
    CHECK(used > 290 && used < 300);
    CHECK(strstr(text, "tttt... HTTP/1.1\" 200 77 \"http://r/\" \"\\x01\\x01") != NULL);
    CHECK(strstr(text, "\\x01...\"\n") != NULL);
    for (size_t size = 120; size < 400; size++) {
        used = weft_http_log_line(&entry, text, size);
        CHECK(used > 0 && (size_t)used < size);
        CHECK_EQ(count_of(text, '"'), 6);
        CHECK(strstr(text, " HTTP/1.1\" 200 77 \"") != NULL);
        CHECK_STR(text + used - 2, "\"\n");
    }
    /* With room for all nothing is cut. */
    entry.agent = "";
    CHECK(weft_http_log_line(&entry, text, sizeof text) > 3000);
    CHECK(strstr(text, "...") == NULL);
}

/* What could be read of a request before it was refused. */
static void refused_requests_are_logged_with_what_is_known(void)
{
    static const struct {
        const char *request, *line;
    } rows[] = {
        {"GET /field HTTP/1.1\r\nHost: a\r\nReferer: http://r/\r\nno field\r\n\r\n",
         "\"GET /field HTTP/1.1\" 400 0 \"http://r/\" \"-\"\n"},
        {"GET /host HTTP/1.1\r\nUser-Agent: me\r\n\r\n",
         "\"GET /host HTTP/1.1\" 400 0 \"-\" \"me\"\n"},
        {"GET /lf HTTP/1.1\r\nHost: a\n\r\n", "\"GET /lf HTTP/1.1\" 400 0 \"-\" \"-\"\n"},
        {"\r\nGET /next HTTP/2.0\r\nHost: a\r\n\r\n", "\"GET /next HTTP/0.0\" 505 0 \"-\" \"-\"\n"},
        {"POST http://b/abs HTTP/1.1\r\nHost: a\r\n\r\n",
         "\"POST /abs HTTP/1.1\" 400 0 \"-\" \"-\"\n"},
        {"PUT /coding HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x, chunked\r\n\r\n",
         "\"PUT /coding HTTP/1.1\" 501 0 \"-\" \"-\"\n"},
        {"nonsense\r\n\r\n", "\"- - HTTP/0.0\" 400 0 \"-\" \"-\"\n"},
        {"GET\r\n\r\n", "\"- - HTTP/0.0\" 400 0 \"-\" \"-\"\n"},
        {"GET /a b\r\n\r\n", "\"GET /a HTTP/0.0\" 400 0 \"-\" \"-\"\n"},
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    char expected[300];
    logged_count = 0;
    weft_http_server *server =
        SERVE(.handler = short_or_long, .log = log_it, .acceptors = 1, .max_header = 300);
    for (int i = 0; i < ROWS; i++) {
        struct client client = client_asks(server, rows[i].request);
        CHECK(!client_at_end(&client));
        snprintf(expected, sizeof expected, "127.0.0.1 - - [] %s", rows[i].line);
        check_line(i, expected);
        client_close(&client);
    }
    /* Too long: a field, and the line itself. */
    static char many[300], wide[200];
    memset(many, 'x', 290);
    memset(wide, 'w', 190);
    struct client client = client_asks(server, "GET /long HTTP/1.1\r\nHost: a\r\nX: ");
    ASK(&client, many, 431, NULL);
    check_line(ROWS, "127.0.0.1 - - [] \"GET /long HTTP/1.1\" 431 0 \"-\" \"-\"\n");
    client_close(&client);
    client = client_open(server);
    client_send(&client, "GET /");
    client_send(&client, wide);
    ASK(&client, wide, 431, NULL);
    AWAIT(__atomic_load_n(&logged_count, __ATOMIC_ACQUIRE) > ROWS + 1);
    CHECK(strstr(logged[ROWS + 1], "\"GET /www") != NULL);
    CHECK(strstr(logged[ROWS + 1], "w HTTP/0.0\" 431 0 \"-\" \"-\"\n") != NULL);
    close_and_end(&client, server);
}

/* A head that does not come to its end in time. */
static void late_heads_are_logged(void)
{
    logged_count = 0;
    weft_http_server *server = SERVE(.handler = short_or_long, .log = log_it, .acceptors = 1,
                                     .header_timeout = 200 * WEFT_MS);
    struct client client = client_open(server);
    ASK(&client, "GET /late HTTP/1.1\r\nHost: a\r\n", 408, NULL);
    check_line(0, "127.0.0.1 - - [] \"GET /late HTTP/1.1\" 408 0 \"-\" \"-\"\n");
    close_and_end(&client, server);
}

/* ---- a log that blocks ---- */

static int blocked_pipe[2];
static atomic_i64 log_calls;

/* As one that writes to a pipe which is not read: the call blocks, and its thread with it. */
static void log_to_a_full_pipe(const weft_http_log_entry *entry, void *data)
{
    char byte;
    (void)data;
    CHECK_EQ(entry->status, 200);
    CHECK(strncmp(entry->target, "/whole?xx", 9) == 0);
    CHECK(entry->peer->size > 0 && entry->client->size > 0);
    if (atomic_i64_add_relaxed(&log_calls, 1) == 0)
        CHECK_EQ(read(blocked_pipe[0], &byte, 1), 1);
}

/* More requests than there are workers, and more bytes of entries than are kept. */
static void a_log_that_blocks_stops_no_request(void)
{
    enum { REQUESTS = 500, SIZE = 15000 };
    char *wide = text_of(SIZE, 'x');
    CHECK_EQ(pipe(blocked_pipe), 0);
    atomic_i64_store_relaxed(&log_calls, 0);
    weft_http_server *server =
        SERVE(.handler = short_or_long, .log = log_to_a_full_pipe, .max_workers = 2);
    struct client client = client_open(server);
    for (int i = 0; i < REQUESTS; i++) {
        client_send(&client, "GET /whole?");
        client_send(&client, wide);
        ASK(&client, " HTTP/1.1\r\nHost: a\r\n\r\n", 200, "whole");
    }
    client_close(&client);
    int64_t dropped = stats_of(server).log_dropped;
    CHECK(dropped > 0 && dropped < REQUESTS);
    CHECK_EQ(write(blocked_pipe[1], "x", 1), 1);
    AWAIT(atomic_i64_load_relaxed(&log_calls) >= REQUESTS - dropped - 1); /* of the last, perhaps */
    end(server); /* all calls have been made by then */
    CHECK(atomic_i64_load_relaxed(&log_calls) >= REQUESTS - dropped - 1);
    close(blocked_pipe[0]);
    close(blocked_pipe[1]);
    free(wide);
}

/* Hosts of all kinds, as lines name them. */
static void hosts_are_named(void)
{
    static const struct {
        const char *address, *host;
    } rows[] = {{"tcp:1.2.3.4:80", "1.2.3.4"}, {"tcp:[2001:db8::7]:80", "2001:db8::7"}};
    weft_http_log_entry entry = {.method = "-", .target = "-", .referer = "", .agent = ""};
    weft_address peer;
    char text[200];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_EQ(weft_address_parse(&peer, rows[i].address), 0);
        entry.peer = &peer;
        CHECK(weft_http_log_line(&entry, text, sizeof text) > 0);
        text[strcspn(text, " ")] = '\0';
        CHECK_STR(text, rows[i].host);
    }
    /* No address; and one that is malformed. */
    memset(&peer, 0xff, sizeof peer);
    for (int i = 0; i < 2; i++) {
        peer.size = i == 0 ? 0 : sizeof peer.bytes;
        CHECK(weft_http_log_line(&entry, text, sizeof text) > 0);
        CHECK(strncmp(text, "- - - [", 7) == 0);
    }
}

int main(void)
{
    RUN(requests_are_logged);
    RUN(refused_requests_are_logged_with_what_is_known);
    RUN(late_heads_are_logged);
    int before = open_descriptors();
    RUN(a_log_that_blocks_stops_no_request);
    RUN(lines_are_cut);
    RUN(long_texts_leave_the_line_whole);
    RUN(hosts_are_named);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
