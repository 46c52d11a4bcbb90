/*
 * ticker.c: tickers: never early, missed ticks become one, and no stale tick after a reset or a
 * stop.
 */
#include <sched.h>
#include <weft/weft.h>

#include "base/prng.h"
#include "bodies.h"
#include "everywhere.h"
#include "failing.h"
#include "seeds.h"

static int poisoned;
static void *const poison = &poisoned;

static weft_ticker *make(int64_t deadline, int64_t period)
{
    weft_ticker *ticker;
    CHECK_EQ(weft_ticker_open(&ticker, deadline, period), 0);
    return ticker;
}

static int64_t receive(weft_ticker *ticker)
{
    int64_t time = -1;
    CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), &time), 0);
    CHECK(time <= weft_now());
    return time;
}

static void check_nothing(weft_ticker *ticker)
{
    int64_t time = -1;
    CHECK_EQ(weft_chan_try_receive(weft_ticker_chan(ticker), &time), -EAGAIN);
    CHECK_EQ(time, -1);
}

static void await_tick(weft_ticker *ticker)
{
    while (weft_chan_length(weft_ticker_chan(ticker)) == 0)
        weft_yield();
}

static void arguments(void)
{
    weft_ticker *ticker = poison;
    CHECK_EQ(weft_ticker_open(NULL, WEFT_NOW, 0), -EINVAL);
    CHECK_EQ(weft_ticker_open(&ticker, WEFT_NOW, -1), -EINVAL);
    CHECK_EQ(weft_ticker_open(&ticker, WEFT_NEVER, INT64_MIN), -EINVAL);
    CHECK_PTR(ticker, poison);
    CHECK_PTR(weft_ticker_chan(NULL), NULL);
    CHECK_EQ(weft_ticker_reset(NULL, WEFT_NOW, 0), -EINVAL);
    CHECK_EQ(weft_ticker_stop(NULL), -EINVAL);
    CHECK_EQ(weft_ticker_close(NULL), -EINVAL);
    ticker = make(WEFT_NEVER, 0);
    CHECK_EQ(weft_ticker_reset(ticker, WEFT_NOW, -1), -EINVAL);
    CHECK_EQ(weft_chan_capacity(weft_ticker_chan(ticker)), 1);
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

static void single(void *arg)
{
    int64_t deadline = weft_after(WEFT_MS);
    weft_ticker *ticker = make(deadline, 0), *later = make(deadline + WEFT_MS, 0);
    CHECK(receive(ticker) >= deadline);
    CHECK(receive(later) >= deadline + WEFT_MS);
    check_nothing(ticker); /* no further tick has come */
    CHECK_EQ(weft_ticker_reset(ticker, WEFT_NOW, 0), 0);
    (void)receive(ticker);
    check_nothing(ticker);
    CHECK_EQ(weft_ticker_close(ticker), 0);
    CHECK_EQ(weft_ticker_close(later), 0);
}

static void at_once_or_not_at_all(void *arg)
{
    static const int64_t passed[] = {WEFT_NOW, 1, -5, INT64_MIN};
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++) {
        int64_t before = weft_now();
        weft_ticker *ticker = make(passed[i], 0);
        CHECK(receive(ticker) >= before);
        check_nothing(ticker);
        CHECK_EQ(weft_ticker_close(ticker), 0);
    }
    weft_ticker *never = make(WEFT_NEVER, WEFT_US), *other = make(WEFT_NOW, WEFT_US);
    for (int i = 0; i < 10; i++)
        (void)receive(other);
    check_nothing(never);
    int64_t before = weft_now();
    CHECK_EQ(weft_ticker_reset(never, before, 0), 0);
    CHECK(receive(never) >= before);
    CHECK_EQ(weft_ticker_close(never), 0);
    CHECK_EQ(weft_ticker_close(other), 0);
}

/* Each tick belongs to another period. */
static void periodic(void *arg)
{
    static const int64_t periods[] = {50 * WEFT_US, 333 * WEFT_US, 1};
    for (int p = 0; p < 3; p++) {
        int64_t period = periods[p], deadline = weft_after(200 * WEFT_US), last = -1;
        weft_ticker *ticker = make(deadline, period);
        for (int64_t i = 0; i < test_scale(40); i++) {
            int64_t slot = (receive(ticker) - deadline) / period;
            CHECK(slot >= i);
            CHECK(slot > last);
            last = slot;
        }
        CHECK_EQ(weft_ticker_close(ticker), 0);
    }
}

static void long_periods(void)
{
    static const int64_t periods[] = {INT64_MAX, INT64_MAX - 1, 1000 * WEFT_S};
    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        weft_ticker *ticker = make(WEFT_NOW, periods[i]);
        (void)receive(ticker);
        weft_ticker *other = make(WEFT_NOW, 10 * WEFT_US);
        for (int j = 0; j < 5; j++)
            (void)receive(other);
        check_nothing(ticker);
        CHECK_EQ(weft_ticker_close(other), 0);
        CHECK_EQ(weft_ticker_close(ticker), 0);
    }
}

/* A late receiver gets the first tick; the next one is later than that receive, except for a tick
 * that was on its way. */
static void missed_ticks_become_one(void *arg)
{
    weft_ticker *ticker = make(WEFT_NOW, 20 * WEFT_US);
    for (int i = 0; i < 5; i++) {
        await_tick(ticker);
        int64_t there = weft_now();
        CHECK_EQ(weft_sleep(WEFT_MS), 0);
        CHECK_EQ(weft_chan_length(weft_ticker_chan(ticker)), 1);
        int64_t late = weft_now();
        CHECK(receive(ticker) <= there);
        CHECK(receive(ticker) >= late || receive(ticker) >= late);
    }
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

/* No stale tick. */

static void reset_drops_what_was_there(void *arg)
{
    weft_ticker *ticker = make(WEFT_NOW, 0);
    await_tick(ticker);
    CHECK_EQ(weft_ticker_reset(ticker, weft_after(1000 * WEFT_S), WEFT_US), 0);
    check_nothing(ticker);
    CHECK_EQ(weft_ticker_reset(ticker, WEFT_NOW, 0), 0);
    await_tick(ticker);
    CHECK_EQ(weft_ticker_stop(ticker), 0);
    check_nothing(ticker);
    CHECK_EQ(weft_ticker_stop(ticker), 0); /* again */
    int64_t deadline = weft_after(WEFT_MS);
    CHECK_EQ(weft_ticker_reset(ticker, WEFT_NOW, 10 * WEFT_US), 0);
    await_tick(ticker);
    CHECK_EQ(weft_ticker_reset(ticker, deadline, 0), 0); /* from periodic to single */
    CHECK(receive(ticker) >= deadline);
    check_nothing(ticker);
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

/* A ticker is reset at about the time when it fires: it fires before, during or after the reset. */
static void race_with_the_firing(void *arg)
{
    struct prng prng;
    weft_ticker *ticker = make(WEFT_NEVER, 0);
    uint32_t fired = 0;
    prng_seed(&prng, (uint64_t)weft_now());
    for (int64_t round = test_scale(1500); round > 0; round--) {
        int64_t period = round % 2 ? 0 : 1 + prng_below(&prng, 3000);
        CHECK_EQ(weft_ticker_reset(ticker, weft_now() + prng_below(&prng, 4000), period), 0);
        for (uint32_t pause = prng_below(&prng, 20); pause > 0; pause--)
            weft_yield();
        fired += weft_chan_length(weft_ticker_chan(ticker)) > 0;
        if (round % 3 == 0) {
            CHECK_EQ(weft_ticker_stop(ticker), 0);
            for (int i = 0; i < 5; i++) {
                check_nothing(ticker);
                weft_yield();
            }
        } else if (round % 3 == 1) {
            CHECK_EQ(weft_ticker_reset(ticker, weft_after(1000 * WEFT_S), period), 0);
            for (int i = 0; i < 5; i++) {
                check_nothing(ticker);
                weft_yield();
            }
        } else {
            int64_t deadline = weft_now() + prng_below(&prng, 20000);
            CHECK_EQ(weft_ticker_reset(ticker, deadline, 0), 0);
            CHECK(receive(ticker) >= deadline);
            check_nothing(ticker); /* one setting, one tick, whichever call sent it */
        }
    }
    CHECK_EQ(weft_ticker_close(ticker), 0);
    printf("  fired before it was set anew: %u\n", fired);
}

static void race_with_several_processors(void *arg)
{
    struct body bodies[] = {{.function = race_with_the_firing},
                            {.function = race_with_the_firing, .thread = true},
                            {.function = race_with_the_firing}};
    bodies_run(bodies, 3);
}

static void stale_ticks(void)
{
    on_processors(1, race_with_the_firing, NULL);
    on_processors(3, race_with_several_processors, NULL);
}

static void closed_while_it_fires(void *arg)
{
    for (int64_t round = test_scale(1000); round > 0; round--) {
        weft_ticker *ticker = make(weft_now() + round % 50 * 200, round % 2 * 500);
        if (round % 4 == 0)
            (void)receive(ticker);
        CHECK_EQ(weft_ticker_close(ticker), 0);
    }
}

/* With other waits. */

static void send_some(void *chan)
{
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_chan_send(chan, &i), 0);
        CHECK_EQ(weft_sleep(30 * WEFT_US), 0);
    }
}

static void select_with_others(void *arg)
{
    weft_chan *numbers;
    weft_fiber *fiber;
    CHECK_EQ(weft_chan_make(&numbers, sizeof(int), 0), 0);
    int64_t deadline = weft_after(100 * WEFT_US), time = 0;
    weft_ticker *ticker = make(deadline, 50 * WEFT_US), *far = make(weft_after(1000 * WEFT_S), 0);
    CHECK_EQ(weft_spawn(&fiber, send_some, numbers, NULL), 0);
    int received = 0, ticks = 0, number = -1;
    weft_case cases[] = {{.chan = weft_ticker_chan(far), .op = WEFT_RECEIVE, .element = &time},
                         {.chan = numbers, .op = WEFT_RECEIVE, .element = &number},
                         {.chan = weft_ticker_chan(ticker), .op = WEFT_RECEIVE, .element = &time}};
    while (received < 10 || ticks < 5) {
        switch (weft_select(cases, 3)) {
        case 1:
            CHECK_EQ(number, received);
            received++;
            break;
        case 2:
            CHECK(time >= deadline + ticks * 50 * WEFT_US);
            ticks++;
            break;
        default:
            CHECK(!"only these two can happen");
        }
    }
    CHECK_EQ(weft_join(fiber), 0);
    CHECK_EQ(weft_ticker_close(ticker), 0);
    CHECK_EQ(weft_ticker_close(far), 0);
    weft_chan_destroy(numbers);
}

/* Several receivers: each tick goes to one of them. */

enum { RECEIVERS = 4 };

static struct {
    weft_ticker *ticker;
    int64_t last[RECEIVERS];
} shared;

static void receive_shared(void *arg)
{
    uintptr_t own = (uintptr_t)arg;
    for (int i = 0; i < 10; i++) {
        int64_t time = receive(shared.ticker);
        CHECK(time > shared.last[own]);
        shared.last[own] = time;
    }
}

static void several_receivers(void)
{
    struct body bodies[RECEIVERS];
    memset(&shared, 0, sizeof shared);
    shared.ticker = make(WEFT_NOW, 20 * WEFT_US);
    for (uintptr_t i = 0; i < RECEIVERS; i++)
        bodies[i] =
            (struct body){.function = receive_shared, .arg = (void *)i, .thread = i % 2 != 0};
    bodies_run(bodies, RECEIVERS);
    CHECK_EQ(weft_ticker_close(shared.ticker), 0);
}

static void receive_with_a_deadline(void *arg)
{
    weft_ticker *ticker = make(weft_after(1000 * WEFT_S), 0);
    int64_t time = -1, deadline = weft_after(100 * WEFT_US);
    CHECK_EQ(weft_chan_receive_until(weft_ticker_chan(ticker), &time, deadline), -ETIMEDOUT);
    CHECK_EQ(time, -1);
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

/* An open ticker is an open timer: the runtime does not shut down under it. */
static void shutdown_waits_for_the_close(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    weft_ticker *ticker = make(WEFT_NEVER, 0);
    CHECK_EQ(weft_shutdown(WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_ticker_close(ticker), 0);
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

/* Failures. */

static void attempt_open(void)
{
    weft_ticker *ticker = poison;
    int result = weft_ticker_open(&ticker, WEFT_NOW, 0);
    failing_off();
    failing_check(result, failing_start);
    if (result != 0) {
        CHECK_PTR(ticker, poison);
    } else {
        (void)receive(ticker);
        CHECK_EQ(weft_ticker_close(ticker), 0);
    }
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
}

static void failures(void)
{
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    CHECK(failing_each(attempt_open, 20) > 5);
}

/* Fibers and threads reset a ticker while it ticks: a fiber that has to wait for a processor must
 * not block the others. */
static void set_often(void *arg)
{
    weft_ticker *ticker = arg;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_ticker_reset(ticker, weft_after(WEFT_US), WEFT_US), 0);
        CHECK_EQ(weft_sleep(3 * WEFT_US), 0);
    }
}

static void set_while_it_ticks(void)
{
    weft_ticker *ticker;
    weft_wg wg = WEFT_WG_INIT;
    CHECK_EQ(weft_ticker_open(&ticker, WEFT_NOW, WEFT_US), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_wg_go(&wg, set_often, ticker), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(weft_ticker_close(ticker), 0);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_EVERYWHERE(single);
    RUN_EVERYWHERE(at_once_or_not_at_all);
    RUN_EVERYWHERE(periodic);
    RUN_EVERYWHERE(missed_ticks_become_one);
    RUN_EVERYWHERE(reset_drops_what_was_there);
    RUN_EVERYWHERE(closed_while_it_fires);
    RUN_EVERYWHERE(select_with_others);
    RUN_EVERYWHERE(receive_with_a_deadline);
    RUN_BOTH(long_periods);
    RUN_BOTH(several_receivers);
    RUN_BOTH(stale_ticks);
    RUN_PLAIN(shutdown_waits_for_the_close, "stops or configures the runtime");
    RUN_PLAIN(failures, "stops or configures the runtime");
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    RUN_SEEDS(set_while_it_ticks);
    return 0;
}
