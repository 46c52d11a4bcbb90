/*
 * panic.c: what becomes of panics in tasks, and in the functions that a pool was given.
 *
 * No panic leaves a task. A worker's go to the first frame of its fiber, and from there to weft__worker_lives_on
 * (start.c); tasks that are called by somebody else (a submitter, one who waits for a task, a call that finds no
 * worker) have a guard each, as have tasks with handles and those of groups, which keep the panic for whoever asks.
 *
 * on_panic is told of all of them, in the context of the one who ran the task, and as part of it: it may wait. If
 * it panics itself, both are reported, and that is all: no function of the pool's is told of it.
 */
#include "pool/panic.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "pool/crash.h"

static void count(weft_pool *pool, int64_t *figure)
{
    must(!weft__runtime_forked()); /* there the guards of the parent are forgotten */
    latch_acquire(&pool->latch);
    ++*figure;
    latch_release(&pool->latch);
}

struct told {
    weft_pool *pool;
    const weft_panic_info *info;
    void (*function)(void *);
    void *arg;
};

static void tell(void *arg)
{
    struct told *told = arg;
    told->pool->options.on_panic(told->info, told->function, told->arg, told->pool->options.data);
}

bool weft__pool_tell_panic(weft_pool *pool, struct panic *panic, void (*function)(void *),
                           void *arg)
{
    count(pool, panic->crash ? &pool->stats.crashed : &pool->stats.panicked);
    if (pool->options.on_panic == NULL)
        return false;
    struct told told = {pool, weft__panic_info(panic), function, arg};
    struct guard guard;
    struct worker *armed = weft__worker_disarm();
    bool panicked = weft__guarded(&guard, tell, &told);
    weft__worker_rearm(armed);
    if (likely(!panicked))
        return true;
    count(pool, &pool->stats.handlers_panicked);
    weft_panic_info both = *weft__panic_info(guard.panic);
    size_t used = strlen(both.message);
    snprintf(both.message + used, sizeof both.message - used,
             " (in on_panic, which was told of: %s)", told.info->message);
    weft_panic_report(&both);
    weft__panic_free(guard.panic);
    return true;
}

void weft__pool_panicked(weft_pool *pool, const struct task *task, struct panic *panic)
{
    if (weft__pool_tell_panic(pool, panic, task->function, task->arg))
        weft__panic_free(panic);
    else
        weft__panic_report(panic);
}

bool weft__pool_call_option(weft_pool *pool, void (*function)(void *), void *arg)
{
    struct guard guard;
    struct worker *armed = weft__worker_disarm();
    bool panicked = weft__guarded(&guard, function, arg);
    weft__worker_rearm(armed);
    if (likely(!panicked))
        return false;
    count(pool, &pool->stats.handlers_panicked);
    weft__panic_report(guard.panic);
    return true;
}
