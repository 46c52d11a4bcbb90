/*
 * seeded.c: test runs: the same seed gives the same schedule, another seed another one; time jumps,
 * exactly to each deadline.
 */
#include <weft/test.h>

#include "fibers.h"
#include "os/failure.h"
#include "os/os.h"

enum { FIBERS = 5, EVENTS = 400, SEEDS_TRIED = 64, MANY = 1500 };

/* The events of a run, in order. */
static char events[EVENTS + 1];
static int event_count;

static void note(char event)
{
    if (event_count < EVENTS)
        events[event_count++] = event;
    events[event_count] = '\0';
}

/* All that depends on a schedule: yields, locks, channels, select, sleeps, spawns. */
static struct {
    weft_mutex mutex;
    weft_chan *numbers, *letters;
    weft_wg wg;
} world;

static void worker(void *arg)
{
    char name = (char)('a' + *(int *)arg);
    for (int i = 0; i < 3; i++) {
        note(name);
        weft_yield();
        weft_mutex_lock(&world.mutex);
        note((char)(name - 'a' + 'A'));
        weft_mutex_unlock(&world.mutex);
        CHECK_EQ(weft_sleep(i * 5 * WEFT_MS), 0);
        CHECK_EQ(weft_chan_send(i % 2 ? world.numbers : world.letters, &name), 0);
    }
}

static void collector(void *arg)
{
    char name;
    for (int i = 0; i < FIBERS * 3; i++) {
        weft_case cases[] = {{.chan = world.numbers, .op = WEFT_RECEIVE, .element = &name},
                             {.chan = world.letters, .op = WEFT_RECEIVE, .element = &name}};
        int chosen = weft_select(cases, 2);
        CHECK(chosen >= 0);
        note((char)('0' + chosen));
        note(name);
    }
}

static void mixture(void *arg)
{
    int numbers[FIBERS];
    world.mutex = (weft_mutex)WEFT_MUTEX_INIT;
    world.wg = (weft_wg)WEFT_WG_INIT;
    CHECK_EQ(weft_chan_make(&world.numbers, 1, 2), 0);
    CHECK_EQ(weft_chan_make(&world.letters, 1, 0), 0);
    event_count = 0;
    CHECK_EQ(weft_wg_go(&world.wg, collector, NULL), 0);
    for (int i = 0; i < FIBERS; i++) {
        numbers[i] = i;
        CHECK_EQ(weft_wg_go(&world.wg, worker, &numbers[i]), 0);
    }
    CHECK_EQ(weft_wg_wait(&world.wg), 0);
    weft_chan_destroy(world.numbers);
    weft_chan_destroy(world.letters);
}

static void same_seed_same_events(void)
{
    char first[EVENTS + 1];
    for (uint64_t seed = 0; seed < SEEDS_TRIED; seed++) {
        CHECK_EQ(weft_test_run(seed, mixture, NULL), 0);
        CHECK(event_count == FIBERS * 3 * 4);
        memcpy(first, events, sizeof events);
        CHECK_EQ(weft_test_run(seed, mixture, NULL), 0);
        CHECK_STR(first, events);
    }
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.first = 1000, .seeds = 20, .twice = 1}, mixture,
                             NULL),
             0);
    CHECK_EQ(
        weft_test_seeds(&(weft_test_options){.first = 1000, .seeds = 20, .twice = 1, .chaos = 1},
                        mixture, NULL),
        0);
}

static void other_seeds_other_events(void)
{
    static char seen[SEEDS_TRIED][EVENTS + 1];
    int distinct = 0;
    for (int seed = 0; seed < SEEDS_TRIED; seed++) {
        CHECK_EQ(weft_test_run((uint64_t)seed, mixture, NULL), 0);
        memcpy(seen[seed], events, sizeof events);
        bool is_new = true;
        for (int i = 0; i < seed; i++)
            is_new &= strcmp(seen[i], seen[seed]) != 0;
        distinct += is_new;
    }
    CHECK(distinct > SEEDS_TRIED / 2);
}

/* Both cases are always ready. */
static void select_often(void *arg)
{
    char letter = 'x';
    weft_chan *chans[2];
    event_count = 0;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_chan_make(&chans[i], 1, 1), 0);
        CHECK_EQ(weft_chan_send(chans[i], &letter), 0);
    }
    for (int i = 0; i < 32; i++) {
        weft_case cases[] = {{.chan = chans[0], .op = WEFT_RECEIVE, .element = &letter},
                             {.chan = chans[1], .op = WEFT_RECEIVE, .element = &letter}};
        int chosen = weft_select(cases, 2);
        CHECK(chosen >= 0);
        note((char)('0' + chosen));
        CHECK_EQ(weft_chan_send(chans[chosen], &letter), 0);
    }
    weft_chan_destroy(chans[0]);
    weft_chan_destroy(chans[1]);
}

static void select_is_decided_too(void)
{
    char first[EVENTS + 1], other[EVENTS + 1];
    CHECK_EQ(weft_test_run(1, select_often, NULL), 0);
    memcpy(first, events, sizeof events);
    CHECK_EQ(weft_test_run(2, select_often, NULL), 0);
    memcpy(other, events, sizeof events);
    CHECK(strcmp(first, other) != 0);
    CHECK_EQ(weft_test_run(1, select_often, NULL), 0);
    CHECK_STR(first, events);
}

/* A run that depends on more than its seed is detected: here on the run before. */
static void depends_on_more(void *arg)
{
    int *runs = arg;
    ++*runs;
    for (int i = 0; i < *runs; i++)
        weft_yield();
}

static void two_runs_that_differ_are_reported(void)
{
    int runs = 0;
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = 5, .twice = 1}, depends_on_more, &runs),
             -EPROTO);
    CHECK_EQ(runs, 2);
}

static int64_t began;

static void sleeps_an_hour(void *arg)
{
    int64_t start = weft_now();
    began = start;
    CHECK_EQ(weft_sleep(3600 * WEFT_S), 0);
    CHECK_EQ(weft_now() - start, 3600 * WEFT_S);
    CHECK_EQ(weft_sleep(1), 0);
    CHECK_EQ(weft_now() - start, 3600 * WEFT_S + 1);
    weft_yield();
    CHECK_EQ(weft_sleep_until(start), 0); /* it has passed */
    CHECK_EQ(weft_now() - start, 3600 * WEFT_S + 1);
    CHECK_EQ(weft_sleep(1000000 * WEFT_S * 3600), 0); /* a century */
    CHECK_EQ(weft_now() - start, 3600 * WEFT_S * 1000001 + 1);
}

static void time_jumps(void)
{
    CHECK_EQ(weft_test_run(1, sleeps_an_hour, NULL), 0);
    int64_t first = began;
    CHECK_EQ(weft_test_run(2, sleeps_an_hour, NULL), 0);
    CHECK_EQ(began, first);
}

struct alarm {
    int64_t at;
    char name;
};

static void ring(void *arg)
{
    struct alarm *alarm = arg;
    CHECK_EQ(weft_sleep_until(alarm->at), 0);
    CHECK_EQ(weft_now(), alarm->at);
    note(alarm->name);
}

/* Deadlines a nanosecond apart are kept in order, equal ones in any order. */
static void rings(void *arg)
{
    int64_t step = *(int64_t *)arg, start = weft_now() + 10 * WEFT_MS;
    struct alarm alarms[FIBERS];
    weft_wg wg = WEFT_WG_INIT;
    event_count = 0;
    for (int i = 0; i < FIBERS; i++) {
        alarms[i] = (struct alarm){start + (FIBERS - i) * step, (char)('a' + i)};
        CHECK_EQ(weft_wg_go(&wg, ring, &alarms[i]), 0);
    }
    CHECK_EQ(weft_wg_wait(&wg), 0);
}

static void deadlines_in_order(void)
{
    int64_t step = 1, none = 0;
    int others = 0;
    for (uint64_t seed = 0; seed < SEEDS_TRIED; seed++) {
        CHECK_EQ(weft_test_run(seed, rings, &step), 0);
        CHECK_STR(events, "edcba");
        CHECK_EQ(weft_test_run(seed, rings, &none), 0);
        CHECK_EQ(event_count, FIBERS);
        others += strcmp(events, "edcba") != 0;
    }
    CHECK(others > SEEDS_TRIED / 2);
}

static void count_call(void *arg)
{
    ++*(int *)arg;
}

static void waits_with_deadlines(void *arg)
{
    weft_mutex mutex = WEFT_MUTEX_INIT;
    weft_cond cond = WEFT_COND_INIT;
    weft_ticker *ticker;
    int64_t start = weft_now();
    int calls = 0;
    char element;
    weft_chan *chan = make_chan(1, 0);
    CHECK_EQ(weft_chan_receive_until(chan, &element, weft_after(7 * WEFT_S)), -ETIMEDOUT);
    CHECK_EQ(weft_now() - start, 7 * WEFT_S);
    weft_mutex_lock(&mutex);
    CHECK_EQ(weft_cond_wait_until(&cond, &mutex, weft_after(5 * WEFT_S)), -ETIMEDOUT);
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_now() - start, 12 * WEFT_S);

    weft_timer *timer = open_timer(count_call, &calls);
    CHECK_EQ(weft_timer_start(timer, weft_after(WEFT_S), WEFT_S), 0);
    CHECK_EQ(weft_sleep(10 * WEFT_S + WEFT_MS), 0);
    CHECK_EQ(calls, 10);
    CHECK_EQ(weft_timer_close(timer), 0);

    int64_t ticked, first = weft_after(WEFT_S);
    CHECK_EQ(weft_ticker_open(&ticker, first, WEFT_S), 0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_chan_receive(weft_ticker_chan(ticker), &ticked), 0);
        CHECK_EQ(weft_now(), first + i * WEFT_S);
    }
    weft_ticker_close(ticker);
    weft_chan_destroy(chan);
}

static void deadlines_are_exact(void)
{
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = 30}, waits_with_deadlines, NULL), 0);
}

static void sets_later(void *flag)
{
    CHECK_EQ(weft_sleep(WEFT_S), 0);
    atomic_u32_store_relaxed(flag, 1);
}

static void polls(void *arg)
{
    atomic_u32 flag = {0};
    CHECK_EQ(weft_go(sets_later, &flag), 0);
    while (!atomic_u32_load_relaxed(&flag))
        weft_yield();
}

/* There is no deadline to which the clock could jump. */
static void looks_at_the_clock(void *arg)
{
    int64_t until = weft_after(3 * WEFT_MS);
    while (weft_now() < until)
        weft_yield();
}

static void time_passes_for_fibers_that_yield(void)
{
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = 8}, polls, NULL), 0);
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = 8}, looks_at_the_clock, NULL), 0);
}

/* More fibers than a ring holds. */
static void count_twice(void *arg)
{
    ++*(int *)arg;
    weft_yield();
    ++*(int *)arg;
}

static void many(void *arg)
{
    int count = 0, fibers = (int)test_scale(MANY);
    weft_wg wg = WEFT_WG_INIT;
    for (int i = 0; i < fibers; i++)
        CHECK_EQ(weft_wg_go(&wg, count_twice, &count), 0);
    CHECK_EQ(weft_wg_wait(&wg), 0);
    CHECK_EQ(count, 2 * fibers);
}

static void many_fibers(void)
{
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = 8, .twice = 1}, many, NULL), 0);
}

/* The world outside. */

static void *block(void *arg)
{
    usleep(2000);
    return arg;
}

static void blocks(void *arg)
{
    int *value = arg;
    CHECK_PTR(weft_blocking(block, value), value);
    ++*value;
}

static void *send_from_thread(void *chan)
{
    char letter = 't';
    usleep(1000);
    CHECK_EQ(weft_chan_send(chan, &letter), 0);
    CHECK_EQ(weft_chan_receive_until(chan, &letter, weft_after(WEFT_MS)), -ETIMEDOUT);
    return NULL;
}

static void receive_from_thread(void)
{
    char letter;
    weft_chan *chan = make_chan(1, 0);
    pthread_t thread = thread_start(send_from_thread, chan);
    CHECK_EQ(weft_chan_receive(chan, &letter), 0);
    CHECK_EQ(letter, 't');
    thread_join(thread);
    weft_chan_destroy(chan);
}

static void outside(void *arg)
{
    int value = 0, ends[2];
    weft_fiber *fiber = spawn(blocks, &value);
    CHECK_EQ(weft_sleep(WEFT_S), 0);
    CHECK_EQ(value, 1); /* no time passes while a fiber blocks */
    CHECK_EQ(weft_join(fiber), 0);
    receive_from_thread();
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_READABLE, weft_after(60 * WEFT_S)), -ETIMEDOUT);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK(weft_fd_wait(ends[0], WEFT_READABLE, weft_after(60 * WEFT_S)) >= 0);
    close(ends[0]);
    close(ends[1]);
}

static void works_with_the_outside(void)
{
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.seeds = 16}, outside, NULL), 0);
}

/* A thread from before the run, which ends in it, does not hide a thread that began in it. */

static void *wait_for_end(void *end)
{
    nap_until(end, 1);
    return NULL;
}

struct stranger {
    pthread_t thread;
    atomic_u32 end;
};

static void end_stranger(void *arg)
{
    struct stranger *stranger = arg;
    atomic_u32_store_release(&stranger->end, 1);
    thread_join(stranger->thread);
    receive_from_thread();
}

static void strangers_may_end(void)
{
    struct stranger stranger = {.end = {0}};
    for (uint64_t seed = 0; seed < 4; seed++) {
        atomic_u32_store_relaxed(&stranger.end, 0);
        stranger.thread = thread_start(wait_for_end, &stranger.end);
        CHECK_EQ(weft_test_run(seed, end_stranger, &stranger), 0);
    }
}

static void panics(void *arg)
{
    weft_panic("on purpose");
}

static void joins_one_that_panics(void *arg)
{
    weft_panic_info info;
    weft_fiber *fiber = spawn(panics, NULL);
    CHECK_EQ(weft_join_panic(fiber, &info, WEFT_NEVER), -EOWNERDEAD);
}

static void run_panics(void)
{
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.first = 77}, panics, NULL), -EOWNERDEAD);
}

static void panics_fail_the_run(void)
{
    const char *text = test_stderr_of(run_panics);
    CHECK(strstr(text, "on purpose") != NULL);
    CHECK(strstr(text, "seed 77 ") != NULL);
    CHECK_EQ(weft_test_run(1, joins_one_that_panics, NULL), 0);
}

static void inside_of_a_run(void *arg)
{
    uint64_t seed = 1;
    CHECK_EQ(weft_test_seed(&seed), 0);
    CHECK_EQ(seed, 5);
    CHECK_EQ(weft_test_seed(NULL), -EINVAL);
    CHECK_EQ(weft_test_run(1, inside_of_a_run, NULL), -EBUSY);
    CHECK_EQ(weft_processors(), 1);
    ++*(int *)arg;
}

static void receive_from(void *chan)
{
    char letter;
    CHECK_EQ(weft_chan_receive(chan, &letter), 0);
}

static void arguments_and_contexts(void)
{
    int called = 0;
    uint64_t seed = 99;
    char letter = 'x';
    configure(3);
    CHECK_EQ(weft_test_run(1, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_test_seeds(NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_test_seeds(&(weft_test_options){.reserved = {1}}, inside_of_a_run, &called),
             -EINVAL);
    CHECK_EQ(weft_test_seed(&seed), -EAGAIN);
    CHECK_EQ(seed, 99);
    CHECK_EQ(weft_test_run(5, inside_of_a_run, &called), 0);
    CHECK_EQ(called, 1);

    /* The normal runtime, before and after a run. */
    weft_chan *chan = make_chan(1, 0);
    CHECK_EQ(weft_go(receive_from, chan), 0);
    CHECK_EQ(weft_processors(), 3);
    CHECK_EQ(weft_test_run(5, inside_of_a_run, &called), -EBUSY);
    CHECK_EQ(weft_chan_send(chan, &letter), 0);
    CHECK_EQ(weft_test_run(5, inside_of_a_run, &called), 0);
    CHECK_EQ(called, 2);
    weft_chan_destroy(chan);
    CHECK_EQ(weft_configure(NULL), 0);
}

static void count_run(void *arg)
{
    ++*(int *)arg;
}

/* How many runs the variables lead to; NULL leaves a variable unset. */
static int runs_with(const char *seeds, const char *seed)
{
    int runs = 0;
    CHECK_EQ(seeds != NULL ? setenv("WEFT_TEST_SEEDS", seeds, 1) : unsetenv("WEFT_TEST_SEEDS"), 0);
    CHECK_EQ(seed != NULL ? setenv("WEFT_TEST_SEED", seed, 1) : unsetenv("WEFT_TEST_SEED"), 0);
    CHECK_EQ(weft_test_seeds(NULL, count_run, &runs), 0);
    return runs;
}

static void environment(void)
{
    static const char *const nonsense[] = {
        "", "12x", "-1", "184467440737095516150", "18446744073709551616", "1 2"};
    CHECK_EQ(runs_with("7", NULL), 7);
    CHECK_EQ(runs_with("7", "18446744073709551615"), 1);
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        CHECK_EQ(runs_with("7", nonsense[i]), 7);
    CHECK_EQ(runs_with("0", NULL), 100); /* with no seed every test would pass */
    CHECK_EQ(runs_with(NULL, NULL), 100);
}

/* Without memory a run does not begin, or goes on as far as the test itself copes. */

static void sleep_long(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_S), 0);
    *(int *)arg += 1;
}

static void no_memory_is_an_error(void)
{
    uint32_t nth = 0, calls;
    do {
        int ran = 0;
        weft__os_fail(OS_ALLOC, ++nth, false);
        int result = weft_test_run(1, sleep_long, &ran);
        calls = weft__os_calls(OS_ALLOC);
        weft__os_fail(OS_ALLOC, 0, false);
        CHECK(result == 0 || result == -ENOMEM || result == -EAGAIN);
        CHECK_EQ(ran, result == 0);
    } while (calls >= nth);
    CHECK(nth > 5);
}

int main(void)
{
    unsetenv("WEFT_TEST_SEED");
    unsetenv("WEFT_TEST_SEEDS");
    RUN_ALL_PLAIN("makes its own runs", same_seed_same_events, other_seeds_other_events,
                  select_is_decided_too, two_runs_that_differ_are_reported, time_jumps,
                  deadlines_in_order, deadlines_are_exact, time_passes_for_fibers_that_yield,
                  many_fibers, works_with_the_outside, strangers_may_end, panics_fail_the_run,
                  arguments_and_contexts, environment, no_memory_is_an_error);
    return 0;
}
