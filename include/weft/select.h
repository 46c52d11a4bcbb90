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
 * Exactly one case happens. If several can, one of them is chosen at random, each with the same chance.
 * A case whose chan is NULL is disabled: it never happens. The same channel may stand in several
 * cases, in both directions. Timers take part as channels: weft/ticker.h; so do contexts:
 * weft_context_done.
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

/* Waits until one of the cases can happen, and does it. A case on a closed channel can always happen
 * (a receive, when nothing is left in it), with the result -ESHUTDOWN. Up to 16 cases need no memory.
 * Returns the index of the case, whose `result` is set; -ECANCELED or -ETIMEDOUT if the caller's
 * context is cancelled while it would have to wait; -EINVAL if count is negative, a case has no valid
 * op, or an element to send is NULL where one is needed; -ENOMEM (more than 16 cases, or a compact fiber); -ECHILD in
 * a forked child. On an error no case has happened. With no enabled case it waits
 * for ever, or until its context is cancelled.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_select(weft_case *cases, int count);

/* The same with a deadline. Returns also -ETIMEDOUT. */
WEFT_API WEFT_MUST_USE int weft_select_until(weft_case *cases, int count, int64_t deadline);

/* The same without waiting (a select with a default). Returns -EAGAIN if no case can happen now. */
WEFT_API WEFT_MUST_USE int weft_select_try(weft_case *cases, int count);

WEFT_END

#endif
