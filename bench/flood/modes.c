/*
 * modes.c: what the clients do: crowds that are idle, bursts, and attacks that take their time.
 *
 * idle       every connection has one request answered, and then stays; "ready N" is said when all were, or a second
 *            has brought none
 * burst      so many requests in all, one at a time on each connection, as fast as they are answered
 * slowloris  every connection sends a head that does not end, a field a second
 * header     the same as fast as it goes
 * reader     every connection asks for much and reads `rate` bytes a second
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "flood.h"

enum { SECOND_MS = 1000, READER_BUFFER = 4096, READER_PIECE = 65536 };

static const int64_t SECOND = INT64_C(1000000000);

/* ---- for all ---- */

static void report_common(struct flood *flood)
{
    printf("result mode=%s seconds=%.2f opened=%lld failed_to_open=%lld closed_by_server=%lld "
           "sent=%lld answered=%lld "
           "cut=%lld bytes_sent=%lld bytes_received=%lld p50_us=%.0f p99_us=%.0f max_us=%.0f",
           flood->mode->name, (double)(flood->now - flood->start) / 1e9, (long long)flood->opened,
           (long long)flood->failed_to_open, (long long)flood->closed_by_server,
           (long long)flood->sent, (long long)flood->answered, (long long)flood->cut,
           (long long)flood->bytes_sent, (long long)flood->bytes_received,
           (double)histogram_quantile(&flood->latency, 0.5) / 1e3,
           (double)histogram_quantile(&flood->latency, 0.99) / 1e3,
           (double)flood->latency.most / 1e3);
    for (int status = 100; status < 600; status++)
        if (flood->statuses[status] != 0)
            printf(" status_%d=%lld", status, (long long)flood->statuses[status]);
    puts("");
}

static void was_answered(struct flood *flood, struct client *client)
{
    client->waits = false;
    flood->answered++;
    flood->statuses[client->answer->status]++;
    histogram_add(&flood->latency, flood->now - client->at);
}

static void no_tick(struct flood *flood)
{
    (void)flood;
}

static void no_write(struct flood *flood, struct client *client)
{
    (void)flood;
    (void)client;
}

static void count_cut(struct flood *flood, struct client *client)
{
    flood->cut += client->waits;
}

/* ---- idle ---- */

static struct {
    int64_t ready,
        progress; /* connections that had their answer and are open; when the last came */
    bool said;
} idle;

static void idle_opened(struct flood *flood, struct client *client)
{
    client->at = flood->now;
    client_request(flood, client);
}

static void idle_came(struct flood *flood, struct client *client, const char *data, int size)
{
    if (!client->waits || size == 0 || !answer_take(client->answer, data, size))
        return;
    was_answered(flood, client);
    if (client->answer->status != 200) {
        client->retry = flood->now + SECOND;
        client_end(flood, client, true);
        return;
    }
    client->counter = 1;
    idle.ready++;
    idle.progress = flood->now;
}

static void idle_ended(struct flood *flood, struct client *client)
{
    count_cut(flood, client);
    idle.ready -= client->counter;
    client->counter = 0;
    if (idle.said)
        client->state = CLIENT_DONE;
}

static void idle_tick(struct flood *flood)
{
    if (idle.progress == 0)
        idle.progress = flood->now;
    if (!idle.said &&
        (idle.ready == flood->connections || flood->now - idle.progress > 5 * SECOND)) {
        printf("ready %lld\n", (long long)idle.ready);
        (void)fflush(stdout);
        idle.said = true;
    }
}

static void idle_report(struct flood *flood)
{
    printf("held %lld\n", (long long)idle.ready);
    report_common(flood);
}

const struct mode mode_idle = {
    .name = "idle",
    .answers = true,
    .opened = idle_opened,
    .came = idle_came,
    .can_write = no_write,
    .ended = idle_ended,
    .tick = idle_tick,
    .report = idle_report,
};

/* ---- burst ---- */

static void burst_next(struct flood *flood, struct client *client)
{
    if (flood->sent == flood->requests) {
        client_end(flood, client, false);
        return;
    }
    client->at = flood->now;
    client_request(flood, client);
}

static void burst_check(struct flood *flood)
{
    flood->done = flood->done || flood->answered + flood->cut == flood->requests;
}

static void burst_came(struct flood *flood, struct client *client, const char *data, int size)
{
    if (!client->waits || size == 0 || !answer_take(client->answer, data, size))
        return;
    was_answered(flood, client);
    burst_check(flood);
    if (client->answer->closes)
        client_end(flood, client, true);
    else
        burst_next(flood, client);
}

static void burst_ended(struct flood *flood, struct client *client)
{
    count_cut(flood, client);
    if (flood->sent == flood->requests)
        client->state = CLIENT_DONE;
    burst_check(flood);
}

const struct mode mode_burst = {
    .name = "burst",
    .answers = true,
    .opened = burst_next,
    .came = burst_came,
    .can_write = no_write,
    .ended = burst_ended,
    .tick = no_tick,
    .report = report_common,
};

/* ---- slowloris, header ---- */

static const char BEGINNING[] = "GET /hello HTTP/1.1\r\nHost: 127.0.0.1\r\n";
static const char FIELD[] = "X-Some-Field: some value that means nothing at all\r\n";

static void attack_came(struct flood *flood, struct client *client, const char *data, int size)
{
    if (size == 0 || client->answer->status != 0)
        return;
    (void)answer_take(client->answer, data, size);
    flood->statuses[client->answer->status]++;
}

static void attack_ended(struct flood *flood, struct client *client)
{
    (void)flood;
    client->counter = 0;
}

static void slowloris_opened(struct flood *flood, struct client *client)
{
    answer_start(client->answer);
    /* The others are not to come all at the same moment. */
    client->at = flood->now + client->number % SECOND_MS * (SECOND / SECOND_MS);
    (void)client_send(flood, client, BEGINNING, sizeof BEGINNING - 1);
}

static void slowloris_tick(struct flood *flood)
{
    for (long number = 0; number < flood->connections; number++) {
        struct client *client = &flood->clients[number];
        if (client->state != CLIENT_OPEN || client->at > flood->now)
            continue;
        client->at += SECOND;
        (void)client_send(flood, client, FIELD, sizeof FIELD - 1);
    }
}

const struct mode mode_slowloris = {
    .name = "slowloris",
    .answers = true,
    .opened = slowloris_opened,
    .came = attack_came,
    .can_write = no_write,
    .ended = attack_ended,
    .tick = slowloris_tick,
    .report = report_common,
};

/* The counter is the place in FIELD: a send may take a part of it. */
static void header_can_write(struct flood *flood, struct client *client)
{
    static char fields[64 * (sizeof FIELD - 1)];
    if (fields[0] == 0)
        for (size_t place = 0; place < sizeof fields; place++)
            fields[place] = FIELD[place % (sizeof FIELD - 1)];
    long from = (long)client->counter;
    long sent = client_send(flood, client, fields + from, (long)sizeof fields - from);
    if (sent > 0)
        client->counter = (from + sent) % (long)(sizeof FIELD - 1);
}

static void header_opened(struct flood *flood, struct client *client)
{
    answer_start(client->answer);
    if (client_send(flood, client, BEGINNING, sizeof BEGINNING - 1) < 0)
        return;
    client_want_out(flood, client, true);
}

const struct mode mode_header = {
    .name = "header",
    .answers = true,
    .opened = header_opened,
    .came = attack_came,
    .can_write = header_can_write,
    .ended = attack_ended,
    .tick = no_tick,
    .report = report_common,
};

/* ---- reader ---- */

static void reader_opened(struct flood *flood, struct client *client)
{
    client_request(flood, client);
    client_sleep(flood, client);
}

/* Reads its share of the tick: the events of reading are off. */
static void reader_tick(struct flood *flood)
{
    static char data[READER_PIECE];
    long share = flood->rate / 10 < (long)sizeof data ? flood->rate / 10 : (long)sizeof data;
    for (long number = 0; number < flood->connections; number++) {
        struct client *client = &flood->clients[number];
        if (client->state != CLIENT_OPEN)
            continue;
        long got = client_read(flood, client, data, share);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            client_end(flood, client, true);
        else if (got > 0 && client->waits)
            if (answer_take(client->answer, data, (int)got) || client->answer->status != 0) {
                flood->statuses[client->answer->status]++;
                client->waits = false;
            }
    }
}

static void reader_came(struct flood *flood, struct client *client, const char *data, int size)
{
    (void)flood;
    (void)client;
    (void)data;
    (void)size;
}

const struct mode mode_reader = {
    .name = "reader",
    .answers = true,
    .receive_buffer = READER_BUFFER,
    .opened = reader_opened,
    .came = reader_came,
    .can_write = no_write,
    .ended = count_cut,
    .tick = reader_tick,
    .report = report_common,
};
