/*
 * calls.c: the calls by which tasks come: one, or many, with options or without.
 *
 * Most offers need nothing that submit.c is for: a plain task, for a pool that has room and takers enough, with nobody in
 * line. Those go into the queue under the latch, or on a tray (tray.c); the others are offered to submit.c.
 */
#include <errno.h>
#include <string.h>

#include "pool/pool.h"
#include "sched/compact.h"

/* The common case in short: a plain task for a pool that is open and has room, with nobody in line, and takers
 * enough, so that nothing follows from it. Under the latch. */
static bool offer_latched(weft_pool *pool, void (*function)(void *), void *arg)
{
    int64_t ready = atomic_i64_load_relaxed(&pool->ready);
    if (pool->state != POOL_OPEN || pool->mixed || pool->blocked.length > 0 ||
        pool->inside + 1 >= pool_limit(pool) || !weft__pool_takers_suffice(pool, ready + 1) ||
        !queue_push_plain(&pool->queues[queue_of(WEFT_NORMAL)], function, arg))
        return false;
    pool->inside++;
    pool->stats.submitted++;
    change_ready(pool, 1);
    return true;
}

/* The tray of the processor is full, or not open. The caller has entered the runtime. */
static noinline bool offer_on_new_tray(weft_pool *pool, void (*function)(void *), void *arg)
{
    struct errands errands = {.first = NULL};
    latch_acquire(&pool->latch);
    bool done = weft__tray_renew(pool) ? weft__tray_lay(pool, function, arg)
                                       : offer_latched(pool, function, arg);
    if (!done)
        weft__pool_settle(pool, &errands); /* a tray may have been closed */
    latch_release(&pool->latch);
    if (unlikely(weft__pool_run(pool, &errands)))
        weft__pool_give_up(pool);
    return done;
}

/* By a fiber. */
static bool offer_on_tray(weft_pool *pool, void (*function)(void *), void *arg)
{
    (void)runtime_enter(thread_self());
    bool done = weft__tray_lay(pool, function, arg) || offer_on_new_tray(pool, function, arg);
    runtime_leave(thread_self());
    return done;
}

static bool offer_quickly(weft_pool *pool, void (*function)(void *), void *arg)
{
    if (weft__runtime_forked())
        return false;
    if (atomic_u32_load_relaxed(&pool->uses_trays) && weft_self() != NULL)
        return offer_on_tray(pool, function, arg);
    if (!latch_try(&pool->latch))
        return false;
    bool done = offer_latched(pool, function, arg);
    if (done && !atomic_u32_load_relaxed(&pool->uses_trays) && weft__pool_suits_trays(pool))
        atomic_u32_store_relaxed(&pool->uses_trays, 1);
    latch_release(&pool->latch);
    return done;
}

static int offer_plain(weft_pool *pool, void (*function)(void *), void *arg, int64_t deadline,
                       bool tries)
{
    if (unlikely(pool == NULL || function == NULL))
        return -EINVAL;
    compact_check_task(arg);
    if (likely(offer_quickly(pool, function, arg)))
        return 0;
    struct offer offer = {
        .task = {.function = function, .arg = arg}, .deadline = deadline, .tries = tries};
    return weft__pool_offer(pool, &offer);
}

int weft_pool_submit(weft_pool *pool, void (*function)(void *), void *arg)
{
    return offer_plain(pool, function, arg, WEFT_NEVER, false);
}

int weft_pool_submit_until(weft_pool *pool, void (*function)(void *), void *arg, int64_t deadline)
{
    return offer_plain(pool, function, arg, deadline, false);
}

int weft_pool_try_submit(weft_pool *pool, void (*function)(void *), void *arg)
{
    return offer_plain(pool, function, arg, WEFT_NOW, true);
}

static void (*bound_function(const weft_pool *pool))(void *)
{
    return pool != NULL ? pool->options.function : NULL;
}

int weft_pool_invoke(weft_pool *pool, void *arg)
{
    return offer_plain(pool, bound_function(pool), arg, WEFT_NEVER, false);
}

int weft_pool_invoke_until(weft_pool *pool, void *arg, int64_t deadline)
{
    return weft_pool_submit_until(pool, bound_function(pool), arg, deadline);
}

int weft_pool_try_invoke(weft_pool *pool, void *arg)
{
    return offer_plain(pool, bound_function(pool), arg, WEFT_NOW, true);
}

int weft_pool_submit_with(weft_pool *pool, void (*function)(void *), void *arg,
                          const weft_submit_options *options)
{
    static const weft_submit_options defaults;
    struct offer offer;
    if (options == NULL)
        options = &defaults;
    if (pool == NULL || function == NULL || !weft__offer_from(&offer, options) ||
        (options->copy != 0 && arg == NULL))
        return -EINVAL;
    if (options->copy == 0)
        compact_check_task(arg);
    offer.task.function = function;
    offer.task.arg = arg;
    offer.copy = (uint16_t)options->copy;
    return weft__pool_offer(pool, &offer);
}

bool weft__offer_from(struct offer *offer, const weft_submit_options *options)
{
    static const weft_submit_options none;
    if (options->priority < WEFT_LOW || options->priority > WEFT_HIGH ||
        options->copy > WEFT_COPY_MAX ||
        memcmp(options->reserved, none.reserved, sizeof none.reserved) != 0)
        return false;
    *offer = (struct offer){.task = {.priority = (int8_t)options->priority},
                            .key = options->key,
                            .deadline = options->deadline != 0 ? options->deadline : WEFT_NEVER};
    return true;
}

/* Admits as many as there is room for, under one latch. */
static int64_t offer_many(weft_pool *pool, void (*function)(void *), void *const *args,
                          int64_t count)
{
    struct errands errands = {.first = NULL};
    int64_t done = 0;
    if (weft__runtime_forked())
        return 0;
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    weft__pool_collect(pool);
    while (done < count && pool->state == POOL_OPEN && pool->blocked.length == 0 &&
           pool->inside < pool_limit(pool)) {
        struct offer offer = {.task = {.function = function, .arg = args[done]}};
        compact_check_task(args[done]);
        if (weft__pool_admit_one(pool, &offer) != 0)
            break;
        done++;
    }
    weft__pool_finish(pool, &errands, fiber);
    return done;
}

int64_t weft_pool_submit_batch(weft_pool *pool, void (*function)(void *), void *const *args,
                               int64_t count, int64_t deadline)
{
    if (function == NULL)
        function = bound_function(pool);
    if (pool == NULL || function == NULL || count < 0 || (args == NULL && count > 0))
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    if (!weft__caller_is_known())
        return -ENOMEM;
    int64_t done = 0;
    int error = 0;
    latch_acquire(&pool->latch);
    pool->visitors++; /* it may be closed before the last of them */
    latch_release(&pool->latch);
    while (done < count && error == 0) {
        done += offer_many(pool, function, args + done, count - done);
        if (done < count &&
            (error = weft_pool_submit_until(pool, function, args[done], deadline)) == 0)
            done++;
    }
    weft__pool_leave(pool);
    return done > 0 || error == 0 ? done : error;
}
