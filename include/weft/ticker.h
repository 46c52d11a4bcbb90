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
 * tick: a receiver that is late gets that one, and those it missed meanwhile are dropped, not queued.
 * No tick is ever early.
 */
#ifndef WEFT_TICKER_H
#define WEFT_TICKER_H

#include <weft/base.h>
#include <weft/chan.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_ticker weft_ticker;

/* Opens a ticker that ticks at `deadline` (one that has passed: at once; WEFT_NEVER: not before it is
 * reset), and then, if period is not 0, every `period` after that, without drift.
 * Returns 0; -EINVAL if ticker is NULL or period negative; or as weft_go.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_ticker_open(weft_ticker **ticker, int64_t deadline, int64_t period);

/* The channel: valid until the ticker is closed. Never send to it, close or destroy it. NULL for NULL.
 * Contexts: fiber, thread. */
WEFT_API weft_chan *weft_ticker_chan(weft_ticker *ticker);

/* Sets it anew, as weft_ticker_open does. A tick from before that nobody has received is gone: what is
 * received after this returns is of the new setting.
 * Returns 0; -EINVAL if ticker is NULL or period negative; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_ticker_reset(weft_ticker *ticker, int64_t deadline, int64_t period);

/* Stops it: nothing can be received after this returns until it is reset.
 * Returns and contexts: as weft_ticker_reset. */
WEFT_API int weft_ticker_stop(weft_ticker *ticker);

/* Stops the ticker and frees it, its channel too. Nobody may wait on the channel: that is reported as
 * for weft_chan_destroy. NULL is -EINVAL.
 * Returns 0, -EINVAL, or -ECHILD in a forked child.
 * Contexts: fiber, thread. Undefined: any use during or after it. */
WEFT_API int weft_ticker_close(weft_ticker *ticker);

WEFT_END

#endif
