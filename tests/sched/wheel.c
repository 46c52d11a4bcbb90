/*
 * wheel.c: the timing wheel as a data structure, with a clock of the test.
 *
 * It is compared with a list of all timers: none fires early, none stays when its tick has come,
 * and `next` is never later than the earliest timer needs, nor so early that the sleeper wakes for
 * nothing.
 */
#include "sched/time/wheel.h"

#include "fibers.h"

#define TICK ((int64_t)1 << WHEEL_SHIFT)
#define NO_BUDGET UINT32_MAX
#define SOME_OF_MANY 50

/* Some time of the monotonic clock. */
#define BEGIN ((int64_t)123456789 * 1000 * 1000)

struct alarm {
    struct timer timer;
    bool armed;
    int64_t deadline;
    int64_t fired_at; /* of the last firing */
    int fired;
};

static struct wheel wheel;
static int64_t now;

static void fire(struct timer *timer, void *context)
{
    struct alarm *alarm = (struct alarm *)timer;
    CHECK(alarm->armed);
    CHECK(alarm->deadline <= now); /* never early */
    CHECK_PTR(timer->link, NULL);
    alarm->armed = false;
    alarm->fired++;
    alarm->fired_at = now;
    (*(uint32_t *)context)++;
}

static void begin(int64_t time)
{
    now = time;
    weft__wheel_init(&wheel, now);
    CHECK_EQ(atomic_i64_load_relaxed(&wheel.next), WHEEL_EMPTY);
}

static void arm(struct alarm *alarm, int64_t deadline)
{
    alarm->armed = true;
    alarm->deadline = deadline;
    weft__wheel_arm(&wheel, &alarm->timer, deadline);
}

static bool disarm(struct alarm *alarm)
{
    bool armed = weft__wheel_disarm(&alarm->timer);
    CHECK_EQ(armed, alarm->armed);
    alarm->armed = false;
    return armed;
}

static uint32_t fire_due(uint32_t budget)
{
    uint32_t calls = 0;
    uint32_t fired = weft__wheel_fire(&wheel, now, budget, fire, &calls);
    CHECK_EQ(fired, calls);
    CHECK(fired <= budget);
    return fired;
}

static int64_t next(void)
{
    return atomic_i64_load_relaxed(&wheel.next);
}

static void check_fired_once(const struct alarm *alarms, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(alarms[i].fired, 1);
}

static void disarm_all(struct alarm *alarms, int count)
{
    for (int i = 0; i < count; i++)
        disarm(&alarms[i]);
    fire_due(NO_BUDGET);
    CHECK_EQ(next(), WHEEL_EMPTY);
}

/* Whether the timer's tick has come: its deadline, rounded up to a tick. */
static bool tick_has_come(const struct alarm *alarm)
{
    int64_t tick = alarm->deadline <= 0 ? 0 : (alarm->deadline - 1) / TICK + 1;
    return tick <= now / TICK;
}

/* No armed timer is forgotten: no machine sleeps longer than until `next`. */
static void check_next(const struct alarm *alarms, size_t count)
{
    int64_t earliest = WHEEL_EMPTY;
    for (size_t i = 0; i < count; i++)
        if (alarms[i].armed && alarms[i].deadline < earliest)
            earliest = alarms[i].deadline;
    if (earliest == WHEEL_EMPTY)
        return;
    CHECK(next() != WHEEL_EMPTY);
    if (earliest < 0)
        earliest = 0; /* where the clock begins */
    CHECK(earliest > WHEEL_EMPTY - TICK || next() < earliest + TICK);
}

/* Sleeps from `next` to `next` until no timer is left before `end`, as the watcher does. Returns
 * how often it woke up. */
static int64_t sleep_until(int64_t end)
{
    int64_t wakes = 0;
    while (next() <= end) {
        if (next() > now)
            now = next();
        fire_due(NO_BUDGET);
        CHECK(next() > now); /* otherwise it would wake up again for nothing */
        wakes++;
    }
    return wakes;
}

static void nothing_armed(void)
{
    struct alarm alarm = {.armed = false};
    begin(BEGIN);
    CHECK_EQ(fire_due(NO_BUDGET), 0);
    CHECK_EQ(next(), WHEEL_EMPTY);
    CHECK(!disarm(&alarm));
    now += INT64_C(1) << 60; /* a jump over all levels */
    CHECK_EQ(fire_due(NO_BUDGET), 0);
    CHECK_EQ(next(), WHEEL_EMPTY);
}

static void fires_once(void)
{
    struct alarm alarm = {.armed = false};
    begin(BEGIN);
    arm(&alarm, BEGIN + 1000 * TICK);
    CHECK(next() <= BEGIN + 1001 * TICK);
    now = BEGIN + 1000 * TICK - 1;
    CHECK_EQ(fire_due(NO_BUDGET), 0);
    CHECK(alarm.armed);
    now = BEGIN + 1001 * TICK;
    CHECK_EQ(fire_due(NO_BUDGET), 1);
    CHECK_EQ(fire_due(NO_BUDGET), 0);
    CHECK_EQ(alarm.fired, 1);
    CHECK_EQ(next(), WHEEL_EMPTY);
    CHECK(!disarm(&alarm));
    arm(&alarm, now + TICK); /* and once more */
    now += 2 * TICK;
    CHECK_EQ(fire_due(NO_BUDGET), 1);
    CHECK_EQ(alarm.fired, 2);
}

static void past_deadlines_are_due_at_once(void)
{
    static const int64_t deadlines[] = {INT64_MIN, -1, 0, 1, TICK, BEGIN - 1, BEGIN / TICK * TICK};
    enum { COUNT = sizeof deadlines / sizeof deadlines[0] };
    struct alarm alarms[COUNT] = {{.armed = false}};
    begin(BEGIN);
    for (int i = 0; i < COUNT; i++) {
        arm(&alarms[i], deadlines[i]);
        CHECK(next() < BEGIN + TICK);
        now = BEGIN + TICK; /* the deadline before BEGIN may be in the tick after it */
    }
    CHECK_EQ(fire_due(NO_BUDGET), COUNT);
    CHECK_EQ(next(), WHEEL_EMPTY);
}

static void due_ones_can_be_disarmed(void)
{
    struct alarm alarms[4] = {{.armed = false}};
    begin(BEGIN);
    for (int i = 0; i < 3; i++)
        arm(&alarms[i], BEGIN - TICK);
    arm(&alarms[3], BEGIN + 100 * TICK);
    CHECK_EQ(fire_due(1), 1);
    CHECK(next() <= now); /* there is more to fire */
    int disarmed = 0;
    for (int i = 0; i < 3 && disarmed == 0; i++)
        disarmed += disarm(&alarms[i]);
    CHECK_EQ(disarmed, 1);
    CHECK_EQ(fire_due(NO_BUDGET), 1);
    CHECK(!alarms[0].armed && !alarms[1].armed && !alarms[2].armed && alarms[3].armed);
    CHECK_EQ(alarms[0].fired + alarms[1].fired + alarms[2].fired, 2);
    CHECK(next() > now);
    CHECK(disarm(&alarms[3]));
    CHECK_EQ(next(), WHEEL_EMPTY);
}

static void budget_is_kept(void)
{
    enum { COUNT = 100 };
    static struct alarm alarms[COUNT];
    begin(BEGIN);
    for (int i = 0; i < COUNT; i++)
        arm(&alarms[i], BEGIN + i * TICK * 3);
    now = BEGIN + COUNT * TICK * 4;
    CHECK_EQ(fire_due(0), 0);
    for (uint32_t fired = 0, budget = 1; fired < COUNT; budget++) {
        uint32_t expected = budget < COUNT - fired ? budget : COUNT - fired;
        CHECK(next() <= now);
        CHECK_EQ(fire_due(budget), expected);
        fired += expected;
    }
    CHECK_EQ(next(), WHEEL_EMPTY);
    check_fired_once(alarms, COUNT);
}

/* The watcher sleeps with timers on all levels: each fires within a tick after its deadline. */
static void exact_on_all_levels(void)
{
    enum { COUNT = 3000 };
    static struct alarm alarms[COUNT];
    struct prng prng = prng_from(5);
    begin(BEGIN);
    for (int i = 0; i < COUNT; i++) {
        uint64_t random = (uint64_t)prng_next(&prng) << 32 | prng_next(&prng);
        uint64_t distance = random >> (2 + prng_below(&prng, 62)); /* any order of magnitude */
        arm(&alarms[i], BEGIN + (int64_t)distance);
    }
    check_next(alarms, COUNT);
    int64_t wakes = sleep_until(INT64_MAX - TICK);
    CHECK(wakes <= COUNT * WHEEL_LEVELS);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(alarms[i].fired, 1);
        CHECK(alarms[i].fired_at >= alarms[i].deadline);
        CHECK(alarms[i].fired_at < alarms[i].deadline + TICK);
    }
    CHECK_EQ(next(), WHEEL_EMPTY);
}

/* At the ends of rounds of a level, and just beside. */
static void exact_at_the_edges_of_rounds(void)
{
    static const int64_t from[] = {-65, -64, -2, -1, 0, 1, 63, 64};
    static const int64_t to[] = {-1, 0, 1, 63, 64, 65, 4095, 4096};
    for (int level = 1; level <= 7; level++) {
        int64_t edge = (INT64_C(3) << (level * WHEEL_BITS)); /* in ticks */
        for (size_t f = 0; f < sizeof from / sizeof from[0]; f++)
            for (size_t t = 0; t < sizeof to / sizeof to[0]; t++)
                for (int64_t ns = -1; ns <= 1; ns++) {
                    struct alarm alarm = {.armed = false};
                    int64_t start = (edge + from[f]) * TICK;
                    int64_t deadline = (edge + to[t]) * TICK + ns;
                    begin(start);
                    arm(&alarm, deadline);
                    check_next(&alarm, 1);
                    CHECK(sleep_until(INT64_MAX - TICK) <= WHEEL_LEVELS);
                    CHECK_EQ(alarm.fired, 1);
                    int64_t earliest = deadline > start ? deadline : start;
                    CHECK(alarm.fired_at >= earliest && alarm.fired_at < earliest + TICK);
                }
    }
}

static void far_deadlines(void)
{
    static const int64_t deadlines[] = {INT64_MAX - 1,        INT64_MAX - 2,
                                        INT64_MAX - TICK + 1, INT64_MAX - TICK,
                                        INT64_MAX - 3 * TICK, INT64_MAX / 2 + 1};
    enum { COUNT = sizeof deadlines / sizeof deadlines[0] };
    struct alarm alarms[COUNT] = {{.armed = false}}, near = {.armed = false};
    begin(BEGIN);
    for (int i = 0; i < COUNT; i++) {
        arm(&alarms[i], deadlines[i]);
        check_next(alarms, COUNT);
    }
    /* They do not delay other timers. */
    arm(&near, BEGIN + TICK);
    sleep_until(BEGIN + 2 * TICK);
    CHECK_EQ(near.fired, 1);
    CHECK(next() > INT64_MAX / 2);
    now = INT64_MAX - TICK - 1;
    CHECK_EQ(fire_due(NO_BUDGET), 2);
    CHECK_EQ(alarms[5].fired, 1);
    CHECK_EQ(alarms[4].fired, 1);
    now = INT64_MAX - 1;
    fire_due(NO_BUDGET);
    CHECK_EQ(alarms[3].fired, 1);
    for (int i = 0; i < 3; i++)
        if (alarms[i].armed)
            CHECK(disarm(&alarms[i]));
    CHECK_EQ(next(), WHEEL_EMPTY);
}

/* All operations at random, compared with the list. */
static void against_the_oracle(void)
{
    enum { COUNT = 200 };
    static struct alarm alarms[COUNT];
    struct prng prng = prng_from(6);
    begin(BEGIN);
    for (int64_t step = 0; step < test_scale(200000); step++) {
        struct alarm *alarm = &alarms[prng_below(&prng, COUNT)];
        uint64_t random = (uint64_t)prng_next(&prng) << 32 | prng_next(&prng);
        int64_t distance = (int64_t)(random >> (8 + prng_below(&prng, 56)));
        uint32_t choice = prng_below(&prng, 100);
        if (choice < 20) {
            disarm(alarm);
        } else if (choice < 75) {
            if (alarm->armed)
                continue;
            bool past = prng_below(&prng, 10) == 0;
            if (!past && distance >= INT64_MAX - now)
                distance = INT64_MAX - 1 - now;
            arm(alarm, past ? now - distance : now + distance);
        } else {
            /* Mostly short steps: the clock must not end before the test. */
            int64_t ahead = choice < 99 ? distance >> 30 : distance >> 16;
            if (ahead < INT64_MAX / 2 - now)
                now += ahead;
            uint32_t budget = prng_below(&prng, 4) == 0 ? prng_below(&prng, 8) : NO_BUDGET;
            if (fire_due(budget) < budget && next() > now) {
                for (int i = 0; i < COUNT; i++)
                    CHECK(!alarms[i].armed || !tick_has_come(&alarms[i]));
                CHECK(next() > now);
            }
        }
        check_next(alarms, COUNT);
    }
    disarm_all(alarms, COUNT);
}

/* How many timers were moved or fired since the last call: their links have changed. */
static uint32_t count_moved(const struct alarm *alarms, struct timer ***links, uint32_t count)
{
    uint32_t moved = 0;
    for (uint32_t i = 0; i < count; i++) {
        moved += alarms[i].timer.link != links[i];
        links[i] = alarms[i].timer.link;
    }
    return moved;
}

/* However many timers a slot has, few of them are moved while the latch is held. */
static void a_hold_of_the_latch_is_bounded(void)
{
    enum { COUNT = 20000, SOME = 100 };
    static struct alarm alarms[COUNT];
    static struct timer **links[COUNT];
    struct prng prng = prng_from(7);
    begin(BEGIN);
    for (int i = 0; i < COUNT; i++)
        arm(&alarms[i], BEGIN + (prng_below(&prng, 4) + 1) * (TICK << (3 * WHEEL_BITS)) +
                            prng_below(&prng, TICK << (2 * WHEEL_BITS)));
    count_moved(alarms, links, COUNT);
    int64_t holds = 0;
    uint32_t most = 0;
    for (now = next(); now != WHEEL_EMPTY; now = next() > now ? next() : now, holds++) {
        CHECK(fire_due(SOME) <= SOME);
        uint32_t moved = count_moved(alarms, links, COUNT);
        most = moved > most ? moved : most;
        CHECK(moved <= WHEEL_WORK + SOME + 1); /* and one that has become the first of its list */
    }
    check_fired_once(alarms, COUNT);
    CHECK(holds > COUNT / (WHEEL_WORK + SOME));
    printf("  %lld holds, of %u timers at most\n", (long long)holds, most);
}

/* While a slot with many timers is dealt out, other timers fire in time. */
static void others_do_not_wait_for_a_full_slot(void)
{
    enum { COUNT = 20000 };
    static struct alarm alarms[COUNT], soon[COUNT / WHEEL_WORK / 2];
    const int64_t slot = TICK << (3 * WHEEL_BITS), start = (BEGIN / slot + 2) * slot;
    struct prng prng = prng_from(9);
    begin(start - 2 * slot);
    for (int i = 0; i < COUNT; i++)
        arm(&alarms[i], start + slot / 2 + prng_below(&prng, (uint32_t)(slot / 4)));
    now = start;
    for (int i = 0; i <= WHEEL_WAITS; i++)
        CHECK_EQ(fire_due(NO_BUDGET), 0);
    for (size_t i = 0; i < sizeof soon / sizeof *soon; i++) {
        arm(&soon[i], now + (int64_t)(i % 3) * 64 * TICK + 1);
        now = soon[i].deadline + TICK;
        fire_due(NO_BUDGET);
        if (soon[i].armed)
            fire_due(NO_BUDGET); /* the work may have been used up on the way */
        CHECK(!soon[i].armed);
        CHECK(next() <= now); /* there is more to deal out */
    }
    for (now = next(); now != WHEEL_EMPTY; now = next() > now ? next() : now)
        fire_due(NO_BUDGET);
    for (int i = 0; i < COUNT; i++)
        CHECK(alarms[i].fired == 1 && alarms[i].fired_at < alarms[i].deadline + TICK);
}

/* Late timers with deadlines a tick apart, armed in mixed order, fire in the order of their ticks,
 * as long as the hand waits for their slots. */
static void late_ones_fire_in_order(void)
{
    enum { COUNT = 701, MIX = 257, SOME = 50 };
    static struct alarm alarms[COUNT];
    begin(BEGIN);
    for (int i = 0; i < COUNT; i++) {
        struct alarm *alarm = &alarms[i * MIX % COUNT];
        arm(alarm, BEGIN + 5000 * TICK + (alarm - alarms) * TICK);
    }
    now = BEGIN + 10000 * TICK;
    for (int64_t last = 0; next() <= now;) {
        int before = 0, after = 0;
        fire_due(SOME);
        while (before < COUNT && !alarms[before].armed)
            before++;
        for (int i = before; i < COUNT; i++)
            after += !alarms[i].armed;
        CHECK_EQ(after, 0); /* none fired before a timer that was due earlier */
        CHECK(before >= last);
        last = before;
    }
    check_fired_once(alarms, COUNT);
}

/* Disarms some or all timers of a slot while it is dealt out, from the last or from the first, with
 * the hand in the middle of the slot. */
static void disarm_while_dealt_out(bool backward, int count)
{
    enum { COUNT = 2 * WHEEL_WAITS * WHEEL_WORK, MORE = 4 };
    static struct alarm alarms[COUNT], more[MORE];
    const int64_t slot = TICK << (2 * WHEEL_BITS), start = (BEGIN / slot + 2) * slot;
    begin(start - 2 * slot);
    for (int i = 0; i < COUNT; i++)
        arm(&alarms[i], start + slot / COUNT * i);
    now = start;
    for (int i = 0; i <= WHEEL_WAITS; i++)
        CHECK_EQ(fire_due(0), 0);
    now = start + slot * 3 / 4;
    fire_due(1);
    CHECK(wheel.cascading != 0); /* some of the rest is due */
    for (int i = 0; i < count; i++) {
        struct alarm *alarm = &alarms[backward ? COUNT - 1 - i : i];
        if (alarm->armed)
            disarm(alarm);
    }
    now = start + 2 * slot;
    fire_due(0);
    for (int i = 0; i < MORE; i++)
        arm(&more[i], now - i);
    while (next() <= now)
        CHECK(fire_due(1) == 1 || next() > now);
    for (int i = 0; i < COUNT; i++)
        CHECK(!alarms[i].armed);
    for (int i = 0; i < MORE; i++)
        CHECK(!more[i].armed);
    CHECK_EQ(next(), WHEEL_EMPTY);
}

static void disarmed_while_dealt_out(void)
{
    for (int count = WHEEL_WORK; count <= 2 * WHEEL_WAITS * WHEEL_WORK; count += WHEEL_WORK / 4) {
        disarm_while_dealt_out(false, count);
        disarm_while_dealt_out(true, count);
    }
}

/* Operations at random with so many timers that most slots are dealt out in parts. */
static void dealt_in_parts(void)
{
    enum { COUNT = 3000 };
    static struct alarm alarms[COUNT];
    struct prng prng = prng_from(8);
    begin(BEGIN);
    for (int64_t step = 0; step < test_scale(300000); step++) {
        struct alarm *alarm = &alarms[prng_below(&prng, COUNT)];
        uint32_t choice = prng_below(&prng, 100);
        if (choice < 25) {
            disarm(alarm);
        } else if (choice < 95) {
            int64_t distance = (int64_t)prng_below(&prng, UINT32_MAX) >> prng_below(&prng, 24);
            if (!alarm->armed)
                arm(alarm, now + distance);
        } else {
            now += (int64_t)prng_below(&prng, UINT32_MAX) >> prng_below(&prng, 30);
            for (uint32_t holds = prng_below(&prng, 30); holds > 0 && next() <= now; holds--)
                fire_due(prng_below(&prng, 100));
        }
        if (step % 64 == 0)
            check_next(alarms, COUNT);
    }
    while (next() <= now)
        fire_due(SOME_OF_MANY);
    for (int i = 0; i < COUNT; i++)
        CHECK(!alarms[i].armed || !tick_has_come(&alarms[i]));
    disarm_all(alarms, COUNT);
}

/* Timers of equal deadlines fire in the order in which they were armed, at any distance. */

static struct alarm *fired_order[64];
static uint32_t fired_count;

static void fire_in_order(struct timer *timer, void *context)
{
    fire(timer, context);
    fired_order[fired_count++] = (struct alarm *)timer;
}

static void equals_fire_in_order(void)
{
    static const int64_t distances[] = {1, 3 * TICK, 70 * TICK, 5000 * TICK, 1000 * 1000 * TICK};
    enum { COUNT = 40 };
    for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
        struct alarm alarms[COUNT] = {{.fired = 0}};
        uint32_t calls = 0;
        begin(BEGIN);
        fired_count = 0;
        for (int k = 0; k < COUNT; k++)
            arm(&alarms[k], BEGIN + distances[i]);
        disarm(&alarms[COUNT - 1]); /* the last, one in the middle, and the first */
        disarm(&alarms[COUNT / 2]);
        disarm(&alarms[0]);
        arm(&alarms[0], BEGIN + distances[i]);
        for (int64_t step = distances[i] / 7 + TICK; now < BEGIN + distances[i] + TICK;) {
            now += step;
            weft__wheel_fire(&wheel, now, NO_BUDGET, fire_in_order, &calls);
        }
        CHECK_EQ(fired_count, COUNT - 2);
        for (int k = 1, place = 0; k < COUNT - 1; k++)
            if (k != COUNT / 2)
                CHECK_PTR(fired_order[place++], &alarms[k]);
        CHECK_PTR(fired_order[COUNT - 3], &alarms[0]);
    }
}

/* A timer knows the one that was armed WHEEL_PREFETCH timers later, if both are still armed; a
 * timer that is not armed is not changed. */
static void the_timer_ahead_is_known(void)
{
    struct alarm alarms[3 * WHEEL_PREFETCH] = {{.fired = 0}};
    begin(BEGIN);
    for (int i = 0; i < WHEEL_PREFETCH; i++)
        arm(&alarms[i], BEGIN + 100 * TICK);
    disarm(&alarms[1]);
    arm(&alarms[2 * WHEEL_PREFETCH], BEGIN + 200 * TICK); /* in the place of the first */
    alarms[1].timer.prefetch = 12345;
    for (int i = 1; i < WHEEL_PREFETCH; i++)
        arm(&alarms[WHEEL_PREFETCH + i], BEGIN + 100 * TICK);
    CHECK_EQ(alarms[1].timer.prefetch, 12345); /* unchanged */
    for (int i = 2; i < WHEEL_PREFETCH; i++) {
        intptr_t ahead = alarms[i].timer.prefetch;
        CHECK_EQ((intptr_t)((uintptr_t)&alarms[i] / FETCH_LINE) + ahead,
                 (intptr_t)((uintptr_t)&alarms[WHEEL_PREFETCH + i] / FETCH_LINE));
    }
    now = BEGIN + 101 * TICK; /* a timer that has fired is not changed either */
    CHECK_EQ(fire_due(NO_BUDGET), 2 * WHEEL_PREFETCH - 2);
    for (int i = 1; i < WHEEL_PREFETCH; i++)
        alarms[WHEEL_PREFETCH + i].timer.prefetch = 12345;
    for (int i = 0; i < WHEEL_PREFETCH; i++)
        arm(&alarms[i], BEGIN + 300 * TICK);
    for (int i = 1; i < WHEEL_PREFETCH; i++)
        CHECK_EQ(alarms[WHEEL_PREFETCH + i].timer.prefetch, 12345);
}

/* A disarm that comes too late returns after the firing, whose effects it sees. */

static struct {
    struct timer timer;
    int fired; /* plain: the wheel's latch must order it */
} contended;
static atomic_u32 over;

static void fire_contended(struct timer *timer, void *context)
{
    CHECK_PTR(timer, &contended.timer);
    CHECK_PTR(context, &over);
    contended.fired++;
}

static void *fire_on(void *arg)
{
    for (int64_t time = BEGIN; !atomic_u32_load_acquire(&over); time += TICK) {
        weft__wheel_fire(&wheel, time, NO_BUDGET, fire_contended, &over);
        if (time / TICK % 1024 == 0)
            sched_yield(); /* Valgrind runs one thread at a time, else this one */
    }
    return arg;
}

static void disarming_ends_it(void)
{
    begin(BEGIN);
    pthread_t thread = thread_start(fire_on, NULL);
    int in_time = 0;
    int64_t rounds = test_scale(20000);
    for (int64_t round = 0; round < rounds; round++) {
        int before = contended.fired;
        weft__wheel_arm(&wheel, &contended.timer, BEGIN + round * TICK);
        for (int64_t spins = round % 64 * 4; spins > 0; spins--)
            cpu_relax();
        if (round % 8 == 0)
            sched_yield();
        if (weft__wheel_disarm(&contended.timer)) {
            CHECK_EQ(contended.fired, before);
            in_time++;
        } else {
            CHECK_EQ(contended.fired, before + 1);
        }
    }
    atomic_u32_store_release(&over, 1);
    thread_join(thread);
    CHECK_EQ(contended.fired + in_time, rounds);
    printf("  disarmed in time: %d of %lld\n", in_time, (long long)rounds);
}

/* For a clock that jumps. */

static uint32_t fire_exactly(bool jump, uint32_t budget)
{
    uint32_t calls = 0;
    uint32_t fired = weft__wheel_fire_exact(&wheel, &now, jump, budget, fire, &calls);
    CHECK_EQ(fired, calls);
    return fired;
}

static void jumps_to_the_next(void)
{
    struct alarm alarms[4] = {{.fired = 0}};
    begin(BEGIN);
    CHECK_EQ(fire_exactly(true, NO_BUDGET), 0); /* without a timer the clock stays */
    CHECK_EQ(now, BEGIN);
    arm(&alarms[0], BEGIN + 7);
    arm(&alarms[1], BEGIN + 7);
    arm(&alarms[2], BEGIN + 8);
    arm(&alarms[3], BEGIN + 1000 * TICK + 1);
    CHECK_EQ(fire_exactly(false, NO_BUDGET), 0);
    CHECK_EQ(now, BEGIN);
    CHECK_EQ(fire_exactly(true, 1), 1);
    CHECK_EQ(now, BEGIN + 7);
    CHECK_EQ(fire_exactly(true, NO_BUDGET), 1); /* due timers come before a jump */
    CHECK_EQ(now, BEGIN + 7);
    CHECK_EQ(fire_exactly(true, NO_BUDGET), 1);
    CHECK_EQ(now, BEGIN + 8);
    CHECK_EQ(fire_exactly(true, NO_BUDGET), 1);
    CHECK_EQ(now, BEGIN + 1000 * TICK + 1);
    check_fired_once(alarms, 4);
    CHECK_EQ(next(), WHEEL_EMPTY);
    arm(&alarms[0], now - 5); /* the clock does not go back */
    CHECK_EQ(fire_exactly(true, NO_BUDGET), 1);
    CHECK_EQ(now, BEGIN + 1000 * TICK + 1);
}

int main(void)
{
    RUN_ALL_PLAIN(
        "no fibers", jumps_to_the_next, equals_fire_in_order, the_timer_ahead_is_known,
        nothing_armed, fires_once, past_deadlines_are_due_at_once, due_ones_can_be_disarmed,
        budget_is_kept, exact_on_all_levels, exact_at_the_edges_of_rounds, far_deadlines,
        against_the_oracle, a_hold_of_the_latch_is_bounded, others_do_not_wait_for_a_full_slot,
        late_ones_fire_in_order, disarmed_while_dealt_out, dealt_in_parts, disarming_ends_it);
    return 0;
}
