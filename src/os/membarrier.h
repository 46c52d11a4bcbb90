/*
 * membarrier.h: an asymmetric barrier for Dekker's pattern, where one side is hot and the other
 * rare.
 *
 *     hot side:   store A;  barrier_light();  load B
 *     rare side:  store B;  barrier_heavy();  load A
 *
 * At least one side sees the store of the other. The hot side pays nothing: the rare side makes
 * every thread of the process pass a full barrier (membarrier: 0.1 us if no other thread runs, some
 * microseconds if others do, more on virtual machines). A thread that runs passes that barrier
 * either before its `load B`, which then sees B, or after its `store A`, which the rare side then
 * sees. A thread that does not run passed one when it left its CPU.
 *
 * Where membarrier is missing, both sides do a seq_cst read-modify-write on one shared word. Those
 * are totally ordered, so the second one sees what the first side stored before. That is slower (a
 * contended line on the hot side) and as correct.
 */
#ifndef WEFT_OS_MEMBARRIER_H
#define WEFT_OS_MEMBARRIER_H

#include "base/atomic.h"
#include "base/compiler.h"

extern struct weft__barrier {
    bool symmetric; /* without membarrier; written only while the runtime starts */
    _Alignas(CACHE_LINE) atomic_u32 word;
} weft__barrier;

/* Chooses between the two; if `allowed` is false, as if membarrier were missing. Called while no
 * fiber runs. */
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
