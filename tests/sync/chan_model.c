/*
 * chan_model.c: channels (sync/chan.c): send, receive and close at the same time, by threads that
 * park for real (sched/core/park.c).
 *
 * What must hold: each element that was sent is received once, or is still in the ring; a send that
 * was refused has sent nothing; after the close no party waits; the receiver of the last element
 * may destroy the channel.
 */
#include <errno.h>

#include "explore.h"
#include "sync/chan.h"

enum { ELEMENTS = 4 };

static weft_chan *chan;
static int sent[ELEMENTS], received[ELEMENTS];
static int closes; /* calls of close that succeeded */
static size_t capacity;
static int64_t deadline;

static void send_one(uint64_t element)
{
    int error = weft_chan_send_until(chan, &element, deadline);
    MODEL_CHECK(error == 0 || error == -ESHUTDOWN || error == -ETIMEDOUT);
    sent[element] += error == 0;
}

static void run_sender(void *arg)
{
    send_one((uint64_t)(uintptr_t)arg);
}

static void run_sender_of_two(void *arg)
{
    send_one((uint64_t)(uintptr_t)arg);
    send_one((uint64_t)(uintptr_t)arg + 1);
}

static bool receive_one(void)
{
    uint64_t element = ELEMENTS;
    int error = weft_chan_receive_until(chan, &element, deadline);
    if (error == 0)
        received[element]++;
    else
        MODEL_CHECK(element == ELEMENTS && (error == -ESHUTDOWN || error == -ETIMEDOUT));
    return error == 0;
}

static void run_receiver(void *arg)
{
    (void)receive_one();
}

static void run_receiver_to_the_end(void *arg)
{
    while (receive_one())
        continue;
}

static void run_closer(void *arg)
{
    closes += weft_chan_close(chan) == 0;
}

/* Does not access the channel after it has the element. */
static void run_destroyer(void *arg)
{
    MODEL_CHECK(receive_one());
    weft_chan_destroy(chan);
    chan = NULL;
}

/* Reads whether it is closed, without the latch. */
static void run_watcher(void *arg)
{
    while (!weft_chan_closed(chan))
        model_spin();
    weft_chan_destroy(chan);
    chan = NULL;
}

static void run_trier(void *arg)
{
    uint64_t element = (uint64_t)(uintptr_t)arg;
    int error = weft_chan_try_send(chan, &element);
    MODEL_CHECK(error == 0 || error == -EAGAIN || error == -ESHUTDOWN);
    sent[element] += error == 0;
}

static void make(size_t places)
{
    capacity = places;
    deadline = WEFT_NEVER;
    MODEL_CHECK(weft_chan_make(&chan, sizeof(uint64_t), places) == 0);
    model_name(&chan->latch, "latch");
    model_name(&chan->closed, "closed");
    model_name(&chan->length, "length");
    model_name(&chan->senders.first, "senders");
    model_name(&chan->receivers.first, "receivers");
}

static void nothing_is_lost(void)
{
    uint64_t element;
    if (chan != NULL) {
        while (weft_chan_try_receive(chan, &element) == 0)
            received[element]++;
        MODEL_CHECK(chan->senders.first.value == NULL && chan->receivers.first.value == NULL);
        MODEL_CHECK(closes == (int)weft_chan_closed(chan));
    }
    for (int i = 0; i < ELEMENTS; i++)
        MODEL_CHECK(sent[i] == received[i] && sent[i] <= 1);
}

static void closes_on_both(void)
{
    make(0);
    model_thread("sender 1", run_sender, (void *)0, true);
    model_thread("sender 2", run_sender, (void *)1, true);
    model_thread("receiver", run_receiver, NULL, true);
    model_thread("closer", run_closer, NULL, true);
}

static void closes_on_a_ring(void)
{
    make(1);
    model_thread("sender", run_sender_of_two, (void *)0, true);
    model_thread("receiver", run_receiver_to_the_end, NULL, true);
    model_thread("closer", run_closer, NULL, true);
}

static void two_close(void)
{
    make(0);
    model_thread("receiver", run_receiver, NULL, true);
    model_thread("closer 1", run_closer, NULL, true);
    model_thread("closer 2", run_closer, NULL, true);
}

static void closes_at_the_deadline(void)
{
    make(0);
    deadline = 5000000;
    model_thread("sender", run_sender, (void *)0, true);
    model_thread("receiver", run_receiver, NULL, true);
    model_thread("closer", run_closer, NULL, true);
}

static void tries_at_the_deadline(void)
{
    make(0);
    deadline = 5000000;
    model_thread("receiver 1", run_receiver, NULL, true);
    model_thread("receiver 2", run_receiver, NULL, true);
    model_thread("trier", run_trier, (void *)0, true);
}

static void destroys(void)
{
    make(0);
    model_thread("sender", run_sender, (void *)0, true);
    model_thread("receiver", run_destroyer, NULL, true);
}

static void destroys_ring(void)
{
    make(1);
    model_thread("sender", run_sender, (void *)0, true);
    model_thread("receiver", run_destroyer, NULL, true);
}

static void destroys_closed(void)
{
    make(1);
    model_thread("closer", run_closer, NULL, true);
    model_thread("watcher", run_watcher, NULL, true);
}

static const struct scenario scenarios[] = {
    {"two send, one receives, one closes", closes_on_both, nothing_is_lost, 3, 0, 0},
    {"one sends into a ring, one receives, one closes", closes_on_a_ring, nothing_is_lost, 3, 1, 0},
    {"two close", two_close, nothing_is_lost, 3, 2, 0},
    {"the deadline passes while one closes", closes_at_the_deadline, nothing_is_lost, 3, 1, 2},
    {"the deadline passes while one tries", tries_at_the_deadline, nothing_is_lost, 3, 1, 2},
    {"the receiver destroys", destroys, nothing_is_lost, 4, 2, 0},
    {"a receiver from the ring destroys", destroys_ring, nothing_is_lost, 4, 2, 0},
    {"a sender that sees it closed destroys", destroys_closed, nothing_is_lost, 4, 2, 0},
};

MODEL_MAIN(scenarios)
