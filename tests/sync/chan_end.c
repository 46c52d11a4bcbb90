/*
 * chan_end.c: the end of a channel: the party that learns that this was the last use destroys the
 * channel at once, while the call of the other side has not returned. A sanitizer finds a late
 * access.
 */
#include "seeds.h"
#include "sync/lines.h"

enum last_use {
    LAST_SENDER_WAITS,   /* the receiver finds it waiting, takes the element, and destroys */
    LAST_RECEIVER_WAITS, /* the receiver is handed the element, and destroys */
    LAST_ROOM,           /* the sender waits for room; the receiver takes both elements */
    LAST_CLOSE,          /* the receiver waits, learns of the close, and destroys */
    LAST_CLOSE_SENDER,   /* the sender waits, learns of the close, and destroys */
    LAST_CLOSE_SEEN,     /* the other side sees that it is closed, and destroys */
    LAST_ANY,            /* either side comes first */
    LAST_USES,
};

struct ending {
    enum last_use use;
    weft_chan *offers;   /* the round's channel */
    weft_chan *finished; /* set when the other side has returned from its call */
    int64_t rounds;
};

static void ending_give(void *arg)
{
    struct ending *ending = arg;
    uint64_t n = 1;
    for (int64_t round = 0; round < ending->rounds; round++) {
        weft_chan *chan;
        CHECK_EQ(weft_chan_receive(ending->offers, &chan), 0);
        switch (ending->use) {
        case LAST_RECEIVER_WAITS:
            await_line(chan, WEFT_RECEIVE, 1);
            CHECK_EQ(weft_chan_send(chan, &n), 0);
            break;
        case LAST_ROOM:
            CHECK_EQ(weft_chan_send(chan, &n), 0);
            CHECK_EQ(weft_chan_send(chan, &n), 0);
            break;
        case LAST_CLOSE:
            await_line(chan, WEFT_RECEIVE, 1);
            CHECK_EQ(weft_chan_close(chan), 0);
            break;
        case LAST_CLOSE_SEEN:
            CHECK_EQ(weft_chan_close(chan), 0);
            break;
        case LAST_CLOSE_SENDER:
            await_line(chan, WEFT_SEND, 1);
            CHECK_EQ(weft_chan_close(chan), 0);
            break;
        default:
            CHECK_EQ(weft_chan_send(chan, &n), 0);
        }
        CHECK_EQ(weft_chan_send(ending->finished, NULL), 0);
    }
}

static void ending_take(void *arg)
{
    struct ending *ending = arg;
    uint64_t n = 0;
    for (int64_t round = 0; round < ending->rounds; round++) {
        weft_chan *chan = make_chan(8, ending->use == LAST_ROOM ? 1 : 0);
        CHECK_EQ(weft_chan_send(ending->offers, &chan), 0);
        switch (ending->use) {
        case LAST_SENDER_WAITS:
            await_line(chan, WEFT_SEND, 1);
            CHECK_EQ(weft_chan_receive(chan, &n), 0);
            break;
        case LAST_ROOM:
            await_line(chan, WEFT_SEND, 1);
            CHECK_EQ(weft_chan_receive(chan, &n), 0);
            CHECK_EQ(weft_chan_receive(chan, &n), 0);
            break;
        case LAST_CLOSE:
            CHECK_EQ(weft_chan_receive(chan, &n), -ESHUTDOWN);
            break;
        case LAST_CLOSE_SEEN:
            for (int times = 0; !weft_chan_closed(chan);)
                wait_a_little(&times);
            break;
        case LAST_CLOSE_SENDER:
            CHECK_EQ(weft_chan_send(chan, &n), -ESHUTDOWN);
            break;
        default:
            CHECK_EQ(weft_chan_receive(chan, &n), 0);
        }
        weft_chan_destroy(chan);
        CHECK_EQ(weft_chan_receive(ending->finished, NULL), 0);
    }
}

static void the_last_user_may_destroy_it(void)
{
    for (enum last_use use = 0; use < LAST_USES; use++)
        for (int mix = 0; mix < 4; mix++) {
            struct ending ending = {.use = use,
                                    .offers = make_chan(sizeof(weft_chan *), 1),
                                    .finished = make_chan(0, 1),
                                    .rounds = test_scale(500)};
            struct body bodies[2] = {
                {.function = ending_give, .arg = &ending, .thread = mix & 1},
                {.function = ending_take, .arg = &ending, .thread = mix & 2},
            };
            bodies_run(bodies, 2);
            weft_chan_destroy(ending.offers);
            weft_chan_destroy(ending.finished);
        }
}

/* A select: the other side of the case that happened destroys the channel at once. */

struct select_ending {
    weft_chan *offers, *kept, *finished;
    int64_t rounds;
    int op; /* of the select */
};

static void select_until_gone(void *arg)
{
    struct select_ending *ending = arg;
    for (int64_t round = 0; round < ending->rounds; round++) {
        weft_chan *chan;
        uint64_t in[3] = {0, 0, 0}, out = 1;
        CHECK_EQ(weft_chan_receive(ending->offers, &chan), 0);
        weft_case cases[3] = {to_receive(chan, &in[0]), to_receive(ending->kept, &in[1]),
                              to_receive(chan, &in[2])};
        if (ending->op == WEFT_SEND)
            for (int i = 0; i < 3; i++)
                cases[i] = to_send(cases[i].chan, &out);
        int chosen = weft_select(cases, 3);
        CHECK(chosen == 0 || chosen == 2);
        check_results(cases, 3, chosen, 0);
        CHECK_EQ(in[chosen], ending->op == WEFT_RECEIVE);
        CHECK_EQ(weft_chan_send(ending->finished, NULL), 0);
    }
}

static void meet_and_destroy(void *arg)
{
    struct select_ending *ending = arg;
    for (int64_t round = 0; round < ending->rounds; round++) {
        weft_chan *chan = make_chan(8, 0);
        uint64_t n = 1;
        CHECK_EQ(weft_chan_send(ending->offers, &chan), 0);
        if (round % 2)
            await_line(chan, ending->op, 2);
        CHECK_EQ(ending->op == WEFT_SEND ? weft_chan_receive(chan, &n) : weft_chan_send(chan, &n),
                 0);
        weft_chan_destroy(chan);
        CHECK_EQ(weft_chan_receive(ending->finished, NULL), 0);
    }
}

static void the_other_side_of_a_select_may_destroy_it(void)
{
    for (int mix = 0; mix < 8; mix++) {
        struct select_ending ending = {make_chan(sizeof(weft_chan *), 1), make_chan(8, 0),
                                       make_chan(0, 1), test_scale(500),
                                       mix & 4 ? WEFT_SEND : WEFT_RECEIVE};
        struct body bodies[2] = {
            {.function = select_until_gone, .arg = &ending, .thread = mix & 1},
            {.function = meet_and_destroy, .arg = &ending, .thread = mix & 2},
        };
        bodies_run(bodies, 2);
        weft_chan_destroy(ending.offers);
        weft_chan_destroy(ending.kept);
        weft_chan_destroy(ending.finished);
    }
}

int main(void)
{
    RUN_BOTH(the_last_user_may_destroy_it);
    RUN_BOTH(the_other_side_of_a_select_may_destroy_it);
    return 0;
}
