/*
 * sleep.c: the clock, deadlines, sleep.
 */
#include <errno.h>
#include <weft/time.h>

#include "sched/sched.h"

int64_t weft_now(void)
{
    return weft__sys_now();
}

int64_t weft_after(int64_t duration)
{
    if (duration <= 0)
        return WEFT_NOW;
    int64_t now = weft__sys_now();
    return duration < WEFT_NEVER - now ? now + duration : WEFT_NEVER;
}

int weft_sleep_until(int64_t deadline)
{
    if (weft__runtime_forked())
        return -ECHILD;
    struct thread *thread = thread_self();
    if (deadline <= WEFT_NOW) {
        weft_yield();
    } else if (unlikely(thread == NULL || thread->fiber == NULL)) {
        weft__sys_sleep_until(deadline);
    } else {
        runtime_enter(thread);
        (void)weft__park(weft__waiter_begin(NULL), NULL, NULL, deadline);
        runtime_leave(thread_self());
    }
    return 0;
}

int weft_sleep(int64_t duration)
{
    return weft_sleep_until(weft_after(duration));
}
