/*
 * backoff.h: how to wait for what takes some tens of nanoseconds, when one may not park.
 *
 * First pauses of the CPU, each time twice as many up to a cap: about 2 us. Who holds the lock then
 * must have lost its CPU; so the next times give up one's own, and if that does not help either, since
 * a yield does nothing for a holder of lower priority, sleep.
 */
#ifndef WEFT_SYNC_BACKOFF_H
#define WEFT_SYNC_BACKOFF_H

#include "os/os.h"

enum { BACKOFF_CAP = 16, BACKOFF_ROUNDS = 12, BACKOFF_YIELDS = 8 };

#define BACKOFF_NAP ((int64_t)20 * 1000) /* ns */

/* Zero-initialised is at the beginning. */
struct backoff {
    uint32_t round, pauses;
};

/* Does the pauses of one round: 1, 2, 4, up to the cap. */
static inline void backoff_pause(struct backoff *backoff)
{
    backoff->round++;
    backoff->pauses = backoff->pauses < BACKOFF_CAP / 2 ? backoff->pauses * 2 + 1 : BACKOFF_CAP;
    for (uint32_t i = 0; i < backoff->pauses; i++)
        cpu_relax();
}

static inline void backoff_wait(struct backoff *backoff)
{
    backoff_pause(backoff);
    if (backoff->round > BACKOFF_ROUNDS + BACKOFF_YIELDS)
        weft__os_sleep_until(weft__os_now() + BACKOFF_NAP);
    else if (backoff->round > BACKOFF_ROUNDS)
        weft__os_yield();
}

#endif
