/*
 * lock.c: the slow halves of os/lock.h.
 */
#include "os/lock.h"

#include "base/backoff.h"
#include "os/os.h"

enum { SPIN_ROUNDS = 8 }; /* about 2 us: longer than any section that is not preempted */

void weft__lock_slow(struct lock *lock)
{
    struct backoff backoff = {0};
    for (int round = 0; round < SPIN_ROUNDS; round++) {
        backoff_pause(&backoff);
        if (atomic_u32_load_relaxed(&lock->state) == 0 && lock_try(lock))
            return;
    }
    while (atomic_u32_exchange_acquire(&lock->state, 2) != 0)
        (void)weft__os_futex_wait(&lock->state, 2, INT64_MAX);
}

void weft__unlock_slow(struct lock *lock)
{
    weft__os_futex_wake(&lock->state, 1);
}
