/*
 * rate.c: tasks that begin at a rate: weft_pool_options.limiter.
 *
 * Problem. Each task begins with a token, an event of a limiter that other pools and callers may
 * share. A token belongs to the task that is next when it comes, not to the one that was next when
 * it was asked for; while the pool waits for it nothing holds a place; and a token that no task
 * needs any more goes back.
 *
 * Pattern. All tasks of such a pool are taken one by one under the latch (`singly`: no inboxes, no
 * outboxes). A worker that has a place and finds a task ready takes a token first, and then the
 * task that is next. If there is no token it gives up its place, waits in the limiter's line like
 * any other caller, and looks again when it has the token: so a task of high priority that comes
 * meanwhile goes first. One worker at a time waits for its pool (`awaits`).
 *
 * Invariants, under the latch:
 *
 *     tokens     taken and not used: their tasks were skipped, or had no place any more
 *     unused     after a dispatch tokens > 0 only while a task is ready and the pool is not paused
 *     waiting    after a dispatch a worker is in the limiter's line only while that is so
 *     progress   as in pool_internal.h; a worker that awaits a token counts as woken
 *
 * A call that takes tasks out of the queue, or pauses the pool, dispatches in the same hold of the
 * latch. If nothing is left that may begin, weft__rate_return_tokens gives the tokens back and
 * expels the worker from the limiter's line. The worker looks again: it rests, or ends. So neither
 * an abort nor a close after it waits for a token, and the takes behind it in the limiter's line
 * move up.
 *
 *     worker                                   abort, pause, cancel
 *     latch: no token; awaits = 1
 *     unlatch                                  latch: takes the last task out
 *                                              awaits, not in line: no expulsion; unlatch
 *     latch: none is ready: awaits = 0
 *
 *     latch: one is ready; stands in line      latch: takes the last task out
 *     unlatch, parks                           in line: expelled, to be woken; unlatch
 *     woken; latch: awaits = 0                 (or granted before: the worker brings the token, and
 *     looks again, dispatches                  gives it back when it dispatches)
 *
 * A task that is submitted while a worker awaits starts no other (weft__pool_could_use_worker):
 * that worker looks again whatever it is woken by.
 *
 * Lock order: the pool's latch, then the limiter's. The limiter's lock is held until the worker has
 * parked (park.h), the pool's latch only until the take stands in line.
 *
 * Rejected: docs/design/pool.md.
 */
#include "pool/rate.h"

#include <errno.h>

#include "sync/waiters.h"

static bool wants_token(const weft_pool *pool)
{
    return !pool->paused && atomic_i64_load_relaxed(&pool->ready) > 0;
}

bool weft__rate_take(weft_pool *pool)
{
    struct rate *rate = &pool->rate;
    if (atomic_i64_load_relaxed(&pool->ready) == 0)
        return false;
    if (rate->tokens == 0) {
        rate->lacks = !weft__limiter_take_now(rate->limiter);
        return !rate->lacks;
    }
    rate->tokens--;
    return true;
}

bool weft__rate_take_for_caller(weft_pool *pool)
{
    return weft__limiter_take_now(pool->rate.limiter);
}

void weft__rate_unused(weft_pool *pool)
{
    pool->rate.tokens++;
}

bool weft__rate_claim(weft_pool *pool)
{
    struct rate *rate = &pool->rate;
    bool claims = rate->lacks && !rate->awaits;
    rate->lacks = false;
    rate->awaits |= claims;
    return claims;
}

void weft__rate_return_tokens(weft_pool *pool, struct deferred_wakes *wakes)
{
    struct rate *rate = &pool->rate;
    if ((rate->tokens == 0 && !rate->in_line) || wants_token(pool))
        return;
    for (; rate->tokens > 0; rate->tokens--)
        weft__limiter_give_back(rate->limiter, &wakes->woken);
    if (rate->in_line)
        weft__limiter_expel(rate->limiter, &rate->take, &wakes->woken);
}

void weft__rate_await(weft_pool *pool)
{
    struct rate *rate = &pool->rate;
    latch_acquire(pool->latch);
    if (wants_token(pool)) {
        rate->in_line = true;
        int error = weft__limiter_await(rate->limiter, &rate->take, pool_unlock, pool);
        latch_acquire(pool->latch);
        rate->in_line = false;
        rate->tokens += error == 0;
    }
    rate->awaits = false;
    latch_release(pool->latch);
}
