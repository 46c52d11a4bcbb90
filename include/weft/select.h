/*
 * weft/select.h: wait for the first of several channel operations that can go ahead.
 *
 *     weft_case cases[] = {
 *         {.chan = requests, .op = WEFT_RECEIVE, .element = &request},
 *         {.chan = replies, .op = WEFT_SEND, .element = &reply},
 *     };
 *     switch (weft_select(cases, 2)) {
 *     case 0:
 *         if (cases[0].result == -ESHUTDOWN)
 *             ...     no more requests
 *         ...         a request came
 *     case 1: ...     the reply was sent, if cases[1].result is 0
 *     default: ...    an error, say -ECANCELED
 *     }
 *
 * Exactly one case happens. If several can happen at the call, one of them is chosen at random,
 * each with the same probability. A case whose chan is NULL is disabled: it never happens. The same
 * channel may stand in several cases, in both directions; a select does not meet itself. Timers
 * take part as channels (weft/ticker.h), and so do contexts (weft_context_done) and groups
 * (weft_group_done).
 */
#ifndef WEFT_SELECT_H
#define WEFT_SELECT_H

#include <weft/base.h>
#include <weft/chan.h>
#include <weft/time.h>

WEFT_BEGIN

enum { WEFT_SEND = 1, WEFT_RECEIVE = 2 };

typedef struct weft_case {
    weft_chan *chan; /* NULL: disabled */
    int op;          /* WEFT_SEND or WEFT_RECEIVE */
    int result;      /* of the case that happened: 0, or -ESHUTDOWN if its channel is closed */
    void *element;   /* to send, or where to receive, as in weft/chan.h */
} weft_case;

/* Waits until one of the cases can happen, and does it. A case on a closed channel can always
 * happen, with the result -ESHUTDOWN; a receive only once no element is left in the channel.
 * Without an enabled case the call waits until its context is cancelled.
 * Returns the index of the case that happened, whose `result` is set; -ECANCELED or -ETIMEDOUT if
 * the caller's context is cancelled and the call would have to wait; -EINVAL if count is negative,
 * cases is NULL and count is not 0, an enabled case has another op, or an element to send is NULL
 * and the element size is not 0; -ENOMEM if no case looks ready and there are more than 16 cases or
 * the caller is a compact fiber (else no memory is needed); -ECHILD in a forked child. On an error
 * no case has happened and no `result` is set.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_select(weft_case *cases, int count);

/* Does one of the cases as weft_select does, and waits for one at most until `deadline`.
 * Returns as weft_select; -ETIMEDOUT also if the deadline has passed and no case can happen.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_select_until(weft_case *cases, int count, int64_t deadline);

/* Does one of the cases if one can happen now: a select with a default.
 * Returns the index of the case that happened; -EAGAIN if none can happen now; -EINVAL, -ENOMEM and
 * -ECHILD as weft_select.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_select_try(weft_case *cases, int count);

WEFT_END

#endif
