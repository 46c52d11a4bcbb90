/*
 * chan.c: channels.
 *
 * A channel is a latch, a ring of elements, and two lines of waiters. Under the latch one of these
 * holds:
 *   - nobody who has not given up waits to receive, or the ring is empty;
 *   - nobody who has not given up waits to send, or the ring is full.
 * So a send first looks for a receiver and gives it the element straight into its own memory; a receive
 * takes the oldest element and lets the first sender put its own in the place that became free, or,
 * without a ring, takes it straight from that sender's memory.
 *
 * The one who finds a waiter claims it (sched/core/park.h), does its half of the operation, notes the result
 * in its wait, releases the latch, and wakes it. The memory of the wait is on the waiter's stack: it is
 * touched under the latch, or between claim and wake. A compact fiber (sched/fiber/compact.h) has it elsewhere, and
 * the element with it.
 *
 *     claim fails    the waiter has given up, or another channel of its select was faster: it is taken
 *                    out of the line and the next one is tried. It takes the latch itself before it
 *                    leaves, so its wait is still there.
 *
 * Who may free the channel? A party whose operation was done by the other side does not touch the
 * channel again: the release of the latch was the last touch of the other side, and its own was the
 * park. So the receiver of the last element may destroy the channel although the sender's call has not
 * returned yet. A select that won on a channel keeps to this too: all its waits on that channel (the
 * ring of siblings) are taken out of the lines by the one who claims it.
 *
 * Handing over. The woken one becomes the next to run on this processor (runnext), and when the caller
 * parks it switches to it directly, without passing through the machine: two switches for two elements
 * in a row of unbuffered hand-overs.
 *
 * Lock order: several latches are taken by select, in the order of their addresses.
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
    should(size == 0 || from != NULL); /* who sends none is told so */
    if (likely(size == 8 && to != NULL))
        memcpy(to, from, 8);
    else
        copy_any(to, from, size);
}

/* The place of an element, given how far from the first place it is, going round. */
static always_inline void *place(weft_chan *chan, size_t index)
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

/* Takes the first in line that can still be served, with all its siblings; NULL if there is none. It is
 * claimed: the caller does its operation and wakes it. */
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
    copy(place(chan, chan->head + length), element, chan->element_size);
    atomic_u64_store_relaxed(&chan->length, length + 1);
    return 0;
}

static always_inline int attempt_receive(weft_chan *chan, void *element, struct waiter **wake)
{
    uint64_t length = atomic_u64_load_relaxed(&chan->length);
    if (length > 0) {
        copy(element, place(chan, chan->head), chan->element_size);
        chan->head = chan->head + 1 < chan->capacity ? chan->head + 1 : 0;
        atomic_u64_store_relaxed(&chan->length, length - 1);
    }
    struct chan_wait *sender = claim_first(&chan->senders, 0);
    if (sender != NULL) {
        if (length == 0) {
            copy(element, sender->element, chan->element_size);
        } else {
            copy(place(chan, chan->head + length - 1), sender->element, chan->element_size);
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

/* Waits in line; the latch is held, and released, and a fiber is inside the runtime, and leaves it. The
 * last that an operation does: see context_call. */
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

/* There is no memory to wait with: gives the latch back, leaves the runtime, and tries some time later. -EAGAIN: in
 * vain, and it has the latch again, and is in the runtime. */
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

/* The same for a compact fiber. */
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
        latch_acquire(&chan->latch); /* so that who held it last is done with the channel */
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
        claimed = wait->next; /* it is gone once its owner is woken */
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
