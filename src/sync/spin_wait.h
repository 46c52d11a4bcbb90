/*
 * spin_wait.h: how a caller waits for a latch bit or a spin lock of this floor, which is held for
 * tens of nanoseconds.
 *
 * It pauses first (base/backoff.h). Then it yields its CPU a few times, which is enough if the
 * holder is ready to run on the same CPU. Then it sleeps, since a yield does nothing for a holder
 * of lower priority.
 */
#ifndef WEFT_SYNC_SPIN_WAIT_H
#define WEFT_SYNC_SPIN_WAIT_H

#include "base/backoff.h"
#include "os/os.h"

enum { SPIN_WAIT_YIELDS = 8 };

#define SPIN_WAIT_SLEEP ((int64_t)20 * 1000) /* ns */

static inline void spin_wait(struct backoff *backoff)
{
    backoff_pause(backoff);
    if (backoff->round > BACKOFF_ROUNDS + SPIN_WAIT_YIELDS)
        weft__os_sleep_until(weft__os_now() + SPIN_WAIT_SLEEP);
    else if (backoff->round > BACKOFF_ROUNDS)
        weft__os_yield();
}

#endif
