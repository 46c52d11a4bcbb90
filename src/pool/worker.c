/*
 * worker.c: execution: who runs the next task.
 *
 * A worker is a fiber that runs tasks one after the other. The workers that look for tasks are the
 * `takers`; there are no more of them than processors, since more could not run. A taker whose task
 * parks passes the baton: it puts back what it has in hand, is `away` from then on, and if tasks are
 * ready another worker is woken or made in its place. When its task ends it takes the next one and stays away,
 * if tasks have parked lately; or it becomes a taker again, or rests. So tasks that do not wait are run by as many workers as there are processors, and tasks that wait
 * by as many as are allowed.
 *
 *     idle ---- woken ----> takes <---- task has ended, and tasks are ready ---- away
 *      ^                     | |                                                  ^ |
 *      |__ nothing to take __| |__________________ its task parks ________________| |
 *      |____________________________ task has ended, nothing to take _______________|
 *      |__ expired, or the pool stops: ends
 *
 * In hand (hand.c). A taker takes a whole chunk if only one priority is ready and there is enough for the other
 * processors as well; it runs it without the latch. The tasks behind one that takes long are not lost to
 * others: a taker that finds nothing else takes them out of the hand (a theft), and rescue.c has them put
 * back if nobody comes.
 *
 * Before it rests a taker looks for a few microseconds whether something comes, if no other fiber wants its
 * processor: to wake a worker costs more than that.
 */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "pool/crash.h"
#include "pool/group.h"
#include "pool/panic.h"
#include "pool/pool.h"
#include "pool/task.h"
#include "sched/compact.h"

enum { LINGER_ROUNDS = 64, LINGER_PAUSES = 4, YIELD_EVERY = 4, ONE_BY_ONE = 32 };

/* Tasks. */

struct worker *weft__worker_self(void)
{
    weft_fiber *fiber = weft_self();
    struct worker *worker = fiber != NULL ? fiber_worker(fiber) : NULL;
    return worker != NULL && worker->in_task ? worker : NULL;
}

/* A task with a key has ended: the next of its key may begin. True: it is in *task, to be called
 * here. */
static bool finish_serial(weft_pool *pool, struct task *task)
{
    struct errands errands = {.first = NULL};
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    bool here = weft__pool_serial_next(pool, task->serial, task);
    if (here) { /* it counts as one of its own, and the one before has ended */
        pool->inside--;
        pool->stats.completed++;
    }
    weft__pool_settle(pool, &errands);
    latch_release(&pool->latch);
    if (weft__pool_run(pool, &errands))
        weft__pool_give_up(pool);
    leave_if_fiber(fiber);
    return here;
}

/* A task whose handle was cancelled before it began. */
static void count_cancelled(weft_pool *pool)
{
    latch_acquire(&pool->latch);
    pool->stats.cancelled++;
    pool->stats.completed--; /* as which it will be counted */
    latch_release(&pool->latch);
}

/* A panic in it goes to the caller, unless the task has a handle. */
static void call_task(weft_pool *pool, struct task *task)
{
    if (task->handle == NULL)
        task->function(task->arg);
    else if (!weft__task_call(task->handle)) /* never in a forked child: there it was called */
        count_cancelled(pool);
}

struct call {
    weft_pool *pool;
    struct task *task;
};

static void call(void *arg)
{
    struct call *call = arg;
    call_task(call->pool, call->task);
}

static void call_task_safely(weft_pool *pool, struct task *task)
{
    struct guard guard;
    struct call own = {pool, task};
    if (unlikely(weft__guarded(&guard, call, &own)))
        weft__pool_panicked(pool, task, guard.panic);
    task_free_copy(task);
}

/* After a task: true if another of its key is to be called here. */
static bool calls_next(weft_pool *pool, struct task *task)
{
    return task->serial != NULL && !weft__runtime_forked() && finish_serial(pool, task);
}

void weft__pool_call_task(weft_pool *pool, struct task *task)
{
    struct worker *armed = weft__worker_disarm();
    do
        call_task_safely(pool, task);
    while (calls_next(pool, task));
    weft__worker_rearm(armed);
}

void weft__pool_call(weft_pool *pool, struct task *task)
{
    struct errands errands = {.first = NULL};
    struct stand_in own;
    weft__stand_in_begin(&own, pool, false);
    weft__pool_call_task(pool, task);
    weft__stand_in_end(&own);
    if (weft__runtime_forked())
        return;
    bool fiber = enter_if_fiber();
    latch_acquire(&pool->latch);
    pool->inside--;
    pool->stats.completed++;
    weft__pool_finish(pool, &errands, fiber);
}

void weft__worker_begin_task(struct worker *worker)
{
    weft_fiber *fiber = weft_self();
    worker->in_task = true;
    fiber->object = worker;
    fiber->tells = worker->state != WORKER_AWAY;
}

void weft__worker_end_task(struct worker *worker)
{
    weft_fiber *fiber = weft_self();
    worker->in_task = false;
    if (fiber != NULL) /* else a forked child */
        fiber->tells = false;
}

static void count_end(struct worker *worker)
{
    /* Release: who counts it sees what the task did. */
    atomic_u32_store_release(&worker->ended, atomic_u32_load_relaxed(&worker->ended) + 1);
}

/* What the task has deferred, and not run, ends with it. */
static void end_deferred(void)
{
    weft_fiber *fiber = weft_self();
    if (fiber == NULL || likely(!fiber->defers))
        return;
    weft__deferred_run_all(fiber_scope(fiber));
    fiber->defers = false;
}

static void end_after(struct worker *worker)
{
    task_free_copy(&worker->task);
    while (calls_next(worker->pool, &worker->task))
        call_task_safely(worker->pool, &worker->task);
    weft__worker_end_task(worker);
    count_end(worker);
}

void weft__worker_panicked(struct worker *worker, struct panic *panic)
{
    must(worker->in_task);
    worker->armed = false;
    weft__pool_panicked(worker->pool, &worker->task, panic);
    end_after(worker);
}

/* Taking; under the latch. */

static void put_back(weft_pool *pool, struct worker *worker)
{
    struct chunk *chunk = worker->chunk;
    if (chunk == NULL)
        return;
    worker->chunk = NULL;
    weft__pool_return_chunk(pool, chunk);
}

/* Something to do for a worker that takes: a chunk in hand, or one task. */
static bool take(weft_pool *pool, struct worker *worker, struct task *task)
{
    if (pool->paused || weft__pool_busy(pool) > pool->capacity)
        return false;
    bool parked_lately = pool->since_parked > 0;
    pool->since_parked -= parked_lately;
    if (weft__hand_take(worker, task))
        return true;
    if (!parked_lately && /* else a chunk would only be put back */
        (worker->chunk = weft__pool_take_chunk(pool)) != NULL)
        return weft__chunk_take(worker->chunk, task);
    return weft__pool_pop(pool, task) || weft__pool_steal(pool, task);
}

/* The baton. */

/* Whether the processor of the caller has nobody else to run. */
static bool processor_is_dry(void)
{
    return !has_fibers(thread_self()->processor);
}

void weft__pool_pass_baton(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    weft_self()->tells = false;
    struct errands errands = {.first = NULL};
    latch_acquire(&pool->latch);
    (void)weft__pool_count_ended(pool, worker);
    if (worker->state == WORKER_TAKES)
        line_leave(&pool->takers, &worker->link);
    else
        pool->starting--;
    worker->state = WORKER_AWAY;
    pool->away++;
    pool->since_parked = ONE_BY_ONE;
    pool->parked_in_row += pool->parked_in_row < PARKED_MOST;
    pool->quick = false;
    put_back(pool, worker);
    trays_close(pool);
    weft__pool_settle(pool, &errands);
    weft__pool_call_helpers(pool, &errands);
    /* A processor with nobody else to run is as good as idle, and who is called now is its next: else it would look for work,
     * sleep, be seen as idle and be woken, for each of many workers to come. The same behind helpers, who call nobody. */
    if (errands.first == NULL && !errands.make_worker &&
        (errands.make_helpers > 0 || processor_is_dry()) && !weft__pool_puts_off(pool) &&
        weft__pool_wants_taker(pool, 0))
        weft__pool_call_taker(pool, &errands);
    latch_release(&pool->latch);
    if (weft__pool_run(pool, &errands))
        weft__pool_give_up(pool);
}

void weft__worker_tells(void)
{
    weft_fiber *fiber = weft_self();
    if (fiber != NULL && fiber->tells)
        weft__pool_pass_baton(fiber->object);
}

/* Between two tasks of a chunk, inside the runtime: somebody wants to know what has ended, or that it stops. */
static noinline void attend_inside(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    struct errands errands = {.first = NULL};
    latch_acquire(&pool->latch);
    (void)weft__pool_count_ended(pool, worker);
    weft__hands_count(pool);
    if (pool->paused || weft__pool_busy(pool) > pool->capacity) { /* else it was emptied: pool.c */
        put_back(pool, worker);
        weft__hand_put_back(pool);
    }
    weft__pool_settle(pool, &errands);
    latch_release(&pool->latch);
    if (weft__pool_run(pool, &errands))
        weft__pool_give_up(pool);
}

static void attend(struct worker *worker)
{
    bool fiber = enter_if_fiber();
    attend_inside(worker);
    leave_if_fiber(fiber);
}

/* The life of a worker. */

static void unlock_pool(void *pool)
{
    latch_release(&((weft_pool *)pool)->latch);
}

/* Looks for a moment whether something comes, if nobody else wants the processor. */
static void linger(weft_pool *pool)
{
    for (int i = 0; i < LINGER_ROUNDS && atomic_i64_load_relaxed(&pool->ready) == 0; i++) {
        if (!processor_is_dry())
            return;
        for (int pause = 0; pause < LINGER_PAUSES; pause++)
            cpu_relax();
    }
}

void weft__worker_come_loose(weft_pool *pool, struct worker *worker)
{
    if (worker->state == WORKER_STARTS)
        pool->starting--;
    else if (worker->state == WORKER_AWAY)
        pool->away--;
    else
        return;
    worker->state = WORKER_LOOSE;
}

/* Under the latch: a worker that comes from a task becomes one that takes, if there is something to take. It
 * runs already: no other has to be woken for that, though there may be as many takers as processors. */
static void join_takers(weft_pool *pool, struct worker *worker)
{
    weft__worker_come_loose(pool, worker);
    if (worker->state == WORKER_LOOSE && weft__pool_waits(pool, 0) && !pool->paused &&
        weft__pool_busy(pool) < pool->capacity) {
        line_add(&pool->takers, &worker->link);
        worker->state = WORKER_TAKES;
    }
}

static void leave_takers(struct worker *worker)
{
    if (worker->state != WORKER_TAKES)
        return;
    line_leave(&worker->pool->takers, &worker->link);
    worker->state = WORKER_LOOSE;
    trays_close(worker->pool);
}

/* A worker whose task has waited takes the next one, and stays away: where tasks wait it would become a taker only
 * to pass the baton at once. */
static bool goes_on_away(struct worker *worker, struct task *task)
{
    if (worker->state != WORKER_AWAY)
        return false;
    enum attention least =
        atomic_u32_load_relaxed(&worker->ended) != worker->counted ? WHEN_ENDED : AT_ONCE;
    if (!weft__hand_take(worker, task))
        return false;
    if (unlikely(atomic_u32_load_seq_cst(&worker->pool->attention) >= least))
        attend_inside(worker);
    return true;
}

/* The same under the latch. */
static bool goes_on_away_latched(weft_pool *pool, struct worker *worker, struct task *task)
{
    if (worker->state != WORKER_AWAY || pool->since_parked == 0 || pool->paused ||
        weft__pool_busy(pool) > pool->capacity)
        return false;
    pool->since_parked--;
    return weft__hand_fill(pool, task) || weft__pool_pop(pool, task) ||
           weft__pool_steal(pool, task);
}

/* Under the latch: a worker whose task has waited finds that nothing is left, not even in the hand of another, and that nobody waits: it rests, and there
 * is nothing to settle. So many may come at once, at the end of a flood, that the time for which each holds the latch counts. */
static bool rests_at_once(weft_pool *pool, struct worker *worker)
{
    if (worker->state != WORKER_AWAY || atomic_i64_load_relaxed(&pool->ready) > 0 ||
        pool->trays_open > 0 || pool->takers.length > 0 || pool->blocked.length > 0 ||
        pool->state != POOL_OPEN || pool->paused || pool->shrinker != NULL)
        return false;
    weft__hand_clear(pool);
    if (pool->hands_used > 0)
        return false;
    (void)weft__pool_count_ended(pool, worker);
    if (pool->hands_uncounted)
        weft__hands_count(pool);
    if (pool->inside == 0)
        return false; /* it was the last: somebody may wait for that */
    weft__worker_come_loose(pool, worker);
    atomic_u32_store_relaxed(&pool->room, pool->inside < pool_limit(pool));
    return true;
}

enum next { NEXT_TASK, NEXT_AGAIN, NEXT_LINGER, NEXT_SHRINK, NEXT_REST, NEXT_END };

/* Where the worker is likely to rest, so that the clock is not read under the latch. */
static void read_clock(const struct worker *worker)
{
    if (worker->state == WORKER_AWAY && atomic_i64_load_relaxed(&worker->pool->ready) == 0 &&
        !seeded())
        thread_self()->clock = weft__sys_now();
}

/* What the worker does next. The caller has entered the runtime. NEXT_REST: the latch is held. */
static noinline enum next choose(struct worker *worker, bool lingered)
{
    weft_pool *pool = worker->pool;
    struct task *task = &worker->task;
    struct errands errands = {.first = NULL};
    enum next next = NEXT_AGAIN;
    if (goes_on_away(worker, task))
        return NEXT_TASK;
    read_clock(worker);
    latch_acquire(&pool->latch);
    if (rests_at_once(pool, worker))
        return NEXT_REST;
    pool->called -= worker->called;
    worker->called = false;
    if (weft__pool_count_ended(pool, worker) > 0 && worker->state == WORKER_TAKES)
        pool->parked_in_row = 0; /* it did not park */
    if (atomic_u32_load_relaxed(&pool->attention))
        weft__hands_count(pool);
    pool->quick |= worker->chunk != NULL;
    put_back(pool, worker); /* what is in hand is empty, or it was told to stop */
    weft__hand_clear(pool);
    weft__hands_look(pool, false);
    if (atomic_i64_load_relaxed(&pool->ready) == 0)
        trays_close(pool);
    weft__pool_admit(pool, &errands);
    if (goes_on_away_latched(pool, worker, task))
        next = NEXT_TASK;
    else
        join_takers(pool, worker);
    if (next == NEXT_TASK || (worker->state == WORKER_TAKES && take(pool, worker, task)))
        next = NEXT_TASK;
    else if (worker->state == WORKER_TAKES && !lingered && pool->state == POOL_OPEN &&
             !pool->paused)
        next = NEXT_LINGER;
    else
        leave_takers(worker);
    weft__pool_settle(pool, &errands);
    bool quiet = errands.first == NULL && !errands.make_worker;
    if (next == NEXT_AGAIN && quiet) {
        if (pool->state != POOL_OPEN && pool->inside == 0)
            next = NEXT_END;
        else if (weft__pool_shrinks_now(pool))
            next = NEXT_SHRINK;
        else
            return NEXT_REST;
    }
    latch_release(&pool->latch);
    thread_self()->clock = 0;
    if (weft__pool_run(pool, &errands))
        weft__pool_give_up(pool);
    return next;
}

/* Until there is a task, or nothing to do: NEXT_TASK, NEXT_END, or NEXT_REST, for which it is still inside the runtime and
 * holds the latch. */
static noinline enum next next_task(struct worker *worker)
{
    for (bool lingered = false; !weft__runtime_forked();) {
        (void)runtime_enter(thread_self());
        if (worker->kind == WORKER_COMPACT && unlikely(weft__compact_strays(worker))) {
            worker->moves = true;
            weft__compact_move(); /* to weft__worker_live */
        }
        enum next next = choose(worker, lingered);
        if (next == NEXT_REST)
            return next;
        if (next == NEXT_LINGER)
            linger(worker->pool);
        runtime_leave(thread_self());
        lingered = next == NEXT_LINGER;
        if (next == NEXT_SHRINK)
            weft__pool_shrink_later(worker->pool);
        if (next == NEXT_TASK)
            weft__worker_begin_task(worker);
        if (next == NEXT_TASK || next == NEXT_END)
            return next;
    }
    return NEXT_END; /* a child of the task's */
}

/* After the time for which it was to rest: whether it is kept all the same. */
static noinline bool stays_expired(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    latch_acquire(&pool->latch);
    /* If it is not in the list any more, one who wanted to wake it found it expired, and took another. */
    if (worker->state == WORKER_IDLE)
        line_leave(&pool->idle, &worker->link);
    worker->state = WORKER_LOOSE;
    bool stays = pool->idle.length < pool->options.keep;
    latch_release(&pool->latch);
    return stays;
}

/* Under the latch: shows it as idle; until when it is to be. */
static noinline int64_t become_idle(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    bool kept = pool->options.shrink != 0 || pool->idle.length < pool->options.keep;
    int64_t clock = thread_self()->clock, expiry = pool->options.expiry;
    worker->state = WORKER_IDLE;
    line_add(&pool->idle, &worker->link);
    if (kept || expiry == WEFT_NEVER)
        return WEFT_NEVER;
    return clock == 0 || expiry > WEFT_NEVER - clock ? weft_after(expiry) : clock + expiry;
}

/* After the wait; leaves the runtime. */
static noinline bool end_rest(struct worker *worker, int result)
{
    bool goes_on = wait_gave_up(result) ? stays_expired(worker) : result == WORKER_WORK;
    runtime_leave(thread_self());
    return goes_on;
}

/* Rests until there is something to do, or it expires; after NEXT_REST. False: it ends. With as little on the stack as a
 * task that sleeps, so that as many as there are may rest in what they keep for that. */
static noinline bool rest(struct worker *worker)
{
    int64_t deadline = become_idle(worker);
    return end_rest(worker,
                    weft__park(&worker->fiber->waiter, WAIT_POOL_IDLE | WAIT_FIRM | WAIT_TOLD,
                               unlock_pool, worker->pool, deadline));
}

/* A task of a chunk has ended: the next, if there is one. Looks at `attention` only after it has taken that: see
 * pool.h. */
static bool next_in_hand(struct worker *worker)
{
    /* The chunk is gone if the task parked. */
    bool more = worker->chunk != NULL && weft__chunk_take(worker->chunk, &worker->task);
    if (unlikely(more && atomic_u32_load_seq_cst(&worker->pool->attention) >= WHEN_ENDED))
        attend(worker);
    return more;
}

/* After a task: true if there is another to be called. */
static noinline bool after_task(struct worker *worker)
{
    end_deferred();
    worker->armed = false;
    task_free_copy(&worker->task);
    if (calls_next(worker->pool, &worker->task))
        return true;
    count_end(worker);
    if (!weft__runtime_forked() && next_in_hand(worker))
        return true;
    weft__worker_end_task(worker);
    if (worker->state == WORKER_TAKES && !weft__runtime_forked() &&
        atomic_u32_load_relaxed(&worker->ended) % YIELD_EVERY == 0 &&
        atomic_u32_load_relaxed(&worker->pool->attention) < WHEN_ENDED)
        weft_yield(); /* whoever else is ready on this processor has its turn */
    return false;
}

static noinline void call_own_task(struct worker *worker)
{
    worker->armed = true;
    call_task(worker->pool, &worker->task);
}

/* Below every task, and moved with it if the stack is compact: so it has next to nothing on the stack. No guard either:
 * a panic comes to the first frame of the fiber, and from there to weft__worker_lives_on. */
static always_inline void run_tasks(struct worker *worker)
{
    for (;;) {
        enum next next = next_task(worker);
        if (next == NEXT_END || (next == NEXT_REST && !rest(worker)))
            return;
        if (next == NEXT_REST)
            continue;
        do
            call_own_task(worker);
        while (after_task(worker));
    }
}

#if WEFT_TSAN
static void run_guarded(void *worker)
{
    run_tasks(worker);
}

/* ThreadSanitizer's shadow of the stack grows with each call that a panic has cut, unless a guard's longjmp tells of it:
 * one fiber that ends so does not matter, a worker that goes on for ever does. */
void weft__worker_run_tasks(struct worker *worker)
{
    struct guard guard;
    while (weft__guarded(&guard, run_guarded, worker))
        weft__worker_panicked(worker, guard.panic);
}
#else
void weft__worker_run_tasks(struct worker *worker)
{
    run_tasks(worker);
}
#define weft__worker_run_tasks run_tasks /* no frame of its own, below */
#endif

void weft__worker_live(struct worker *worker)
{
    if (worker->state == WORKER_HELPS) {
        (void)runtime_enter(thread_self());
        weft__helper_comes(worker);
        runtime_leave(thread_self());
    }
    if (!worker->moves && !weft__worker_begin(worker)) {
        weft__worker_finish(worker, false);
        return;
    }
    worker->moves = false;
    weft__worker_run_tasks(worker);
    weft__worker_finish(worker, true);
}

/* Crashes. */

/* A worker whose fiber is another one now is as one that was just made. */
static void start_anew(struct worker *worker)
{
    weft_pool *pool = worker->pool;
    struct errands errands = {.first = NULL};
    (void)runtime_enter(thread_self());
    latch_acquire(&pool->latch);
    pool->called -= worker->called;
    worker->called = false;
    (void)weft__pool_count_ended(pool, worker);
    put_back(pool, worker);
    leave_takers(worker);
    weft__worker_come_loose(pool, worker);
    worker->state = WORKER_STARTS;
    pool->starting++;
    weft__pool_settle(pool, &errands);
    latch_release(&pool->latch);
    if (weft__pool_run(pool, &errands))
        weft__pool_give_up(pool);
    runtime_leave(thread_self());
}

void weft__worker_crashed(struct worker *worker, struct weft_fiber *gone, struct panic *panic)
{
    struct task *task = &worker->task;
    weft__worker_begin_task(worker);
    if (task->handle != NULL)
        weft__task_crashed(task->handle, panic);
    else if (task->function == weft__pool_group_run)
        weft__pool_group_crashed(worker->pool, task->arg, gone, panic);
    else
        weft__pool_panicked(worker->pool, task, panic);
    if (!weft__runtime_forked()) /* by on_panic */
        end_after(worker);
    if (!weft__runtime_forked())
        start_anew(worker);
}
