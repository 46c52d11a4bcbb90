/*
 * chan.c: channels, select, tickers, contexts and groups under many seeds: every element that was sent arrives once,
 * in the order of its sender, whoever gives up, closes or is cancelled meanwhile.
 */
#include "seeds.h"

enum { SENDERS = 3, RECEIVERS = 3, EACH = 8, CHANNELS = 3 };

static struct prng lots;
static weft_chan *channels[CHANNELS];
static int last[SENDERS]; /* that arrived, of each sender */
static int sent, received;
static weft_wg senders, receivers;

struct element {
    int sender, number;
};

static bool one_in(uint32_t times)
{
    return prng_below(&lots, times) == 0;
}

static int64_t soon(void)
{
    return weft_after((int64_t)prng_below(&lots, 3) * WEFT_MS);
}

static void make_channels(void)
{
    lots = seeds_prng();
    for (int i = 0; i < CHANNELS; i++)
        CHECK_EQ(weft_chan_make(&channels[i], sizeof(struct element), prng_below(&lots, 3)), 0);
    sent = received = 0;
    for (int i = 0; i < SENDERS; i++)
        last[i] = -1;
}

static void destroy_channels(void)
{
    for (int i = 0; i < CHANNELS; i++) {
        CHECK_EQ(weft_chan_length(channels[i]), 0);
        weft_chan_destroy(channels[i]);
    }
}

static void arrives(const struct element *element, bool in_order)
{
    CHECK(element->sender >= 0 && element->sender < SENDERS);
    if (in_order)
        CHECK_EQ(element->number, last[element->sender] + 1);
    last[element->sender] = element->number;
    received++;
}

/* One channel: order and number. With deadlines: what was not sent is sent again. */
static void send_all(void *arg)
{
    struct element element = {(int)(uintptr_t)arg, 0};
    while (element.number < EACH) {
        int error = one_in(2) ? weft_chan_send(channels[0], &element)
                              : weft_chan_send_until(channels[0], &element, soon());
        CHECK(error == 0 || error == -ETIMEDOUT);
        element.number += error == 0;
        sent += error == 0;
    }
}

static void receive_all(void *arg)
{
    (void)arg;
    struct element element;
    for (;;) {
        int error = one_in(2) ? weft_chan_receive(channels[0], &element)
                              : weft_chan_receive_until(channels[0], &element, soon());
        if (error == -ESHUTDOWN)
            return;
        CHECK(error == 0 || error == -ETIMEDOUT);
        if (error == 0)
            arrives(&element, false);
        else
            CHECK_EQ(weft_sleep(WEFT_MS), 0);
    }
}

static void run_senders(void (*send)(void *), void (*receive)(void *), int receiver_count)
{
    senders = receivers = (weft_wg)WEFT_WG_INIT;
    for (int i = 0; i < receiver_count; i++)
        CHECK_EQ(weft_wg_go(&receivers, receive, NULL), 0);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(weft_wg_go(&senders, send, (void *)(uintptr_t)i), 0);
    CHECK_EQ(weft_wg_wait(&senders), 0);
    for (int i = 0; i < CHANNELS; i++)
        CHECK_EQ(weft_chan_close(channels[i]), 0);
    CHECK_EQ(weft_wg_wait(&receivers), 0);
    CHECK_EQ(sent, received);
}

static void nothing_is_lost(void)
{
    make_channels();
    run_senders(send_all, receive_all, RECEIVERS);
    CHECK_EQ(received, SENDERS * EACH);
    destroy_channels();
}

static void receive_in_order(void *arg)
{
    (void)arg;
    struct element element;
    while (weft_chan_receive(channels[0], &element) == 0)
        arrives(&element, true);
}

static void order_is_kept(void)
{
    make_channels();
    run_senders(send_all, receive_in_order, 1);
    destroy_channels();
}

/* Select on both sides. */
static void select_send(void *arg)
{
    struct element element = {(int)(uintptr_t)arg, 0};
    while (element.number < EACH) {
        weft_case cases[CHANNELS];
        for (int i = 0; i < CHANNELS; i++)
            cases[i] = (weft_case){.chan = channels[i], .op = WEFT_SEND, .element = &element};
        int chosen =
            one_in(2) ? weft_select(cases, CHANNELS) : weft_select_until(cases, CHANNELS, soon());
        CHECK(chosen >= 0 || chosen == -ETIMEDOUT);
        element.number += chosen >= 0;
        sent += chosen >= 0;
    }
}

static void select_receive(void *arg)
{
    (void)arg;
    bool open[CHANNELS] = {true, true, true};
    struct element element;
    while (open[0] || open[1] || open[2]) {
        weft_case cases[CHANNELS];
        for (int i = 0; i < CHANNELS; i++)
            cases[i] = (weft_case){
                .chan = open[i] ? channels[i] : NULL, .op = WEFT_RECEIVE, .element = &element};
        int chosen = weft_select(cases, CHANNELS);
        CHECK(chosen >= 0);
        if (cases[chosen].result == -ESHUTDOWN) {
            open[chosen] = false;
        } else {
            CHECK_EQ(cases[chosen].result, 0);
            arrives(&element, false);
        }
    }
}

static void select_loses_nothing(void)
{
    make_channels();
    run_senders(select_send, select_receive, RECEIVERS);
    CHECK_EQ(received, SENDERS * EACH);
    destroy_channels();
}

/* Closed while they send: what was sent arrives, what was refused does not. */
static void send_until_closed(void *arg)
{
    struct element element = {(int)(uintptr_t)arg, 0};
    int error;
    while ((error = weft_chan_send(channels[0], &element)) == 0) {
        element.number++;
        sent++;
    }
    CHECK_EQ(error, -ESHUTDOWN);
}

static void close_under_their_hands(void)
{
    make_channels();
    senders = receivers = (weft_wg)WEFT_WG_INIT;
    CHECK_EQ(weft_wg_go(&receivers, receive_in_order, NULL), 0);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(weft_wg_go(&senders, send_until_closed, (void *)(uintptr_t)i), 0);
    uint32_t turns = prng_below(&lots, 200);
    for (uint32_t i = 0; i < turns; i++)
        weft_yield();
    CHECK_EQ(weft_chan_close(channels[0]), 0);
    CHECK_EQ(weft_wg_wait(&senders), 0);
    CHECK_EQ(weft_wg_wait(&receivers), 0);
    CHECK_EQ(sent, received);
    destroy_channels();
}

/* Cancelled while they wait: all end, and soon; with no element half sent. */
static void send_until_cancelled(void *arg)
{
    struct element element = {(int)(uintptr_t)arg, 0};
    int error;
    while ((error = weft_chan_send(channels[0], &element)) == 0) {
        element.number++;
        sent++;
    }
    CHECK_EQ(error, -ECANCELED);
}

static void cancel_under_their_hands(void)
{
    weft_context *context;
    weft_fiber *fibers[SENDERS];
    struct element element;
    make_channels();
    CHECK_EQ(weft_context_open(&context, NULL, NULL), 0);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(weft_spawn(&fibers[i], send_until_cancelled, (void *)(uintptr_t)i,
                            &(weft_spawn_options){.context = context}),
                 0);
    uint32_t some = prng_below(&lots, 20);
    for (uint32_t i = 0; i < some; i++) {
        CHECK_EQ(weft_chan_receive(channels[0], &element), 0);
        arrives(&element, true);
    }
    weft_context_cancel(context);
    while (weft_chan_receive_until(channels[0], &element, weft_after(WEFT_S)) == 0)
        arrives(&element, true);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    weft_context_close(context);
    CHECK_EQ(sent, received);
    destroy_channels();
}

/* A group: the first error cancels the rest, wherever they wait. */
static int fails_or_waits(void *arg)
{
    if ((uintptr_t)arg == 0) {
        CHECK_EQ(weft_sleep((int64_t)prng_below(&lots, 3) * WEFT_MS), 0);
        return -EIO;
    }
    struct element element;
    int error = one_in(2) ? weft_chan_receive(channels[0], &element) : weft_sleep(WEFT_NEVER);
    CHECK_EQ(error, -ECANCELED);
    return error;
}

static void group_stops(void)
{
    weft_group *group;
    make_channels();
    int64_t start = weft_now();
    CHECK_EQ(weft_group_open(&group, NULL), 0);
    uintptr_t first = prng_below(&lots, 5);
    for (uintptr_t i = 0; i < 5; i++) { /* the failing one is any of them */
        int error = weft_group_go(group, fails_or_waits, (void *)((i + 5 - first) % 5));
        CHECK(error == 0 || error == -ECANCELED);
    }
    CHECK_EQ(weft_group_close(group), -EIO);
    CHECK(weft_now() - start <= 2 * WEFT_MS);
    destroy_channels();
}

/* A deadline against the event that it is for, at the same moment: one of them wins, completely. */
static void sleeps_and_sends(void *arg)
{
    (void)arg;
    struct element element = {0, 0};
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    sent += weft_chan_send_until(channels[0], &element, weft_after(WEFT_MS)) == 0;
}

static void deadline_meets_event(void)
{
    struct element element;
    make_channels();
    weft_fiber *fiber;
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_spawn(&fiber, sleeps_and_sends, NULL, NULL), 0);
        int error = weft_chan_receive_until(channels[0], &element, weft_after(WEFT_MS));
        CHECK(error == 0 || error == -ETIMEDOUT);
        received += error == 0;
        CHECK_EQ(weft_join(fiber), 0);
        while (weft_chan_try_receive(channels[0], &element) == 0)
            received++;
        CHECK_EQ(sent, received);
    }
    destroy_channels();
}

int main(void)
{
    RUN_SEEDS_MANY(nothing_is_lost);
    RUN_SEEDS_MANY(order_is_kept);
    RUN_SEEDS_MANY(select_loses_nothing);
    RUN_SEEDS_MANY(close_under_their_hands);
    RUN_SEEDS_MANY(cancel_under_their_hands);
    RUN_SEEDS_MANY(group_stops);
    RUN_SEEDS_MANY(deadline_meets_event);
    return 0;
}
