/*
 * deadlock_moments_crash.c: the check for deadlocks at the last moment: while the last party is
 * woken, is born or ends, none is reported; when it goes to sleep for ever, the report comes.
 */
#include "bodies.h"
#include "deadlock.h"

/* Parties hand one token on. Each waits in weft while it does not have the token, so that over and
 * over all wait but the one that is just being woken. A token that is dropped at the end is a
 * deadlock, and only then there is one. */

enum { PARTIES = 4 };

struct relay {
    uint32_t processors;
    bool thread[PARTIES]; /* else a fiber; main is always the first, and a thread */
    int64_t rounds;
    bool drop; /* at the end */
    bool bound;
};

static struct {
    struct relay plan;
    weft_chan *chans[PARTIES];
    weft_context *context;
} relay;

static void run_party(void *arg)
{
    uintptr_t own = (uintptr_t)arg, next = (own + 1) % PARTIES;
    int64_t token = 0;
    struct prng prng = prng_from(own + (uint64_t)weft_now());
    if (relay.plan.bound)
        CHECK_EQ(weft_context_bind(relay.context, NULL), 0);
    while (weft_chan_receive(relay.chans[own], &token) == 0) {
        if (own == 0)
            token--;
        if (token <= 0 && relay.plan.drop) {
            CHECK_EQ(weft_chan_receive(relay.chans[own], &token), 0);
            break;
        }
        uint32_t way = prng_below(&prng, 16);
        if (way == 0)
            CHECK_EQ(weft_sleep(1 + prng_below(&prng, 3000)), 0);
        else if (way == 1)
            weft_yield();
        int result = weft_chan_send(relay.chans[next], &token);
        if (token <= 0) {
            CHECK(result == 0 || result == -ESHUTDOWN);
            CHECK_EQ(weft_chan_close(relay.chans[next]), 0);
            break;
        }
        CHECK_EQ(result, 0);
    }
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
}

static void begin_relay(void *plan)
{
    relay.plan = *(struct relay *)plan;
    configure((int)relay.plan.processors);
    CHECK_EQ(weft_context_open(&relay.context, NULL, NULL), 0);
    start_weft();
    struct body bodies[PARTIES];
    for (int i = 0; i < PARTIES; i++)
        CHECK_EQ(weft_chan_make(&relay.chans[i], sizeof(int64_t), 1), 0);
    for (uintptr_t i = 1; i < PARTIES; i++) {
        bodies[i] =
            (struct body){.function = run_party, .arg = (void *)i, .thread = relay.plan.thread[i]};
        body_start(&bodies[i]);
    }
    CHECK_EQ(weft_chan_send(relay.chans[0], &relay.plan.rounds), 0);
    run_party((void *)0);
    for (int i = 1; i < PARTIES; i++)
        body_join(&bodies[i]);
    weft_context_close(relay.context);
    shut_down();
}

static void relays(bool drop, int64_t rounds)
{
    for (uint32_t mix = 0; mix < 8; mix++) {
        struct relay plan = {.processors = 1 + mix % 3, .rounds = rounds, .drop = drop};
        for (uint32_t i = 1; i < PARTIES; i++)
            plan.thread[i] = mix >> (i - 1) & 1;
        plan.bound = mix % 3 == 1;
        if (drop)
            check_reported(begin_relay, &plan);
        else
            check_lives(begin_relay, &plan);
    }
}

static void at_the_last_moment(void)
{
    relays(false, test_scale(1500));
}

static void a_deadlock_is_not_missed(void)
{
    for (int64_t i = test_scale(5); i > 0; i--)
        relays(true, 5 * i);
}

/* Threads that begin and end meanwhile. */

static void *open_and_end(void *arg)
{
    weft_wg_done(arg);
    return NULL;
}

static void waits_for_new_threads(void *arg)
{
    start_weft();
    for (int64_t round = test_scale(1000); round > 0; round--) {
        weft_wg wg;
        CHECK_EQ(weft_wg_init(&wg, 1), 0);
        pthread_t thread = thread_start(open_and_end, &wg);
        CHECK_EQ(weft_wg_wait(&wg), 0);
        thread_join(thread);
    }
}

/* A shut-down while fibers wake each other, or while the last one ends. */

static weft_chan *passed;

static void pass_on(void *arg)
{
    int64_t count;
    while (weft_chan_receive(passed, &count) == 0 && count > 0) {
        count--;
        CHECK_EQ(weft_chan_send(passed, &count), 0);
    }
    (void)weft_chan_close(passed); /* each closes it, one of them first */
}

static void shuts_down_while_they_end(void *arg)
{
    for (int64_t round = test_scale(100); round > 0; round--) {
        int64_t count = round % 20;
        CHECK_EQ(weft_chan_make(&passed, sizeof count, 1), 0);
        CHECK_EQ(weft_chan_send(passed, &count), 0);
        go_many(3, pass_on, NULL);
        shut_down();
        weft_chan_destroy(passed);
    }
}

static void births_and_ends(void)
{
    check_lives(waits_for_new_threads, NULL);
    check_lives(shuts_down_while_they_end, NULL);
}

int main(void)
{
    RUN_ALL(at_the_last_moment, births_and_ends);
    if (!reports_come())
        return 0;
    RUN(a_deadlock_is_not_missed);
    return 0;
}
