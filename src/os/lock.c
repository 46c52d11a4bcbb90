/*
 * lock.c: the slow halves of os/lock.h.
 */
#include "os/lock.h"

#include "os/os.h"

/* 1 + 2 + 4 + ... pauses, no single round longer than SPIN_CAP: about 2 us in all, longer than any
 * section that is not preempted. */
enum { SPIN_ROUNDS = 8, SPIN_CAP = 16 };

void weft__lock_slow(struct lock *lock)
{
    uint32_t pauses = 1;
    for (int round = 0; round < SPIN_ROUNDS; round++) {
        for (uint32_t i = 0; i < pauses; i++)
            cpu_relax();
        if (pauses < SPIN_CAP)
            pauses *= 2;
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
