/*
 * select_race.c: several cases that can happen have the same chance; select against select; a wait for
 * nothing leaves nothing behind.
 */
#include <math.h>

#include "everywhere.h"
#include "seeds.h"
#include "sync/lines.h"

/* Chance. */

/* The counts of draws with equal chances: the sum of squares is chi-square distributed, and exceeds the
 * bound with a probability of less than e^-27 (Laurent and Massart): 2e-12. */
static void check_fair(const char *what, const uint64_t *counts, int count)
{
    double draws = 0, sum = 0, freedom = count - 1;
    for (int i = 0; i < count; i++)
        draws += (double)counts[i];
    for (int i = 0; i < count; i++) {
        double off = (double)counts[i] - draws / count;
        sum += off * off / (draws / count);
    }
    double bound = freedom + 2 * sqrt(freedom * 27) + 2 * 27;
    printf("  %s, %d cases, chi-square %.1f (bound %.1f):", what, count, sum, bound);
    for (int i = 0; i < count; i++)
        printf(" %llu", (unsigned long long)counts[i]);
    printf("\n");
    CHECK(sum <= bound);
}

static void draw(int count, const char *where)
{
    enum { DRAW_MOST = 17 };
    weft_case cases[DRAW_MOST + 1];
    uint64_t counts[DRAW_MOST] = {0}, later[DRAW_MOST] = {0};
    weft_chan *events = make_chan(0, SIZE_MAX), *closed = make_chan(0, 0);
    int64_t draws = test_scale(20000);
    CHECK_EQ(weft_chan_close(closed), 0);
    for (int64_t i = 0; i < draws; i++)
        CHECK_EQ(weft_chan_send(events, NULL), 0);
    /* All are ready, always: events can be sent and received, a closed channel tells so. */
    for (int i = 0; i < count; i++)
        cases[i] = i % 3 == 0   ? to_send(events, NULL)
                   : i % 3 == 1 ? to_receive(closed, NULL)
                                : to_receive(events, NULL);
    cases[count] = cases[count / 2];
    cases[count / 2] = to_receive(NULL, NULL); /* one that cannot, in the middle */
    int previous = -1;
    for (int64_t i = 0; i < draws; i++) {
        int chosen = i % 2 ? weft_select(cases, count + 1) : weft_select_try(cases, count + 1);
        CHECK(chosen >= 0 && chosen <= count && chosen != count / 2);
        if (chosen == count)
            chosen = count / 2;
        counts[chosen]++;
        if (previous >= 0) /* how far from the one before */
            later[(chosen - previous + count) % count]++;
        previous = i % 2 ? chosen : -1; /* independent pairs */
    }
    check_fair(where, counts, count);
    check_fair("from one to the next", later, count);
    weft_chan_destroy(events);
    weft_chan_destroy(closed);
}

static void draw_all(void *arg)
{
    const char *where = weft_self() != NULL ? "fiber" : "thread";
    (void)arg;
    draw(2, where);
    draw(3, where);
    draw(5, where);
    draw(16, where);
}

static void all_that_can_have_the_same_chance(void)
{
    everywhere(draw_all);
}

/* Select against select. */

enum { PEERS = 3 };

static struct {
    weft_chan *chans[2];
    int64_t rounds;
    atomic_u64 sent, received; /* sums */
} duel;

static void duel_send(void *arg)
{
    uintptr_t self = (uintptr_t)arg;
    uint64_t sum = 0;
    for (int64_t i = 0; i < duel.rounds; i++) {
        uint64_t elements[2] = {(uint64_t)i * 2 + 1, (uint64_t)i * 3 + 2};
        weft_case cases[2] = {to_send(duel.chans[self % 2], &elements[0]),
                              to_send(duel.chans[1 - self % 2], &elements[1])};
        int chosen = weft_select(cases, 2);
        CHECK(chosen == 0 || chosen == 1);
        check_results(cases, 2, chosen, 0);
        sum += elements[chosen];
    }
    atomic_u64_add_relaxed(&duel.sent, sum);
}

static void duel_receive(void *arg)
{
    uintptr_t self = (uintptr_t)arg;
    uint64_t sum = 0;
    for (int64_t i = 0; i < duel.rounds; i++) {
        uint64_t elements[2] = {0, 0};
        weft_case cases[2] = {to_receive(duel.chans[self % 2], &elements[0]),
                              to_receive(duel.chans[1 - self % 2], &elements[1])};
        int chosen = weft_select(cases, 2);
        CHECK(chosen == 0 || chosen == 1);
        check_results(cases, 2, chosen, 0);
        CHECK(elements[chosen] != 0);
        CHECK_EQ(elements[!chosen], 0);
        sum += elements[chosen];
    }
    atomic_u64_add_relaxed(&duel.received, sum);
}

static void duel_run(void *arg)
{
    int mix = *(int *)arg;
    struct body bodies[2 * PEERS];
    duel.chans[0] = make_chan(8, 0);
    duel.chans[1] = make_chan(8, (size_t)mix / 4);
    duel.rounds = test_scale(4000);
    atomic_u64_store_relaxed(&duel.sent, 0);
    atomic_u64_store_relaxed(&duel.received, 0);
    for (uintptr_t i = 0; i < PEERS; i++) {
        bodies[2 * i] = (struct body){.function = duel_send, .arg = (void *)i, .thread = mix & 1};
        bodies[2 * i + 1] =
            (struct body){.function = duel_receive, .arg = (void *)i, .thread = mix & 2};
    }
    bodies_run(bodies, 2 * PEERS);
    CHECK_EQ(atomic_u64_load_relaxed(&duel.sent), atomic_u64_load_relaxed(&duel.received));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_chan_length(duel.chans[i]), 0);
        weft_chan_destroy(duel.chans[i]);
    }
}

static void select_meets_select(void)
{
    for (int mix = 0; mix < 8; mix++)
        with_processors(1 + mix % 4, duel_run, &mix);
}

/* Two that could each do either, on one channel: one gives, the other takes. */

static void exchange(void *arg)
{
    weft_chan *chan = arg;
    for (int64_t i = test_scale(1000); i > 0; i--) {
        uint64_t out = 1, in = 0;
        weft_case cases[2] = {to_send(chan, &out), to_receive(chan, &in)};
        int chosen = weft_select(cases, 2);
        CHECK(chosen == 0 || chosen == 1);
        check_results(cases, 2, chosen, 0);
        CHECK_EQ(in, chosen);
    }
}

static void two_who_could_do_either(void)
{
    for (int mix = 0; mix < 4; mix++) {
        weft_chan *chan = make_chan(8, 0);
        struct body bodies[2] = {
            {.function = exchange, .arg = chan, .thread = mix & 1},
            {.function = exchange, .arg = chan, .thread = mix & 2},
        };
        bodies_run(bodies, 2);
        weft_chan_destroy(chan);
    }
}

/* Many that wait for nothing for a moment: on return their memory is theirs again. */

static noinline void scribble(void)
{
    volatile unsigned char memory[2048];
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = 0x7f;
}

static void wait_a_moment(void *arg)
{
    (void)arg;
    for (int64_t i = test_scale(300); i > 0; i--) {
        CHECK_EQ(weft_select_until(NULL, 0, i % 2 ? 1 : weft_after(i * 10)), -ETIMEDOUT);
        scribble();
    }
}

static void wait_many_moments(void *arg)
{
    enum { MANY = 20 };
    struct body bodies[MANY];
    (void)arg;
    for (int i = 0; i < MANY; i++)
        bodies[i] = (struct body){.function = wait_a_moment, .thread = i % 10 == 0};
    bodies_run(bodies, MANY);
}

static void nothing_is_left_of_a_wait_for_nothing(void)
{
    with_processors(4, wait_many_moments, NULL);
}

int main(void)
{
    RUN_BOTH(all_that_can_have_the_same_chance);
    RUN_BOTH(select_meets_select);
    RUN_BOTH(two_who_could_do_either);
    RUN_BOTH(nothing_is_left_of_a_wait_for_nothing);
    return 0;
}
