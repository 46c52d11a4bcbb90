/*
 * chan.c: channels.
 *
 * A channel is a latch, a ring of elements, and a line of waits for each of the two operations.
 * Invariants whenever the latch is free, waits that have given up not counted:
 *
 *     a wait to receive is in line    =>  the ring is empty
 *     a wait to send is in line       =>  the ring is full
 *
 * So a send first looks for a receiver in line, and copies the element straight into its memory. A
 * receive takes the oldest element of the ring, and moves the element of the first sender in line
 * into the slot that became free; without a ring it copies straight from that sender's memory.
 *
 * A party that finds a wait in line claims it (sched/core/park.h), does the other side's half of
 * the operation as well, notes the result in the wait, releases the latch, and wakes the waiter. A
 * wait is on the stack of its call: it is accessed under the latch, or between claim and wake. A
 * compact fiber (sched/fiber/compact.h) has its wait in the stash, and the element with it.
 *
 *     the claim fails    the waiter has given up, or another channel of its select was faster. The
 *                        wait is taken out of the line, and the next is tried. The wait still
 *                        exists: its owner takes the latch before it leaves.
 *
 * When a channel may be freed. A party whose operation was done by the other side does not access
 * the channel again: its own last access was the park, that of the other side the release of the
 * latch. So the receiver of the last element may destroy the channel although the sender's call has
 * not returned yet. A select that won on a channel keeps to this too: the party that claims it
 * takes all its waits on that channel (the ring of siblings) out of the lines.
 *
 * Hand-over. The woken fiber becomes the next to run on this processor (runnext), and when the
 * caller parks it switches to it directly, without passing through the machine: an unbuffered
 * hand-over costs one switch per element.
 *
 * Lock order: only select takes several latches, in the order of their addresses.
 */
#include "sync/chan.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "sched/check/test_point.h"
#include "sched/core/park.h"
#include "sched/fiber/compact.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

static WAIT_KIND(wait_send, .text = "sends to a channel");
static WAIT_KIND(wait_receive, .text = "receives from a channel");

/* Elements. */

static noinline void copy_any(void *to, const void *from, size_t size)
{
    if (to != NULL && size != 0) /* else it is dropped, or has no content */
        memcpy(to, from, size);
}

static always_inline void copy(void *to, const void *from, size_t size)
{
    should(size == 0 || from != NULL); /* weft_chan_send refuses a missing element */
    if (likely(size == 8 && to != NULL))
        memcpy(to, from, 8);
    else
        copy_any(to, from, size);
}

/* The slot with this index, counted from the start of the buffer, round the end of the ring
 * once. */
static always_inline void *slot(weft_chan *chan, size_t index)
{
    if (index >= chan->capacity)
        index -= chan->capacity;
    return chan->buffer + index * chan->element_size;
}

/* Lines; under the latch. */

void weft__chan_enlist(weft_chan *chan, int op, struct chan_wait *wait)
{
    struct chan_queue *queue = op == WEFT_SEND ? &chan->senders : &chan->receivers;
    wait->queue = queue;
    wait->next = NULL;
    wait->previous = queue->last;
    if (queue->last == NULL)
        atomic_ptr_store_relaxed(&queue->first, wait);
    else
        queue->last->next = wait;
    queue->last = wait;
}

void weft__chan_delist(struct chan_wait *wait)
{
    struct chan_queue *queue = wait->queue;
    if (queue == NULL)
        return;
    wait->queue = NULL;
    if (wait->previous == NULL)
        atomic_ptr_store_relaxed(&queue->first, wait->next);
    else
        wait->previous->next = wait->next;
    if (wait->next != NULL)
        wait->next->previous = wait->previous;
    else
        queue->last = wait->previous;
}

static noinline void delist_siblings(struct chan_wait *wait)
{
    for (struct chan_wait *other = wait->sibling; other != wait; other = other->sibling)
        weft__chan_delist(other);
}

/* Claims the first wait in line that has not given up, and takes it out with all its siblings; NULL
 * if there is none. The caller does its operation and wakes its waiter. */
static always_inline struct chan_wait *claim_first(struct chan_queue *queue, int result)
{
    struct chan_wait *wait;
    while ((wait = atomic_ptr_load_relaxed(&queue->first)) != NULL) {
        weft__chan_delist(wait);
        if (unlikely(!waiter_claim(wait->waiter, 0)))
            continue;
        if (unlikely(wait->sibling != wait))
            delist_siblings(wait);
        wait->result = result;
        return wait;
    }
    return NULL;
}

/* Operations; under the latch. */

static always_inline int attempt_send(weft_chan *chan, const void *element, struct waiter **wake)
{
    if (unlikely(atomic_u32_load_relaxed(&chan->closed)))
        return -ESHUTDOWN;
    struct chan_wait *receiver = claim_first(&chan->receivers, 0);
    if (receiver != NULL) {
        copy(receiver->element, element, chan->element_size);
        *wake = receiver->waiter;
        return 0;
    }
    uint64_t length = atomic_u64_load_relaxed(&chan->length);
    if (length == chan->capacity)
        return -EAGAIN;
    copy(slot(chan, chan->head + length), element, chan->element_size);
    atomic_u64_store_relaxed(&chan->length, length + 1);
    return 0;
}

static always_inline int attempt_receive(weft_chan *chan, void *element, struct waiter **wake)
{
    uint64_t length = atomic_u64_load_relaxed(&chan->length);
    if (length > 0) {
        copy(element, slot(chan, chan->head), chan->element_size);
        chan->head = chan->head + 1 < chan->capacity ? chan->head + 1 : 0;
        atomic_u64_store_relaxed(&chan->length, length - 1);
    }
    struct chan_wait *sender = claim_first(&chan->senders, 0);
    if (sender != NULL) {
        if (length == 0) {
            copy(element, sender->element, chan->element_size);
        } else {
            copy(slot(chan, chan->head + length - 1), sender->element, chan->element_size);
            atomic_u64_store_relaxed(&chan->length, length);
        }
        *wake = sender->waiter;
        return 0;
    }
    if (length > 0)
        return 0;
    return atomic_u32_load_relaxed(&chan->closed) ? -ESHUTDOWN : -EAGAIN;
}

int weft__chan_attempt(weft_chan *chan, int op, void *element, struct waiter **wake)
{
    *wake = NULL;
    return op == WEFT_SEND ? attempt_send(chan, element, wake)
                           : attempt_receive(chan, element, wake);
}

/* Waiting. */

static void unlock(void *arg)
{
    weft_chan *chan = arg;
    latch_release(&chan->latch);
}

/* Waits in line. The latch is held, and released; a fiber is inside the runtime, and leaves it.
 * This is the last that an operation does: see context_call. */
static always_inline int enqueue_and_park(weft_chan *chan, int op, struct chan_wait *wait,
                                          void *element, int64_t deadline)
{
    struct waiter own;
    wait->sibling = wait;
    wait->waiter = weft__waiter_begin(&own);
    wait->element = element;
    weft__chan_enlist(chan, op, wait);
    bool fiber = wait->waiter->is_fiber;
    int error =
        weft__park(wait->waiter, op == WEFT_SEND ? wait_id(&wait_send) : wait_id(&wait_receive),
                   unlock, chan, deadline);
    if (likely(!wait_gave_up(error))) {
        error = wait->result;
    } else {
        latch_acquire(&chan->latch);
        weft__chan_delist(wait);
        latch_release(&chan->latch);
    }
    leave_if_fiber(fiber);
    return error;
}

/* For a compact fiber without memory for its wait: releases the latch, leaves the runtime, and
 * attempts the operation some time later. Returns -EAGAIN if that has to wait too: then the latch
 * is held again, and the fiber inside the runtime. */
static int retry_later(weft_chan *chan, int op, void *element, int64_t deadline)
{
    struct waiter *wake;
    latch_release(&chan->latch);
    runtime_leave(thread_self());
    int error = weft__stash_wait(deadline);
    if (error != 0)
        return error;
    (void)runtime_enter(thread_self());
    latch_acquire(&chan->latch);
    error = weft__chan_attempt(chan, op, element, &wake);
    if (error == -EAGAIN)
        return error;
    latch_release(&chan->latch);
    if (wake != NULL)
        weft__wake(wake);
    runtime_leave(thread_self());
    return error;
}

/* Waits in line as a compact fiber, with the wait and a copy of the element in the stash. */
static noinline int wait_on_compact(weft_chan *chan, int op, void *element, int64_t deadline)
{
    size_t size =
        element != NULL ? chan->element_size : 0; /* the channel may be gone after the wait */
    struct chan_wait *wait;
    while (unlikely((wait = weft__stash(sizeof *wait + size)) == NULL)) {
        int error = retry_later(chan, op, element, deadline);
        if (error != -EAGAIN)
            return error;
    }
    void *copied = element != NULL ? wait + 1 : NULL;
    if (op == WEFT_SEND)
        copy_any(copied, element, size);
    int error = enqueue_and_park(chan, op, wait, copied, deadline);
    if (op == WEFT_RECEIVE && error == 0)
        copy_any(element, copied, size);
    weft__unstash(wait);
    return error;
}

static int wait_in_line(void *chan, int op, void *element, int64_t deadline)
{
    struct chan_wait wait;
    if (on_compact())
        return wait_on_compact(chan, op, element, deadline);
    return enqueue_and_park(chan, op, &wait, element, deadline);
}

/* What send and receive have in common; each has a copy of its own. */
static always_inline int operate(weft_chan *chan, int op, void *element, int64_t deadline)
{
    if (weft__runtime_forked())
        return -ECHILD;
    struct waiter *wake = NULL;
    bool fiber = enter_if_fiber();
    latch_acquire(&chan->latch);
    int error = op == WEFT_SEND ? attempt_send(chan, element, &wake)
                                : attempt_receive(chan, element, &wake);
    if (error == -EAGAIN && deadline > WEFT_NOW)
        return context_call(wait_in_line, chan, op, element, deadline);
    latch_release(&chan->latch);
    if (wake != NULL)
        weft__wake(wake);
    leave_if_fiber(fiber);
    return error;
}

static noinline int send(weft_chan *chan, const void *element, int64_t deadline)
{
    if (unlikely(chan == NULL || (element == NULL && chan->element_size != 0)))
        return -EINVAL;
    return operate(chan, WEFT_SEND, (void *)(uintptr_t)element, deadline);
}

static noinline int receive(weft_chan *chan, void *element, int64_t deadline)
{
    if (unlikely(chan == NULL))
        return -EINVAL;
    return operate(chan, WEFT_RECEIVE, element, deadline);
}

int weft_chan_send(weft_chan *chan, const void *element)
{
    return send(chan, element, WEFT_NEVER);
}

int weft_chan_send_until(weft_chan *chan, const void *element, int64_t deadline)
{
    int error = send(chan, element, deadline);
    return error == -EAGAIN ? -ETIMEDOUT : error;
}

int weft_chan_try_send(weft_chan *chan, const void *element)
{
    test_point();
    bool would_block = chan != NULL && element != NULL && !chan_ready(chan, WEFT_SEND);
    return would_block && !weft__runtime_forked() ? -EAGAIN : send(chan, element, WEFT_NOW);
}

int weft_chan_receive(weft_chan *chan, void *element)
{
    return receive(chan, element, WEFT_NEVER);
}

int weft_chan_receive_until(weft_chan *chan, void *element, int64_t deadline)
{
    int error = receive(chan, element, deadline);
    return error == -EAGAIN ? -ETIMEDOUT : error;
}

int weft_chan_try_receive(weft_chan *chan, void *element)
{
    test_point();
    bool would_block = chan != NULL && !chan_ready(chan, WEFT_RECEIVE);
    return would_block && !weft__runtime_forked() ? -EAGAIN : receive(chan, element, WEFT_NOW);
}

/* The life of a channel. */

int weft_chan_make(weft_chan **out, size_t element_size, size_t capacity)
{
    size_t size;
    if (out == NULL || __builtin_mul_overflow(element_size, capacity, &size) ||
        __builtin_add_overflow(size, sizeof(struct weft_chan), &size) || size > PTRDIFF_MAX)
        return -EINVAL;
    struct weft_chan *chan = weft__os_alloc(size);
    if (chan == NULL)
        return -ENOMEM;
    *chan = (struct weft_chan){.element_size = element_size, .capacity = capacity};
    *out = chan;
    return 0;
}

void weft_chan_destroy(weft_chan *chan)
{
    if (chan == NULL)
        return;
    if (!weft__runtime_forked()) {
        latch_acquire(&chan->latch); /* so that its last holder is done with the channel */
        if (atomic_ptr_load_relaxed(&chan->senders.first) != NULL ||
            atomic_ptr_load_relaxed(&chan->receivers.first) != NULL)
            fatal("channel %p is destroyed while a caller waits on it", (void *)chan);
    }
    weft__os_free(chan);
}

int weft_chan_close(weft_chan *chan)
{
    if (chan == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    struct chan_wait *claimed = NULL, *wait;
    bool fiber = enter_if_fiber();
    latch_acquire(&chan->latch);
    int error = atomic_u32_load_relaxed(&chan->closed) ? -ESHUTDOWN : 0;
    atomic_u32_store_relaxed(&chan->closed, 1);
    while ((wait = claim_first(&chan->receivers, -ESHUTDOWN)) != NULL ||
           (wait = claim_first(&chan->senders, -ESHUTDOWN)) != NULL) {
        wait->next = claimed;
        claimed = wait;
    }
    latch_release(&chan->latch);
    while (claimed != NULL) {
        wait = claimed;
        claimed = wait->next; /* before the wake, after which the wait is gone */
        weft__wake(wait->waiter);
    }
    leave_if_fiber(fiber);
    return error;
}

size_t weft_chan_length(const weft_chan *chan)
{
    return chan != NULL ? atomic_u64_load_relaxed(&chan->length) : 0;
}

size_t weft_chan_capacity(const weft_chan *chan)
{
    return chan != NULL ? chan->capacity : 0;
}

int weft_chan_closed(const weft_chan *chan)
{
    return chan != NULL && atomic_u32_load_relaxed(&chan->closed);
}
