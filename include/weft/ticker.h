/*
 * weft/ticker.h: timers as channels: receive the time when it has come, once or periodically.
 *
 *     weft_ticker *ticker;
 *     if (weft_ticker_open(&ticker, weft_after(WEFT_S), 100 * WEFT_MS) != 0)
 *         return 1;
 *     weft_case cases[] = {
 *         {.chan = weft_ticker_chan(ticker), .op = WEFT_RECEIVE, .element = &now},
 *         {.chan = work, .op = WEFT_RECEIVE, .element = &job},
 *     };
 *
 * The element is an int64_t: the time of the tick on weft's clock (weft_now). The channel holds one
 * tick: a late receiver gets that one, and the ticks that came after it are dropped, not queued. No
 * tick is early.
 */
#ifndef WEFT_TICKER_H
#define WEFT_TICKER_H

#include <weft/base.h>
#include <weft/chan.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_ticker weft_ticker;

/* Opens a ticker that ticks at `deadline`, and then, if period is not 0, every `period` after that,
 * without drift. A deadline that has passed: it ticks at once. WEFT_NEVER: it does not tick before
 * it is reset.
 * Returns 0; -EINVAL if ticker is NULL or period is negative; or as weft_go.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_ticker_open(weft_ticker **ticker, int64_t deadline, int64_t period);

/* The ticker's channel, which exists until the ticker is closed; NULL for NULL.
 * Contexts: fiber, thread.
 * Undefined: sending to the channel, closing it, destroying it. */
WEFT_API weft_chan *weft_ticker_chan(weft_ticker *ticker);

/* Sets the ticker anew, as weft_ticker_open does. An earlier tick that was not received is dropped:
 * after the call only ticks of the new setting are received.
 * Returns 0; -EINVAL if ticker is NULL or period is negative; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_ticker_reset(weft_ticker *ticker, int64_t deadline, int64_t period);

/* Stops the ticker: after the call no tick is received until the ticker is reset.
 * Returns 0; -EINVAL if ticker is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_ticker_stop(weft_ticker *ticker);

/* Stops the ticker and frees it, its channel too. A caller that waits on the channel is reported as
 * by weft_chan_destroy.
 * Returns 0; -EINVAL if ticker is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread.
 * Undefined: any use during or after it. */
WEFT_API int weft_ticker_close(weft_ticker *ticker);

WEFT_END

#endif
