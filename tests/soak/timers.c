/*
 * timers.c: timers that are started, restarted, stopped and closed at random, and tickers.
 *
 * Each start of a one-shot timer ends in one call, or in one result 1 of a stop or a new start.
 * When a timer is closed, the ids of its starts are booked out, by the numbers of calls and of
 * prevented calls.
 */
#include "soak.h"

enum { TIMERS = 8, STARTS = 6, TICKS = 5 };

struct clock {
    weft_timer *timer;
    uint64_t ids[STARTS];
    uint32_t started, prevented;
    atomic_u32 calls, running;
    atomic_i64 due; /* of the last start */
};

static void call(void *arg)
{
    struct clock *clock = arg;
    CHECK_EQ(atomic_u32_add_seq_cst(&clock->running, 1), 0);
    uint32_t calls = atomic_u32_add_seq_cst(&clock->calls, 1);
    if (calls % 4 == 3)
        weft_yield();
    CHECK_EQ(atomic_u32_sub_seq_cst(&clock->running, 1), 1);
}

static void start(struct clock *clock, struct prng *prng)
{
    clock->ids[clock->started++] = ledger_enter(BOOK_TIMERS, "timer that runs once");
    int before = weft_timer_start(clock->timer, soak_soon(prng), 0);
    CHECK(before == 0 || before == 1);
    clock->prevented += (uint32_t)before;
}

static void stop(struct clock *clock)
{
    int before = weft_timer_stop(clock->timer);
    CHECK(before == 0 || before == 1);
    clock->prevented += (uint32_t)before;
}

static void book_out(struct clock *clock)
{
    uint32_t calls = atomic_u32_load_seq_cst(&clock->calls), at = 0;
    for (uint32_t i = 0; i < calls; i++)
        ledger_book_out(clock->ids[at < clock->started ? at++ : 0], HAPPENED);
    for (uint32_t i = 0; i < clock->prevented; i++)
        ledger_book_out(clock->ids[at < clock->started ? at++ : 0], DROPPED);
}

/* Waits for a start that nothing prevents. */
static void await_calls(const struct clock *clock)
{
    while (atomic_u32_load_seq_cst(&clock->calls) + clock->prevented < clock->started)
        (void)weft_sleep(50 * WEFT_US);
}

static void once(struct actor *actor)
{
    struct clock clocks[TIMERS];
    struct prng *prng = &actor->prng;
    memset(clocks, 0, sizeof clocks);
    for (int i = 0; i < TIMERS; i++)
        CHECK_EQ(weft_timer_open(&clocks[i].timer, call, &clocks[i]), 0);
    actor->doing = "starts and stops timers";
    for (int i = 0; i < TIMERS * STARTS; i++) {
        struct clock *clock = &clocks[below(prng, TIMERS)];
        if (clock->started < STARTS && one_in(prng, 2))
            start(clock, prng);
        else if (one_in(prng, 4))
            stop(clock);
        soak_pause(prng);
    }
    for (int i = 0; i < TIMERS; i++) {
        actor->doing = "waits for a timer";
        if (one_in(prng, 2))
            await_calls(&clocks[i]);
        else
            stop(&clocks[i]);
        actor->doing = "closes a timer";
        CHECK_EQ(weft_timer_close(clocks[i].timer), 0);
        book_out(&clocks[i]);
    }
}

static void never_early(void *arg)
{
    struct clock *clock = arg;
    CHECK(weft_now() >= atomic_i64_load_relaxed(&clock->due));
    (void)atomic_u32_add_seq_cst(&clock->calls, 1);
}

static void periodically(struct actor *actor)
{
    struct clock clock;
    int64_t period = between(&actor->prng, 20, 500) * WEFT_US;
    memset(&clock, 0, sizeof clock);
    int64_t due = weft_after(period);
    atomic_i64_store_relaxed(&clock.due, due);
    actor->doing = "has a periodic timer";
    CHECK_EQ(weft_timer_open(&clock.timer, never_early, &clock), 0);
    CHECK_EQ(weft_timer_start(clock.timer, due, period), 0);
    while (atomic_u32_load_seq_cst(&clock.calls) < TICKS)
        (void)weft_sleep(period);
    CHECK_EQ(weft_timer_close(clock.timer), 0);
    CHECK(atomic_u32_load_seq_cst(&clock.calls) <= 1 + (weft_now() - due) / period);
}

static void tickers(struct actor *actor)
{
    struct prng *prng = &actor->prng;
    weft_ticker *ticker;
    int64_t period = between(prng, 20, 500) * WEFT_US, start = weft_after(period), tick, last = 0;
    actor->doing = "receives ticks";
    CHECK_EQ(weft_ticker_open(&ticker, start, period), 0);
    for (int i = 0; i < TICKS; i++) {
        CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), &tick), 0);
        CHECK(tick >= start && tick > last && tick <= weft_now());
        last = tick;
        soak_pause(prng);
        if (one_in(prng, 8)) {
            start = weft_after(period);
            CHECK_EQ(weft_ticker_reset(ticker, start, period), 0);
        }
    }
    CHECK_EQ(weft_ticker_stop(ticker), 0);
    CHECK_EQ(weft_chan_try_receive(weft_ticker_chan(ticker), &tick), -EAGAIN);
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

void timers_round(struct actor *actor)
{
    static void (*const rounds[])(struct actor *) = {once, once, periodically, tickers};
    rounds[below(&actor->prng, 4)](actor);
}
