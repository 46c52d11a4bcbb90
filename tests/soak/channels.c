/*
 * channels.c: messages over channels: sends, receives and selects in all forms.
 *
 * They run against deadlines, contexts and closes. A message whose send returned 0 is received
 * exactly once, whatever became of the calls around it; one whose send failed is never received.
 */
#include "soak.h"

enum { CHANNELS = 3, EACH = 60 };

struct market {
    weft_chan *channels[CHANNELS];
    uint32_t count;
};

static int send_by_select(struct market *market, uint64_t *id, struct prng *prng)
{
    weft_case cases[CHANNELS];
    for (uint32_t i = 0; i < market->count; i++)
        cases[i] = (weft_case){.chan = market->channels[i], .op = WEFT_SEND, .element = id};
    int which = one_in(prng, 3)   ? weft_select_try(cases, (int)market->count)
                : one_in(prng, 2) ? weft_select_until(cases, (int)market->count, soak_soon(prng))
                                  : weft_select(cases, (int)market->count);
    return which < 0 ? which : cases[which].result;
}

static int send_one(struct market *market, uint64_t *id, struct prng *prng)
{
    weft_chan *chan = market->channels[below(prng, market->count)];
    switch (below(prng, 4)) {
    case 0:
        return weft_chan_try_send(chan, id);
    case 1:
        return weft_chan_send_until(chan, id, soak_soon(prng));
    case 2:
        return send_by_select(market, id, prng);
    default:
        return weft_chan_send(chan, id);
    }
}

static void sender(struct member *member)
{
    struct market *market = member->shared;
    struct prng *prng = &member->prng;
    weft_context *context = NULL;
    for (int i = 0; i < EACH; i++) {
        if (one_in(prng, 16)) {
            weft_context_options options = {.timeout = below(prng, 500) * WEFT_US + 1};
            CHECK_EQ(weft_context_bind(NULL, NULL), 0);
            weft_context_close(context);
            CHECK_EQ(weft_context_open(&context, NULL, one_in(prng, 2) ? &options : NULL), 0);
            CHECK_EQ(weft_context_bind(context, NULL), 0);
            if (one_in(prng, 4))
                weft_context_cancel(context);
        }
        uint64_t id = ledger_enter(BOOK_MESSAGES, "channel");
        int error = send_one(market, &id, prng);
        CHECK(error == 0 || error == -EAGAIN || error == -ETIMEDOUT || error == -ECANCELED ||
              error == -ESHUTDOWN);
        if (error != 0)
            ledger_book_out(id, REFUSED);
        soak_pause(prng);
    }
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
}

/* Selects over all channels that are not closed, and a ticker. *which: the chosen channel. */
static int receive_by_select(weft_chan **open, uint32_t count, uint64_t *id, struct prng *prng,
                             uint32_t *which)
{
    weft_case cases[CHANNELS + 1];
    weft_ticker *ticker;
    int64_t time;
    CHECK_EQ(weft_ticker_open(&ticker, weft_after(below(prng, 1000) * WEFT_US), 0), 0);
    for (uint32_t i = 0; i < count; i++)
        cases[i] = (weft_case){.chan = open[i], .op = WEFT_RECEIVE, .element = id};
    cases[count] =
        (weft_case){.chan = weft_ticker_chan(ticker), .op = WEFT_RECEIVE, .element = &time};
    int happened = weft_select(cases, (int)count + 1);
    CHECK(happened >= 0);
    CHECK_EQ(weft_ticker_close(ticker), 0);
    if (happened == (int)count)
        return -ETIMEDOUT;
    *which = (uint32_t)happened;
    return cases[happened].result;
}

static int receive_one(weft_chan **open, uint32_t count, uint64_t *id, struct prng *prng,
                       uint32_t *which)
{
    *which = below(prng, count);
    if (open[*which] == NULL || one_in(prng, 4))
        return receive_by_select(open, count, id, prng, which);
    switch (below(prng, 3)) {
    case 0:
        return weft_chan_try_receive(open[*which], id);
    case 1:
        return weft_chan_receive_until(open[*which], id, soak_soon(prng));
    default: /* all senders may wait at other channels, so try those too */
        return count == 1 ? weft_chan_receive(open[*which], id)
                          : weft_chan_receive_until(open[*which], id, weft_after(WEFT_MS));
    }
}

/* Receives until all channels are closed and empty. */
static void receiver(struct member *member)
{
    struct market *market = member->shared;
    weft_chan *open[CHANNELS];
    uint32_t left = market->count, which;
    memcpy(open, market->channels, sizeof open);
    while (left > 0) {
        uint64_t id;
        int error = receive_one(open, market->count, &id, &member->prng, &which);
        if (error == 0) {
            ledger_book_out(id, HAPPENED);
        } else if (error == -ESHUTDOWN) {
            open[which] = NULL;
            left--;
        } else {
            CHECK(error == -ETIMEDOUT || error == -EAGAIN);
            weft_yield();
        }
        soak_pause(&member->prng);
    }
}

void channels_round(struct actor *actor)
{
    struct prng *prng = &actor->prng;
    struct market market = {.count = between(prng, 1, CHANNELS)};
    struct crew senders, receivers;
    bool early = one_in(prng, 4);
    for (uint32_t i = 0; i < market.count; i++)
        CHECK_EQ(weft_chan_make(&market.channels[i], sizeof(uint64_t),
                                one_in(prng, 2) ? 0 : below(prng, 8)),
                 0);
    actor->doing = "lets others send and receive";
    crew_start(&senders, prng, between(prng, 1, 4), sender, &market);
    crew_start(&receivers, prng, between(prng, 1, 4), receiver, &market);
    if (early)
        (void)weft_sleep(below(prng, 3000) * WEFT_US);
    else
        crew_join(&senders);
    for (uint32_t i = 0; i < market.count; i++)
        CHECK_EQ(weft_chan_close(market.channels[i]), 0);
    if (early)
        crew_join(&senders);
    actor->doing = "waits for those who receive";
    crew_join(&receivers);
    for (uint32_t i = 0; i < market.count; i++)
        weft_chan_destroy(market.channels[i]);
}
