/*
 * lines.h: for tests of channels: which callers wait in line, elements that can be told apart,
 * operations that run as bodies, cases of a select.
 */
#ifndef WEFT_TEST_LINES_H
#define WEFT_TEST_LINES_H

#include "bodies.h"
#include "everywhere.h"
#include "sync/chan.h"

/* The number of callers that wait to send to the channel, or to receive from it. Under the latch,
 * so that they are parked. */
static inline int line_length(weft_chan *chan, int op)
{
    int count = 0;
    latch_acquire(&chan->latch);
    struct chan_queue *queue = op == WEFT_SEND ? &chan->senders : &chan->receivers;
    for (struct chan_wait *wait = atomic_ptr_load_relaxed(&queue->first); wait != NULL;
         wait = wait->next)
        count++;
    latch_release(&chan->latch);
    return count;
}

/* Lets other fibers run, and after some calls other threads. */
static inline void wait_a_little(int *times)
{
    if (++*times < 20)
        weft_yield();
    else
        CHECK_EQ(weft_sleep(20 * WEFT_US), 0);
}

static inline void await_line(weft_chan *chan, int op, int count)
{
    for (int times = 0; line_length(chan, op) != count;)
        wait_a_little(&times);
}

/* Ends the wait of the first in line, a thread with a deadline, as the clock would. The thread
 * learns it by weft__wake, and stays in line until then. */
static inline struct waiter *line_end_first(weft_chan *chan, int op)
{
    latch_acquire(&chan->latch);
    struct chan_queue *queue = op == WEFT_SEND ? &chan->senders : &chan->receivers;
    struct chan_wait *first = atomic_ptr_load_relaxed(&queue->first);
    CHECK(first != NULL && waiter_claim(first->waiter, -ETIMEDOUT));
    latch_release(&chan->latch);
    return first->waiter;
}

/* Returns when the wait with that element is in line. */
static inline void await_in_line(weft_chan *chan, int op, const void *element)
{
    int times = 0;
    for (bool found = false; !found; wait_a_little(&times)) {
        latch_acquire(&chan->latch);
        struct chan_queue *queue = op == WEFT_SEND ? &chan->senders : &chan->receivers;
        for (struct chan_wait *wait = atomic_ptr_load_relaxed(&queue->first); wait != NULL;
             wait = wait->next)
            found |= wait->element == element;
        latch_release(&chan->latch);
    }
}

static inline weft_chan *make_chan(size_t element_size, size_t capacity)
{
    weft_chan *chan = NULL;
    CHECK_EQ(weft_chan_make(&chan, element_size, capacity), 0);
    CHECK(chan != NULL);
    return chan;
}

/* Calls function(arg) in the calling thread, with that many processors for the fibers it starts. */
static inline void with_processors(int number, void (*function)(void *), void *arg)
{
    processors_begin(number);
    function(arg);
    processors_end();
}

enum { ELEMENT_MOST = 1000, POISON = 0x5a };

static const size_t element_sizes[] = {0, 1, 8, 24, ELEMENT_MOST};
enum { ELEMENT_SIZES = sizeof element_sizes / sizeof element_sizes[0] };

/* An element, and the bytes after it. */
struct element {
    unsigned char bytes[ELEMENT_MOST + 8];
};

static inline void element_poison(struct element *element)
{
    memset(element, POISON, sizeof *element);
}

/* Fills in element number n, of that size; the rest is poison. */
static inline void element_fill(struct element *element, size_t size, uint64_t n)
{
    element_poison(element);
    for (size_t i = 0; i < size; i++)
        element->bytes[i] = (unsigned char)((n + i) * 31 + (n >> 8));
}

static inline void element_check(const struct element *element, size_t size, uint64_t n)
{
    struct element expected;
    element_fill(&expected, size, n);
    CHECK_EQ(memcmp(element, &expected, sizeof expected), 0);
}

static inline void element_check_poison(const struct element *element)
{
    element_check(element, 0, 0);
}

/* An operation to run as a body. */
struct party {
    weft_chan *chan;
    struct element element;
    int64_t deadline;
    int result;
};

static inline void party_send(void *arg)
{
    struct party *party = arg;
    party->result = weft_chan_send_until(party->chan, &party->element, party->deadline);
}

static inline void party_receive(void *arg)
{
    struct party *party = arg;
    party->result = weft_chan_receive_until(party->chan, &party->element, party->deadline);
}

/* Cases whose result is not set. */

enum { NOT_SET = 12345 };

static inline weft_case to_send(weft_chan *chan, const void *element)
{
    return (weft_case){chan, WEFT_SEND, NOT_SET, (void *)(uintptr_t)element};
}

static inline weft_case to_receive(weft_chan *chan, void *element)
{
    return (weft_case){chan, WEFT_RECEIVE, NOT_SET, element};
}

/* Checks that only that case (none if it is negative) has a result. */
static inline void check_results(const weft_case *cases, int count, int chosen, int result)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(cases[i].result, i == chosen ? result : NOT_SET);
}

#endif
