/*
 * ticks.c: the short times of the scheduler are the same, whatever counter measures them.
 */
#include "sched/time/ticks.h"
#include "fibers.h"
#include "os/os.h"

#include "everywhere.h"

static const uint64_t rates[] = {
    24 * 1000 * 1000,  25 * 1000 * 1000,   31250000,   50 * 1000 * 1000,     62500000,
    100 * 1000 * 1000, 1000 * 1000 * 1000, 1600000000, UINT64_C(2500000000), UINT64_C(3000000000)};
enum { RATES = sizeof rates / sizeof rates[0] };

/* Within a twentieth, and the rounding of a slow counter. */
static void check_time(uint64_t ticks, uint64_t rate, int64_t time)
{
    double nanoseconds = (double)ticks * 1e9 / (double)rate;
    CHECK(nanoseconds <= (double)time * 1.05);
    CHECK(nanoseconds >= (double)time * 0.95 - 1e9 / (double)rate);
}

static void check_times(uint64_t rate)
{
    check_time(atomic_u64_load_relaxed(&weft__ticks.look), rate, TIME_LOOK);
    check_time(atomic_u64_load_relaxed(&weft__ticks.poll), rate, TIME_POLL);
    check_time(atomic_u64_load_relaxed(&weft__ticks.defer), rate, TIME_DEFER);
}

static void times_of_any_counter(void)
{
    for (int i = 0; i < RATES; i++) {
        weft__ticks_set(rates[i]);
        check_times(rates[i]);
    }
    weft__ticks_set(0);
    CHECK(atomic_u64_load_relaxed(&weft__ticks.look) > 0);
    weft__ticks_forget();
}

static void yield_and_sleep(void *arg)
{
    while (atomic_u32_load_relaxed(&weft__ticks.known) == 0) {
        CHECK_EQ(weft_sleep(WEFT_US), 0);
        for (int i = 0; i < 200; i++)
            weft_yield();
    }
}

/* A busy runtime measures the rate of the counter. */
static void work(void)
{
    enum { FIBERS = 10 };
    weft__ticks_forget();
    run_fibers(FIBERS, yield_and_sleep, NULL);
    shut_down();
}

/* The counter and the clock at about the same moment. */
static int64_t read_both(uint64_t *ticks)
{
    int64_t before, after;
    do {
        before = weft__os_now();
        *ticks = weft__os_ticks();
        after = weft__os_now();
    } while (after - before > 100 * WEFT_US);
    return after;
}

/* The rate that weft has measured, against that of the test. */
static void the_counter_is_measured(void)
{
    uint64_t first, last;
    int64_t from = read_both(&first), until;
    work();
    do
        until = read_both(&last);
    while (until - from < 20 * WEFT_MS);
    check_times((uint64_t)((double)(last - first) * 1e9 / (double)(until - from)));
}

static void any_counter_is_measured(void)
{
#ifdef WEFT_DEBUG
    for (int i = 0; i < RATES; i++) {
        atomic_u64_store_relaxed(&weft__os_ticks_given, rates[i]);
        work();
        check_times(rates[i]);
    }
    atomic_u64_store_relaxed(&weft__os_ticks_given, 0);
    weft__ticks_forget();
#else
    printf("  left out: only debug builds can have another counter\n");
#endif
}

/* The rate is measured once: the next runtime knows it. */
static void it_is_known_then(void)
{
    work();
    run_fiber(yield_and_sleep, NULL);
    CHECK_EQ(atomic_u32_load_relaxed(&weft__ticks.known), 1);
    shut_down();
}

int main(void)
{
    RUN_PLAIN(times_of_any_counter, "nothing to order");
    RUN_ALL_PLAIN("stops the runtime; seeds have a clock of their own", the_counter_is_measured,
                  any_counter_is_measured, it_is_known_then);
    return 0;
}
