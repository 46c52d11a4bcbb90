/*
 * membarrier.h: an asymmetric barrier for Dekker's pattern, where one side is hot and the other
 * rare.
 *
 *     hot side:   store A;  barrier_light();  load B
 *     rare side:  store B;  barrier_heavy();  load A
 *
 * At least one of the two sees the other's store. The hot side pays nothing: the rare side makes
 * every thread of the process pass a full barrier (membarrier: 0.1 us if no other runs, some
 * microseconds if others do, more on virtual machines). For a thread that runs, that barrier falls
 * either before its `load B`, which then sees B, or after its `store A`, which the rare side then
 * sees; a thread that does not run passed one when it left its CPU.
 *
 * Where membarrier is missing, both sides do a seq_cst read-modify-write on one shared word: those
 * are totally ordered, so whichever comes second sees what the first had stored before it. That is
 * slower (a contended line on the hot side), and right.
 */
#ifndef WEFT_OS_MEMBARRIER_H
#define WEFT_OS_MEMBARRIER_H

#include "base/atomic.h"
#include "base/compiler.h"

extern struct weft__barrier {
    bool symmetric; /* no membarrier; written only while the runtime starts */
    _Alignas(CACHE_LINE) atomic_u32 word;
} weft__barrier;

/* Chooses; `allowed` false acts as if membarrier were missing. Called when no fiber runs. */
void weft__barrier_choose(bool allowed);

void weft__barrier_heavy(void);

static inline void barrier_light(void)
{
    compiler_barrier();
    if (unlikely(weft__barrier.symmetric))
        atomic_u32_add_seq_cst(&weft__barrier.word, 1);
}

static inline void barrier_heavy(void)
{
    weft__barrier_heavy();
}

#endif
