/*
 * sleep.c: the clock, deadlines, sleep.
 */
#include <errno.h>
#include <weft/time.h>

#include "sched/sched.h"

int64_t weft_now(void)
{
    return weft__now();
}

int64_t weft_after(int64_t duration)
{
    if (duration <= 0)
        return WEFT_NOW;
    int64_t now = weft__now();
    return duration < WEFT_NEVER - now ? now + duration : WEFT_NEVER;
}

int weft_sleep_until(int64_t deadline)
{
    if (weft__runtime_forked())
        return -ECHILD;
    if (deadline <= WEFT_NOW) {
        weft_yield();
        return 0;
    }
    struct waiter own;
    bool fiber = enter_if_fiber();
    int result = weft__park(weft__waiter_begin(&own), WAIT_SLEEP, NULL, NULL, deadline);
    leave_if_fiber(fiber);
    if (result == -ETIMEDOUT && (weft__cancelled() == 0 || weft__now() >= deadline))
        return 0;
    return result;
}

int weft_sleep(int64_t duration)
{
    return weft_sleep_until(weft_after(duration));
}
