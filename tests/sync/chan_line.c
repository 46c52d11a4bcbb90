/*
 * chan_line.c: many waits on one channel: first come, first served; a wait that gave up is passed
 * over; close wakes all of them.
 */
#include "seeds.h"
#include "sync/lines.h"

enum { CROWD = 12, CROWD_THREADS = 4 };

static void close_it(void *chan)
{
    CHECK_EQ(weft_chan_close(chan), 0);
}

/* Starts a crowd, fibers and threads, in a known order. */
static void crowd_start(struct body *bodies, struct party *parties, weft_chan *chan, int op)
{
    for (int i = 0; i < CROWD; i++) {
        parties[i].chan = chan;
        parties[i].deadline = i % 2 == 0 ? WEFT_NEVER : weft_after(1000 * WEFT_S);
        parties[i].result = 1;
        bodies[i] = (struct body){.function = op == WEFT_SEND ? party_send : party_receive,
                                  .arg = &parties[i],
                                  .thread = i % (CROWD / CROWD_THREADS) == 1};
        body_start(&bodies[i]);
        await_line(chan, op, i + 1);
    }
}

static void crowd_join(struct body *bodies)
{
    for (int i = 0; i < CROWD; i++)
        body_join(&bodies[i]);
}

static void close_on_receivers(bool thread)
{
    struct body bodies[CROWD];
    struct party parties[CROWD];
    weft_chan *chan = make_chan(24, 2);
    for (int i = 0; i < CROWD; i++)
        element_poison(&parties[i].element);
    crowd_start(bodies, parties, chan, WEFT_RECEIVE);
    body_run(close_it, chan, thread);
    crowd_join(bodies);
    for (int i = 0; i < CROWD; i++) {
        CHECK_EQ(parties[i].result, -ESHUTDOWN);
        element_check_poison(&parties[i].element);
    }
    weft_chan_destroy(chan);
}

static void close_on_senders(bool thread, size_t capacity)
{
    struct body bodies[CROWD];
    struct party parties[CROWD];
    struct element element;
    weft_chan *chan = make_chan(24, capacity);
    for (uint64_t n = 0; n < capacity; n++) {
        element_fill(&element, 24, 1000 + n);
        CHECK_EQ(weft_chan_send(chan, &element), 0);
    }
    for (int i = 0; i < CROWD; i++)
        element_fill(&parties[i].element, 24, (uint64_t)i);
    crowd_start(bodies, parties, chan, WEFT_SEND);
    body_run(close_it, chan, thread);
    crowd_join(bodies);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(parties[i].result, -ESHUTDOWN);
    for (uint64_t n = 0; n < capacity; n++) { /* and nothing from the senders that waited */
        element_poison(&element);
        CHECK_EQ(weft_chan_receive(chan, &element), 0);
        element_check(&element, 24, 1000 + n);
    }
    CHECK_EQ(weft_chan_receive(chan, &element), -ESHUTDOWN);
    weft_chan_destroy(chan);
}

static void close_wakes_all_waits(void)
{
    for (int thread = 0; thread < 2; thread++) {
        close_on_receivers(thread);
        close_on_senders(thread, 0);
        close_on_senders(thread, 2);
    }
}

/* First come, first served. */

static void serve_senders(size_t capacity)
{
    struct body bodies[CROWD];
    struct party parties[CROWD];
    struct element element;
    weft_chan *chan = make_chan(24, capacity);
    for (uint64_t n = 0; n < capacity; n++) {
        element_fill(&element, 24, n);
        CHECK_EQ(weft_chan_send(chan, &element), 0);
    }
    for (uint64_t i = 0; i < CROWD; i++)
        element_fill(&parties[i].element, 24, capacity + i);
    crowd_start(bodies, parties, chan, WEFT_SEND);
    for (uint64_t n = 0; n < capacity + CROWD; n++) {
        element_poison(&element);
        CHECK_EQ(weft_chan_receive(chan, &element), 0);
        element_check(&element, 24, n);
        int waiting =
            n < CROWD ? CROWD - 1 - (int)n : 0; /* each receive takes an element from the line */
        CHECK_EQ(line_length(chan, WEFT_SEND), waiting);
    }
    CHECK_EQ(weft_chan_try_receive(chan, NULL), -EAGAIN);
    crowd_join(bodies);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(parties[i].result, 0);
    weft_chan_destroy(chan);
}

static void senders_are_served_in_order(void)
{
    serve_senders(0);
    serve_senders(1);
    serve_senders(5);
}

static void serve_receivers(size_t capacity)
{
    struct body bodies[CROWD];
    struct party parties[CROWD];
    struct element element;
    weft_chan *chan = make_chan(24, capacity);
    for (int i = 0; i < CROWD; i++)
        element_poison(&parties[i].element);
    crowd_start(bodies, parties, chan, WEFT_RECEIVE);
    for (uint64_t n = 0; n < CROWD; n++) {
        element_fill(&element, 24, n);
        CHECK_EQ(n % 2 ? weft_chan_send(chan, &element) : weft_chan_try_send(chan, &element), 0);
        CHECK_EQ(weft_chan_length(chan), 0); /* it went straight to a receiver */
    }
    crowd_join(bodies);
    for (uint64_t i = 0; i < CROWD; i++) {
        CHECK_EQ(parties[i].result, 0);
        element_check(&parties[i].element, 24, i);
    }
    weft_chan_destroy(chan);
}

static void receivers_are_served_in_order(void)
{
    serve_receivers(0);
    serve_receivers(3);
}

/* Waits that give up leave the line, wherever they are in it; the others keep their order. */

static bool stays(int i)
{
    return i % 4 == 2;
}

static void give_up(int op)
{
    struct body bodies[CROWD];
    struct party parties[CROWD];
    struct element element;
    weft_chan *chan = make_chan(8, 0);
    for (int i = 0; i < CROWD; i++) {
        parties[i] = (struct party){.chan = chan, .deadline = WEFT_NEVER};
        element_fill(&parties[i].element, op == WEFT_SEND ? 8 : 0, (uint64_t)i);
        bodies[i] = (struct body){.function = op == WEFT_SEND ? party_send : party_receive,
                                  .arg = &parties[i],
                                  .thread = i % 3 == 1};
        if (!stays(i))
            parties[i].deadline = weft_after(200 * WEFT_US);
        body_start(&bodies[i]);
        if (stays(i))
            await_in_line(chan, op, &parties[i].element);
    }
    for (int i = 0; i < CROWD; i++)
        if (!stays(i)) {
            body_join(&bodies[i]);
            CHECK_EQ(parties[i].result, -ETIMEDOUT);
            element_check(&parties[i].element, op == WEFT_SEND ? 8 : 0, (uint64_t)i);
        }
    for (int i = 0; i < CROWD; i++)
        if (stays(i)) {
            element_fill(&element, op == WEFT_SEND ? 0 : 8, (uint64_t)i);
            CHECK_EQ(op == WEFT_SEND ? weft_chan_try_receive(chan, &element)
                                     : weft_chan_try_send(chan, &element),
                     0);
            body_join(&bodies[i]);
            CHECK_EQ(parties[i].result, 0);
            element_check(op == WEFT_SEND ? &element : &parties[i].element, 8, (uint64_t)i);
        }
    CHECK_EQ(weft_chan_try_receive(chan, &element), -EAGAIN);
    CHECK_EQ(weft_chan_try_send(chan, &element), -EAGAIN);
    weft_chan_destroy(chan);
}

static void a_wait_that_gives_up_leaves_the_line(void)
{
    for (int64_t round = test_scale(20); round > 0; round--) {
        give_up(WEFT_SEND);
        give_up(WEFT_RECEIVE);
    }
}

/* A wait whose deadline has passed, and whose fiber has not run since, is still in line: it is
 * passed over. */
static void pass_over(int op, bool alone)
{
    void (*function)(void *) = op == WEFT_SEND ? party_send : party_receive;
    weft_chan *chan = make_chan(8, 0);
    struct element element;
    struct party late = {.chan = chan, .deadline = weft_after(1000 * WEFT_S)};
    struct party next = {.chan = chan, .deadline = WEFT_NEVER};
    struct body bodies[2] = {{.function = function, .arg = &late, .thread = true},
                             {.function = function, .arg = &next}};
    size_t sent = op == WEFT_SEND ? 8 : 0;
    element_fill(&late.element, sent, 1);
    element_fill(&next.element, sent, 2);
    element_fill(&element, 8 - sent, 3);
    for (int i = 0; i < (alone ? 1 : 2); i++) {
        body_start(&bodies[i]);
        await_line(chan, op, i + 1);
    }
    struct waiter *waiter = line_end_first(chan, op);
    CHECK_EQ(op == WEFT_SEND ? weft_chan_try_receive(chan, &element)
                             : weft_chan_try_send(chan, &element),
             alone ? -EAGAIN : 0);
    if (alone) {
        element_check(&element, 8 - sent, 3);
    } else {
        body_join(&bodies[1]);
        CHECK_EQ(next.result, 0);
        element_check(op == WEFT_SEND ? &element : &next.element, 8, op == WEFT_SEND ? 2 : 3);
    }
    weft__wake(waiter);
    body_join(&bodies[0]);
    CHECK_EQ(late.result, -ETIMEDOUT);
    element_check(&late.element, sent, 1);
    weft_chan_destroy(chan);
}

static void a_wait_that_gave_up_is_passed_over(void)
{
    for (int way = 0; way < 4; way++)
        pass_over(way & 1 ? WEFT_SEND : WEFT_RECEIVE, way & 2);
}

int main(void)
{
    RUN_BOTH(close_wakes_all_waits);
    RUN_BOTH(senders_are_served_in_order);
    RUN_BOTH(receivers_are_served_in_order);
    RUN_BOTH(a_wait_that_gives_up_leaves_the_line);
    RUN_PLAIN(a_wait_that_gave_up_is_passed_over, "ends a thread's wait by hand");
    return 0;
}
