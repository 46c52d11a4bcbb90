/*
 * limiter_seeds.c: the rate limiter in virtual time, under many seeds: every turn to the
 * nanosecond.
 */
#include "bodies.h"
#include "seeds.h"
#include "sync/limiter.h"

#define YEAR (365 * 86400 * WEFT_S)

static weft_limiter *limiter;
static int64_t start; /* when the limiter was opened, and emptied */

/* Opens an empty limiter. */
static void begin(int64_t rate, int64_t period, int64_t burst)
{
    weft_limiter_options options = {.rate = rate, .period = period, .burst = burst};
    CHECK_EQ(weft_limiter_open(&limiter, &options), 0);
    CHECK_EQ(weft_limiter_try_take(limiter, burst), 0);
    start = weft_now();
}

/* No take and no reservation is left in it. */
static void end(void)
{
    CHECK_PTR(limiter->first, NULL);
    CHECK_PTR(limiter->last, NULL);
    CHECK_EQ(limiter->reserved, 0);
    CHECK(limiter->level >= 0 && limiter->level <= limiter->burst);
    CHECK(limiter->part >= 0 && limiter->part < limiter->period);
    weft_limiter_close(limiter);
}

static void at(int64_t time)
{
    CHECK_EQ(weft_now() - start, time);
}

static void until(int64_t time)
{
    CHECK_EQ(weft_sleep_until(start + time), 0);
}

/* A take in a fiber of its own, and its result. */
struct customer {
    int64_t n, arrives, deadline; /* as time since start; deadline 0: none */
    int64_t ended;
    int result;
    weft_context *context;
    weft_fiber *fiber;
};

static void take_one(void *arg)
{
    struct customer *self = arg;
    CHECK_EQ(weft_context_bind(NULL, NULL), 0); /* sleeps to the end */
    until(self->arrives);
    CHECK_EQ(weft_context_bind(self->context, NULL), 0);
    self->result = self->deadline != 0
                       ? weft_limiter_take_until(limiter, self->n, start + self->deadline)
                       : weft_limiter_take(limiter, self->n);
    self->ended = weft_now() - start;
}

/* Starts takes that arrive in order, a nanosecond apart. */
static void queue_up(struct customer *customers, int count)
{
    for (int i = 0; i < count; i++) {
        customers[i].arrives = i + 1;
        CHECK_EQ(weft_context_open(&customers[i].context, NULL, NULL), 0);
        CHECK_EQ(weft_spawn(&customers[i].fiber, take_one, &customers[i], NULL), 0);
    }
}

static void join_all(struct customer *customers, int count)
{
    for (int i = 0; i < count; i++) {
        CHECK_EQ(weft_join(customers[i].fiber), 0);
        weft_context_close(customers[i].context);
    }
}

static void ended(const struct customer *self, int result, int64_t time)
{
    CHECK_EQ(self->result, result);
    CHECK_EQ(self->ended, time);
}

/* Exactness. */

/* The time by which so many events have come: events * period / rate, rounded up. */
static int64_t time_for(int64_t events, int64_t rate, int64_t period)
{
    int64_t whole = events / rate * period, rest = events % rate * period;
    return whole + rest / rate + (rest % rate != 0);
}

static void each_turn_is_exact(void)
{
    static const struct {
        int64_t rate, period;
    } cases[] = {
        {1, 3600 * WEFT_S},   {3, WEFT_S}, {7, 10}, {10000000, WEFT_S}, {9999991, WEFT_S}, {1, 1},
        {100003, YEAR / 365},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(cases[i].rate, cases[i].period, 1);
        for (int64_t k = 1; k <= 30; k++) {
            CHECK_EQ(weft_limiter_take(limiter, 1), 0);
            at(time_for(k, cases[i].rate, cases[i].period));
        }
        end();
    }
}

/* Many small steps, and a few of years, gain what one step does. */
static void steps_do_not_drift(int64_t rate, int64_t period, int64_t step, int steps)
{
    int64_t taken = 0, time = 0;
    begin(rate, period, INT64_C(1000000000000000));
    for (int i = 0; i < steps; i++) {
        time += step + i % 3;
        until(time);
        int64_t now = time / period * rate + time % period * rate / period;
        if (now > taken)
            CHECK_EQ(weft_limiter_try_take(limiter, now - taken), 0);
        CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
        taken = now;
    }
    end();
}

static void nothing_drifts(void)
{
    steps_do_not_drift(10000000, WEFT_S, 6, 3000);
    steps_do_not_drift(9999991, WEFT_S, 6, 3000);
    steps_do_not_drift(1, 3600 * WEFT_S, 17 * WEFT_S + 1, 3000);
    steps_do_not_drift(10000000, WEFT_S, YEAR + 12345, 3);
    steps_do_not_drift(100003, 86400 * WEFT_S, YEAR + 12345, 20);
    steps_do_not_drift(1, 3600 * WEFT_S, YEAR + 12345, 20);
}

static void no_more_than_the_burst_is_kept(void)
{
    begin(10, WEFT_S, 5);
    until(100 * YEAR);
    start = weft_now();
    CHECK_EQ(weft_limiter_try_take(limiter, 5), 0);
    CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
    at(100 * WEFT_MS); /* nor a part of an event */
    end();
}

/* A call that has read the clock later has counted first. */
static void time_does_not_go_back(void)
{
    begin(1, WEFT_S, 5);
    limiter->counted += WEFT_S;
    CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
    at(2 * WEFT_S);
    end();
}

static void numbers_may_be_large(void)
{
    int64_t most = WEFT_LIMITER_MAX;
    begin(most, INT64_MAX, most);
    CHECK_EQ(weft_limiter_take(limiter, 3), 0); /* INT64_MAX / most is a bit more than 2 */
    at(7);
    CHECK_EQ(weft_limiter_take(limiter, most), -ETIMEDOUT); /* beyond the clock */
    CHECK_EQ(weft_limiter_take_until(limiter, most, WEFT_NEVER), -ETIMEDOUT);
    end();
    begin(most, 1, most);
    struct customer customers[3] = {{.n = most - 1}, {.n = most}, {.n = 1}};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_spawn(&customers[i].fiber, take_one, &customers[i], NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(weft_join(customers[i].fiber), 0);
    /* In either order, no more than WEFT_LIMITER_MAX are reserved. */
    CHECK_EQ(customers[0].result, customers[2].result);
    CHECK_EQ(customers[0].result + customers[1].result, -ETIMEDOUT);
    end();
    begin(1, INT64_MAX, 2);
    CHECK_EQ(weft_limiter_take(limiter, 2), -ETIMEDOUT);
    end();
}

/* The line. */

static void small_requests_do_not_overtake_a_large_one(void)
{
    struct customer customers[3] = {{.n = 5}, {.n = 1}, {.n = 2}};
    begin(1, WEFT_S, 5);
    queue_up(customers, 3);
    for (int second = 1; second < 8; second++) {
        until(second * WEFT_S + 100);
        CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
    }
    join_all(customers, 3);
    ended(&customers[0], 0, 5 * WEFT_S);
    ended(&customers[1], 0, 6 * WEFT_S);
    ended(&customers[2], 0, 8 * WEFT_S);
    end();
}

static void a_late_turn_is_refused_at_once(void)
{
    struct customer customers[1] = {{.n = 2}};
    begin(1, WEFT_S, 5);
    queue_up(customers, 1);
    until(WEFT_MS);
    int64_t turn = start + 5 * WEFT_S;
    CHECK_EQ(weft_limiter_take_until(limiter, 3, turn - 1), -ETIMEDOUT);
    CHECK_EQ(weft_limiter_take_until(limiter, 3, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_limiter_take_until(limiter, 3, -1), -ETIMEDOUT);
    at(WEFT_MS);
    CHECK_EQ(weft_limiter_take_until(limiter, 3, turn),
             0); /* the takes that left have consumed nothing */
    at(5 * WEFT_S);
    until(6 * WEFT_S);
    CHECK_EQ(weft_limiter_take_until(limiter, 1, WEFT_NOW), 0); /* it is there */
    CHECK_EQ(weft_limiter_take_until(limiter, 6, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_limiter_take(limiter, 6), -EINVAL);
    CHECK_EQ(weft_limiter_try_take(limiter, 6), -EINVAL);
    join_all(customers, 1);
    end();
}

/* Three takes wait; take number `leaver` leaves at that time, and what it has reserved goes to the
 * takes behind it. */
static void leave(int leaver, int64_t time, int64_t first, int64_t second, int64_t third)
{
    struct customer customers[3] = {{.n = 5}, {.n = 4}, {.n = 1}};
    int64_t times[] = {first, second, third};
    begin(1, WEFT_S, 5);
    queue_up(customers, 3);
    until(time);
    weft_context_cancel(customers[leaver].context);
    join_all(customers, 3);
    for (int i = 0; i < 3; i++)
        ended(&customers[i], i == leaver ? -ECANCELED : 0, times[i]);
    end();
}

static void leaving_gives_back(void)
{
    leave(0, 2 * WEFT_S, 2 * WEFT_S, 4 * WEFT_S, 5 * WEFT_S);
    leave(0, 4 * WEFT_S + 5, 4 * WEFT_S + 5, 4 * WEFT_S + 5, 5 * WEFT_S);
    leave(1, 2 * WEFT_S, 5 * WEFT_S, 2 * WEFT_S, 6 * WEFT_S);
    leave(1, 8 * WEFT_S, 5 * WEFT_S, 8 * WEFT_S, 8 * WEFT_S);
    leave(2, 8 * WEFT_S, 5 * WEFT_S, 9 * WEFT_S, 8 * WEFT_S);
}

/* A cancelled context: events that are there are taken; others are not waited for. */
static void a_context_ends_it(void)
{
    weft_context *context;
    weft_context_options options = {.timeout = 2 * WEFT_S};
    begin(1, WEFT_S, 5);
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_limiter_take(limiter, 3), -ETIMEDOUT); /* known at once */
    at(0);
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
    at(WEFT_S);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    options.timeout = WEFT_S + WEFT_S / 2; /* before the turn */
    CHECK_EQ(weft_context_open(&context, NULL, &options), 0);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    weft_context_cancel(context);
    CHECK_EQ(weft_limiter_take(limiter, 2), -ECANCELED);
    CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
    at(WEFT_S);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    until(2 * WEFT_S);
    CHECK_EQ(weft_context_bind(context, NULL), 0);
    CHECK_EQ(weft_limiter_take(limiter, 1), 0);
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    weft_context_close(context);
    end();
}

/* A take that returns late loses nothing and costs the others nothing. Here time goes by in which
 * no fiber could run. */
static void a_late_take_keeps_its_turn(void)
{
    struct customer customers[10];
    begin(1, WEFT_MS, 1);
    for (int i = 0; i < 10; i++)
        customers[i] = (struct customer){.n = 1};
    queue_up(customers, 10);
    until(100);
    limiter->counted -= 20 * WEFT_MS;
    CHECK_EQ(weft_limiter_set(limiter, 1, 1), 0);
    join_all(customers, 10);
    for (int i = 0; i < 10; i++)
        ended(&customers[i], 0, 100);
    CHECK_EQ(weft_limiter_try_take(limiter, 1), 0);
    CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
    end();
}

/* Changes. */

static void a_higher_rate_is_sooner(void)
{
    struct customer customers[3] = {{.n = 2}, {.n = 2}, {.n = 1}};
    begin(1, WEFT_S, 2);
    queue_up(customers, 3);
    until(WEFT_S + WEFT_S / 2); /* one and a half events have come */
    CHECK_EQ(weft_limiter_set(limiter, 10, 2), 0);
    join_all(customers, 3);
    ended(&customers[0], 0, 1550 * WEFT_MS);
    ended(&customers[1], 0, 1750 * WEFT_MS);
    ended(&customers[2], 0, 1850 * WEFT_MS);
    end();
}

static void a_lower_rate_is_later(void)
{
    /* The second take gives up as the first in line, the third before that; the turn of the last is
     * at 21 s instead of 6 s. */
    struct customer customers[4] = {
        {.n = 2}, {.n = 2, .deadline = 20 * WEFT_S}, {.n = 1, .deadline = 8 * WEFT_S}, {.n = 1}};
    begin(10, 10 * WEFT_S, 2);
    queue_up(customers, 4);
    until(WEFT_S);
    CHECK_EQ(weft_limiter_set(limiter, 1, 2), 0);
    join_all(customers, 4);
    ended(&customers[0], 0, 11 * WEFT_S);
    CHECK_EQ(customers[1].result, -ETIMEDOUT);
    CHECK(customers[1].ended <= 20 * WEFT_S);
    ended(&customers[2], -ETIMEDOUT, 8 * WEFT_S);
    ended(&customers[3], 0, 21 * WEFT_S);
    end();
}

/* The first take learns when its timer fires that its turn will be after its deadline. */
static void a_lower_rate_is_too_late(void)
{
    struct customer customers[2] = {{.n = 2, .deadline = 5 * WEFT_S}, {.n = 1}};
    begin(10, 10 * WEFT_S, 2);
    queue_up(customers, 2);
    until(WEFT_S);
    CHECK_EQ(weft_limiter_set(limiter, 1, 2), 0);
    join_all(customers, 2);
    ended(&customers[0], -ETIMEDOUT, 2 * WEFT_S);
    ended(&customers[1], 0, 2 * WEFT_S); /* there was one event */
    end();
}

static void a_smaller_burst_keeps_promises(void)
{
    struct customer customers[2] = {{.n = 5}, {.n = 4}};
    begin(1, WEFT_S, 5);
    queue_up(customers, 2);
    until(4 * WEFT_S);
    CHECK_EQ(weft_limiter_set(limiter, 1, 2), 0);
    CHECK_EQ(weft_limiter_take(limiter, 3), -EINVAL);
    join_all(customers, 2);
    ended(&customers[0], 0, 5 * WEFT_S);
    ended(&customers[1], 0, 9 * WEFT_S);
    until(20 * WEFT_S);
    CHECK_EQ(weft_limiter_try_take(limiter, 2), 0);
    CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
    end();
}

/* The events of a take that leaves are more than the burst now: what is above it is lost. */
static void a_smaller_burst_and_a_take_that_leaves(void)
{
    struct customer customers[1] = {{.n = 5}};
    begin(1, WEFT_S, 5);
    queue_up(customers, 1);
    until(4 * WEFT_S + 5);
    CHECK_EQ(weft_limiter_set(limiter, 1, 2), 0);
    weft_context_cancel(customers[0].context);
    join_all(customers, 1);
    CHECK_EQ(weft_limiter_try_take(limiter, 2), 0);
    CHECK_EQ(weft_limiter_try_take(limiter, 1), -EAGAIN);
    end();
}

static void events_above_a_smaller_burst_are_lost(void)
{
    weft_limiter_options options = {.rate = 1, .burst = 5};
    CHECK_EQ(weft_limiter_open(&limiter, &options), 0);
    CHECK_EQ(weft_limiter_set(limiter, 1, 2), 0);
    CHECK_EQ(weft_limiter_set(limiter, 1, 4), 0);
    CHECK_EQ(weft_limiter_try_take(limiter, 3), -EAGAIN);
    CHECK_EQ(weft_limiter_try_take(limiter, 2), 0);
    start = weft_now();
    CHECK_EQ(weft_limiter_take(limiter, 4), 0);
    at(4 * WEFT_S);
    end();
}

/* Everything at random, compared with a computation: when each take returns, and with what. */

enum { CUSTOMERS = 12, PERIOD = 1000003 };

struct plan {
    int64_t rate, changed_at, new_rate;
    int64_t leaves[CUSTOMERS];
};

/* The events that have come by then, in units of 1/PERIOD. */
static int64_t come_by(const struct plan *plan, int64_t time)
{
    if (time <= plan->changed_at)
        return time * plan->rate;
    return plan->changed_at * plan->rate + (time - plan->changed_at) * plan->new_rate;
}

/* The first time by which so many events have come. */
static int64_t time_by(const struct plan *plan, int64_t events)
{
    int64_t low = 0, high = INT64_C(1) << 40;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (come_by(plan, middle) >= events * PERIOD)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void expect(const struct plan *plan, const struct customer *customers)
{
    int64_t granted = 0, head_since = 0;
    for (int i = 0; i < CUSTOMERS; i++) {
        int64_t turn = time_by(plan, granted + customers[i].n);
        turn = turn > head_since ? turn : head_since;
        if (plan->leaves[i] < turn) {
            ended(&customers[i], -ECANCELED, plan->leaves[i]);
            head_since = plan->leaves[i] > head_since ? plan->leaves[i] : head_since;
        } else {
            ended(&customers[i], 0, turn);
            granted += customers[i].n;
            head_since = turn;
        }
    }
}

struct canceller {
    int64_t time;
    weft_context *context;
};

static void cancel_then(void *arg)
{
    struct canceller *canceller = arg;
    until(canceller->time);
    weft_context_cancel(canceller->context);
}

static void every_turn_is_as_computed(void)
{
    struct prng prng = seeds_prng();
    struct customer customers[CUSTOMERS];
    struct canceller cancellers[CUSTOMERS];
    weft_fiber *fibers[CUSTOMERS];
    struct plan plan = {.rate = 1 + prng_below(&prng, 20), .new_rate = 1 + prng_below(&prng, 20)};
    plan.changed_at = 1000 + (int64_t)prng_below(&prng, 4 * PERIOD);
    begin(plan.rate, PERIOD, 8);
    for (int i = 0; i < CUSTOMERS; i++)
        customers[i] = (struct customer){.n = 1 + prng_below(&prng, 8)};
    queue_up(customers, CUSTOMERS);
    for (int i = 0; i < CUSTOMERS; i++) {
        plan.leaves[i] = prng_below(&prng, 2) == 0 ? 1000 + (int64_t)prng_below(&prng, 8 * PERIOD)
                                                   : INT64_C(1) << 50;
        cancellers[i] = (struct canceller){plan.leaves[i], customers[i].context};
        CHECK_EQ(weft_spawn(&fibers[i], cancel_then, &cancellers[i], NULL), 0);
    }
    until(plan.changed_at);
    CHECK_EQ(weft_limiter_set(limiter, plan.new_rate, 8), 0);
    for (int i = 0; i < CUSTOMERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    join_all(customers, CUSTOMERS);
    expect(&plan, customers);
    end();
}

/* All kinds of calls at random: no interval has more events than the burst and what comes in it. A
 * turn is up to a nanosecond later than the moment at which its events have come. */

enum { FIBERS = 6, ROUNDS = 8, BURST = 4, RATE = 3 };

static struct {
    struct prng prng;
    int count;
    int64_t times[FIBERS * ROUNDS], events[FIBERS * ROUNDS];
} taken;

static void take_somehow(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int64_t n = 1 + prng_below(&taken.prng, BURST);
        int error;
        switch (prng_below(&taken.prng, 3)) {
        case 0:
            error = weft_limiter_take(limiter, n);
            CHECK_EQ(error, 0);
            break;
        case 1:
            error = weft_limiter_take_until(
                limiter, n, weft_after((int64_t)prng_below(&taken.prng, 4) * WEFT_S));
            CHECK(error == 0 || error == -ETIMEDOUT);
            break;
        default:
            error = weft_limiter_try_take(limiter, n);
            CHECK(error == 0 || error == -EAGAIN);
        }
        if (error == 0) {
            taken.times[taken.count] = weft_now();
            taken.events[taken.count++] = n;
        }
        if (prng_below(&taken.prng, 3) == 0)
            CHECK_EQ(weft_sleep((int64_t)prng_below(&taken.prng, 2000) * WEFT_MS), 0);
    }
}

static void no_interval_has_too_many(void)
{
    weft_fiber *fibers[FIBERS];
    taken.prng = seeds_prng();
    taken.count = 0;
    CHECK_EQ(weft_limiter_open(&limiter, &(weft_limiter_options){.rate = RATE, .burst = BURST}), 0);
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_spawn(&fibers[i], take_somehow, NULL, NULL), 0);
    for (int i = 0; i < FIBERS; i++)
        CHECK_EQ(weft_join(fibers[i]), 0);
    CHECK(taken.count > 0);
    for (int i = 0; i < taken.count; i++) {
        int64_t sum = 0;
        for (int j = i; j < taken.count; j++) {
            sum += taken.events[j];
            CHECK((sum - BURST) * WEFT_S <= (taken.times[j] - taken.times[i] + 1) * RATE);
        }
    }
    end();
}

int main(void)
{
    RUN_SEEDS(each_turn_is_exact);
    RUN_SEEDS(nothing_drifts);
    RUN_SEEDS(no_more_than_the_burst_is_kept);
    RUN_SEEDS(time_does_not_go_back);
    RUN_SEEDS(numbers_may_be_large);
    RUN_SEEDS_MANY(small_requests_do_not_overtake_a_large_one);
    RUN_SEEDS(a_late_turn_is_refused_at_once);
    RUN_SEEDS_MANY(leaving_gives_back);
    RUN_SEEDS(a_context_ends_it);
    RUN_SEEDS_MANY(a_late_take_keeps_its_turn);
    RUN_SEEDS_MANY(a_higher_rate_is_sooner);
    RUN_SEEDS_MANY(a_lower_rate_is_later);
    RUN_SEEDS(a_lower_rate_is_too_late);
    RUN_SEEDS(a_smaller_burst_keeps_promises);
    RUN_SEEDS(a_smaller_burst_and_a_take_that_leaves);
    RUN_SEEDS(events_above_a_smaller_burst_are_lost);
    RUN_SEEDS_MANY(every_turn_is_as_computed);
    RUN_SEEDS_MANY(no_interval_has_too_many);
    return 0;
}
