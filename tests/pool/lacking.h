/*
 * lacking.h: pools that cannot make workers for lack of memory.
 *
 * The workers of a pool that isolates crashes need memory each, and none of it is kept: they
 * cannot be made while no allocation succeeds.
 */
#ifndef WEFT_TEST_LACKING_H
#define WEFT_TEST_LACKING_H

#include "os/failure.h"
#include "os/os.h"
#include "pool/tasks.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"

static atomic_u32 ran;
static struct gate gate;

static inline void lack(bool on)
{
    weft__os_fail(OS_ALLOC, on ? 1 : 0, true);
}

static inline weft_pool *begin(weft_pool_options options)
{
    options.isolate_crashes = 1;
    atomic_u32_store_relaxed(&ran, 0);
    gate_shut(&gate);
    return pool_open(options);
}

/* A paused pool with tasks, whose worker expires. */
static inline weft_pool *begin_paused(weft_pool_options options)
{
    options.expiry = WEFT_US;
    weft_pool *pool = begin(options);
    CHECK_EQ(weft_pool_pause(pool), 0);
    return pool;
}

/* Resumes the pool without memory for a worker, which it tries to make for some time. After that
 * there is memory again. */
static inline void resume_lacking(weft_pool *pool, uint32_t expected)
{
    AWAIT_FIGURE(pool, workers, 0);
    lack(true);
    CHECK_EQ(weft_pool_resume(pool), 0);
    (void)weft_sleep(2 * WEFT_MS);
    CHECK_EQ(count_of(&ran), expected);
    lack(false);
}

static inline void on_machines(int processors, void (*function)(void *))
{
    on_processors(processors, function, NULL);
}

/* Returns when another worker could run, if there is more than one processor. */
static inline void await_idle_processor(void)
{
    while (processor_count() > 1 && count_of(&weft__sched.idle_count) == 0)
        sched_yield();
}

#endif
