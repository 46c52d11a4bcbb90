/*
 * spin.c: the spin lock: a word that is 1 while the lock is held.
 *
 * Unlocking is a plain store, the last access of the holder.
 *
 * Each thread counts the spin locks that it holds. The count of the thread is that of the fiber on
 * it, since a fiber cannot change threads while it holds one: that takes a park or a yield, which
 * abort then. (A thread without memory for a record is not counted.)
 */
#include <errno.h>
#include <weft/spin.h>

#include "base/assert.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/spin_wait.h"

enum { ROUNDS_IN_CHILD = 1000 }; /* most of them naps: some tens of milliseconds */

static atomic_u32 *word_of(weft_spin *spin)
{
    return (atomic_u32 *)(void *)&spin->word;
}

static struct thread *record(void)
{
    struct thread *thread = thread_self();
    return likely(thread != NULL) ? thread : (struct thread *)weft__foreign_self();
}

static void count_up(void)
{
    struct thread *thread = record();
    if (likely(thread != NULL))
        thread->spins++;
}

static void count_down(void)
{
    struct thread *thread = record();
    /* A thread that shut the runtime down in between has a new record. */
    if (likely(thread != NULL && thread->spins > 0))
        thread->spins--;
}

static bool take(weft_spin *spin)
{
    uint32_t free = 0;
    return atomic_u32_cas_acquire(word_of(spin), &free, 1); /* pairs with unlock */
}

static noinline void lock_slow(weft_spin *spin)
{
    struct backoff backoff = {0};
    do {
        spin_wait(&backoff);
        if (backoff.round == ROUNDS_IN_CHILD && weft__runtime_forked())
            fatal("a spin lock was held when the process was forked: no thread unlocks it in the "
                  "child");
    } while (atomic_u32_load_relaxed(word_of(spin)) != 0 || !take(spin));
}

void weft_spin_lock(weft_spin *spin)
{
    if (unlikely(spin == NULL))
        fatal("weft_spin_lock was given no spin lock");
    if (unlikely(!take(spin)))
        lock_slow(spin);
    count_up();
}

int weft_spin_try_lock(weft_spin *spin)
{
    if (spin == NULL)
        return -EINVAL;
    if (!take(spin))
        return -EBUSY;
    count_up();
    return 0;
}

void weft_spin_unlock(weft_spin *spin)
{
    if (unlikely(spin == NULL))
        fatal("weft_spin_unlock was given no spin lock");
    if (unlikely(atomic_u32_load_relaxed(word_of(spin)) == 0))
        fatal("a spin lock is unlocked that is not locked");
    count_down();
    atomic_u32_store_release(word_of(spin), 0);
}
