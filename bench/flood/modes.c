/*
 * modes.c: the modes: floods and attacks. flood.py says which bytes an attack sends.
 *
 * idle    every connection has one request answered, and then stays open; "ready N" is printed when
 *         all have, or when five seconds have brought no more answers
 * burst   a number of requests in all, one at a time on each connection, as fast as the answers
 * hold    every connection sends `first`, and a `piece` after each pause
 * stream  every connection sends `first`, and then pieces as fast as the server takes them
 * reset   every connection sends `first` and is reset at once; the next one is opened
 * touch   as reset, but when the answer begins
 * reader  every connection requests a large file and reads `rate` bytes a second
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "flood.h"

enum { SECOND_MS = 1000, READER_BUFFER = 4096, READER_PIECE = 65536, STREAM_PIECE = 65536 };

static const int64_t SECOND = INT64_C(1000000000), MILLISECOND = 1000000;

/* ---- all modes ---- */

static double cpu_seconds(void)
{
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

void report_common(struct flood *flood)
{
    printf("result mode=%s seconds=%.2f opened=%lld failed_to_open=%lld closed_by_server=%lld "
           "sent=%lld answered=%lld cut=%lld bytes_sent=%lld bytes_received=%lld cpu=%.3f "
           "p50_us=%.0f p99_us=%.0f max_us=%.0f",
           flood->mode->name, (double)(flood->now - flood->start) / 1e9, (long long)flood->opened,
           (long long)flood->failed_to_open, (long long)flood->closed_by_server,
           (long long)flood->sent, (long long)flood->answered, (long long)flood->cut,
           (long long)flood->bytes_sent, (long long)flood->bytes_received, cpu_seconds(),
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

void no_tick(struct flood *flood)
{
    (void)flood;
}

void no_write(struct flood *flood, struct client *client)
{
    (void)flood;
    (void)client;
}

static void count_cut(struct flood *flood, struct client *client)
{
    flood->cut += client->waits;
}

/* Whether the expected answer is complete. */
static bool is_answered(struct flood *flood, struct client *client, const char *data, int size)
{
    if (!client->waits || size == 0)
        return false;
    (void)answer_take(client->answer, data, size, flood->bodiless);
    return client->answer->whole;
}

/* ---- idle ---- */

static struct {
    int64_t ready, progress; /* open connections with an answer; the time of the last answer */
    bool said;
} idle;

static void idle_opened(struct flood *flood, struct client *client)
{
    client->at = flood->now;
    client_request(flood, client);
}

static void idle_came(struct flood *flood, struct client *client, const char *data, int size)
{
    if (!is_answered(flood, client, data, size))
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
    if (!is_answered(flood, client, data, size))
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

/* ---- hold, stream ---- */

/* Counts all answers. */
static void attack_came(struct flood *flood, struct client *client, const char *data, int size)
{
    while (size > 0) {
        int before = client->answer->status;
        int used = answer_take(client->answer, data, size, flood->bodiless);
        if (before == 0 && client->answer->status != 0) {
            flood->answered++;
            flood->statuses[client->answer->status]++;
        }
        data += used;
        size -= used;
        if (client->answer->whole)
            answer_start(client->answer);
        else if (used == 0)
            return;
    }
}

static void attack_ended(struct flood *flood, struct client *client)
{
    (void)flood;
    client->counter = 0;
}

static void hold_opened(struct flood *flood, struct client *client)
{
    answer_start(client->answer);
    /* Spreads the clients over the pause. */
    client->at = flood->now + client->number % SECOND_MS * (flood->pause * MILLISECOND / SECOND_MS);
    if (flood->first.size > 0)
        (void)client_send(flood, client, flood->first.data, flood->first.size);
    client_end_side(flood, client);
}

static void hold_tick(struct flood *flood)
{
    for (long number = 0; number < flood->connections && flood->piece.size > 0; number++) {
        struct client *client = &flood->clients[number];
        if (client->state != CLIENT_OPEN || client->at > flood->now)
            continue;
        client->at += flood->pause * MILLISECOND;
        (void)client_send(flood, client, flood->piece.data, flood->piece.size);
    }
}

const struct mode mode_hold = {
    .name = "hold",
    .answers = true,
    .opened = hold_opened,
    .came = attack_came,
    .can_write = no_write,
    .ended = attack_ended,
    .tick = hold_tick,
    .report = report_common,
};

static struct bytes many; /* many copies of the piece, for one call */

static void stream_start(struct flood *flood)
{
    if (flood->piece.size == 0)
        flood->piece = flood->first;
    long times = STREAM_PIECE / flood->piece.size + 1;
    many.data = malloc((size_t)(times * flood->piece.size));
    if (many.data == NULL)
        exit(1);
    for (; times > 0; times--, many.size += flood->piece.size)
        memcpy(many.data + many.size, flood->piece.data, (size_t)flood->piece.size);
}

/* The counter has the bytes of pieces that were sent: a send may take a part of one. */
static void stream_can_write(struct flood *flood, struct client *client)
{
    long from = (long)(client->counter % flood->piece.size), size = many.size - from;
    if (size > flood->most - client->counter)
        size = flood->most - (long)client->counter;
    long sent = client_send(flood, client, many.data + from, size);
    if (sent > 0)
        client->counter += sent;
    if (client->counter == flood->most)
        client_want_out(flood, client, false);
}

static void stream_opened(struct flood *flood, struct client *client)
{
    answer_start(client->answer);
    if (client_send(flood, client, flood->first.data, flood->first.size) < 0)
        return;
    client_want_out(flood, client, true);
}

const struct mode mode_stream = {
    .name = "stream",
    .answers = true,
    .start = stream_start,
    .opened = stream_opened,
    .came = attack_came,
    .can_write = stream_can_write,
    .ended = attack_ended,
    .tick = no_tick,
    .report = report_common,
};

/* ---- reset, touch ---- */

static void reset_opened(struct flood *flood, struct client *client)
{
    if (flood->first.size > 0 &&
        client_send(flood, client, flood->first.data, flood->first.size) < 0)
        return;
    client_end(flood, client, false);
}

static void touch_opened(struct flood *flood, struct client *client)
{
    (void)client_send(flood, client, flood->first.data, flood->first.size);
}

static void touch_came(struct flood *flood, struct client *client, const char *data, int size)
{
    (void)data;
    flood->answered += size > 0;
    if (size > 0)
        client_end(flood, client, false);
}

static void no_end(struct flood *flood, struct client *client)
{
    (void)flood;
    (void)client;
}

const struct mode mode_reset = {
    .name = "reset",
    .opened = reset_opened,
    .came = touch_came,
    .can_write = no_write,
    .ended = no_end,
    .tick = no_tick,
    .report = report_common,
};

const struct mode mode_touch = {
    .name = "touch",
    .opened = touch_opened,
    .came = touch_came,
    .can_write = no_write,
    .ended = no_end,
    .tick = no_tick,
    .report = report_common,
};

/* ---- reader ---- */

static void reader_opened(struct flood *flood, struct client *client)
{
    client_request(flood, client);
    client_end_side(flood, client);
    client_sleep(flood, client);
}

/* Reads its share of the tick, without read events. */
static void reader_tick(struct flood *flood)
{
    static char data[READER_PIECE];
    long share = flood->rate / 10 < (long)sizeof data ? flood->rate / 10 : (long)sizeof data;
    for (long number = 0; number < flood->connections; number++) {
        struct client *client = &flood->clients[number];
        if (client->state != CLIENT_OPEN)
            continue;
        long got = client_read(flood, client, data, share);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            client_end(flood, client, true);
        } else if (got > 0 && client->waits) {
            (void)answer_take(client->answer, data, (int)got, false);
            if (client->answer->status != 0) {
                flood->statuses[client->answer->status]++;
                client->waits = false;
            }
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
