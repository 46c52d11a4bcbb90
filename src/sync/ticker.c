/*
 * ticker.c: tickers: timers as channels.
 *
 * A ticker is a timer (sched/time/timer.c) whose function sends the time to a channel that holds
 * one tick. A tick that finds the channel full is dropped.
 *
 * No stale tick. A call of the timer's function that has begun cannot be stopped, and may belong to
 * a setting that is over. So the function sends under the mutex, and only if `next` has come by the
 * clock (it is WEFT_NEVER in a ticker that is stopped). Reset and stop set `next`, and empty the
 * channel, under the same mutex. A late call of an old setting then finds:
 *
 *     the new time has not come    it sends nothing
 *     the new time has come        it sends what the call of the new setting would have sent. That
 *                                  must not send a second tick: the function that sends moves
 *                                  `next` on by the period, as the timer does, so the other call
 *                                  finds that the time has not come
 *
 * The lock is a mutex of fibers: the calls under it enter the runtime, and a fiber that does so may
 * have to wait for a processor. A lock of threads would meanwhile block the threads of fibers that
 * want it, and with them perhaps the processor that its holder waits for.
 *
 * Lock order: the ticker's mutex, then the channel's latch and what the timer takes.
 */
#include <errno.h>
#include <weft/mutex.h>
#include <weft/ticker.h>
#include <weft/timer.h>

#include "sched/check/seeded.h"
#include "sched/runtime/runtime.h"

struct weft_ticker {
    weft_mutex mutex;
    int64_t next;   /* when the next tick is due; WEFT_NEVER: never; mutex */
    int64_t period; /* mutex */
    weft_timer *timer;
    weft_chan *chan;
};

/* The first time after `now` that is a number of periods after `deadline`. */
static int64_t time_after(int64_t deadline, int64_t period, int64_t now)
{
    int64_t next;
    if (period == 0)
        return WEFT_NEVER;
    if (__builtin_add_overflow(deadline + (now - deadline) / period * period, period, &next))
        return WEFT_NEVER;
    return next;
}

static void tick(void *arg)
{
    struct weft_ticker *ticker = arg;
    weft_mutex_lock(&ticker->mutex);
    int64_t now = weft__now();
    if (now >= ticker->next) {
        ticker->next = time_after(ticker->next, ticker->period, now);
        int full = weft_chan_try_send(ticker->chan, &now);
        (void)full; /* then this tick is dropped */
    }
    weft_mutex_unlock(&ticker->mutex);
}

static int set(weft_ticker *ticker, int64_t deadline, int64_t period)
{
    weft_mutex_lock(&ticker->mutex);
    while (weft_chan_try_receive(ticker->chan, NULL) == 0)
        continue;
    ticker->next = deadline > 0 ? deadline : weft__now();
    ticker->period = period;
    int result = weft_timer_start(ticker->timer, ticker->next, period);
    weft_mutex_unlock(&ticker->mutex);
    return result < 0 ? result : 0;
}

int weft_ticker_open(weft_ticker **out, int64_t deadline, int64_t period)
{
    if (out == NULL || period < 0)
        return -EINVAL;
    struct weft_ticker *ticker = weft__os_alloc_zeroed(sizeof *ticker);
    if (ticker == NULL)
        return -ENOMEM;
    int error = weft_chan_make(&ticker->chan, sizeof(int64_t), 1);
    if (error == 0)
        error = weft_timer_open(&ticker->timer, tick, ticker);
    if (error == 0) {
        (void)set(ticker, deadline, period);
        *out = ticker;
        return 0;
    }
    weft_chan_destroy(ticker->chan);
    weft__os_free(ticker);
    return error;
}

weft_chan *weft_ticker_chan(weft_ticker *ticker)
{
    return ticker != NULL ? ticker->chan : NULL;
}

int weft_ticker_reset(weft_ticker *ticker, int64_t deadline, int64_t period)
{
    if (ticker == NULL || period < 0)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    return set(ticker, deadline, period);
}

int weft_ticker_stop(weft_ticker *ticker)
{
    return weft_ticker_reset(ticker, WEFT_NEVER, 0);
}

int weft_ticker_close(weft_ticker *ticker)
{
    if (ticker == NULL)
        return -EINVAL;
    int error = weft_timer_close(ticker->timer);
    if (error != 0)
        return error;
    weft_mutex_destroy(&ticker->mutex);
    weft_chan_destroy(ticker->chan);
    weft__os_free(ticker);
    return 0;
}
