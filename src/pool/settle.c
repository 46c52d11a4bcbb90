/*
 * settle.c: what follows from a change: who is called, admitted, woken or made.
 *
 * Whoever changes something under the latch (tasks that are ready, places, workers, the state) settles: sees
 * to it that a worker is called if one is wanted, that submitters that fit are admitted, and that a stopping
 * pool in which nothing is left is stopped. What cannot be done under the latch is noted as errands, and run
 * when it is released: wake somebody, make a worker.
 *
 * Where task after task parks and nobody rests, a worker is needed for each task that is ready. Each would come by the latch
 * twice, as a taker: to take its task, and to pass the baton. So one who passes the baton has some helpers made as well: they are away from
 * the beginning, so they take out of the hand of their processor, and nobody is told when their tasks park. As many as
 * half of those that have parked in a row, so that a few who park do not bring many workers; and no more than there are tasks for, of which
 * those helpers have one each who have not come yet. They begin in the order in which they were made, behind all that is ready, and the taker who has more
 * made is behind them: so not many are made that have not begun, and workers whose tasks have ended go on before more are made. Where
 * the processor is busy with those, or with others, few are made at once: a worker costs as much as ten turns. And none who would not be in the ring, but behind
 * others in the inject queue.
 *
 * Where tasks end fast and are followed by others, those who end one take what is ready: to call one who rests for it as well is a turn
 * in vain for both, and a task of another's data. So while a fiber that submits naps in line, for 25 or 50 us, nobody who rests is called for as much as will be
 * taken in a few such naps; and the fiber, when it looks, calls if one is wanted then.
 *
 * takers + away <= capacity, but for the moment after the capacity was lowered, and for places that are lent.
 *
 * If no worker can be made and nobody else is there to run what is ready, the one who tried runs it itself, if it can: a worker whose task
 * is about to wait cannot. Then, and if all who are there wait, it is tried again whenever a fiber ends, and every few milliseconds
 * (weft__starve_outside): nothing that was admitted is stuck. The one who tried counts as a visitor until then, as do all calls that still need
 * the pool after the latch is released: a pool is not stopped before they have left.
 */
#include <errno.h>

#include "base/assert.h"
#include "pool/pool.h"

/* With more than CROWD fibers before them, no more than CROWDED helpers are made at once. */
enum { PUT_OFF_NAPS = 16, CROWD = 32, CROWDED = 3 };

/* Counting; under the latch. */

uint32_t weft__pool_count_ended(weft_pool *pool, struct worker *worker)
{
    uint32_t ended = atomic_u32_load_seq_cst(&worker->ended); /* pairs with chunk_take: pool.h */
    uint32_t more = ended - worker->counted;
    worker->counted = ended;
    pool->inside -= more;
    pool->stats.completed += more;
    return more;
}

void weft__pool_count(weft_pool *pool)
{
    for (struct worker *worker = worker_of(pool->takers.first); worker != NULL;
         worker = worker_of(worker->link.next))
        (void)weft__pool_count_ended(pool, worker);
    weft__hands_count(pool);
}

void weft__pool_collect(weft_pool *pool)
{
    trays_close(pool);
    weft__pool_count(pool);
}

int64_t weft__pool_busy(const weft_pool *pool)
{
    return pool->takers.length + pool->starting + pool->away - pool->lent;
}

int64_t weft__pool_lost(const weft_pool *pool)
{
    int64_t lost = 0;
    for (struct worker *worker = worker_of(pool->takers.first); worker != NULL;
         worker = worker_of(worker->link.next))
        lost += worker_lost(worker);
    return lost;
}

bool weft__pool_wants_taker(const weft_pool *pool, int64_t stuck)
{
    int64_t coming = pool->called + weft__pool_starting(pool);
    return !pool->paused && weft__pool_busy(pool) < pool->capacity &&
           weft__pool_takers(pool) - stuck < weft__sched.processor_count &&
           weft__pool_waits(pool, coming);
}

/* An idle worker, claimed with what it is to do; NULL if there is none. */
static struct worker *claim_idle(weft_pool *pool, bool oldest, int what)
{
    struct worker *worker;
    while ((worker = worker_of(oldest ? pool->idle.first : pool->idle.last)) != NULL) {
        line_leave(&pool->idle, &worker->link);
        worker->state = WORKER_TAKES; /* not idle any more, whoever claims it */
        if (waiter_claim(&worker->fiber->waiter, what))
            return worker;
    }
    return NULL;
}

static void count_new(weft_pool *pool, int64_t count)
{
    pool->workers += count;
    if (pool->workers > pool->stats.most_workers)
        pool->stats.most_workers = pool->workers;
}

void weft__pool_call_taker(weft_pool *pool, struct errands *errands)
{
    struct worker *worker = claim_idle(pool, pool->options.reuse == WEFT_FIFO, WORKER_WORK);
    if (worker != NULL) {
        line_add(&pool->takers, &worker->link);
        worker->called = true;
        pool->called++;
        errands_wake(errands, &worker->fiber->waiter);
    } else if (pool->failing == 0) {
        should(!errands->make_worker); /* it is asked for one */
        count_new(pool, 1);
        pool->starting++;
        errands->make_worker = true;
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void weft__pool_call_helpers(weft_pool *pool, struct errands *errands)
{
    if (pool->parked_in_row < 2 || pool->idle.length > 0 || pool->paused || pool->failing > 0 ||
        pool->options.isolate_crashes)
        return;
    int64_t ready = atomic_i64_load_relaxed(&pool->ready) - weft__helpers_coming(pool);
    int64_t places = pool->capacity - weft__pool_busy(pool);
    int64_t share = ready / (2 * weft__sched.processor_count);
    int64_t before = ring_length(thread_self()->processor);
    int64_t most = least(pool->parked_in_row / 2, before > CROWD ? CROWDED : PARKED_MOST);
    int64_t count = least(most, least(share, places));
    if (count <= 0 || before + count + 1 > RING_SIZE) /* elsewhere they would not begin soon */
        return;
    count_new(pool, count);
    pool->away += count;
    pool->helpers += (uint64_t)count;
    errands->make_helpers = (uint8_t)count;
}

bool weft__pool_end_oldest(weft_pool *pool, struct errands *errands)
{
    struct worker *worker = claim_idle(pool, true, WORKER_EXIT);
    if (worker != NULL)
        errands_wake(errands, &worker->fiber->waiter);
    return worker != NULL;
}

static void wake_all(void **list, struct errands *errands)
{
    struct waiter *waiter;
    while ((waiter = waiters_claim_first(list, 0)) != NULL)
        errands_wake(errands, waiter);
}

/* When nothing is left, who waits for that is told, and a stopping pool is stopped. */
static void conclude(weft_pool *pool, struct errands *errands)
{
    if (!weft__pool_is_quiet(pool))
        return;
    wake_all(&pool->watchers, errands);
    if (pool->state != POOL_STOPPING)
        return;
    while (weft__pool_end_oldest(pool, errands))
        continue;
    if (pool->workers > 0)
        return;
    pool->state = POOL_STOPPED;
    wake_all(&pool->stoppers, errands);
}

/* What those who wait need of the workers. */
static enum attention attention_wanted(const weft_pool *pool)
{
    if (pool->paused || pool->state != POOL_OPEN || weft__pool_busy(pool) > pool->capacity)
        return AT_ONCE;
    if (pool->blocked.length > pool->napping)
        return WHEN_ENDED;
    return pool->watchers != NULL || pool->watchers_coming > 0 ? WHEN_DONE : NO_ATTENTION;
}

void weft__pool_set_attention(weft_pool *pool)
{
    uint32_t attention = attention_wanted(pool);
    if (attention != atomic_u32_load_relaxed(&pool->attention))
        atomic_u32_exchange_seq_cst(&pool->attention,
                                    attention); /* pairs with chunk_take: pool.h */
}

bool weft__pool_puts_off(const weft_pool *pool)
{
    return unlikely(pool->put_off) && pool->idle.length > 0 &&
           atomic_i64_load_relaxed(&pool->ready) <= PUT_OFF_NAPS * pool->flow;
}

void weft__pool_call_wanted(weft_pool *pool, struct errands *errands)
{
    if (!weft__pool_takers_suffice(pool, atomic_i64_load_relaxed(&pool->ready)) &&
        weft__pool_wants_taker(pool, 0))
        weft__pool_call_taker(pool, errands);
}

void weft__pool_settle(weft_pool *pool, struct errands *errands)
{
    weft__pool_admit(pool, errands);
    if (!weft__pool_puts_off(pool))
        weft__pool_call_wanted(pool, errands);
    conclude(pool, errands);
    atomic_u32_store_relaxed(&pool->room, pool->inside < pool_limit(pool));
    weft__pool_set_attention(pool);
}

void weft__pool_finish(weft_pool *pool, struct errands *errands, bool fiber)
{
    weft__pool_settle(pool, errands);
    latch_release(&pool->latch);
    bool alone = weft__pool_run(pool, errands);
    leave_if_fiber(fiber);
    if (alone)
        weft__pool_do_without(pool);
}

/* A visit ends that kept the pool from stopping; the caller has entered the runtime. */
void weft__pool_leave_inside(weft_pool *pool)
{
    struct errands errands = {.first = NULL};
    latch_acquire(&pool->latch);
    pool->visitors--;
    conclude(pool, &errands);
    latch_release(&pool->latch);
    bool failed = weft__pool_run(pool, &errands);
    must(!failed);
}

void weft__pool_leave(weft_pool *pool)
{
    if (weft__runtime_forked())
        return;
    bool fiber = enter_if_fiber();
    weft__pool_leave_inside(pool);
    leave_if_fiber(fiber);
}

/* Places that are lent; and doing without workers. */

void weft__pool_lend(weft_pool *pool, int64_t places)
{
    struct errands errands = {.first = NULL};
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    pool->lent += places;
    weft__pool_settle(pool, &errands);
    latch_release(&pool->latch);
    if (weft__pool_run(pool, &errands))
        weft__pool_give_up(pool);
    leave_if_fiber(fiber);
}

/* With the latch held: takes a task, and a place, if nobody else is there to do it. Who is being made by rescue.c is awaited: if that
 * fails as well, rescue.c could not run what is ready. */
static bool take_alone(weft_pool *pool, struct task *task)
{
    while (unlikely(pool->rescue_makes)) {
        latch_release(&pool->latch);
        weft__sys_yield();
        latch_acquire(&pool->latch);
    }
    bool alone = weft__pool_busy(pool) == 0 && pool->idle.length == 0 && !pool->paused;
    bool found = alone && (weft__pool_pop(pool, task) || weft__pool_steal(pool, task));
    pool->away += found;
    return found;
}

/* Under the latch: tasks are ready, there would be a place, and nobody takes them or is about to. */
static bool lacks_taker(const weft_pool *pool)
{
    return pool->takers.length + pool->starting == 0 && weft__pool_wants_taker(pool, 0);
}

void weft__pool_give_up(weft_pool *pool)
{
    struct errands errands = {.first = NULL};
    latch_acquire(&pool->latch);
    if (pool->idle.length > 0)
        weft__pool_settle(pool, &errands);
    if (errands.make_worker) { /* the idle ones were gone */
        errands.make_worker = false;
        pool->workers--;
        pool->starting--;
    }
    bool lacks = lacks_taker(pool);
    pool->visitors--;
    conclude(pool, &errands);
    latch_release(&pool->latch);
    must(!weft__pool_run(pool, &errands)); /* it makes none */
    if (lacks)
        weft__starve_outside();
}

static void end_visit(weft_pool *pool)
{
    bool fiber = enter_if_fiber();
    weft__pool_give_up(pool);
    leave_if_fiber(fiber);
}

/* Runs them as one of the workers that are away. */
static void run_alone(weft_pool *pool)
{
    struct task task;
    latch_acquire(&pool->latch);
    bool found = take_alone(pool, &task);
    latch_release(&pool->latch);
    while (found) {
        struct errands errands = {.first = NULL};
        weft__pool_call_task(pool, &task);
        if (weft__runtime_forked())
            return;
        bool fiber = enter_if_fiber();
        latch_acquire(&pool->latch);
        pool->away--;
        pool->inside--;
        pool->stats.completed++;
        weft__pool_admit(pool, &errands);
        found = take_alone(pool, &task);
        latch_release(&pool->latch);
        must(!weft__pool_run(pool, &errands)); /* it makes none */
        leave_if_fiber(fiber);
    }
}

void weft__pool_do_without(weft_pool *pool)
{
    struct stand_in own;
    weft__stand_in_begin(&own, pool, true);
    run_alone(pool);
    weft__stand_in_end(&own);
    if (!weft__runtime_forked())
        end_visit(pool);
}

/* So many helpers could not be made: for what is ready a taker may be wanted now. True if a worker is to be made. */
static noinline bool without_helpers(weft_pool *pool, uint8_t count, bool make)
{
    struct errands errands = {.make_worker = make};
    latch_acquire(&pool->latch);
    pool->workers -= count;
    pool->away -= count;
    pool->helpers -= count;
    if (!make && weft__pool_wants_taker(pool, 0))
        weft__pool_call_taker(pool, &errands);
    latch_release(&pool->latch);
    if (errands.first != NULL)
        weft__wake(errands.first);
    return errands.make_worker;
}

static bool make_helpers(weft_pool *pool, uint8_t count, bool make)
{
    while (count > 0 && weft__worker_make(pool, WORKER_HELPS, false) == 0)
        count--;
    return likely(count == 0) ? make : without_helpers(pool, count, make);
}

bool weft__pool_run(weft_pool *pool, struct errands *errands)
{
    bool make = errands->make_worker;
    for (struct waiter *waiter = errands->first, *next; waiter != NULL; waiter = next) {
        next = waiter->next;
        weft__wake(waiter);
    }
    if (unlikely(errands->make_helpers > 0))
        make = make_helpers(pool, errands->make_helpers, make);
    if (!make || weft__worker_make(pool, WORKER_STARTS, errands->make_helpers == 0) == 0)
        return false;
    latch_acquire(&pool->latch);
    pool->workers--;
    pool->starting--;
    pool->visitors++;
    latch_release(&pool->latch);
    return true;
}

int weft__pool_prestart(weft_pool *pool, int64_t count)
{
    int error = 0;
    for (int64_t i = 0; i < count && error == 0; i++) {
        bool fiber = enter_if_fiber();
        latch_acquire(&pool->latch);
        count_new(pool, 1);
        pool->starting++;
        latch_release(&pool->latch);
        struct errands errands = {.make_worker = true};
        if (weft__pool_run(pool, &errands)) {
            weft__pool_leave_inside(pool);
            error = -ENOMEM;
        }
        leave_if_fiber(fiber);
    }
    return error;
}
