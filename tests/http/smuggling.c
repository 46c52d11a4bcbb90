/*
 * smuggling.c: requests that two servers could read differently, sent to one: it refuses them and
 * closes, and reads nothing behind them as a request.
 */
#include "smuggling.h" /* before http.h: both have a GET */

#include <weft/runtime.h>
#include <weft/time.h>

#include "http.h"
#include "system.h"

static _Atomic int calls, seconds;

HANDLER(reader)
{
    char *body;
    size_t size;
    calls++;
    seconds += strcmp(weft_http_path(request), "/second") == 0;
    if (data != NULL) /* a handler that does not care */
        (void)weft_http_puts(response, "fine");
    else if (weft_http_read_all(request, &body, &size) == 0)
        (void)weft_http_printf(response, "%zu", size);
}

/* Sends the bytes in so many at a time, and a request behind them. */
static void send_row(struct client *client, const struct smuggling *row, size_t piece)
{
    for (size_t at = 0; at < row->size; at += piece)
        if (!client_try_send(client, row->bytes + at,
                             piece < row->size - at ? piece : row->size - at))
            return;
    (void)client_try_send(client, GET("/second"), strlen(GET("/second")));
}

static void check_row(weft_http_server *server, const struct smuggling *row, size_t piece,
                      bool reads)
{
    struct client client = client_open(server);
    struct answer answer;
    calls = seconds = 0;
    send_row(&client, row, piece);
    if (!client_try_answer(&client, &answer, false))
        test_fail(__FILE__, __LINE__, "%s: no answer", row->name);
    int expected = row->in != IN_HEAD && !reads ? 200 : row->status;
    if (answer.status != expected)
        test_fail(__FILE__, __LINE__, "%s: %d, not %d", row->name, answer.status, expected);
    if (expected != 200)
        CHECK_STR(answer_field(&answer, "Connection"), "close");
    if (!client_at_end(&client))
        test_fail(__FILE__, __LINE__, "%s: there is more: %s", row->name, client.bytes + client.at);
    answer_free(&answer);
    client_close(&client);
    AWAIT(stats_of(server).connections == 0);
    CHECK_EQ(calls, row->in != IN_HEAD);
    CHECK_EQ(seconds, 0);
}

static void rows_are_refused(bool reads)
{
    weft_http_server *server = SERVE(.handler = reader, .data = reads ? NULL : &calls);
    for (size_t i = 0; i < SMUGGLING_ROWS; i++) {
        check_row(server, &smuggling[i], smuggling[i].size, reads);
        check_row(server, &smuggling[i], 1, reads);
        check_row(server, &smuggling[i], 7, reads);
    }
    end(server);
}

static void rows_are_refused_by_handlers_that_read(void)
{
    rows_are_refused(true);
}

static void rows_are_refused_by_handlers_that_do_not(void)
{
    rows_are_refused(false);
}

/* Behind a request that is fine they are refused as well: there a worker finds them. */
static void rows_are_refused_behind_a_request(void)
{
    weft_http_server *server = serve(reader);
    for (size_t i = 0; i < SMUGGLING_ROWS; i++) {
        const struct smuggling *row = &smuggling[i];
        if (row->bytes[0] == '\r' || row->bytes[0] == '\n')
            continue; /* empty lines are about what comes before */
        struct client client = client_open(server);
        calls = seconds = 0;
        client_send(&client, GET("/first"));
        send_row(&client, row, row->size);
        EXPECT(&client, 200, "0");
        EXPECT(&client, row->status, NULL);
        client_end(&client);
        AWAIT(stats_of(server).connections == 0);
        CHECK_EQ(calls, 1 + (row->in != IN_HEAD));
        CHECK_EQ(seconds, 0);
    }
    end(server);
}

/* A client that has ended its side and got its refusal is closed at once, without lingering. */
static void who_has_ended_is_forgotten(void)
{
    weft_http_server *server = serve(reader);
    for (int64_t i = test_scale(1000); i > 0; i--) {
        struct client client = client_open(server);
        if (i % 2 == 0)
            client_send(&client, GET("/first") "nonsense\r\n\r\n");
        else
            client_send(&client, "nonsense\r\n\r\n");
        if (i % 4 < 2)
            client_half_close(&client);
        if (i % 2 == 0)
            EXPECT(&client, 200, "0");
        EXPECT(&client, 400, NULL);
        CHECK(client_at_end(&client));
        if (i % 4 >= 2) { /* the last bytes and the end, in one piece */
            CHECK_EQ(send(client.fd, "but", 3, MSG_MORE | MSG_NOSIGNAL), 3);
            client_half_close(&client);
        }
        AWAIT(stats_of(server).connections == 0);
        client_close(&client);
    }
    CHECK_EQ(stats_of(server).timed_out, 0);
    end(server);
}

/* A client that neither sends more nor ends is closed after a while, by an acceptor that sleeps. */
static void who_stays_is_put_out(void)
{
    weft_http_server *server =
        SERVE(.handler = reader, .header_timeout = 3600 * WEFT_S, .idle_timeout = 3600 * WEFT_S);
    struct client client = client_open(server);
    ASK(&client, GET("/first") "nonsense\r\n\r\n", 200, "0");
    EXPECT(&client, 400, NULL);
    AWAIT(stats_of(server).connections == 0);
    CHECK_EQ(stats_of(server).timed_out, 1);
    close_and_end(&client, server);
}

int main(void)
{
    RUN(rows_are_refused_by_handlers_that_read);
    int before = open_descriptors();
    RUN(rows_are_refused_by_handlers_that_do_not);
    RUN(rows_are_refused_behind_a_request);
    RUN(who_has_ended_is_forgotten);
    RUN(who_stays_is_put_out);
    CHECK_EQ(open_descriptors(), before);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    return 0;
}
