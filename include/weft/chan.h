/*
 * weft/chan.h: channels: hand values from one fiber or thread to another.
 *
 * A channel carries elements of one size, copied in and out. With a capacity it holds up to that many
 * elements; without (0) each send waits for its receive and the element goes straight from one to the
 * other. First come, first served, on both sides. A thread may send and a fiber receive, or the other
 * way round.
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
 * Close says that no more elements will come. What is in the channel can still be received; then
 * receive says -ESHUTDOWN, at once and for ever. A send to a closed channel is the error -ESHUTDOWN, and
 * the element stays the sender's.
 *
 * Waiting ends also by a deadline (-ETIMEDOUT) or when the context that the caller is bound to
 * (weft/context.h) is cancelled. Then the element was not sent, or none was received: nothing is lost.
 *
 * To wait for several channels at once: weft/select.h.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_chan weft_chan;

/* Makes a channel for elements of `element_size` bytes, holding up to `capacity` of them. A size of 0
 * is fine: such a channel carries events without content.
 * Returns 0; -EINVAL if chan is NULL or the buffer would be larger than memory can be; -ENOMEM.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_make(weft_chan **chan, size_t element_size, size_t capacity);

/* Frees a channel; what is in it is forgotten. Destroying one that somebody waits on is a bug of the
 * program: it is reported and the process aborts. Whoever received the last element, or learned that the
 * channel is closed, may destroy it at once, although the call of the other side may not have returned
 * yet. (But calls that give up, by a deadline or a context, have to return first; and a select that waits
 * on the channel too, unless this channel is the one that ended it.) NULL is fine.
 * Contexts: fiber, thread. Undefined: any use during or after it. */
WEFT_API void weft_chan_destroy(weft_chan *chan);

/* Sends a copy of *element; waits while there is no room (or, without a capacity, no receiver). NULL
 * is allowed if the size is 0.
 * Returns 0; -ESHUTDOWN if the channel is closed, or gets closed meanwhile; -ECANCELED or -ETIMEDOUT
 * if the caller's context is cancelled while it would have to wait; -EINVAL if an argument is NULL;
 * -ECHILD in a forked child. Whatever the error, the element was not sent.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_send(weft_chan *chan, const void *element);

/* The same with a deadline. Returns also -ETIMEDOUT. */
WEFT_API WEFT_MUST_USE int weft_chan_send_until(weft_chan *chan, const void *element,
                                                int64_t deadline);

/* The same without waiting. Returns -EAGAIN if it would have to wait. */
WEFT_API WEFT_MUST_USE int weft_chan_try_send(weft_chan *chan, const void *element);

/* Receives an element into *element; waits while there is none. NULL drops the element.
 * Returns 0; -ESHUTDOWN if the channel is closed and nothing is left in it; -ECANCELED, -ETIMEDOUT,
 * -EINVAL, -ECHILD as for send. Whatever the error, nothing was received and *element is untouched.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_chan_receive(weft_chan *chan, void *element);

/* The same with a deadline. Returns also -ETIMEDOUT. */
WEFT_API WEFT_MUST_USE int weft_chan_receive_until(weft_chan *chan, void *element,
                                                   int64_t deadline);

/* The same without waiting. Returns -EAGAIN if it would have to wait. */
WEFT_API WEFT_MUST_USE int weft_chan_try_receive(weft_chan *chan, void *element);

/* Closes the channel and wakes everyone who waits on it: receivers and senders get -ESHUTDOWN.
 * Returns 0; -ESHUTDOWN if it was closed before; -EINVAL if chan is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_chan_close(weft_chan *chan);

/* How many elements are in it, as it was a moment ago; how many it can hold; 1 if it is closed. All 0
 * for NULL.
 * Contexts: fiber, thread. */
WEFT_API size_t weft_chan_length(const weft_chan *chan);
WEFT_API size_t weft_chan_capacity(const weft_chan *chan);
WEFT_API int weft_chan_closed(const weft_chan *chan);

WEFT_END

#endif
