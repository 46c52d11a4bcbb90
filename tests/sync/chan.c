/*
 * chan.c: channels, from fibers and from threads, in any mix. Destroying one under its waiters:
 * misuse_crash.c.
 */
#include "everywhere.h"
#include "sync/lines.h"

#include "base/prng.h"
#include "os/failure.h"
#include "os/os.h"
#include "seeds.h"

/* Misuse; runs before the runtime does, so that children can be forked. */

static weft_chan *const no_chan = (weft_chan *)(uintptr_t)0xdead;

static void arguments(void)
{
    static const size_t too_large[][2] = {
        {SIZE_MAX, 1},         {1, SIZE_MAX},         {SIZE_MAX, SIZE_MAX},
        {SIZE_MAX / 2 + 1, 2}, {2, SIZE_MAX / 2 + 1}, {(size_t)1 << 32, (size_t)1 << 32},
        {PTRDIFF_MAX, 1},      {1, PTRDIFF_MAX},      {8, SIZE_MAX / 8},
        {SIZE_MAX / 8, 4},     {SIZE_MAX - 8, 1},
    };
    weft_chan *chan = no_chan;
    uint64_t element = 7;
    CHECK_EQ(weft_chan_make(NULL, 8, 8), -EINVAL);
    for (size_t i = 0; i < sizeof too_large / sizeof too_large[0]; i++)
        CHECK_EQ(weft_chan_make(&chan, too_large[i][0], too_large[i][1]), -EINVAL);
    CHECK_PTR(chan, no_chan);
    CHECK_EQ(weft_chan_send(NULL, &element), -EINVAL);
    CHECK_EQ(weft_chan_send_until(NULL, &element, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_chan_try_send(NULL, &element), -EINVAL);
    CHECK_EQ(weft_chan_receive(NULL, &element), -EINVAL);
    CHECK_EQ(weft_chan_receive_until(NULL, &element, WEFT_NOW), -EINVAL);
    CHECK_EQ(weft_chan_try_receive(NULL, &element), -EINVAL);
    CHECK_EQ(element, 7);
    CHECK_EQ(weft_chan_close(NULL), -EINVAL);
    CHECK_EQ(weft_chan_length(NULL), 0);
    CHECK_EQ(weft_chan_capacity(NULL), 0);
    CHECK_EQ(weft_chan_closed(NULL), 0);
    weft_chan_destroy(NULL);
    chan = make_chan(8, 2);
    CHECK_EQ(weft_chan_send(chan, NULL), -EINVAL);
    CHECK_EQ(weft_chan_send_until(chan, NULL, WEFT_NEVER), -EINVAL);
    CHECK_EQ(weft_chan_try_send(chan, NULL), -EINVAL);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_destroy(chan);
}

static void making_may_fail(void)
{
    weft_chan *chan = no_chan;
    weft__os_fail(OS_ALLOC, 1, true);
    CHECK_EQ(weft_chan_make(&chan, 8, 0), -ENOMEM);
    CHECK_EQ(weft_chan_make(&chan, 8, 100), -ENOMEM);
    weft__os_fail(OS_ALLOC, 0, false);
    CHECK_PTR(chan, no_chan);
    if (!WEFT_ASAN && !WEFT_TSAN) /* which end the process there */
        CHECK_EQ(weft_chan_make(&chan, PTRDIFF_MAX / 4, 2), -ENOMEM);
    CHECK_PTR(chan, no_chan);
}

/* One party alone. */

static void fill_and_drain(size_t size, size_t capacity)
{
    struct element element;
    struct prng prng;
    uint64_t sent = 0, received = 0;
    weft_chan *chan = make_chan(size, capacity);
    prng_seed(&prng, size + capacity);
    CHECK_EQ(weft_chan_capacity(chan), capacity);
    CHECK_EQ(weft_chan_closed(chan), 0);
    /* By amounts of all sizes, so that they wrap at every place of the ring. */
    for (int64_t round = test_scale(100); round > 0; round--) {
        for (uint32_t more = prng_below(&prng, (uint32_t)capacity + 2); more > 0; more--) {
            element_fill(&element, size, sent);
            int expected = sent - received < capacity ? 0 : -EAGAIN;
            CHECK_EQ(weft_chan_try_send(chan, &element), expected);
            sent += expected == 0;
            CHECK_EQ(weft_chan_length(chan), sent - received);
        }
        for (uint32_t less = prng_below(&prng, (uint32_t)capacity + 2); less > 0; less--) {
            int expected = sent > received ? 0 : -EAGAIN;
            element_poison(&element);
            CHECK_EQ(weft_chan_try_receive(chan, &element), expected);
            if (expected == 0)
                element_check(&element, size, received++);
            else
                element_check_poison(&element);
            CHECK_EQ(weft_chan_length(chan), sent - received);
        }
    }
    weft_chan_destroy(chan); /* with elements in it */
}

static void keeps_what_was_sent_in_order(void *arg)
{
    for (int i = 0; i < ELEMENT_SIZES; i++) {
        fill_and_drain(element_sizes[i], 0);
        fill_and_drain(element_sizes[i], 1);
        fill_and_drain(element_sizes[i], 2);
        fill_and_drain(element_sizes[i], 7);
    }
}

static void events_have_no_content(void *arg)
{
    weft_chan *chan = make_chan(0, SIZE_MAX); /* events need no memory */
    CHECK_EQ(weft_chan_capacity(chan), SIZE_MAX);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(weft_chan_send(chan, NULL), 0);
    CHECK_EQ(weft_chan_length(chan), 100);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(weft_chan_receive(chan, NULL), 0);
    CHECK_EQ(weft_chan_length(chan), 50);
    weft_chan_destroy(chan);
}

static void elements_can_be_dropped(void *arg)
{
    weft_chan *chan = make_chan(8, 3);
    uint64_t n;
    for (n = 1; n <= 3; n++)
        CHECK_EQ(weft_chan_send(chan, &n), 0);
    CHECK_EQ(weft_chan_receive(chan, NULL), 0);
    CHECK_EQ(weft_chan_try_receive(chan, NULL), 0);
    CHECK_EQ(weft_chan_receive(chan, &n), 0);
    CHECK_EQ(n, 3);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_destroy(chan);
}

/* Closing. */

static void a_closed_channel_drains_first(void *arg)
{
    for (int i = 0; i < ELEMENT_SIZES; i++) {
        size_t size = element_sizes[i];
        struct element element;
        weft_chan *chan = make_chan(size, 3);
        for (uint64_t n = 0; n < 2; n++) {
            element_fill(&element, size, n);
            CHECK_EQ(weft_chan_send(chan, &element), 0);
        }
        CHECK_EQ(weft_chan_close(chan), 0);
        CHECK_EQ(weft_chan_closed(chan), 1);
        CHECK_EQ(weft_chan_close(chan), -ESHUTDOWN);
        CHECK_EQ(weft_chan_send(chan, &element), -ESHUTDOWN); /* although there is room */
        CHECK_EQ(weft_chan_send_until(chan, &element, WEFT_NOW), -ESHUTDOWN);
        CHECK_EQ(weft_chan_try_send(chan, &element), -ESHUTDOWN);
        CHECK_EQ(weft_chan_length(chan), 2);
        element_poison(&element);
        CHECK_EQ(weft_chan_receive(chan, &element), 0);
        element_check(&element, size, 0);
        element_poison(&element);
        CHECK_EQ(weft_chan_try_receive(chan, &element), 0);
        element_check(&element, size, 1);
        element_poison(&element);
        for (int again = 0; again < 3; again++) {
            CHECK_EQ(weft_chan_receive(chan, &element), -ESHUTDOWN);
            CHECK_EQ(weft_chan_receive_until(chan, &element, WEFT_NOW), -ESHUTDOWN);
            CHECK_EQ(weft_chan_try_receive(chan, &element), -ESHUTDOWN);
            CHECK_EQ(weft_chan_send(chan, &element), -ESHUTDOWN);
        }
        element_check_poison(&element);
        CHECK_EQ(weft_chan_closed(chan), 1);
        CHECK_EQ(weft_chan_length(chan), 0);
        CHECK_EQ(weft_chan_capacity(chan), 3);
        weft_chan_destroy(chan);
    }
}

/* Two parties. */

struct stream {
    weft_chan *chan;
    size_t size;
    uint64_t count;
};

static void stream_send(void *arg)
{
    const struct stream *stream = arg;
    struct element element;
    for (uint64_t n = 0; n < stream->count; n++) {
        element_fill(&element, stream->size, n);
        CHECK_EQ(weft_chan_send(stream->chan, &element), 0);
    }
    CHECK_EQ(weft_chan_close(stream->chan), 0);
}

static void stream_receive(void *arg)
{
    const struct stream *stream = arg;
    struct element element;
    uint64_t n = 0;
    int result;
    element_poison(&element);
    while ((result = weft_chan_receive(stream->chan, &element)) == 0) {
        element_check(&element, stream->size, n++);
        element_poison(&element);
    }
    element_check_poison(&element);
    CHECK_EQ(result, -ESHUTDOWN);
    CHECK_EQ(n, stream->count);
}

static void any_sender_with_any_receiver(void)
{
    static const size_t capacities[] = {0, 1, 3, 64};
    for (int mix = 0; mix < 4; mix++)
        for (int i = 0; i < ELEMENT_SIZES; i++)
            for (int j = 0; j < 4; j++) {
                struct stream stream = {make_chan(element_sizes[i], capacities[j]),
                                        element_sizes[i], (uint64_t)test_scale(300)};
                struct body bodies[2] = {
                    {.function = stream_send, .arg = &stream, .thread = mix & 1},
                    {.function = stream_receive, .arg = &stream, .thread = mix & 2},
                };
                bodies_run(bodies, 2);
                weft_chan_destroy(stream.chan);
            }
}

/* Without a buffer a send does not return before its receive; either may be a try if the other side
 * waits. */

struct meeting {
    weft_chan *chan;
    uint64_t n;
    atomic_u32 returned;
};

static void meeting_send(void *arg)
{
    struct meeting *meeting = arg;
    uint64_t n = meeting->n;
    CHECK_EQ(weft_chan_send(meeting->chan, &n), 0);
    n = 0; /* the sender's again */
    atomic_u32_store_release(&meeting->returned, 1);
}

static void meeting_receive(void *arg)
{
    struct meeting *meeting = arg;
    CHECK_EQ(weft_chan_receive(meeting->chan, &meeting->n), 0);
    atomic_u32_store_release(&meeting->returned, 1);
}

/* Waits until the other party is queued, which must happen before its call returns. */
static void await_queued(struct meeting *meeting, int op)
{
    for (int times = 0; line_length(meeting->chan, op) == 0; wait_a_little(&times))
        CHECK_EQ(atomic_u32_load_acquire(&meeting->returned), 0);
}

static void meet(bool thread, bool try)
{
    struct meeting meeting = {.chan = make_chan(8, 0), .n = 42};
    struct body body = {.function = meeting_send, .arg = &meeting, .thread = thread};
    uint64_t n = 0;
    CHECK_EQ(weft_chan_try_send(meeting.chan, &n), -EAGAIN);
    body_start(&body);
    await_queued(&meeting, WEFT_SEND);
    for (int i = 0; i < 10; i++)
        weft_yield();
    CHECK_EQ(atomic_u32_load_acquire(&meeting.returned), 0);
    CHECK_EQ(weft_chan_length(meeting.chan), 0);
    CHECK_EQ(try ? weft_chan_try_receive(meeting.chan, &n) : weft_chan_receive(meeting.chan, &n),
             0);
    CHECK_EQ(n, 42);
    body_join(&body);

    meeting.returned = (atomic_u32){0};
    meeting.n = 0;
    body.function = meeting_receive;
    CHECK_EQ(weft_chan_try_receive(meeting.chan, &n), -EAGAIN);
    body_start(&body);
    await_queued(&meeting, WEFT_RECEIVE);
    n = 43;
    CHECK_EQ(try ? weft_chan_try_send(meeting.chan, &n) : weft_chan_send(meeting.chan, &n), 0);
    body_join(&body);
    CHECK_EQ(meeting.n, 43);
    weft_chan_destroy(meeting.chan);
}

static void without_a_buffer_it_is_a_rendezvous(void *arg)
{
    for (int way = 0; way < 4; way++)
        meet(way & 1, way & 2);
}

static void a_full_buffer_makes_senders_wait(void)
{
    for (int thread = 0; thread < 2; thread++) {
        struct meeting meeting = {.chan = make_chan(8, 2), .n = 3};
        struct body body = {.function = meeting_send, .arg = &meeting, .thread = thread};
        uint64_t n;
        for (n = 1; n <= 2; n++)
            CHECK_EQ(weft_chan_send(meeting.chan, &n), 0);
        body_start(&body);
        await_queued(&meeting, WEFT_SEND);
        CHECK_EQ(weft_chan_length(meeting.chan), 2);
        CHECK_EQ(weft_chan_receive(meeting.chan, &n), 0);
        CHECK_EQ(n, 1);
        CHECK_EQ(weft_chan_length(meeting.chan), 2);
        body_join(&body);
        for (uint64_t expected = 2; expected <= 3; expected++) {
            CHECK_EQ(weft_chan_receive(meeting.chan, &n), 0);
            CHECK_EQ(n, expected);
        }
        weft_chan_destroy(meeting.chan);
    }
}

static void receive_and_drop(void *chan)
{
    CHECK_EQ(weft_chan_receive(chan, NULL), 0);
}

/* An element that a waiting receiver drops, and an event for a waiting receiver. */
static void hand_over_of_nothing(void)
{
    for (int size = 0; size <= 8; size += 8) {
        weft_chan *chan = make_chan((size_t)size, 0);
        struct body bodies[2] = {{.function = receive_and_drop, .arg = chan},
                                 {.function = receive_and_drop, .arg = chan, .thread = true}};
        for (int i = 0; i < 2; i++)
            body_start(&bodies[i]);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(weft_chan_send(chan, size ? &chan : NULL), 0);
        for (int i = 0; i < 2; i++)
            body_join(&bodies[i]);
        weft_chan_destroy(chan);
    }
}

/* Deadlines. */

static void check_receive_times_out(weft_chan *chan, int64_t deadline)
{
    struct element element;
    element_poison(&element);
    CHECK_EQ(weft_chan_receive_until(chan, &element, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    element_check_poison(&element);
    CHECK_EQ(line_length(chan, WEFT_RECEIVE), 0);
    element_fill(&element, 24, 99);
    if (weft_chan_capacity(chan) == 0)
        CHECK_EQ(weft_chan_try_send(chan, &element), -EAGAIN); /* no receiver is left */
}

static void check_send_times_out(weft_chan *chan, int64_t deadline)
{
    struct element element;
    size_t length = weft_chan_length(chan);
    element_fill(&element, 24, 98);
    CHECK_EQ(weft_chan_send_until(chan, &element, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_chan_length(chan), length);
    CHECK_EQ(line_length(chan, WEFT_SEND), 0);
    if (length == 0)
        CHECK_EQ(weft_chan_try_receive(chan, &element), -EAGAIN);
}

static void deadlines(void *arg)
{
    struct element element;
    weft_chan *chans[2] = {make_chan(24, 0), make_chan(24, 1)};
    for (int i = 0; i < 2; i++) {
        check_receive_times_out(chans[i], WEFT_NOW);
        check_receive_times_out(chans[i], -5);
        check_receive_times_out(chans[i], INT64_MIN);
        check_receive_times_out(chans[i], 1); /* in the past, and not WEFT_NOW */
        check_receive_times_out(chans[i], weft_after(300 * WEFT_US));
    }
    element_fill(&element, 24, 1);
    CHECK_EQ(weft_chan_send_until(chans[1], &element, WEFT_NOW), 0); /* without waiting it works */
    for (int i = 0; i < 2; i++) {
        check_send_times_out(chans[i], WEFT_NOW);
        check_send_times_out(chans[i], -5);
        check_send_times_out(chans[i], INT64_MIN);
        check_send_times_out(chans[i], 1);
        check_send_times_out(chans[i], weft_after(300 * WEFT_US));
    }
    element_poison(&element);
    CHECK_EQ(weft_chan_receive_until(chans[1], &element, WEFT_NOW), 0);
    element_check(&element, 24, 1);
    CHECK_EQ(weft_chan_length(chans[1]), 0);
    for (int i = 0; i < 2; i++)
        weft_chan_destroy(chans[i]);
}

static void far_deadlines_are_met_in_time(void)
{
    for (int mix = 0; mix < 4; mix++) {
        struct party sender = {.chan = make_chan(24, 0), .deadline = weft_after(1000 * WEFT_S)};
        struct party receiver = {.chan = sender.chan, .deadline = weft_after(1000 * WEFT_S)};
        struct body bodies[2] = {
            {.function = party_send, .arg = &sender, .thread = mix & 1},
            {.function = party_receive, .arg = &receiver, .thread = mix & 2},
        };
        element_fill(&sender.element, 24, 5);
        element_poison(&receiver.element);
        bodies_run(bodies, 2);
        CHECK_EQ(sender.result, 0);
        CHECK_EQ(receiver.result, 0);
        element_check(&receiver.element, 24, 5);
        weft_chan_destroy(sender.chan);
    }
}

static void waiting_needs_no_memory(void *arg)
{
    weft_chan *chan = make_chan(24, 0);
    weft__os_fail(OS_ALLOC, 1, true);
    check_receive_times_out(chan, weft_after(100 * WEFT_US));
    check_send_times_out(chan, weft_after(100 * WEFT_US));
    CHECK_EQ(weft_chan_close(chan), 0);
    weft__os_fail(OS_ALLOC, 0, false);
    weft_chan_destroy(chan);
}

/* What a call does not change. */

static void errno_is_left_alone(void *arg)
{
    weft_chan *chan = no_chan;
    struct element element;
    set_errno(77);
    (void)!weft_chan_make(&chan, SIZE_MAX, SIZE_MAX);
    CHECK_EQ(weft_chan_make(&chan, 24, 1), 0);
    CHECK_EQ(get_errno(), 77);
    check_receive_times_out(chan, weft_after(50 * WEFT_US));
    check_receive_times_out(chan, 1);
    CHECK_EQ(weft_chan_send(chan, &element), 0);
    check_send_times_out(chan, weft_after(50 * WEFT_US));
    CHECK_EQ(weft_chan_try_send(chan, &element), -EAGAIN);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(weft_chan_close(chan), -ESHUTDOWN);
    CHECK_EQ(weft_chan_receive(chan, NULL), 0);
    CHECK_EQ(weft_chan_receive(chan, NULL), -ESHUTDOWN);
    weft_chan_destroy(chan);
    CHECK_EQ(get_errno(), 77);
}

/* Forked children. */

static struct {
    weft_chan *empty, *full, *waited;
} forked;

static void use_in_child(void)
{
    struct element element;
    element_poison(&element);
    CHECK_EQ(weft_chan_receive(forked.empty, &element), -ECHILD);
    CHECK_EQ(weft_chan_receive_until(forked.empty, &element, weft_after(WEFT_MS)), -ECHILD);
    CHECK_EQ(weft_chan_try_receive(forked.empty, &element), -ECHILD);
    CHECK_EQ(weft_chan_receive(forked.full, &element), -ECHILD); /* no matter what is in it */
    CHECK_EQ(weft_chan_try_receive(forked.full, &element), -ECHILD);
    element_check_poison(&element);
    CHECK_EQ(weft_chan_send(forked.full, &element), -ECHILD);
    CHECK_EQ(weft_chan_send_until(forked.full, &element, weft_after(WEFT_MS)), -ECHILD);
    CHECK_EQ(weft_chan_try_send(forked.full, &element), -ECHILD);
    CHECK_EQ(weft_chan_send(forked.empty, &element), -ECHILD);
    CHECK_EQ(weft_chan_try_send(forked.empty, &element), -ECHILD);
    CHECK_EQ(weft_chan_close(forked.empty), -ECHILD);
    CHECK_EQ(weft_chan_length(forked.full), 1);
    CHECK_EQ(weft_chan_capacity(forked.full), 1);
    CHECK_EQ(weft_chan_closed(forked.full), 0);
    weft_chan *chan = make_chan(8, 3);
    weft_chan_destroy(chan);
    weft_chan_destroy(forked.waited); /* its waiter is in the parent */
    weft_chan_destroy(forked.empty);
}

static void a_forked_child_does_not_wait(void)
{
    struct party party = {.deadline = WEFT_NEVER};
    forked.empty = make_chan(24, 1);
    forked.full = make_chan(24, 1);
    party.chan = forked.waited = make_chan(24, 0);
    struct body body = {.function = party_receive, .arg = &party};
    CHECK_EQ(weft_chan_send(forked.full, &party.element), 0);
    body_start(&body);
    await_line(forked.waited, WEFT_RECEIVE, 1);
    in_fork(use_in_child);
    CHECK_EQ(weft_chan_send(forked.waited, &party.element), 0);
    body_join(&body);
    weft_chan_destroy(forked.empty);
    weft_chan_destroy(forked.full);
    weft_chan_destroy(forked.waited);
}

int main(void)
{
    RUN_PLAIN(arguments, "nothing waits");
    RUN_PLAIN(making_may_fail, "nothing waits");
    RUN_EVERYWHERE(keeps_what_was_sent_in_order);
    RUN_EVERYWHERE(events_have_no_content);
    RUN_EVERYWHERE(elements_can_be_dropped);
    RUN_EVERYWHERE(a_closed_channel_drains_first);
    RUN_BOTH(any_sender_with_any_receiver);
    RUN_EVERYWHERE(without_a_buffer_it_is_a_rendezvous);
    RUN_BOTH(a_full_buffer_makes_senders_wait);
    RUN_BOTH(hand_over_of_nothing);
    RUN_EVERYWHERE(deadlines);
    RUN_BOTH(far_deadlines_are_met_in_time);
    RUN_EVERYWHERE(waiting_needs_no_memory);
    RUN_EVERYWHERE(errno_is_left_alone);
    RUN_PLAIN(a_forked_child_does_not_wait, "forks");
    return 0;
}
