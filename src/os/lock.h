/*
 * lock.h: a lock of four bytes for short sections inside weft: spins with capped exponential
 * back-off, then sleeps in the kernel.
 *
 * States: 0 free, 1 held, 2 held and a thread may sleep. Zero-initialised is free. A thread sets 2
 * before it sleeps; a release that finds 2 wakes one thread. The thread that was woken acquires the
 * lock as 2, since it cannot know whether others sleep: at worst one wake-up too many, never one
 * too few.
 *
 * It is held for tens of nanoseconds (the scheduler's for tens of microseconds, while a thread is
 * made), and never across a switch, except where a park hands it to the stack of the machine. A
 * thread that holds one waits for nothing but another lock further down the order, which each file
 * that nests locks states. (sched/fiber/fiber_alloc.c acquires locks for writers that need
 * nothing.)
 */
#ifndef WEFT_OS_LOCK_H
#define WEFT_OS_LOCK_H

#include "base/atomic.h"
#include "base/compiler.h"

struct lock {
    atomic_u32 state;
};

void weft__lock_slow(struct lock *lock);
void weft__unlock_slow(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
    uint32_t free = 0;
    return atomic_u32_cas_acquire(&lock->state, &free, 1); /* pairs with the release in unlock */
}

static inline void lock_acquire(struct lock *lock)
{
    if (unlikely(!lock_try(lock)))
        weft__lock_slow(lock);
}

static inline void lock_release(struct lock *lock)
{
    if (unlikely(atomic_u32_exchange_release(&lock->state, 0) == 2))
        weft__unlock_slow(lock);
}

#endif
