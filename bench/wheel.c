/*
 * wheel.c: the timing wheel alone, without fibers, switches or the clock.
 *
 * An operation is one arm and one fire of a timer 50 us ahead, in rounds of 1,000 timers, while
 * others are outstanding one to two hours ahead. Time is simulated. The sleep_* cases add what a
 * sleep costs beyond that (park, two switches, reading the clock).
 */
#include "sched/time/wheel.h"

#include <errno.h>
#include <weft/time.h>

#include "bench.h"

enum { BATCH = 1000, HOUR = 3600 };

struct state {
    struct wheel wheel;
    struct timer *far, near[BATCH];
    int64_t now, fired;
};

static void fired(struct timer *timer, void *context)
{
    (void)timer;
    ((struct state *)context)->fired++;
}

static struct state *fill(int64_t outstanding)
{
    struct state *state = bench_alloc(1, sizeof *state);
    uint64_t random = 88172645463325252u;
    state->far = bench_alloc(outstanding, sizeof *state->far);
    state->now = WEFT_S;
    weft__wheel_init(&state->wheel, state->now);
    for (int64_t i = 0; i < outstanding; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t ahead = HOUR * WEFT_S + (int64_t)(random >> 16) % (HOUR * WEFT_S);
        weft__wheel_arm(&state->wheel, &state->far[i], state->now + ahead);
    }
    return state;
}

static void measure(struct bench *bench, int64_t outstanding)
{
    static struct state *state; /* filled once per process, by the warm-up */
    int64_t rounds = bench_amount(bench, 5000);
    if (state == NULL)
        state = fill(outstanding);
    state->fired = 0;
    int64_t start = weft_now();
    for (int64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < BATCH; i++)
            weft__wheel_arm(&state->wheel, &state->near[i], state->now + 50 * WEFT_US + i * 30);
        state->now += 100 * WEFT_US;
        while (weft__wheel_fire(&state->wheel, state->now, 128, fired, state) > 0)
            continue;
    }
    int64_t elapsed = weft_now() - start;
    bench_check(state->fired == rounds * BATCH ? 0 : -EINVAL, "timers that fired");
    bench->values[0] = (double)elapsed / (double)(rounds * BATCH);
    bench_params(bench, "outstanding=%ld rounds=%ld of=%d", (long)outstanding, (long)rounds, BATCH);
}

/* The longest time for which the latch is held: timers due within half a minute, in random order;
 * the clock stands still while they fire, and jumps to the next. Times in which the holder lost its
 * CPU count too, so the 99.9th percentile is reported with the maximum. */
enum { SOON = 30, FIRE_MOST = 128 };

static void measure_holds(struct bench *bench, int64_t outstanding)
{
    outstanding = bench_amount(bench, outstanding);
    struct state *state = bench_alloc(1, sizeof *state);
    uint64_t random = 88172645463325252u;
    int64_t most = 16 * outstanding, holds = 0;
    double *samples = bench_alloc(most, sizeof *samples);
    state->far = bench_alloc(outstanding, sizeof *state->far);
    state->now = WEFT_S;
    weft__wheel_init(&state->wheel, state->now);
    for (int64_t i = 0; i < outstanding; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        weft__wheel_arm(&state->wheel, &state->far[i],
                        state->now + (int64_t)(random >> 16) % (SOON * WEFT_S));
    }
    while (state->fired < outstanding && holds < most) {
        int64_t next = atomic_i64_load_relaxed(&state->wheel.next), start = weft_now();
        state->now = next > state->now ? next : state->now;
        (void)weft__wheel_fire(&state->wheel, state->now, FIRE_MOST, fired, state);
        samples[holds++] = (double)(weft_now() - start) / (double)WEFT_US;
    }
    bench_check(state->fired == outstanding ? 0 : -EINVAL, "timers that fired");
    bench_sort(samples, holds);
    bench->values[0] = bench_quantile(samples, holds, 1.0);
    bench->values[1] = bench_quantile(samples, holds, 0.999);
    bench_params(bench, "timers=%ld due=0..%ds holds=%ld", (long)outstanding, (int)SOON,
                 (long)holds);
}

const struct bench_case bench_wheel_cases[] = {
    {.name = "wheel_10",
     .what = "arm and fire of a timer on the wheel alone, 10 others outstanding",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 10,
     .one_processor = true},
    {.name = "wheel_1m",
     .what = "the same with 1,000,000 outstanding",
     .metrics = {{"", "ns/op"}},
     .measure = measure,
     .size = 1000000,
     .one_processor = true},
    {.name = "wheel_hold",
     .what = "the longest hold of a wheel's latch by one firing, 1,000,000 timers due within 30 s",
     .metrics = {{"", "us"}, {"_p999", "us"}},
     .measure = measure_holds,
     .size = 1000000,
     .one_processor = true,
     .cold = true},
    {.name = NULL},
};
