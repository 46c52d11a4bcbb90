/*
 * select_race.c: cases that are possible at the same time have equal probability; a select meets
 * another one; a select without cases leaves no trace. Selects under stress are in chan_stress.c.
 */
#include <math.h>

#include "everywhere.h"
#include "seeds.h"
#include "sync/lines.h"

/* Chance. */

/* Checks the counts of draws with equal probability: the sum of squares is chi-square distributed,
 * and exceeds the bound with a probability of less than e^-27 (Laurent and Massart): 2e-12. */
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
    /* All are always ready: events can be sent and received, and a closed channel can be received
     * from. */
    for (int i = 0; i < count; i++)
        cases[i] = i % 3 == 0   ? to_send(events, NULL)
                   : i % 3 == 1 ? to_receive(closed, NULL)
                                : to_receive(events, NULL);
    cases[count] = cases[count / 2];
    cases[count / 2] = to_receive(NULL, NULL); /* a disabled case, in the middle */
    int previous = -1;
    for (int64_t i = 0; i < draws; i++) {
        int chosen = i % 2 ? weft_select(cases, count + 1) : weft_select_try(cases, count + 1);
        CHECK(chosen >= 0 && chosen <= count && chosen != count / 2);
        if (chosen == count)
            chosen = count / 2;
        counts[chosen]++;
        if (previous >= 0) /* the distance from the last one */
            later[(chosen - previous + count) % count]++;
        previous = i % 2 ? chosen : -1; /* independent pairs */
    }
    check_fair(where, counts, count);
    check_fair("from one to the next", later, count);
    weft_chan_destroy(events);
    weft_chan_destroy(closed);
}

static void possible_cases_have_equal_probability(void *arg)
{
    const char *where = weft_self() != NULL ? "fiber" : "thread";
    draw(2, where);
    draw(3, where);
    draw(5, where);
    draw(16, where);
}

/* Two selects that could each send or receive on one channel: one sends, the other receives. */

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

static void two_selects_that_could_do_either(void)
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

/* Many selects without cases wait for a moment: after the return nothing accesses the memory of the
 * wait. */

static noinline void scribble(void)
{
    volatile unsigned char memory[2048];
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = 0x7f;
}

static void wait_a_moment(void *arg)
{
    for (int64_t i = test_scale(300); i > 0; i--) {
        CHECK_EQ(weft_select_until(NULL, 0, i % 2 ? 1 : weft_after(i * 10)), -ETIMEDOUT);
        scribble();
    }
}

static void wait_many_moments(void *arg)
{
    enum { MANY = 20 };
    struct body bodies[MANY];
    for (int i = 0; i < MANY; i++)
        bodies[i] = (struct body){.function = wait_a_moment, .thread = i % 10 == 0};
    bodies_run(bodies, MANY);
}

static void a_select_without_cases_leaves_no_trace(void)
{
    with_processors(4, wait_many_moments, NULL);
}

int main(void)
{
    RUN_EVERYWHERE(possible_cases_have_equal_probability);
    RUN_BOTH(two_selects_that_could_do_either);
    RUN_BOTH(a_select_without_cases_leaves_no_trace);
    return 0;
}
