/*
 * latch.c: the slow half of os/latch.h.
 *
 * A holder that has lost its CPU gets it back while others nap. Rejected: to yield first. A holder of lower priority does not
 * profit from it, and the kernel (6.18) takes it as a farewell: who yields waits for the whole slice of the other, 3 ms, though the
 * latch is free after one.
 */
#include "os/latch.h"

#include "os/os.h"

enum { SPIN_ROUNDS = 12, SPIN_CAP = 16 };

#define NAP (20 * 1000) /* ns */

void weft__latch_slow(struct latch *latch)
{
    uint32_t pauses = 1;
    for (int round = 0;; round++) {
        for (uint32_t i = 0; i < pauses; i++)
            cpu_relax();
        if (pauses < SPIN_CAP)
            pauses *= 2;
        if (atomic_u32_load_relaxed(&latch->held) == 0 && latch_try(latch))
            return;
        if (round >= SPIN_ROUNDS)
            weft__os_sleep_until(weft__os_now() + NAP);
    }
}
