/*
 * timer.c: when and how often timers call their function, and when they do not.
 *
 * A call is counted, never inferred from the time: a timer that runs once makes one call for each
 * start, unless a stop or another start returns that it prevented the call.
 */
#include "everywhere.h"
#include "fibers.h"
#include "sched/time/firing.h"
#include "sched/time/wheel.h"
#include "seeds.h"

/* Waits until the clock has reached the time. */
static void await_time(int64_t deadline)
{
    if (test_seeded)
        CHECK_EQ(weft_sleep_until(deadline), 0);
    while (weft_now() < deadline)
        weft_yield();
}

static void nonsense_is_refused(void *arg)
{
    weft_timer *poison = (weft_timer *)(uintptr_t)0xdead, *timer = poison;
    atomic_u32 calls = {0};
    CHECK_EQ(weft_timer_open(NULL, count_up, &calls), -EINVAL);
    CHECK_EQ(weft_timer_open(&timer, NULL, &calls), -EINVAL);
    CHECK_PTR(timer, poison);
    CHECK_EQ(weft_timer_start(NULL, WEFT_NOW, 0), -EINVAL);
    CHECK_EQ(weft_timer_stop(NULL), -EINVAL);
    CHECK_EQ(weft_timer_close(NULL), -EINVAL);
    CHECK_EQ(weft_timer_open(&timer, count_up, &calls), 0);
    CHECK_EQ(weft_timer_start(timer, WEFT_NOW, -1), -EINVAL);
    CHECK_EQ(weft_timer_start(timer, WEFT_NOW, INT64_MIN), -EINVAL);
    CHECK_EQ(weft_timer_stop(timer), 0); /* it was not started by that */
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&calls), 0);
}

struct shot {
    weft_timer *timer;
    int64_t deadline;
    atomic_u32 calls;
};

static void check_not_early(void *arg)
{
    struct shot *shot = arg;
    CHECK(weft_now() >= shot->deadline);
    CHECK(weft_self() != NULL);
    atomic_u32_add_seq_cst(&shot->calls, 1);
}

static void once_is_once(void *arg)
{
    struct shot shot = {.calls = {0}};
    CHECK_EQ(weft_timer_open(&shot.timer, check_not_early, &shot), 0);
    for (uint32_t round = 1; round <= 20; round++) {
        shot.deadline = weft_after(round % 4 * WEFT_MS); /* also at once */
        CHECK_EQ(weft_timer_start(shot.timer, shot.deadline, 0), 0);
        yield_until(&shot.calls, round);
        CHECK_EQ(weft_timer_stop(shot.timer), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&shot.calls), round);
    }
    shot.deadline = 0;
    CHECK_EQ(weft_timer_start(shot.timer, INT64_MIN, 0), 0); /* long past */
    yield_until(&shot.calls, 21);
    CHECK_EQ(weft_timer_close(shot.timer), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&shot.calls), 21);
}

enum { SHOTS = 300 };

static void never_early(void *arg)
{
    struct shot *shots = calloc(SHOTS, sizeof *shots);
    CHECK(shots != NULL);
    struct prng prng = prng_from(1);
    for (int i = 0; i < SHOTS; i++)
        CHECK_EQ(weft_timer_open(&shots[i].timer, check_not_early, &shots[i]), 0);
    for (uint32_t round = 1; round <= 3; round++) {
        for (int i = 0; i < SHOTS; i++) {
            shots[i].deadline = weft_now() + (int64_t)prng_below(&prng, 30 * 1000 * 1000);
            CHECK_EQ(weft_timer_start(shots[i].timer, shots[i].deadline, 0), 0);
        }
        for (int i = 0; i < SHOTS; i++)
            yield_until(&shots[i].calls, round);
    }
    for (int i = 0; i < SHOTS; i++) {
        CHECK_EQ(weft_timer_close(shots[i].timer), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&shots[i].calls), 3);
    }
    free(shots);
}

/* Stop, and start anew. */

static void results_tell_what_was_prevented(void *arg)
{
    atomic_u32 calls = {0};
    weft_timer *timer = open_timer(count_up, &calls);
    CHECK_EQ(weft_timer_stop(timer), 0); /* not started */
    CHECK_EQ(weft_timer_start(timer, weft_after(3600 * WEFT_S), 0), 0);
    CHECK_EQ(weft_timer_stop(timer), 1);
    CHECK_EQ(weft_timer_stop(timer), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(3600 * WEFT_S), 0), 0);
    CHECK_EQ(weft_timer_start(timer, WEFT_NEVER, 0), 1); /* the same as stop */
    CHECK_EQ(weft_timer_stop(timer), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(3600 * WEFT_S), 0), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(7200 * WEFT_S), WEFT_S), 1);
    CHECK_EQ(atomic_u32_load_relaxed(&calls), 0);
    CHECK_EQ(weft_timer_start(timer, weft_after(WEFT_US), 0), 1); /* sooner than it was */
    yield_until(&calls, 1);
    CHECK_EQ(weft_timer_stop(timer), 0);
    CHECK_EQ(weft_timer_start(timer, WEFT_NOW, WEFT_MS), 0);
    yield_until(&calls, 4);
    CHECK_EQ(weft_timer_stop(timer), 1); /* a periodic one always has a call to prevent */
    CHECK_EQ(weft_timer_start(timer, weft_after(3600 * WEFT_S), 0), 0);
    CHECK_EQ(weft_timer_close(timer), 0); /* closed while armed */
}

/* Runs the function here and in three fibers at the same time. */
static void run_beside_fibers(void (*function)(void *))
{
    weft_fiber *fibers[3];
    spawn_all(fibers, 3, function, NULL);
    function(NULL);
    join_all(fibers, 3);
}

/* A start at about the time when the last one fires: each makes one call, or is prevented. */
static void race_stop(void *arg)
{
    atomic_u32 calls = {0};
    uint32_t expected = 0;
    struct prng prng = prng_from((uint64_t)weft_now());
    weft_timer *timer = open_timer(count_up, &calls);
    for (int64_t round = test_scale(5000); round > 0; round--) {
        expected++;
        int prevented = weft_timer_start(timer, weft_now() + prng_below(&prng, 20000) - 2000, 0);
        CHECK(prevented == 0 || prevented == 1);
        expected -= (uint32_t)prevented;
        relax_for(prng_below(&prng, 600));
        if (prng_below(&prng, 2) == 0)
            continue;
        prevented = weft_timer_stop(timer);
        CHECK(prevented == 0 || prevented == 1);
        expected -= (uint32_t)prevented;
        yield_until(&calls, expected); /* a call that has begun may not have counted yet */
        CHECK_EQ(atomic_u32_load_relaxed(&calls), expected);
        if (prng_below(&prng, 16) == 0) {
            /* Past the deadline of the start that was stopped. */
            await_time(weft_after(30 * WEFT_US));
            CHECK_EQ(atomic_u32_load_relaxed(&calls), expected);
        }
    }
    expected -= (uint32_t)weft_timer_stop(timer);
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&calls), expected);
}

static void no_stale_call(void)
{
    run_beside_fibers(race_stop);
}

/* Starts while the last call is about to end. */
static void start_at_the_end(void *arg)
{
    atomic_u32 calls = {0};
    struct prng prng = prng_from((uint64_t)weft_now());
    weft_timer *timer = open_timer(count_up, &calls);
    uint32_t rounds = (uint32_t)test_scale(20000);
    for (uint32_t round = 1; round <= rounds; round++) {
        CHECK_EQ(weft_timer_start(timer, weft_now() - 10 * WEFT_US, 0), 0);
        yield_until(&calls, round); /* a lost call shows as the time limit of the test */
        relax_for(prng_below(&prng, 8));
    }
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&calls), rounds);
}

static void no_call_is_lost(void)
{
    enum { STARTERS = 4 };
    processors_begin(4);
    run_fibers(STARTERS, start_at_the_end, NULL);
    processors_end();
}

/* After a stop a periodic timer may finish the call that has begun, and no more. */
static void no_call_begins_after_stop(void *arg)
{
    weft_timer *timer, *clock;
    atomic_u32 calls = {0}, ticks = {0};
    CHECK_EQ(weft_timer_open(&timer, count_up, &calls), 0);
    CHECK_EQ(weft_timer_open(&clock, count_up, &ticks), 0);
    for (int64_t round = test_scale(100); round > 0; round--) {
        uint32_t before = atomic_u32_load_relaxed(&calls);
        CHECK_EQ(weft_timer_start(timer, WEFT_NOW, 20 * WEFT_US), 0);
        yield_until(&calls, before + 3);
        CHECK_EQ(weft_timer_stop(timer), 1);
        before = atomic_u32_load_relaxed(&calls);
        /* Another periodic timer makes calls meanwhile. */
        uint32_t ticked = atomic_u32_load_relaxed(&ticks);
        CHECK_EQ(weft_timer_start(clock, WEFT_NOW, 100 * WEFT_US), 0);
        yield_until(&ticks, ticked + 3);
        CHECK_EQ(weft_timer_stop(clock), 1);
        CHECK(atomic_u32_load_relaxed(&calls) <= before + 1);
    }
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK_EQ(weft_timer_close(clock), 0);
}

enum { BEATS = 6 };

struct beat {
    int64_t start, period;
    int64_t hold; /* the first call lasts until then */
    int64_t began[BEATS], ended[BEATS];
    atomic_u32 calls;
};

static void note_beat(void *arg)
{
    struct beat *beat = arg;
    uint32_t number = atomic_u32_load_relaxed(&beat->calls);
    if (number >= BEATS)
        return;
    beat->began[number] = weft_now();
    if (number == 0)
        CHECK_EQ(weft_sleep_until(beat->hold), 0);
    beat->ended[number] = weft_now();
    atomic_u32_store_release(&beat->calls, number + 1);
}

/* The first multiple of the period after `time`. */
static int64_t next_multiple(const struct beat *beat, int64_t time)
{
    return beat->start + ((time - beat->start) / beat->period + 1) * beat->period;
}

static void run_beat(struct beat *beat)
{
    weft_timer *timer = open_timer(note_beat, beat);
    CHECK_EQ(weft_timer_start(timer, beat->start, beat->period), 0);
    yield_until(&beat->calls, BEATS);
    CHECK_EQ(weft_timer_close(timer), 0);
    CHECK(beat->began[0] >= beat->start);
}

static void missed_calls_become_one(void)
{
    int64_t start = weft_after(WEFT_MS);
    struct beat beat = {.start = start, .period = WEFT_MS, .hold = start + 20 * WEFT_MS};
    run_beat(&beat);
    CHECK(beat.began[1] >= beat.hold); /* one call at a time */
    /* The second call stands for all that were missed; the third one waits for its own time. */
    int64_t third = next_multiple(&beat, beat.ended[0]);
    for (int i = 2; i < BEATS; i++)
        CHECK(beat.began[i] >= third + (i - 2) * beat.period);
}

/* A late call does not move the calls after it. Under seeds only, where nothing else is late. */
static void periods_do_not_drift(void)
{
    const int64_t period = 20 * WEFT_MS, start = weft_after(WEFT_MS);
    struct beat beat = {.start = start, .period = period, .hold = start + period + period / 2};
    run_beat(&beat);
    CHECK_EQ(beat.began[1], beat.hold); /* due at 1 period, and late */
    for (int i = 2; i < BEATS; i++)
        CHECK_EQ(beat.began[i], start + i * period);
}

struct held {
    weft_timer *timer;
    weft_wg gate;
    atomic_u32 begun;
    uint32_t plain; /* written at the end of the call, read after close */
};

static void hold_call(void *arg)
{
    struct held *held = arg;
    atomic_u32_store_release(&held->begun, 1);
    CHECK_EQ(weft_wg_wait(&held->gate), 0);
    CHECK_EQ(weft_sleep(WEFT_MS), 0);
    held->plain = 42;
}

static void close_waits_for_the_call(void *arg)
{
    struct held held = {.plain = 0};
    CHECK_EQ(weft_wg_init(&held.gate, 1), 0);
    CHECK_EQ(weft_timer_open(&held.timer, hold_call, &held), 0);
    CHECK_EQ(weft_timer_start(held.timer, WEFT_NOW, 0), 0);
    yield_until(&held.begun, 1);
    CHECK_EQ(weft_timer_stop(held.timer), 0); /* it does not wait */
    CHECK_EQ(held.plain, 0);
    CHECK_EQ(weft_timer_start(held.timer, WEFT_NOW, 0), 0);
    CHECK_EQ(weft_go(done_later, &held.gate), 0);
    CHECK_EQ(weft_timer_close(held.timer), 0);
    CHECK_EQ(held.plain, 42);
}

struct own {
    weft_timer *timer;
    uint32_t most;
    atomic_u32 calls, closed;
};

static void close_own(void *arg)
{
    struct own *own = arg;
    if (atomic_u32_add_seq_cst(&own->calls, 1) + 1 < own->most)
        return;
    CHECK_EQ(weft_timer_close(own->timer), 0);
    CHECK_EQ(weft_sleep(100 * WEFT_US), 0); /* the fiber is still its own */
    atomic_u32_store_release(&own->closed, 1);
}

static void close_from_inside(void *arg)
{
    for (uint32_t most = 1; most < 20; most++) {
        struct own own = {.most = most};
        CHECK_EQ(weft_timer_open(&own.timer, close_own, &own), 0);
        CHECK_EQ(weft_timer_start(own.timer, WEFT_NOW, most > 1 ? 50 * WEFT_US : 0), 0);
        yield_until(&own.closed, 1);
        CHECK_EQ(atomic_u32_load_relaxed(&own.calls), most);
    }
}

static void a_timer_may_close_itself(void)
{
    everywhere(close_from_inside);
    processors_end(); /* all timers are closed */
}

/* A close at about the time when the timer fires, or a call ends. */
static void close_any_time(void *arg)
{
    struct prng prng = prng_from((uint64_t)weft_now());
    for (int64_t round = test_scale(3000); round > 0; round--) {
        atomic_u32 calls = {0};
        weft_timer *timer = open_timer(count_up, &calls);
        int64_t period = prng_below(&prng, 2) * 10 * WEFT_US;
        CHECK_EQ(weft_timer_start(timer, weft_now() + prng_below(&prng, 20000) - 5000, period), 0);
        relax_for(prng_below(&prng, 600));
        if (prng_below(&prng, 4) == 0)
            weft_yield();
        CHECK_EQ(weft_timer_close(timer), 0);
        uint32_t closed = atomic_u32_load_acquire(&calls);
        CHECK(period != 0 || closed <= 1);
        if (prng_below(&prng, 8) == 0)
            await_time(weft_after(30 * WEFT_US));
        CHECK_EQ(atomic_u32_load_acquire(&calls), closed);
    }
}

static void no_call_after_close(void)
{
    run_beside_fibers(close_any_time);
}

/* On one processor a call that is due and queued can be prevented before it begins. */

static struct {
    weft_timer *timer;
    atomic_u32 calls;
    int stopped, restarted;
} due;

static void stop_due(void *arg)
{
    due.stopped = weft_timer_stop(due.timer);
}

static void restart_due(void *arg)
{
    due.restarted = weft_timer_start(due.timer, weft_after(3600 * WEFT_S), 0);
}

static void close_due(void *arg)
{
    CHECK_EQ(weft_timer_close(due.timer), 0);
}

/* The yield fires the timer, whose fiber then stands behind the one that was spawned last. */
static void make_due(void (*then)(void *))
{
    CHECK_EQ(weft_timer_start(due.timer, WEFT_NOW, 0) & ~1, 0);
    weft_fiber *fiber = spawn(then, NULL);
    int64_t deadline = weft_after(50 * WEFT_US);
    while (weft_now() < deadline)
        continue;
    weft_yield();
    CHECK_EQ(weft_join(fiber), 0);
}

static void a_due_call_can_be_prevented(void *arg)
{
    CHECK_EQ(weft_timer_open(&due.timer, count_up, &due.calls), 0);
    make_due(stop_due);
    CHECK_EQ(due.stopped, 1);
    weft_yield();
    CHECK_EQ(atomic_u32_load_relaxed(&due.calls), 0);
    make_due(restart_due);
    CHECK_EQ(due.restarted, 1);
    weft_yield();
    CHECK_EQ(atomic_u32_load_relaxed(&due.calls), 0);
    make_due(close_due);
    weft_yield();
    CHECK_EQ(atomic_u32_load_relaxed(&due.calls), 0);
}

/* The function may use its own timer. */

static void start_self_again(void *arg)
{
    struct own *own = arg;
    if (atomic_u32_add_seq_cst(&own->calls, 1) + 1 < own->most)
        CHECK_EQ(weft_timer_start(own->timer, weft_after(10 * WEFT_US), 0), 0);
}

static void a_timer_may_start_itself(void)
{
    struct own own = {.most = 100};
    CHECK_EQ(weft_timer_open(&own.timer, start_self_again, &own), 0);
    CHECK_EQ(weft_timer_start(own.timer, WEFT_NOW, 0), 0);
    yield_until(&own.calls, 100);
    CHECK_EQ(weft_timer_close(own.timer), 0);
    CHECK_EQ(atomic_u32_load_relaxed(&own.calls), 100);
}

/* A period beyond the end of the clock: there is no second call. */
static void a_huge_period_calls_once(void)
{
    static const int64_t periods[] = {WEFT_NEVER, WEFT_NEVER - 1, WEFT_NEVER / 2};
    for (int i = 0; i < 3; i++) {
        atomic_u32 calls = {0};
        weft_timer *timer = open_timer(count_up, &calls);
        CHECK_EQ(weft_timer_start(timer, WEFT_NOW, periods[i]), 0);
        yield_until(&calls, 1);
        /* The last one is armed for the far future, the others are not. */
        CHECK_EQ(weft_timer_stop(timer), i == 2);
        CHECK_EQ(weft_timer_close(timer), 0);
        CHECK_EQ(atomic_u32_load_relaxed(&calls), 1);
    }
    /* A period that ends with the clock. */
    atomic_u32 calls = {0};
    int64_t first = weft_now();
    weft_timer *timer = open_timer(count_up, &calls);
    CHECK_EQ(weft_timer_start(timer, first, WEFT_NEVER - first), 0);
    yield_until(&calls, 1);
    CHECK_EQ(weft_timer_stop(timer), 0);
    CHECK_EQ(weft_timer_close(timer), 0);
}

static void open_timers_hold_back_the_shutdown(void)
{
    atomic_u32 calls = {0};
    weft_timer *timer = open_timer(count_up, &calls);
    CHECK_EQ(weft_shutdown(WEFT_NOW), -ETIMEDOUT); /* it is not started */
    int64_t deadline = weft_after(2 * WEFT_MS);
    CHECK_EQ(weft_shutdown(deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_timer_start(timer, weft_after(WEFT_MS), 0), 0); /* the timer still works */
    yield_until(&calls, 1);
    CHECK_EQ(weft_shutdown(weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_timer_close(timer), 0);
    shut_down();
}

/* The function starts its own timer while another fiber waits in the close. */
struct restless {
    weft_timer *timer;
    weft_sem begun;
    bool closing;
};

static void start_again(void *arg)
{
    struct restless *restless = arg;
    weft_sem_release(&restless->begun, 1);
    while (!restless->closing)
        weft_yield();
    weft_yield(); /* with one processor: until the closer waits */
    CHECK_EQ(weft_timer_start(restless->timer, weft_after(3600 * WEFT_S), 0), 0);
}

static void a_start_during_close_makes_no_call(void *arg)
{
    struct restless restless = {.begun = WEFT_SEM_INIT(0)};
    CHECK_EQ(weft_timer_open(&restless.timer, start_again, &restless), 0);
    CHECK_EQ(weft_timer_start(restless.timer, WEFT_NOW, 0), 0);
    weft_sem_acquire(&restless.begun, 1);
    restless.closing = true;
    CHECK_EQ(weft_timer_close(restless.timer), 0);
    CHECK_EQ(weft__timers_next(), WHEEL_EMPTY); /* nothing is left in the wheel */
}

int main(void)
{
    RUN_PLAIN_EVERYWHERE(nonsense_is_refused, "nothing waits");
    RUN_EVERYWHERE(once_is_once);
    RUN_PLAIN_EVERYWHERE(never_early, "too much for many runs");
    RUN_EVERYWHERE(results_tell_what_was_prevented);
    RUN_ALL_BOTH(no_stale_call, no_call_is_lost);
    RUN_EVERYWHERE(no_call_begins_after_stop);
    RUN_BOTH(missed_calls_become_one);
    RUN_SEEDS(periods_do_not_drift);
    RUN_EVERYWHERE(close_waits_for_the_call);
    RUN_ALL_BOTH(a_timer_may_close_itself, no_call_after_close);
    RUN_PLAIN_ONE_MACHINE(a_start_during_close_makes_no_call,
                          "knows who runs next on one processor");
    RUN_PLAIN_ONE_MACHINE(a_due_call_can_be_prevented, "knows who runs next on one processor");
    RUN_ALL_BOTH(a_timer_may_start_itself, a_huge_period_calls_once);
    RUN_PLAIN(open_timers_hold_back_the_shutdown, "stops or configures the runtime");
    return 0;
}
