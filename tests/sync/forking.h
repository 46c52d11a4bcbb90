/*
 * forking.h: for tests of locks: forks while another fiber or thread holds a lock, which the child
 * does not have.
 */
#ifndef WEFT_TEST_FORKING_H
#define WEFT_TEST_FORKING_H

#include <unistd.h>

#include "bodies.h"

/* A lock, and its calls. */
struct fork_lock {
    void (*lock)(void *lock);
    void (*unlock)(void *lock);
    void *object;
    atomic_u32 held, forked;
};

/* Waits without a yield, which aborts in a thread that holds a spin lock. */
static inline __attribute__((unused)) void await_plainly(const atomic_u32 *word)
{
    while (!atomic_u32_load_acquire(word))
        usleep(50);
}

static inline void fork_hold(struct fork_lock *own, void (*wait)(struct fork_lock *own))
{
    own->lock(own->object);
    atomic_u32_store_release(&own->held, 1);
    wait(own);
    own->unlock(own->object);
}

static inline void fork_wait_in_fiber(struct fork_lock *own)
{
    await(&own->forked, 1);
}

static inline void fork_wait_in_thread(struct fork_lock *own)
{
    await_plainly(&own->forked);
}

static inline void fork_hold_in_fiber(void *own)
{
    fork_hold(own, fork_wait_in_fiber);
}

static inline void fork_hold_in_thread(void *own)
{
    fork_hold(own, fork_wait_in_thread);
}

/* Calls in_child in a forked child while a fiber, or a thread, of the parent holds the lock. */
static inline void fork_while_held(struct fork_lock own, bool thread, void (*in_child)(void))
{
    struct body holder = {.function = thread ? fork_hold_in_thread : fork_hold_in_fiber,
                          .arg = &own,
                          .thread = thread};
    body_start(&holder);
    await(&own.held, 1);
    in_fork(in_child);
    atomic_u32_store_release(&own.forked, 1);
    body_join(&holder);
}

#endif
