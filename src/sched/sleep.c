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

/* What a sleep returns. */
static int slept(int result, int64_t deadline)
{
    if (result == -ETIMEDOUT && (weft__cancelled() == 0 || weft__now() >= deadline))
        return 0;
    return result;
}

static noinline int sleep_thread(int64_t deadline)
{
    struct waiter own;
    return slept(weft__park(weft__waiter_begin(&own), WAIT_SLEEP, NULL, NULL, deadline), deadline);
}

/* Small frames here and in the park: a compact fiber has them moved each time it sleeps. */
int weft_sleep_until(int64_t deadline)
{
    if (weft__runtime_forked())
        return -ECHILD;
    if (deadline <= WEFT_NOW) {
        weft_yield();
        return 0;
    }
    if (!enter_if_fiber())
        return sleep_thread(deadline);
    int result = weft__park(&thread_self()->fiber->waiter, WAIT_SLEEP, NULL, NULL, deadline);
    runtime_leave(thread_self());
    return slept(result, deadline);
}

int weft_sleep(int64_t duration)
{
    int64_t deadline = weft_after(duration);
    struct thread *thread = thread_self();
    if (thread != NULL && deadline != WEFT_NOW && deadline != WEFT_NEVER && !seeded())
        thread->clock = deadline - duration;
    return weft_sleep_until(deadline);
}
