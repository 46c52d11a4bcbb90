/*
 * weft/chan.h: channels: hand values from one fiber or thread to another.
 *
 * A channel carries elements of one size, which are copied in and out. A channel with a capacity
 * buffers up to that many elements. A channel without one (capacity 0) makes each send wait for its
 * receive, and the element goes straight from one caller to the other. Senders and receivers that
 * wait are each served in the order in which they came. Fibers and threads may use a channel in any
 * mix.
 *
 *     weft_chan *numbers;
 *     if (weft_chan_make(&numbers, sizeof(int), 0) != 0)
 *         return 1;
 *     ...
 *     int n = 42;
 *     error = weft_chan_send(numbers, &n);            // in one fiber
 *     ...
 *     while (weft_chan_receive(numbers, &n) == 0)     // in another: until it is closed and empty
 *         printf("%d\n", n);
 *
 * Closing a channel says that no more elements will come. The elements in it can still be received;
 * after them each receive returns -ESHUTDOWN at once. A send to a closed channel returns
 * -ESHUTDOWN, and the element stays with the sender.
 *
 * A wait also ends at a deadline (-ETIMEDOUT), or when the context that the caller is bound to
 * (weft/context.h) is cancelled. Then the element was not sent, or none was received: no element is
 * lost.
 *
 * weft/select.h waits for several channels at once.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_chan weft_chan;

/* Makes a channel for elements of `element_size` bytes with a buffer for `capacity` of them.
 * Elements of size 0 are events without content; their buffer needs no memory, whatever the
 * capacity.
 * Returns 0; -EINVAL if chan is NULL or the buffer would be larger than PTRDIFF_MAX bytes; -ENOMEM.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_make(weft_chan **chan, size_t element_size, size_t capacity);

/* Frees a channel, with the elements that are in it. NULL is allowed. A channel on which a caller
 * waits is reported, and the process aborts (in a forked child the channel is freed: its waiters
 * are in the parent).
 *
 * The caller that received the last element, or learned that the channel is closed, may destroy it
 * at once, even if the call of the other side has not returned yet. These calls have to return
 * first: a call that gives up at a deadline or by its context, and a select that waits on the
 * channel, unless this channel decided that select.
 * Contexts: fiber, thread.
 * Undefined: any use during or after it. */
WEFT_API void weft_chan_destroy(weft_chan *chan);

/* Sends a copy of *element. Waits while the buffer is full or, without a buffer, until a receiver
 * comes. `element` may be NULL if the element size is 0.
 * Returns 0; -ESHUTDOWN if the channel is closed, or is closed during the wait; -ECANCELED or
 * -ETIMEDOUT if the caller's context is cancelled and the call would have to wait; -EINVAL if chan
 * is NULL, or element is NULL and the element size is not 0; -ECHILD in a forked child. On an error
 * the element was not sent.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_send(weft_chan *chan, const void *element);

/* Sends a copy of *element as weft_chan_send does, and waits at most until `deadline`.
 * Returns as weft_chan_send; -ETIMEDOUT also if the deadline has passed and the call would have to
 * wait.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_send_until(weft_chan *chan, const void *element,
                                                int64_t deadline);

/* Sends a copy of *element if that needs no waiting.
 * Returns 0; -EAGAIN if it would have to wait; -ESHUTDOWN, -EINVAL and -ECHILD as weft_chan_send.
 * On an error the element was not sent.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_try_send(weft_chan *chan, const void *element);

/* Receives an element into *element. Waits while there is none. With element NULL the received
 * element is dropped.
 * Returns 0; -ESHUTDOWN if the channel is closed and no element is left in it, or that becomes so
 * during the wait; -ECANCELED or -ETIMEDOUT if the caller's context is cancelled and the call would
 * have to wait; -EINVAL if chan is NULL; -ECHILD in a forked child. On an error no element was
 * received and *element is untouched.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_receive(weft_chan *chan, void *element);

/* Receives an element as weft_chan_receive does, and waits at most until `deadline`.
 * Returns as weft_chan_receive; -ETIMEDOUT also if the deadline has passed and the call would have
 * to wait.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_receive_until(weft_chan *chan, void *element,
                                                   int64_t deadline);

/* Receives an element into *element if that needs no waiting; with element NULL it is dropped.
 * Returns 0; -EAGAIN if it would have to wait; -ESHUTDOWN, -EINVAL and -ECHILD as
 * weft_chan_receive. On an error no element was received and *element is untouched.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_try_receive(weft_chan *chan, void *element);

/* Closes the channel. All calls that wait on it return -ESHUTDOWN.
 * Returns 0; -ESHUTDOWN if it was closed before; -EINVAL if chan is NULL; -ECHILD in a forked
 * child.
 * Contexts: fiber, thread. */
WEFT_API int weft_chan_close(weft_chan *chan);

/* The number of elements in the buffer, as it was a moment ago; 0 for NULL.
 * Contexts: fiber, thread. */
WEFT_API size_t weft_chan_length(const weft_chan *chan);

/* The number of elements that the buffer can hold; 0 for NULL.
 * Contexts: fiber, thread. */
WEFT_API size_t weft_chan_capacity(const weft_chan *chan);

/* 1 if the channel is closed, whether or not elements are left in it; else 0. 0 for NULL.
 * Contexts: fiber, thread. */
WEFT_API int weft_chan_closed(const weft_chan *chan);

WEFT_END

#endif
