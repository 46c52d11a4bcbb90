/*
 * latch.c: the slow half of os/latch.h.
 *
 * A holder that has lost its CPU gets it back while the waiters sleep.
 *
 * Rejected: to yield first. A yield does not help a holder of lower priority, and on kernel 6.18 it
 * costs the caller the rest of its slice: it then waits for the whole slice of another thread, 3
 * ms, although the latch is free after 1 ms.
 */
#include "os/latch.h"

#include "base/backoff.h"
#include "os/os.h"

#define SLEEP ((int64_t)20 * 1000) /* ns */

void weft__latch_slow(struct latch *latch)
{
    struct backoff backoff = {0};
    for (;;) {
        backoff_pause(&backoff);
        if (atomic_u32_load_relaxed(&latch->held) == 0 && latch_try(latch))
            return;
        if (backoff.round > BACKOFF_ROUNDS)
            weft__os_sleep_until(weft__os_now() + SLEEP);
    }
}
