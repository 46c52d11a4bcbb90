/*
 * body.c: bodies of requests: by length and in chunks, read, half read and unread; limits,
 * timeouts, and clients that go.
 */
#include <weft/runtime.h>
#include <weft/sem.h>
#include <weft/time.h>

#include "http.h"
#include "http/body.h"
#include "http/exchange.h"
#include "system.h"

static weft_sem entered = WEFT_SEM_INIT(0);
static _Atomic int outcome; /* of the handler's last read */

#define POST(path, more) "POST " path " HTTP/1.1\r\n" HOST more "\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

/* A number that depends on each byte and its place. */
static uint32_t sum_of(uint32_t sum, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ (uint8_t)data[i]) * 16777619u;
    return sum;
}

/* By its path: how the body is read. Answers nothing if that fails. */
HANDLER(reader)
{
    const char *path = weft_http_path(request);
    outcome = 0;
    weft_sem_release(&entered, 1);
    if (strcmp(path, "/all") == 0) {
        char *body;
        size_t size;
        outcome = weft_http_read_all(request, &body, &size);
        if (outcome == 0) {
            CHECK_EQ(body[size], '\0');
            CHECK_EQ(weft_http_write(response, body, size), 0);
            char byte;
            CHECK_EQ(weft_http_read(request, &byte, 1), 0);
            CHECK_EQ(weft_http_read_all(request, &body, &size), 0);
            CHECK_EQ(size, 0);
        }
    } else if (strncmp(path, "/sum", 4) == 0) {
        char piece[5000];
        size_t most = path[4] != '\0' ? strtoul(path + 5, NULL, 10) : sizeof piece;
        uint32_t sum = 2166136261u;
        int64_t got, all = 0;
        CHECK(most > 0 && most <= sizeof piece);
        while ((got = weft_http_read(request, piece, most)) > 0) {
            CHECK((size_t)got <= most);
            sum = sum_of(sum, piece, (size_t)got);
            all += got;
        }
        outcome = (int)got;
        CHECK_EQ(weft_http_read(request, piece, most), got); /* again the same result */
        if (got == 0) {
            const char *trailer = weft_http_trailer(request, "x-after");
            CHECK_EQ(weft_http_printf(response, "%lld %08x %s", (long long)all, sum,
                                      trailer != NULL ? trailer : "-"),
                     0);
        }
    } else if (strcmp(path, "/some") == 0) {
        char piece[3];
        CHECK_EQ(weft_http_read(request, piece, 3), 3);
        CHECK_EQ(weft_http_write(response, piece, 3), 0);
    } else {
        CHECK_EQ(
            weft_http_printf(response, "unread %lld", (long long)weft_http_content_length(request)),
            0);
    }
}

static void bodies_with_a_length(void)
{
    weft_http_server *server = serve(reader);
    struct client client = client_open(server);
    ASK(&client, POST("/all", "Content-Length: 5\r\n") "hello", 200, "hello");
    ASK(&client, POST("/all", "Content-Length: 0\r\n"), 200, "");
    ASK(&client, POST("/all", ""), 200, "");
    ASK(&client, GET("/none"), 200, "unread 0");
    /* Head and body apart, and the body byte by byte. */
    client_send(&client, POST("/all", "Content-Length: 5\r\n"));
    for (int i = 0; i < 5; i++) {
        AWAIT(stats_of(server).running == 1);
        client_send_bytes(&client, &"world"[i], 1);
    }
    EXPECT(&client, 200, "world");
    close_and_end(&client, server);
}

static void check_sum(struct client *client, const char *body, size_t size, const char *trailer)
{
    char expected[64];
    snprintf(expected, sizeof expected, "%zu %08x %s", size, sum_of(2166136261u, body, size),
             trailer);
    EXPECT(client, 200, expected);
}

static char *random_body(size_t size)
{
    char *body = text_of(size, 0);
    uint32_t state = 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525 + 1013904223;
        body[i] = (char)(state >> 24);
    }
    return body;
}

static void large_bodies(void)
{
    size_t size = (size_t)test_scale(6000000);
    char *body = random_body(size), head[200];
    weft_http_server *server = serve(reader);
    struct client client = client_open(server);
    snprintf(head, sizeof head, POST("/sum", "Content-Length: %zu\r\n"), size);
    client_send(&client, head);
    client_send_bytes(&client, body, size);
    check_sum(&client, body, size, "-");

    /* In chunks of many sizes. */
    client_send(&client, POST("/sum/777", CHUNKED));
    for (size_t at = 0, piece = 1; at < size; at += piece, piece = piece * 3 % 70001 + 1) {
        if (piece > size - at)
            piece = size - at;
        snprintf(head, sizeof head, "%zX;a=b\r\n", piece);
        client_send(&client, head);
        client_send_bytes(&client, body + at, piece);
        client_send(&client, "\r\n");
    }
    client_send(&client, "0\r\n\r\n");
    check_sum(&client, body, size, "-");
    close_and_end(&client, server);
    free(body);
}

/* Cut at each place, with the next request behind. */
static void chunks_come_in_pieces(void)
{
    static const char request[] = POST(
        "/sum/4", CHUNKED "Trailer: X-After\r\n") "3\r\nabc\r\n00a;x=\"y\"\r\n0123456789\r\n"
                                                  "0\r\nX-After: all\r\nY: z\r\n\r\n" GET("/none");
    weft_http_server *server = serve(reader);
    struct client client = client_open(server);
    size_t head = strlen(POST("/sum/4", CHUNKED "Trailer: X-After\r\n"));
    for (size_t cut = head; cut < sizeof request - 1; cut++) {
        AWAIT(stats_of(server).running == 0);
        while (weft_sem_try_acquire(&entered, 1) == 0)
            ;
        client_send_bytes(&client, request, cut);
        weft_sem_acquire(&entered, 1);
        client_send_bytes(&client, request + cut, sizeof request - 1 - cut);
        check_sum(&client, "abc0123456789", 13, "all");
        EXPECT(&client, 200, "unread 0");
    }
    for (size_t i = 0; i < sizeof request - 1; i++)
        client_send_bytes(&client, request + i, 1);
    check_sum(&client, "abc0123456789", 13, "all");
    EXPECT(&client, 200, "unread 0");
    ASK(&client, POST("/all", CHUNKED) "1\r\na\r\n3\r\nbcd\r\n0\r\n\r\n", 200, "abcd");
    ASK(&client, POST("/all", CHUNKED) "0\r\n\r\n", 200, "");
    /* More than read_all has room for at first. */
    char *body = text_of(10000, 'b');
    client_send(&client, POST("/all", CHUNKED) "2710\r\n");
    client_send(&client, body);
    ASK(&client, "\r\n0\r\n\r\n", 200, body);
    free(body);
    ASK(&client, POST("/none", CHUNKED) "0\r\n\r\n", 200, "unread -1");
    close_and_end(&client, server);
}

/* ---- bodies in memory ---- */

/* Sends a body of `size` bytes but for its last, which the handler waits for. */
static struct client almost_all(weft_http_server *server, const char *from, int size)
{
    struct client client = client_of(dial_from(from, port_of(server, 0)));
    char head[100], *body = text_of((size_t)size - 1, 'b');
    (void)snprintf(head, sizeof head, POST("/all", "Content-Length: %d\r\n"), size);
    client_send(&client, head);
    client_send(&client, body);
    free(body);
    return client;
}

static void ends_with(struct client *client, int status)
{
    (void)client_try_send(client, "b", 1);
    CHECK_ANSWER(client_answer(client), status, NULL);
    client_close(client);
}

static void wait_for_memory(weft_http_server *server, int64_t least)
{
    while (atomic_i64_load_relaxed(&server->body_memory) < least)
        (void)weft_sleep(WEFT_MS);
}

static void bodies_in_memory_are_bounded(void)
{
    weft_http_server *server = SERVE(.handler = reader, .max_body_memory = 500000);
    for (int round = 0; round < 2; round++) {
        struct client one = almost_all(server, NULL, 400000);
        wait_for_memory(server, 300000);
        struct client two = almost_all(server, NULL, 400000);
        ends_with(&two, 503);
        struct client small = almost_all(server, NULL, 60000);
        ends_with(&small, 200);
        ends_with(&one, 200);
        while (atomic_i64_load_relaxed(&server->body_memory) != 0)
            (void)weft_sleep(WEFT_MS);
    }
    end(server);
}

static void an_address_has_a_share_of_that_memory(void)
{
    weft_http_options options = {
        .handler = reader, .max_body_memory = 1000000, .max_requests_per_ip = 10};
    weft_http_server *server = serve_with(options);
    struct client one = almost_all(server, "127.0.0.2", 300000);
    wait_for_memory(server, 200000);
    struct client two = almost_all(server, "127.0.0.2", 200000);
    ends_with(&two, 503);
    struct client another = almost_all(server, "127.0.0.3", 300000);
    ends_with(&another, 200);
    ends_with(&one, 200);
    two = almost_all(server, "127.0.0.2", 200000);
    ends_with(&two, 200);
    end(server);
}

/* What a client only announces takes no memory, and nothing from others. */
static void announced_bytes_are_not_counted(void)
{
    weft_http_server *server = SERVE(.handler = reader, .max_body_memory = 500000);
    struct client clients[20];
    for (int i = 0; i < 20; i++) {
        clients[i] = client_open(server);
        client_send(&clients[i], POST("/all", "Content-Length: 8000000\r\n") "b");
        weft_sem_acquire(&entered, 1);
    }
    CHECK_EQ(atomic_i64_load_relaxed(&server->body_memory), 0);
    struct client honest = almost_all(server, NULL, 400000);
    ends_with(&honest, 200);
    for (int i = 0; i < 20; i++)
        client_close(&clients[i]);
    end(server);
}

/* ---- 100-continue ---- */

static void continue_is_sent_to_clients_that_wait(void)
{
    weft_http_server *server = serve(reader);
    struct client client = client_open(server);
    for (int i = 0; i < 2; i++) {
        client_send(&client, i == 0 ? POST("/all", "Content-Length: 5\r\nExpect: 100-continue\r\n")
                                    : POST("/all", CHUNKED "Expect: 100-Continue\r\n"));
        struct answer answer = client_answer(&client);
        CHECK_EQ(answer.status, 100);
        CHECK_STR(answer.head, "");
        answer_free(&answer);
        ASK(&client, i == 0 ? "hello" : "5\r\nhello\r\n0\r\n\r\n", 200, "hello");
    }
    /* Without a body there is nothing to wait for. */
    ASK(&client, POST("/all", "Expect: 100-continue\r\n"), 200, "");
    /* In HTTP/1.0 there is no such thing. */
    ASK(&client, "POST /all HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi", 200,
        "hi");
    client_end(&client);
    end(server);
}

/* Whether the body comes is not known then: the connection ends. */
static void continue_is_not_sent_for_an_unread_body(void)
{
    weft_http_server *server = serve(reader);
    for (int i = 0; i < 2; i++) {
        struct client client =
            client_asks(server, POST("/none", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
        if (i == 1)
            client_send(&client, GET("/second"));
        CHECK_ANSWER(client_answer(&client), 200, "unread 5", {"Connection", "close"});
        client_end(&client);
    }
    CHECK_EQ(stats_of(server).requests, 2);
    end(server);
}

/* The answer has begun: 100 would come in its midst. The body may come all the same. */
HANDLER(answer_first)
{
    char *body;
    size_t size;
    CHECK_EQ(weft_http_puts(response, "<"), 0);
    CHECK_EQ(weft_http_flush(response), 0);
    CHECK_EQ(weft_http_read_all(request, &body, &size), 0);
    CHECK_EQ(weft_http_write(response, body, size), 0);
    CHECK_EQ(weft_http_puts(response, ">"), 0);
}

static void continue_is_not_said_in_an_answer(void)
{
    weft_http_server *server = serve(answer_first);
    struct client client = client_open(server);
    struct answer answer;
    client_send(&client, POST("/", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
    CHECK(client_head(&client, &answer));
    CHECK_EQ(answer.status, 200);
    CHECK_STR(answer_field(&answer, "Connection"), "close");
    client_send(&client, "hello");
    CHECK(client_rest(&client, &answer, false));
    CHECK_STR(answer.body, "<hello>");
    answer_free(&answer);
    client_end(&client);
    end(server);
}

/* ---- limits ---- */

HANDLER(raise_limit)
{
    weft_http_max_body(request, 20);
    weft_http_max_body(request, -1); /* is no limit */
    CHECK_EQ(weft_http_read(request, NULL, 0), 0);
    reader(request, response, data);
}

static void expect_refusal(weft_http_server *server, const char *request, int status)
{
    struct client client = client_asks(server, request);
    CHECK_ANSWER(client_answer(&client), status, NULL, {"Connection", "close"});
    client_end(&client);
}

static void bodies_are_limited(void)
{
    weft_http_server *server = SERVE(.handler = reader, .max_body = 10);
    struct client client = client_open(server);
    ASK(&client, POST("/all", "Content-Length: 10\r\n") "0123456789", 200, "0123456789");
    ASK(&client, POST("/all", CHUNKED) "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", 200, "0123456789");
    client_close(&client);
    expect_refusal(server, POST("/all", "Content-Length: 11\r\n") "0123456789a", 413);
    CHECK_EQ(outcome, -EFBIG);
    expect_refusal(server, POST("/sum/1", "Content-Length: 11\r\n"), 413);
    expect_refusal(server, POST("/all", "Content-Length: 9223372036854775807\r\n"), 413);
    expect_refusal(server, POST("/all", CHUNKED) "5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n", 413);
    CHECK_EQ(outcome, -EFBIG);
    expect_refusal(server, POST("/sum/3", CHUNKED) "b\r\n0123456789a\r\n0\r\n\r\n", 413);
    /* A client that waits for 100 gets its answer at once. */
    expect_refusal(server, POST("/all", "Content-Length: 11\r\nExpect: 100-continue\r\n"), 413);
    end(server);

    server = SERVE(.handler = raise_limit, .max_body = 10);
    client = client_open(server);
    ASK(&client, POST("/all", "Content-Length: 20\r\n") "0123456789abcdefghij", 200,
        "0123456789abcdefghij");
    client_close(&client);
    expect_refusal(server, POST("/all", "Content-Length: 21\r\n") "0123456789abcdefghijk", 413);
    end(server);
}

/* A handler's own answer after a failed read replaces the server's. */
HANDLER(complain)
{
    char *body;
    size_t size;
    CHECK_EQ(weft_http_read_all(request, &body, &size), -EFBIG);
    if (strcmp(weft_http_path(request), "/status") == 0)
        weft_http_status(response, 422);
    else
        CHECK_EQ(weft_http_puts(response, "too much for me"), 0);
}

static void handlers_may_complain_themselves(void)
{
    weft_http_server *server = SERVE(.handler = complain, .max_body = 4);
    for (int i = 0; i < 2; i++) {
        struct client client =
            client_asks(server, i == 0 ? POST("/status", "Content-Length: 5\r\n") "hello"
                                       : POST("/text", "Content-Length: 5\r\n") "hello");
        CHECK_ANSWER(client_answer(&client), i == 0 ? 422 : 200, i == 0 ? "" : "too much for me",
                     {"Connection", "close"});
        client_end(&client);
    }
    end(server);
}

static void bad_chunks_are_refused(void)
{
    static const char *const bodies[] = {
        "x\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\n0\r\n\r\n",
        "\r\n",
        "-1\r\n",
        "ffffffffffffffffff\r\n",
        "0\r\nbad\r\n\r\n",
        "0\r\n bad: a\r\n\r\n",
        "3\r\nabc\r\nGET / HTTP/1.1\r\n",
    };
    weft_http_server *server = serve(reader);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        char request[300];
        snprintf(request, sizeof request, "%s%s", POST("/sum", CHUNKED), bodies[i]);
        expect_refusal(server, request, 400);
        CHECK_EQ(outcome, -EBADMSG);
    }
    char *long_trailer = text_of(9000, 't'), *request;
    CHECK(asprintf(&request, "%s0\r\nX: %s\r\n\r\n", POST("/sum", CHUNKED), long_trailer) > 0);
    expect_refusal(server, request, 400);
    free(request);
    free(long_trailer);
    end(server);
}

/* ---- clients that are slow, and that go ---- */

static int64_t allowance(int64_t rate, int64_t grace, int64_t waited, int64_t transferred)
{
    return weft__http_wait_allowance(rate, grace, waited, transferred);
}

static void the_rate_is_reckoned(void)
{
    CHECK_EQ(allowance(500, 10 * WEFT_S, 0, 0), 10 * WEFT_S);
    CHECK_EQ(allowance(500, 10 * WEFT_S, 4 * WEFT_S, 0), 6 * WEFT_S);
    CHECK_EQ(allowance(500, 10 * WEFT_S, 11 * WEFT_S, 0), 0);
    CHECK_EQ(allowance(500, 10 * WEFT_S, 11 * WEFT_S, 1250), 1500 * WEFT_MS);
    CHECK_EQ(allowance(1000000000, WEFT_S, WEFT_S, 3), 3);
    /* Whatever came, it is not too much to be reckoned with. */
    CHECK_EQ(allowance(1, WEFT_S, 0, INT64_MAX), INT64_MAX);
    CHECK_EQ(allowance(1000000000, INT64_MAX, 0, INT64_MAX), INT64_MAX);
    CHECK(allowance(1000000000, WEFT_S, 0, INT64_MAX) >= INT64_MAX / 1000000000);
    CHECK_EQ(allowance(-1, WEFT_S, INT64_MAX, 0), INT64_MAX);
}

/* A byte again and again is enough for body_timeout, but not for the rate. */
static void a_body_that_is_too_slow(void)
{
    static const char *const heads[] = {POST("/sum", "Content-Length: 100000\r\n"),
                                        POST("/sum", CHUNKED)};
    for (int i = 0; i < 2; i++) {
        weft_http_server *server = SERVE(.handler = reader, .body_timeout = 600 * WEFT_S,
                                         .min_body_rate = 1000000000, .rate_grace = 50 * WEFT_MS);
        struct client client = client_asks(server, heads[i]);
        weft_sem_acquire(&entered, 1);
        const char *byte = i == 0 ? "x" : "1\r\nx\r\n";
        while (client_is_quiet(&client) && client_try_send(&client, byte, strlen(byte)))
            usleep(5000);
        EXPECT(&client, 408, NULL);
        CHECK_EQ(outcome, -ETIMEDOUT);
        client_close(&client);
        AWAIT(stats_of(server).timed_out == 1);
        end(server);
    }
}

static void body_timeout(void)
{
    weft_http_server *server = SERVE(.handler = reader, .body_timeout = 30 * WEFT_MS);
    expect_refusal(server, POST("/all", "Content-Length: 5\r\n") "he", 408);
    CHECK_EQ(outcome, -ETIMEDOUT);
    expect_refusal(server, POST("/sum", CHUNKED) "5\r\nhe", 408);
    CHECK_EQ(outcome, -ETIMEDOUT);
    expect_refusal(server, POST("/sum", CHUNKED) "5", 408);
    AWAIT(stats_of(server).timed_out == 3);
    end(server);
}

static void client_goes_away(void)
{
    static const char *const requests[] = {
        POST("/all", "Content-Length: 5\r\n") "he",
        POST("/sum", CHUNKED) "5\r\nhe",
        POST("/sum", CHUNKED) "5\r\nhello\r\n",
        POST("/sum", CHUNKED) "0\r\nX:",
    };
    weft_http_server *server = serve(reader);
    for (int way = 0; way < 2; way++)
        for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
            while (weft_sem_try_acquire(&entered, 1) == 0)
                ;
            outcome = 0;
            struct client client = client_asks(server, requests[i]);
            weft_sem_acquire(&entered, 1);
            if (way == 1) {
                struct linger reset = {.l_onoff = 1};
                CHECK(setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
            }
            client_close(&client);
            AWAIT(stats_of(server).connections == 0);
            CHECK_EQ(outcome, -ECONNRESET);
        }
    end(server);
}

/* One that sends no more, but listens: it must not take half a body for stored. */
static void client_ends_its_side(void)
{
    static const char *const requests[] = {
        POST("/all", "Content-Length: 5\r\n") "he",
        POST("/all", CHUNKED) "5\r\nhello\r\n",
        POST("/sum", CHUNKED) "5\r\nhe",
    };
    weft_http_server *server = serve(reader);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct client client = client_asks(server, requests[i]);
        client_half_close(&client);
        EXPECT(&client, 400, "400 Bad Request\n");
        CHECK_EQ(outcome, -ECONNRESET);
        client_close(&client);
    }
    end(server);
}

/* ---- bodies that no handler reads ---- */

static void small_unread_bodies_are_passed_over(void)
{
    char *body = text_of(100000, 'b'), *request;
    weft_http_server *server = serve(reader);
    struct client client = client_open(server);
    ASK(&client, POST("/none", "Content-Length: 5\r\n") "hello" GET("/none"), 200, "unread 5");
    EXPECT(&client, 200, "unread 0");
    ASK(&client, POST("/some", "Content-Length: 5\r\n") "hello" GET("/none"), 200, "hel");
    EXPECT(&client, 200, "unread 0");
    ASK(&client, POST("/some", CHUNKED) "4\r\nhell\r\n1\r\no\r\n0\r\nA: b\r\n\r\n" GET("/none"),
        200, "hel");
    EXPECT(&client, 200, "unread 0");
    CHECK(asprintf(&request, "%s%s%s", POST("/none", "Content-Length: 100000\r\n"), body,
                   GET("/none")) > 0);
    for (int i = 0; i < 10; i++) {
        ASK(&client, request, 200, "unread 100000");
        EXPECT(&client, 200, "unread 0");
    }
    close_and_end(&client, server);
    free(request);
    free(body);
}

/* The client gets its answer, and its bytes are not read as a request. */
static void large_unread_bodies_end_the_connection(void)
{
    size_t size = 4 << 20;
    char *body = text_of(size, 'b'), head[200];
    weft_http_server *server = serve(reader);
    for (int way = 0; way < 2; way++) {
        struct client client = client_open(server);
        snprintf(head, sizeof head, POST("/none", "Content-Length: %zu\r\n"), size);
        client_send(&client, way == 0 ? head : POST("/none", CHUNKED) "400000\r\n");
        struct answer answer = client_answer(&client);
        CHECK_EQ(answer.status, 200);
        CHECK(strncmp(answer.body, "unread ", 7) == 0);
        if (way == 0)
            CHECK_STR(answer_field(&answer, "Connection"), "close");
        (void)client_try_send(&client, body, size);
        (void)client_try_send(&client, GET("/second"), strlen(GET("/second")));
        answer_free(&answer);
        client_end(&client);
    }
    CHECK_EQ(stats_of(server).requests, 2);
    end(server);
    free(body);
}

/* When the head is sent it is not known yet that the body stays unread. */
HANDLER(flushes)
{
    *(struct exchange **)data = exchange_of_request(request);
    CHECK_EQ(weft_http_puts(response, "early"), 0);
    CHECK_EQ(weft_http_flush(response), 0);
}

/* Of one that is too large to be passed over nothing is read. */
static void large_bodies_behind_an_answer_that_began(void)
{
    struct exchange *exchange;
    weft_http_server *server = SERVE(.handler = flushes, .data = &exchange);
    struct client client =
        client_asks(server, POST("/", "Content-Length: 4000000\r\n") "the beginning");
    CHECK_ANSWER(client_answer(&client), 200, "early", {"Connection", NULL});
    CHECK(client_at_end(&client));
    AWAIT(stats_of(server).running == 0);
    CHECK_EQ(exchange->request.read, 0);
    close_and_end(&client, server);
}

int main(void)
{
    RUN(bodies_with_a_length);
    int before = open_descriptors();
    RUN(large_bodies);
    RUN(chunks_come_in_pieces);
    RUN(bodies_in_memory_are_bounded);
    RUN(an_address_has_a_share_of_that_memory);
    RUN(announced_bytes_are_not_counted);
    RUN(continue_is_sent_to_clients_that_wait);
    RUN(continue_is_not_sent_for_an_unread_body);
    RUN(continue_is_not_said_in_an_answer);
    RUN(bodies_are_limited);
    RUN(handlers_may_complain_themselves);
    RUN(bad_chunks_are_refused);
    RUN(body_timeout);
    RUN(the_rate_is_reckoned);
    RUN(a_body_that_is_too_slow);
    RUN(client_goes_away);
    RUN(client_ends_its_side);
    RUN(small_unread_bodies_are_passed_over);
    RUN(large_unread_bodies_end_the_connection);
    RUN(large_bodies_behind_an_answer_that_began);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
