/*
 * probe.c: the honest clients: a few requests a second, with the latency of each.
 *
 * Half of the clients keep their connection, half open one for each request. Each 100 ms produce a
 * line: the time (milliseconds of CLOCK_MONOTONIC), answers with 200, p50, p99 and the longest
 * latency in microseconds, failures (no answer in 5 s, or a connection that ended), and other
 * statuses. Latency counts from the time at which the request was due, so it includes opening the
 * connection. A request without an answer counts with its age, so a server that has stopped is
 * noticed at once. An input line, and the end, ends a phase: a line `phase` summarizes it.
 */
#include <stdio.h>
#include <string.h>

#include "flood.h"

static const int64_t MILLISECOND = 1000 * 1000;

static struct {
    struct histogram window;
    int64_t good, failed, refused;             /* in this window */
    int64_t all_good, all_failed, all_refused; /* in this phase */
    int64_t next_line;
} probe;

static int64_t interval(void)
{
    return 20 * MILLISECOND;
}

static void probe_start(struct flood *flood)
{
    for (long number = 0; number < flood->connections; number++) {
        struct client *client = &flood->clients[number];
        client->fresh = number % 2 != 0;
        client->at = flood->now + number * interval() / flood->connections;
        client->retry = client->at;
    }
    probe.next_line = flood->now + 100 * MILLISECOND;
}

static void probe_opened(struct flood *flood, struct client *client)
{
    client_request(flood, client);
}

/* Schedules the next request; at once if it is overdue. */
static void schedule(struct client *client)
{
    int64_t now = flood_clock();
    client->at += interval();
    if (client->at < now)
        client->at = now;
    client->retry = client->at;
}

static void probe_came(struct flood *flood, struct client *client, const char *data, int size)
{
    if (!client->waits || size == 0)
        return;
    (void)answer_take(client->answer, data, size, false);
    if (!client->answer->whole)
        return;
    int64_t taken = flood_clock() - client->at;
    client->waits = false;
    flood->statuses[client->answer->status]++;
    flood->answered++;
    if (client->answer->status == 200) {
        probe.good++;
        histogram_add(&probe.window, taken);
        histogram_add(&flood->latency, taken);
    } else {
        probe.refused++;
    }
    schedule(client);
    if (client->fresh || client->answer->closes)
        client_end(flood, client, false);
}

static void probe_ended(struct flood *flood, struct client *client)
{
    if (!client->waits)
        return;
    flood->cut++;
    probe.failed++;
    schedule(client);
}

static void give_up_or_send(struct flood *flood, struct client *client)
{
    int64_t now = flood_clock();
    bool waits = client->waits || client->state == CLIENT_OPENING;
    if (waits && now - client->at > 5000 * MILLISECOND) {
        client->waits = true; /* also before a request was sent: it counts as failed */
        client_end(flood, client, false);
    } else if (client->state == CLIENT_OPEN && !client->waits && client->at <= now) {
        client_request(flood, client);
    }
}

static void line(struct flood *flood)
{
    int64_t now = flood_clock();
    for (long number = 0; number < flood->connections; number++) {
        struct client *client = &flood->clients[number];
        if ((client->waits || client->state == CLIENT_OPENING) &&
            now - client->at > 100 * MILLISECOND)
            histogram_add(&probe.window, now - client->at);
    }
    printf("window %lld %lld %lld %lld %lld %lld %lld\n", (long long)(now / MILLISECOND),
           (long long)probe.good, (long long)histogram_quantile(&probe.window, 0.5) / 1000,
           (long long)histogram_quantile(&probe.window, 0.99) / 1000,
           (long long)probe.window.most / 1000, (long long)probe.failed, (long long)probe.refused);
    (void)fflush(stdout);
    probe.all_good += probe.good;
    probe.all_failed += probe.failed;
    probe.all_refused += probe.refused;
    probe.good = probe.failed = probe.refused = 0;
    histogram_clear(&probe.window);
    probe.next_line = now + 100 * MILLISECOND;
}

static void probe_tick(struct flood *flood)
{
    for (long number = 0; number < flood->connections; number++)
        give_up_or_send(flood, &flood->clients[number]);
    if (flood->now >= probe.next_line)
        line(flood);
}

/* Pending requests count too; otherwise a server that has stopped would look good. */
static void probe_mark(struct flood *flood)
{
    int64_t now = flood_clock();
    line(flood);
    for (long number = 0; number < flood->connections; number++) {
        struct client *client = &flood->clients[number];
        if ((client->waits || client->state == CLIENT_OPENING) &&
            now - client->at > 100 * MILLISECOND)
            histogram_add(&flood->latency, now - client->at);
    }
    printf("phase good=%lld failed=%lld refused=%lld p50_us=%.0f p99_us=%.0f p999_us=%.0f "
           "max_us=%.0f\n",
           (long long)probe.all_good, (long long)probe.all_failed, (long long)probe.all_refused,
           (double)histogram_quantile(&flood->latency, 0.5) / 1e3,
           (double)histogram_quantile(&flood->latency, 0.99) / 1e3,
           (double)histogram_quantile(&flood->latency, 0.999) / 1e3,
           (double)flood->latency.most / 1e3);
    (void)fflush(stdout);
    probe.all_good = probe.all_failed = probe.all_refused = 0;
    histogram_clear(&flood->latency);
}

static void probe_can_write(struct flood *flood, struct client *client)
{
    (void)flood;
    (void)client;
}

const struct mode mode_probe = {
    .name = "probe",
    .answers = true,
    .start = probe_start,
    .opened = probe_opened,
    .came = probe_came,
    .can_write = probe_can_write,
    .ended = probe_ended,
    .tick = probe_tick,
    .mark = probe_mark,
    .report = probe_mark,
};
