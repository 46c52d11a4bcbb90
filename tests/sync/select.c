/*
 * select.c: the first of several channel operations, from fibers and from threads.
 */
#include "everywhere.h"
#include "sync/lines.h"

#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"

/* By each of the three calls. */
static void check_nothing_happens(weft_case *cases, int count)
{
    CHECK_EQ(weft_select_try(cases, count), -EAGAIN);
    CHECK_EQ(weft_select_until(cases, count, WEFT_NOW), -ETIMEDOUT);
    CHECK_EQ(weft_select_until(cases, count, INT64_MIN), -ETIMEDOUT);
    CHECK_EQ(weft_select_until(cases, count, 1), -ETIMEDOUT); /* in the past, and not WEFT_NOW */
    int64_t deadline = weft_after(200 * WEFT_US);
    CHECK_EQ(weft_select_until(cases, count, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    check_results(cases, count, -1, 0);
    for (int i = 0; i < count; i++)
        if (cases[i].chan != NULL)
            CHECK_EQ(line_length(cases[i].chan, cases[i].op), 0);
}

/* Before the runtime runs. */

static void wait_for_nothing(void *arg)
{
    weft_case disabled[2] = {{.chan = NULL}};
    (void)!weft_select(disabled, arg == NULL ? 0 : 2);
    CHECK(!"a select without a case happened");
}

/* In a child, since it never returns. */
static void spawn_to_wait_for_nothing(void *arg)
{
    CHECK_EQ(weft_go(wait_for_nothing, arg), 0);
    CHECK_EQ(weft_shutdown(weft_after(20 * WEFT_MS)), -ETIMEDOUT);
}

static void without_a_case_it_waits_for_ever(void)
{
    const char *written;
    CHECK_EQ(test_in_child(spawn_to_wait_for_nothing, NULL, &written), 0);
    CHECK(strstr(written, "deadlock") == NULL);
    CHECK_EQ(test_in_child(spawn_to_wait_for_nothing, &written, &written), 0);
    CHECK(strstr(written, "deadlock") == NULL);
}

/* One party alone. */

static void check_arguments(void *arg)
{
    uint64_t element = 7;
    weft_chan *chan = make_chan(8, 4), *events = make_chan(0, 4);
    weft_case cases[2] = {to_send(chan, &element), to_send(chan, &element)};
    CHECK_EQ(weft_select(cases, -1), -EINVAL);
    CHECK_EQ(weft_select_until(cases, INT32_MIN, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_select_try(cases, -2), -EINVAL);
    CHECK_EQ(weft_select(NULL, 1), -EINVAL);
    static const int wrong[] = {0, 3, -1, 4};
    for (int i = 0; i < 4; i++) {
        cases[1].op = wrong[i];
        CHECK_EQ(weft_select(cases, 2), -EINVAL);
        CHECK_EQ(weft_select_try(cases, 2), -EINVAL);
        CHECK_EQ(weft_select_until(cases, 2, WEFT_NEVER), -EINVAL);
    }
    cases[1] = to_send(chan, NULL);
    CHECK_EQ(weft_select(cases, 2), -EINVAL);
    check_results(cases, 2, -1, 0);
    CHECK_EQ(weft_chan_length(chan), 0); /* nor did the case that was possible */

    cases[0] = to_send(events, NULL); /* an event has no content */
    CHECK_EQ(weft_select(cases, 1), 0);
    check_results(cases, 1, 0, 0);
    CHECK_EQ(weft_chan_length(events), 1);
    CHECK_EQ(weft_chan_send(chan, &element), 0);
    cases[0] = to_receive(chan, NULL); /* dropped */
    CHECK_EQ(weft_select(cases, 1), 0);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_destroy(chan);
    weft_chan_destroy(events);
}

static void arguments(void)
{
    everywhere(check_arguments);
}

static void default_and_deadlines(void *arg)
{
    struct element elements[4];
    weft_chan *empty = make_chan(24, 2), *full = make_chan(24, 1), *none = make_chan(24, 0);
    for (int i = 0; i < 4; i++)
        element_fill(&elements[i], 24, (uint64_t)i);
    CHECK_EQ(weft_chan_send(full, &elements[0]), 0);
    weft_case cases[] = {
        to_receive(empty, &elements[0]), to_send(full, &elements[1]),
        to_receive(none, &elements[2]),  to_send(none, &elements[3]),
        to_receive(NULL, NULL),          to_send(NULL, NULL),
    };
    check_nothing_happens(cases, 6);
    check_nothing_happens(cases, 1);
    check_nothing_happens(cases + 1, 1);
    check_nothing_happens(cases + 4, 2); /* all disabled */
    check_nothing_happens(cases, 0);
    check_nothing_happens(NULL, 0);
    for (int i = 0; i < 4; i++)
        element_check(&elements[i], 24, (uint64_t)i);
    CHECK_EQ(weft_chan_length(empty), 0);
    CHECK_EQ(weft_chan_length(full), 1);
    weft_chan_destroy(empty);
    weft_chan_destroy(full);
    weft_chan_destroy(none);
}

static void the_possible_case_happens(void *arg)
{
    for (int i = 0; i < ELEMENT_SIZES; i++) {
        size_t size = element_sizes[i];
        struct element in, out;
        weft_chan *chan = make_chan(size, 1), *other = make_chan(size, 0);
        for (uint64_t n = 0; n < 9; n++) {
            int way = (int)n % 3;
            weft_case cases[4] = {to_receive(NULL, NULL), to_receive(other, &out),
                                  to_send(other, &in), to_send(chan, &in)};
            element_fill(&in, size, n);
            element_poison(&out);
            int chosen = way == 0   ? weft_select(cases, 4)
                         : way == 1 ? weft_select_try(cases, 4)
                                    : weft_select_until(cases, 4, WEFT_NOW);
            CHECK_EQ(chosen, 3);
            check_results(cases, 4, 3, 0);
            element_check_poison(&out);
            CHECK_EQ(weft_chan_length(chan), 1);
            cases[3] = to_receive(chan, &out);
            chosen = way == 0   ? weft_select(cases, 4)
                     : way == 1 ? weft_select_try(cases, 4)
                                : weft_select_until(cases, 4, WEFT_NOW);
            CHECK_EQ(chosen, 3);
            check_results(cases, 4, 3, 0);
            element_check(&out, size, n);
            CHECK_EQ(weft_chan_length(chan), 0);
        }
        weft_chan_destroy(chan);
        weft_chan_destroy(other);
    }
}

static void closed_channels_are_ready(void *arg)
{
    struct element element, poison;
    weft_chan *closed = make_chan(24, 2), *open = make_chan(24, 0);
    element_fill(&element, 24, 1);
    element_poison(&poison);
    CHECK_EQ(weft_chan_send(closed, &element), 0);
    CHECK_EQ(weft_chan_close(closed), 0);
    weft_case cases[2] = {to_receive(open, &poison), to_receive(closed, &poison)};
    CHECK_EQ(weft_select(cases, 2), 1); /* what is left in it */
    check_results(cases, 2, 1, 0);
    element_check(&poison, 24, 1);
    element_poison(&poison);
    cases[1].result = NOT_SET;
    for (int again = 0; again < 3; again++) {
        CHECK_EQ(weft_select(cases, 2), 1);
        check_results(cases, 2, 1, -ESHUTDOWN);
        CHECK_EQ(weft_select_try(cases, 2), 1);
        CHECK_EQ(weft_select_until(cases, 2, WEFT_NOW), 1);
        element_check_poison(&poison);
    }
    cases[1] = to_send(closed, &element);
    CHECK_EQ(weft_select(cases, 2), 1);
    check_results(cases, 2, 1, -ESHUTDOWN);
    CHECK_EQ(weft_chan_length(closed), 0);
    weft_chan_destroy(closed);
    weft_chan_destroy(open);
}

static void errno_is_left_alone(void *arg)
{
    weft_chan *chan = make_chan(0, 0);
    weft_case one = to_receive(chan, NULL);
    set_errno(77);
    check_nothing_happens(&one, 1);
    CHECK_EQ(weft_select(&one, -1), -EINVAL);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(weft_select(&one, 1), 0);
    CHECK_EQ(get_errno(), 77);
    weft_chan_destroy(chan);
}

/* A select, and other parties. */

struct selecting {
    weft_case *cases;
    int count, chosen;
    int64_t deadline;
};

static void select_once(void *arg)
{
    struct selecting *selecting = arg;
    selecting->chosen = weft_select_until(selecting->cases, selecting->count, selecting->deadline);
}

static struct body body_selecting(struct selecting *selecting, bool thread)
{
    return (struct body){.function = select_once, .arg = selecting, .thread = thread};
}

static void check_lines_empty(const weft_case *cases, int count)
{
    for (int i = 0; i < count; i++)
        if (cases[i].chan != NULL) {
            CHECK_EQ(line_length(cases[i].chan, WEFT_SEND), 0);
            CHECK_EQ(line_length(cases[i].chan, WEFT_RECEIVE), 0);
        }
}

/* A select with so many cases waits, and the case `chosen` happens; some channels occur twice. */
static void wait_with(int count, int winner, bool thread, bool with_deadline)
{
    weft_case *cases = calloc((size_t)count, sizeof *cases);
    uint64_t *elements = calloc((size_t)count, sizeof *elements), n;
    CHECK(cases != NULL && elements != NULL);
    for (int i = 0; i < count; i++) {
        elements[i] = 1000 + (uint64_t)i;
        bool again = i % 5 == 4 && i - 3 != winner && (i != winner || cases[i - 3].chan != NULL);
        weft_chan *chan = again ? cases[i - 3].chan : make_chan(8, 0);
        cases[i] = i % 2 ? to_send(chan, &elements[i]) : to_receive(chan, &elements[i]);
        if (i != winner && i % 7 == 3 && !again) {
            weft_chan_destroy(chan);
            cases[i].chan = NULL;
        }
    }
    weft_chan *chan = cases[winner].chan;
    struct selecting selecting = {cases, count, -1,
                                  with_deadline ? weft_after(1000 * WEFT_S) : WEFT_NEVER};
    struct body body = body_selecting(&selecting, thread);
    body_start(&body);
    await_in_line(chan, cases[winner].op, &elements[winner]);
    if (cases[winner].op == WEFT_SEND) {
        CHECK_EQ(weft_chan_receive(chan, &n), 0);
        CHECK_EQ(n, 1000 + winner);
    } else {
        n = 5;
        CHECK_EQ(weft_chan_send(chan, &n), 0);
    }
    body_join(&body);
    CHECK_EQ(selecting.chosen, winner);
    check_results(cases, count, winner, 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(elements[i], i == winner && cases[i].op == WEFT_RECEIVE ? 5 : 1000 + i);
    check_lines_empty(cases, count);
    for (int i = 0; i < count; i++) { /* a case that lost neither takes nor gives */
        if (cases[i].chan == NULL)
            continue;
        CHECK_EQ(weft_chan_try_send(cases[i].chan, &n), -EAGAIN);
        CHECK_EQ(weft_chan_try_receive(cases[i].chan, &n), -EAGAIN);
    }
    for (int i = 0; i < count; i++)
        if (i % 5 != 4 || i - 3 == winner || cases[i].chan != cases[i - 3].chan)
            weft_chan_destroy(cases[i].chan);
    free(cases);
    free(elements);
}

static void any_number_of_cases(void)
{
    static const int counts[] = {1, 2, 3, 15, 16, 17, 18, 1000};
    for (int i = 0; i < 8; i++)
        for (int way = 0; way < 4; way++) {
            int count = counts[i];
            wait_with(count, 0, way & 1, way & 2);
            wait_with(count, count / 2, way & 1, way & 2);
            wait_with(count, count - 1, way & 1, way & 2);
        }
    for (int winner = 0; winner < 16; winner++)
        wait_with(16, winner, winner & 1, winner & 2);
}

/* Memory. */

enum { MOST = 17 };

static void up_to_sixteen_cases_need_no_memory(void *arg)
{
    weft_case cases[MOST];
    uint64_t elements[MOST];
    for (int i = 0; i < MOST; i++) {
        elements[i] = 1;
        cases[i] = to_receive(make_chan(8, 1), &elements[i]);
    }
    weft__os_fail(OS_ALLOC, 1, true);
    check_nothing_happens(cases, 16);
    CHECK_EQ(weft_select(cases, MOST), -ENOMEM);
    CHECK_EQ(weft_select_until(cases, MOST, weft_after(1000 * WEFT_S)), -ENOMEM);
    weft__os_fail(OS_ALLOC, 0, false);
    check_results(cases, MOST, -1, 0);
    check_lines_empty(cases, MOST);
    for (int i = 0; i < MOST; i++)
        CHECK_EQ(elements[i], 1);
    check_nothing_happens(cases, MOST);
    for (int i = 0; i < MOST; i++)
        weft_chan_destroy(cases[i].chan);
}

/* Counts the memory in a thread: nothing else of weft runs. */
static void memory_is_asked_for_once_if_at_all(void)
{
    weft_case cases[MOST];
    CHECK_EQ(weft_shutdown(WEFT_NEVER), 0);
    for (int i = 0; i < MOST; i++)
        cases[i] = to_receive(make_chan(8, 1), NULL);
    for (int count = 0; count <= MOST; count++) {
        weft__os_fail(OS_ALLOC, 0, false);
        uint32_t before = weft__os_calls(OS_ALLOC);
        CHECK_EQ(weft_select_until(cases, count, weft_after(10 * WEFT_US)), -ETIMEDOUT);
        CHECK_EQ(weft__os_calls(OS_ALLOC) - before, count > 16);
    }
    for (int i = 0; i < MOST; i++)
        weft_chan_destroy(cases[i].chan);
}

/* The same channel several times. */

static void same_channel_twice(void)
{
    for (int thread = 0; thread < 2; thread++)
        for (int op = WEFT_SEND; op <= WEFT_RECEIVE; op++) {
            uint64_t elements[3] = {1, 1, 1}, n = 2;
            weft_chan *chan = make_chan(8, 0);
            weft_case cases[3];
            for (int i = 0; i < 3; i++)
                cases[i] =
                    op == WEFT_SEND ? to_send(chan, &elements[i]) : to_receive(chan, &elements[i]);
            struct selecting selecting = {cases, 3, -1, WEFT_NEVER};
            struct body body = body_selecting(&selecting, thread);
            body_start(&body);
            await_line(chan, op, 3);
            CHECK_EQ(op == WEFT_SEND ? weft_chan_receive(chan, &n) : weft_chan_send(chan, &n), 0);
            CHECK_EQ(line_length(chan, op), 0); /* all of them at once */
            CHECK_EQ(weft_chan_try_send(chan, &n), -EAGAIN);
            CHECK_EQ(weft_chan_try_receive(chan, &n), -EAGAIN);
            body_join(&body);
            CHECK(selecting.chosen >= 0 && selecting.chosen < 3);
            check_results(cases, 3, selecting.chosen, 0);
            for (int i = 0; i < 3; i++)
                CHECK_EQ(elements[i], i == selecting.chosen && op == WEFT_RECEIVE ? 2 : 1);
            weft_chan_destroy(chan);
        }
}

/* A select does not meet itself; it meets another one in either direction. */
static void both_directions(void)
{
    for (int thread = 0; thread < 2; thread++)
        for (int op = WEFT_SEND; op <= WEFT_RECEIVE; op++) {
            uint64_t out = 1, in = 2, n = 3;
            weft_chan *chan = make_chan(8, 0);
            weft_case cases[2] = {to_send(chan, &out), to_receive(chan, &in)};
            check_nothing_happens(cases, 2);
            struct selecting selecting = {cases, 2, -1, WEFT_NEVER};
            struct body body = body_selecting(&selecting, thread);
            body_start(&body);
            await_line(chan, WEFT_SEND, 1);
            await_line(chan, WEFT_RECEIVE, 1);
            if (op == WEFT_SEND) {
                CHECK_EQ(weft_chan_receive(chan, &n), 0);
                CHECK_EQ(n, 1);
            } else {
                CHECK_EQ(weft_chan_send(chan, &n), 0);
            }
            check_lines_empty(cases, 2);
            body_join(&body);
            CHECK_EQ(selecting.chosen, op == WEFT_SEND ? 0 : 1);
            check_results(cases, 2, selecting.chosen, 0);
            CHECK_EQ(in, op == WEFT_SEND ? 2 : 3);
            weft_chan_destroy(chan);
        }
}

static void close_it(void *chan)
{
    CHECK_EQ(weft_chan_close(chan), 0);
}

static void close_wakes_it(void)
{
    for (int way = 0; way < 8; way++) {
        struct element element;
        weft_chan *chan = make_chan(24, 0), *other = make_chan(24, 0);
        weft_case cases[3] = {to_receive(other, &element), to_receive(chan, &element),
                              to_receive(chan, &element)};
        element_poison(&element);
        if (way & 4)
            cases[1].op = cases[2].op = WEFT_SEND;
        struct selecting selecting = {cases, 3, -1, WEFT_NEVER};
        struct body body = body_selecting(&selecting, way & 1);
        body_start(&body);
        await_line(chan, cases[1].op, 2);
        body_run(close_it, chan, way & 2);
        body_join(&body);
        CHECK(selecting.chosen == 1 || selecting.chosen == 2);
        check_results(cases, 3, selecting.chosen, -ESHUTDOWN);
        element_check_poison(&element);
        check_lines_empty(cases, 3);
        weft_chan_destroy(chan);
        weft_chan_destroy(other);
    }
}

/* In line with others a select has the place of the moment when it came. */
static void a_select_keeps_its_place_in_line(void)
{
    uint64_t elements[3][2] = {{1, 1}, {1, 1}, {1, 1}};
    weft_chan *chan = make_chan(8, 0), *other = make_chan(8, 0);
    weft_case cases[3][2];
    struct selecting selecting[3];
    struct body bodies[3];
    for (int i = 0; i < 3; i++) {
        cases[i][0] = to_receive(other, &elements[i][0]);
        cases[i][1] = to_receive(chan, &elements[i][1]);
        selecting[i] = (struct selecting){cases[i], 2, -1, WEFT_NEVER};
        bodies[i] = body_selecting(&selecting[i], i == 1);
        body_start(&bodies[i]);
        await_in_line(chan, WEFT_RECEIVE, &elements[i][1]);
    }
    for (uint64_t n = 10; n < 13; n++)
        CHECK_EQ(weft_chan_send(n == 11 ? other : chan, &n), 0);
    for (int i = 0; i < 3; i++) {
        body_join(&bodies[i]);
        CHECK_EQ(selecting[i].chosen, i == 1 ? 0 : 1);
        CHECK_EQ(elements[i][selecting[i].chosen], 10 + i);
        CHECK_EQ(elements[i][!selecting[i].chosen], 1);
    }
    weft_chan_destroy(chan);
    weft_chan_destroy(other);
}

/* A wait in line that has given up is no reason to choose a case. */

static void select_past_expired_waits(weft_chan *expired[2], weft_chan *chan, int round)
{
    uint64_t n = 0, out = 1;
    weft_case cases[3] = {to_send(expired[0], &out), to_receive(expired[1], &n),
                          to_receive(chan, &n)};
    switch (round) {
    case 0:
        CHECK_EQ(weft_select_try(cases, 1), -EAGAIN);
        CHECK_EQ(weft_select_try(cases + 1, 1), -EAGAIN);
        check_results(cases, 3, -1, 0);
        break;
    case 1:
        CHECK_EQ(weft_select_try(cases, 3), -EAGAIN);
        check_results(cases, 3, -1, 0);
        break;
    default: /* and no reason to miss one that can happen */
        CHECK_EQ(weft_chan_send(chan, &out), 0);
        CHECK_EQ(weft_select_try(cases, 3), 2);
        check_results(cases, 3, 2, 0);
        CHECK_EQ(n, 1);
    }
}

static void meet_expired_waits(void *arg)
{
    for (int round = 0; round < 20; round++) {
        uint64_t in = 5, out = 6;
        weft_chan *expired[2] = {make_chan(8, 0), make_chan(8, 0)}, *chan = make_chan(8, 1);
        weft_case cases[2] = {to_receive(expired[0], &in), to_send(expired[1], &out)};
        struct selecting selecting = {cases, 2, 1, weft_after(1000 * WEFT_S)};
        struct body body = body_selecting(&selecting, true);
        body_start(&body);
        await_line(expired[0], WEFT_RECEIVE, 1);
        struct waiter *waiter = line_end_first(expired[0], WEFT_RECEIVE);
        select_past_expired_waits(expired, chan, round);
        weft__wake(waiter);
        body_join(&body);
        CHECK_EQ(selecting.chosen, -ETIMEDOUT);
        check_results(cases, 2, -1, 0);
        CHECK_EQ(in, 5);
        weft_chan_destroy(expired[0]);
        weft_chan_destroy(expired[1]);
        weft_chan_destroy(chan);
    }
}

static void a_wait_that_gave_up_makes_no_case_ready(void)
{
    everywhere(meet_expired_waits);
}

/* Forked children. */

static weft_chan *forked;

static void use_in_child(void)
{
    struct element element;
    weft_case cases[2] = {to_receive(forked, &element), to_receive(NULL, NULL)};
    element_poison(&element);
    CHECK_EQ(weft_select(cases, 2), -ECHILD);
    CHECK_EQ(weft_select_until(cases, 2, weft_after(WEFT_MS)), -ECHILD);
    CHECK_EQ(weft_select_try(cases, 2), -ECHILD);
    CHECK_EQ(weft_select(cases, 0), -ECHILD);
    cases[0] = to_send(forked, &element); /* there is room, but not here */
    CHECK_EQ(weft_select(cases, 2), -ECHILD);
    CHECK_EQ(weft_select_try(cases, 2), -ECHILD);
    CHECK_EQ(weft_chan_length(forked), 0);
    check_results(cases, 2, -1, 0);
    element_check_poison(&element);
}

static void nothing(void *arg)
{
}

static void a_forked_child_does_not_wait(void)
{
    forked = make_chan(24, 1);
    body_run(nothing, NULL, false);
    in_fork(use_in_child);
    weft_chan_destroy(forked);
}

int main(void)
{
    RUN_PLAIN(without_a_case_it_waits_for_ever, "a child process that must die");
    RUN_PLAIN(arguments, "nothing waits");
    RUN_EVERYWHERE(default_and_deadlines);
    RUN_EVERYWHERE(the_possible_case_happens);
    RUN_EVERYWHERE(closed_channels_are_ready);
    RUN_EVERYWHERE(errno_is_left_alone);
    RUN_BOTH(any_number_of_cases);
    RUN_EVERYWHERE(up_to_sixteen_cases_need_no_memory);
    RUN_PLAIN(memory_is_asked_for_once_if_at_all, "stops or configures the runtime");
    RUN_BOTH(same_channel_twice);
    RUN_BOTH(both_directions);
    RUN_BOTH(close_wakes_it);
    RUN_BOTH(a_select_keeps_its_place_in_line);
    RUN_PLAIN(a_wait_that_gave_up_makes_no_case_ready, "ends a thread's wait by hand");
    RUN_PLAIN(a_forked_child_does_not_wait, "forks");
    return 0;
}
