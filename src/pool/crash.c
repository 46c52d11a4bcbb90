/*
 * crash.c: workers of a pool that isolates crashes, and what becomes of a task that crashed.
 *
 * Such a worker can be abandoned in the middle of its task (sched/crash.c). All that the pool needs of it stands
 * beside its stack: the worker itself, which is in the pool's lists, the task that it runs, and its heir, a fiber
 * that is made with it and not started. If the worker's fiber is abandoned the heir has the worker from then on:
 *
 *     worker runs a task, armed ---- fault ----> heir: the task ends as crashed: its handle, its group, on_panic
 *                                                  |   are told; the next of its key is ready
 *                                                heir: is the worker, starts anew (on_worker_start), with an
 *                                                      heir of its own
 *
 * So the number of workers does not change, the places in the pool are right all the time, and no memory is needed
 * when it happens. What the worker has in hand stands in its chunk, which is beside the stack as well; while its
 * heir is on its way rescue.c sees to that as for any worker that does not come back.
 *
 * Armed is a worker only in what the task's function does (worker.c: work). Not in functions of the options, and
 * not while it runs another task in place of a worker: that one's record is on the stack.
 *
 * An argument that was copied for the task is freed as that of any task that has ended, when all are told: nothing runs on
 * the stack that is gone, and a task that faults runs, so it has not lent the bytes to a call that waits.
 *
 * The worker's own state (on_worker_start) may be half changed. It is left, on_worker_exit is not called for it.
 */
#include "pool/crash.h"

#include <errno.h>
#include <string.h>

#include "sched/compact.h"
#include "sched/crash.h"

struct isolated {
    struct worker worker;
    struct crash crash;
};

static void heir_main(void *arg);

/* What the fiber needs to be abandoned; false without memory. Inside the runtime. */
static bool prepare(struct isolated *isolated, struct weft_fiber *fiber)
{
    struct crash *crash = &isolated->crash;
    must(crash->panic == NULL && crash->heir == NULL); /* new, or used by a crash */
    crash->panic = weft__sys_alloc_zeroed(sizeof *crash->panic);
    if (crash->panic != NULL)
        crash->heir = weft__fiber_make_heir(fiber, heir_main, isolated);
    if (crash->heir == NULL)
        return false;
    crash->armed = &isolated->worker.armed;
    crash->left = &isolated->worker.pool->crashes_left;
    fiber_extra(fiber)->crash = crash;
    return true;
}

static void discard(struct isolated *isolated)
{
    if (isolated->crash.heir != NULL)
        weft__fiber_free_any(isolated->crash.heir);
    weft__sys_free(isolated->crash.panic);
    weft__sys_free(isolated);
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
    weft__worker_live(&isolated->worker);
}

/* The fiber that is gone leaves the context that it is bound to, and its worker is this one. */
static void take_over(struct isolated *isolated, struct weft_fiber *gone)
{
    struct worker *worker = &isolated->worker;
    struct bond *bond = &fiber_extra(gone)->bond;
    (void)runtime_enter(thread_self());
    if (bond->canceler != NULL)
        weft__bond_set(bond, NULL);
    latch_acquire(&worker->pool->latch);
    worker->fiber = weft_self();
    latch_release(&worker->pool->latch);
    runtime_leave(thread_self());
    fiber_set_worker(weft_self(), worker);
}

static void heir_main(void *arg)
{
    struct isolated *isolated = arg;
    struct crash *crash = &isolated->crash;
    struct panic *panic = crash->panic;
    crash->panic = NULL;
    take_over(isolated, crash->fiber);
    weft__worker_crashed(&isolated->worker, crash->fiber, panic);
    if (weft__runtime_forked())
        return;
    (void)runtime_enter(thread_self());
    bool prepared = prepare(isolated, weft_self());
    runtime_leave(thread_self());
    if (prepared) {
        weft__worker_live(&isolated->worker);
        return;
    }
    fiber_set_worker(weft_self(), NULL);
    weft__worker_end(&isolated->worker); /* whoever is missed next is made, or done without */
    weft__isolated_end(&isolated->worker);
}

/* One of its own: it has that when it is gone, and its worker is another fiber. */
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
    struct isolated *isolated = weft__sys_alloc_zeroed(sizeof *isolated);
    if (isolated == NULL)
        return -ENOMEM;
    isolated->worker =
        (struct worker){.pool = pool, .state = WORKER_STARTS, .kind = WORKER_ISOLATED};
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
    fiber_set_worker(fiber, &isolated->worker);
    weft__fiber_start(fiber, true);
    return 0;
}
