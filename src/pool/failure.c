/*
 * failure.c: panics, crashes, and workers that are stuck.
 *
 * Panics. No panic leaves a task. In a worker it unwinds to the first frame of the fiber, and from
 * there comes to weft__worker_continue (worker.c). Tasks that run in their submitter have a guard
 * each; so have tasks with handles and those of groups, which keep the panic until it is asked for.
 * on_panic is called for all of them, in the context of the task and as part of it: it may wait. If
 * it panics itself, both panics are reported, and the worker goes on.
 *
 * Crashes. A worker of a pool that isolates crashes can be abandoned in the middle of its task
 * (sched/fiber/crash.c). All that the pool needs of it is beside its stack: the worker itself, the
 * task that it runs, and its replacement, a fiber that is made with it and not started. If the
 * worker's fiber is abandoned the replacement has the worker from then on:
 *
 *     worker         runs a task, armed
 *     fault          the fiber is abandoned, its replacement is ready
 *     replacement    the task ends as crashed: its handle, its group and on_panic are notified, the
 *                    next one of its key is ready
 *     replacement    is the worker: starts anew (on_worker_start), with a replacement of its own
 *
 * So the number of workers does not change, the pool's places are right all the time, and a crash
 * needs no memory. A worker is armed only while its task's function runs: not in functions of the
 * options, and not while it runs another task as its submitter. The worker's own state may be half
 * changed: it is left as it is, and on_worker_exit is not called for it.
 *
 * Stuck workers. Tasks in an inbox rely on each other being short. If one computes for long, or
 * blocks its thread, those behind it would wait although a processor is idle. While some processor
 * is idle and another one busy the scheduler's watcher is awake now and then (sched/core/idle.c),
 * and looks at all pools: it closes each inbox from which nothing was taken since its last look. If
 * a worker is wanted then, a machine starts one as soon as it has the idle processor. If no
 * processor is idle the monitor looks instead (sched/core/monitor.c), and takes a processor from a
 * machine that is stuck. An active worker whose processor was taken away does not count
 * (weft__pool_actives); one that has ended no task between two looks may be stuck.
 *
 * Lock order: pools.lock, then the latch of a pool.
 */
#include "pool/failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "pool/admission.h"
#include "pool/context.h"
#include "pool/dispatch.h"
#include "pool/shard.h"
#include "sched/fiber/compact.h"
#include "sched/fiber/crash.h"

/* Panics. */

static void count(weft_pool *pool, int64_t *figure)
{
    must(!weft__runtime_forked()); /* a child forgets the guards of its parent */
    latch_acquire(pool->latch);
    ++*figure;
    latch_release(pool->latch);
}

/* Calls a function of the options. Returns the panic that ended it, which is counted; or NULL. */
static struct panic *call_guarded(weft_pool *pool, void (*function)(void *), void *arg)
{
    struct guard guard;
    struct worker *armed = weft__worker_disarm();
    bool panicked = weft__guarded(&guard, function, arg);
    weft__worker_rearm(armed);
    if (likely(!panicked))
        return NULL;
    count(pool, &pool->stats.handlers_panicked);
    return guard.panic;
}

struct panic_call {
    weft_pool *pool;
    const weft_panic_info *info;
    void (*function)(void *);
    void *arg;
};

static void call_on_panic(void *arg)
{
    struct panic_call *call = arg;
    call->pool->options.on_panic(call->info, call->function, call->arg, call->pool->options.data);
}

bool weft__pool_notify_panic(weft_pool *pool, struct panic *panic, void (*function)(void *),
                             void *arg)
{
    count(pool, panic->crash ? &pool->stats.crashed : &pool->stats.panicked);
    if (pool->options.on_panic == NULL)
        return false;
    struct panic_call call = {pool, weft__panic_info(panic), function, arg};
    struct panic *second = call_guarded(pool, call_on_panic, &call);
    if (likely(second == NULL))
        return true;
    weft_panic_info both = *weft__panic_info(second);
    size_t used = strlen(both.message);
    snprintf(both.message + used, sizeof both.message - used,
             " (in on_panic, which was told of: %s)", call.info->message);
    weft_panic_report(&both);
    weft__panic_free(second);
    return true;
}

void weft__pool_panicked(weft_pool *pool, const struct plain_task *task, struct panic *panic)
{
    if (weft__pool_notify_panic(pool, panic, task->function, task->arg))
        weft__panic_free(panic);
    else
        weft__panic_report(panic);
}

bool weft__pool_call_option(weft_pool *pool, void (*function)(void *), void *arg)
{
    struct panic *panic = call_guarded(pool, function, arg);
    if (likely(panic == NULL))
        return false;
    weft__panic_report(panic);
    return true;
}

/* Crashes. */

struct isolated {
    struct worker worker;
    struct crash crash;
};

static void replacement_main(void *arg);

/* Makes what is needed to abandon the fiber; false without memory. Inside the runtime. */
static bool prepare(struct isolated *isolated, struct weft_fiber *fiber)
{
    struct crash *crash = &isolated->crash;
    must(crash->panic == NULL && crash->replacement == NULL); /* new, or used by a crash */
    crash->panic = weft__os_alloc_zeroed(sizeof *crash->panic);
    if (crash->panic != NULL)
        crash->replacement = weft__fiber_make_replacement(fiber, replacement_main, isolated);
    if (crash->replacement == NULL)
        return false;
    crash->armed = &isolated->worker.armed;
    crash->left = &isolated->worker.pool->crashes_left;
    fiber_extra(fiber)->crash = crash;
    return true;
}

static void discard(struct isolated *isolated)
{
    if (isolated->crash.replacement != NULL)
        weft__fiber_free_any(isolated->crash.replacement);
    weft__os_free(isolated->crash.panic);
    weft__os_free(isolated);
}

void weft__isolated_end(struct worker *worker)
{
    struct isolated *isolated = container_of(worker, struct isolated, worker);
    fiber_extra(weft_self())->crash = NULL;
    (void)runtime_enter(thread_self());
    discard(isolated);
    runtime_leave(thread_self());
}

static void isolated_main(void *arg)
{
    struct isolated *isolated = arg;
    weft__worker_run(&isolated->worker);
}

/* The abandoned fiber leaves the context that it is bound to; the caller is the fiber of its worker
 * from here on. */
static void take_over(struct isolated *isolated, struct weft_fiber *gone)
{
    struct worker *worker = &isolated->worker;
    struct bond *bond = &fiber_extra(gone)->bond;
    (void)runtime_enter(thread_self());
    if (bond->canceler != NULL)
        weft__bond_set(bond, NULL);
    latch_acquire(worker->pool->latch);
    worker->fiber = weft_self();
    latch_release(worker->pool->latch);
    runtime_leave(thread_self());
    fiber_set_client(weft_self(), worker);
}

/* In the replacement: the task has ended, and the worker is like one that was just made. */
static void end_crashed(struct worker *worker, struct weft_fiber *gone, struct panic *panic)
{
    weft__worker_enter_user(worker);
    weft__worker_unbind(worker);
    if (worker->record != NULL && worker->record->kind->crash != NULL)
        worker->record->kind->crash(worker->pool, worker->record, gone, panic);
    else
        weft__pool_panicked(worker->pool, &worker->now, panic);
    worker_end_forked_child(); /* of on_panic */
    weft__worker_end_failed(worker);
    weft__worker_start_anew(worker);
}

static void replacement_main(void *arg)
{
    struct isolated *isolated = arg;
    struct crash *crash = &isolated->crash;
    struct panic *panic = crash->panic;
    crash->panic = NULL;
    take_over(isolated, crash->fiber);
    end_crashed(&isolated->worker, crash->fiber, panic);
    (void)runtime_enter(thread_self());
    bool prepared = prepare(isolated, weft_self());
    runtime_leave(thread_self());
    if (prepared) {
        weft__worker_run(&isolated->worker);
        return;
    }
    fiber_set_client(weft_self(), NULL);
    weft__worker_end(&isolated->worker); /* if another one is wanted it is made */
    weft__isolated_end(&isolated->worker);
}

/* Gives the fiber a name of its own, which it keeps when it is abandoned. */
static bool give_name(struct weft_fiber *fiber, const char *name)
{
    struct extra *extra = weft__fiber_extra(fiber);
    if (extra != NULL)
        memcpy(extra->name, name, FIBER_NAME_SIZE);
    return extra != NULL;
}

int weft__isolated_make(weft_pool *pool)
{
    struct weft_fiber *fiber;
    struct isolated *isolated = weft__os_alloc_zeroed(sizeof *isolated);
    if (isolated == NULL)
        return -ENOMEM;
    isolated->worker =
        (struct worker){.pool = pool, .state = WORKER_STARTING, .kind = WORKER_ISOLATED};
    int error = weft__worker_fiber(pool, &fiber, isolated_main, isolated);
    if (error == 0) {
        fiber->compact = pool->options.compact != 0 && weft__compact_works();
        if (!give_name(fiber, pool->name) || !prepare(isolated, fiber)) {
            weft__fiber_discard(fiber);
            error = -ENOMEM;
        }
    }
    if (error != 0) {
        discard(isolated);
        return error;
    }
    isolated->worker.fiber = fiber;
    fiber_set_client(fiber, &isolated->worker);
    weft__fiber_start(fiber, true);
    return 0;
}

/* Stuck workers. */

static struct {
    struct lock lock;
    struct line all; /* by pools_link */
    bool known;      /* to the scheduler */
} pools;

/* Under the latch: how many active workers seem to be stuck. On each processor one of them can get
 * on; if no task has ended there since the last look, none has. */
static int64_t count_stuck(weft_pool *pool)
{
    int64_t stuck = weft__pool_actives(pool) - pool->starting;
    for (uint32_t i = 0; i < pool->shard_count; i++) {
        uint64_t ended = atomic_u64_load_relaxed(&pool->shards[i].ended);
        stuck -= ended != pool->shards[i].seen_ended;
        pool->shards[i].seen_ended = ended;
    }
    return stuck > 0 ? stuck : 0;
}

/* Called by the watcher. True: another worker is wanted in some pool. */
static bool look(void)
{
    bool wanted = false;
    lock_acquire(&pools.lock);
    for (struct link *link = pools.all.first; link != NULL; link = link->next) {
        weft_pool *pool = container_of(link, weft_pool, pools_link);
        struct deferred_wakes wakes = NO_WAKES(wakes);
        latch_acquire(pool->latch);
        int64_t stuck = count_stuck(pool);
        weft__shards_close_still(pool);
        weft__shards_collect(pool);
        wanted |= weft__pool_wants_worker(pool, stuck);
        weft__line_serve(pool, &wakes);
        weft__pool_update_room(pool);
        weft__pool_unlatch(pool, &wakes); /* no worker is to be made */
    }
    lock_release(&pools.lock);
    return wanted;
}

/* Called by a machine that has a processor. */
static void act(void)
{
    lock_acquire(&pools.lock);
    for (struct link *link = pools.all.first; link != NULL; link = link->next) {
        weft_pool *pool = container_of(link, weft_pool, pools_link);
        struct deferred_wakes wakes = NO_WAKES(wakes);
        latch_acquire(pool->latch);
        weft__shards_collect(pool);
        if (weft__pool_wants_worker(pool, 0))
            weft__pool_start_wanted(pool, &wakes, true); /* for the processor of this machine */
        weft__pool_unlatch(pool, &wakes);
    }
    lock_release(&pools.lock);
}

static void before_park(void *worker)
{
    weft__worker_before_park(worker);
}

static void landed(void *worker, struct panic *panic)
{
    weft__worker_continue(worker, panic);
}

static const char *name_of(const void *client)
{
    const struct worker *worker = client;
    return worker->pool->name;
}

void weft__pools_add(weft_pool *pool)
{
    lock_acquire(&pools.lock);
    line_add(&pools.all, &pool->pools_link);
    static const struct fiber_hooks hooks = {before_park, landed, name_of};
    if (!pools.known) { /* once: machines read these without a lock */
        weft__idle_set_hooks(look, act);
        weft__fiber_hooks = &hooks;
        pools.known = true;
    }
    lock_release(&pools.lock);
}

void weft__pools_remove(weft_pool *pool)
{
    lock_acquire(&pools.lock);
    line_leave(&pools.all, &pool->pools_link);
    lock_release(&pools.lock);
}
