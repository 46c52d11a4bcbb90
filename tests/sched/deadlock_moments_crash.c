/*
 * deadlock_moments.c: the check for deadlocks at the last moment: while the last one is woken, is born or ends, nothing
 * is reported; and when it goes to sleep for ever, that is not missed.
 */
#include <pthread.h>

#include "base/prng.h"
#include "bodies.h"
#include "deadlock.h"

/* Parties that hand one token on, each waiting in weft while it does not have it, so that over and over all wait but for
 * the one that is just being woken. At the end the token is dropped: then, and only then, it is a deadlock. */

enum { PARTIES = 4 };

struct relay {
    uint32_t processors;
    bool thread[PARTIES]; /* else a fiber; main is always the first, and a thread */
    int64_t rounds;
    bool drop; /* at the end, instead of ending in peace */
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
    struct prng prng;
    int64_t token = 0;
    prng_seed(&prng, own + (uint64_t)weft_now());
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
    CHECK_EQ(weft_configure(&(weft_config){.processors = (int)relay.plan.processors}), 0);
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
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
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

/* Threads that are born and die meanwhile. */

static void *open_and_end(void *arg)
{
    weft_wg_done(arg);
    return NULL;
}

static void waits_for_newborn(void *arg)
{
    start_weft();
    for (int64_t round = test_scale(1000); round > 0; round--) {
        weft_wg wg;
        pthread_t thread;
        CHECK_EQ(weft_wg_init(&wg, 1), 0);
        CHECK_EQ(pthread_create(&thread, NULL, open_and_end, &wg), 0);
        CHECK_EQ(weft_wg_wait(&wg), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    (void)arg;
}

/* Shut down while fibers wake each other, or the last one ends. */

static weft_chan *passed;

static void pass_on(void *arg)
{
    int64_t count;
    while (weft_chan_receive(passed, &count) == 0 && count > 0) {
        count--;
        CHECK_EQ(weft_chan_send(passed, &count), 0);
    }
    (void)weft_chan_close(passed); /* one of them is the first */
    (void)arg;
}

static void shuts_down_while_they_end(void *arg)
{
    for (int64_t round = test_scale(100); round > 0; round--) {
        int64_t count = round % 20;
        CHECK_EQ(weft_chan_make(&passed, sizeof count, 1), 0);
        CHECK_EQ(weft_chan_send(passed, &count), 0);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(weft_go(pass_on, NULL), 0);
        CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
        weft_chan_destroy(passed);
    }
    (void)arg;
}

static void births_and_ends(void)
{
    check_lives(waits_for_newborn, NULL);
    check_lives(shuts_down_while_they_end, NULL);
}

int main(void)
{
    RUN(at_the_last_moment);
    RUN(births_and_ends);
    if (!reports_come())
        return 0;
    RUN(a_deadlock_is_not_missed);
    return 0;
}
