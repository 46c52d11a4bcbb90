/*
 * sleep.c: the clock, deadlines, sleep.
 */
#include <errno.h>
#include <weft/time.h>

#include "base/compiler.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/cancel.h"
#include "sched/core/park.h"
#include "sched/fiber/fiber.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

static WAIT_KIND(wait_sleep, .text = "sleeps");

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
    return slept(weft__park(weft__waiter_begin(&own), wait_id(&wait_sleep), NULL, NULL, deadline),
                 deadline);
}

/* After the park of a fiber. Its deadline is read from its timer: nothing is remembered on the stack meanwhile. */
static noinline int end_sleep(int result)
{
    const struct thread *thread = thread_self();
    int64_t deadline = thread->fiber->timer.deadline;
    bool bound = thread->fiber->bound;
    runtime_leave(thread_self());
    return likely(result == -ETIMEDOUT && !bound) ? 0 : slept(result, deadline);
}

/* Small frames here and in the park: a compact fiber has them moved each time it sleeps. */
static noinline int sleep_fiber(int64_t deadline)
{
    struct weft_fiber *fiber = thread_self()->fiber;
    fiber->timer.deadline = deadline; /* it may be that it is not armed */
    return end_sleep(weft__park(&fiber->waiter, wait_id(&wait_sleep), NULL, NULL, deadline));
}

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
    return sleep_fiber(deadline);
}

int weft_sleep(int64_t duration)
{
    int64_t deadline = weft_after(duration);
    struct thread *thread = thread_self();
    if (thread != NULL && deadline != WEFT_NOW && deadline != WEFT_NEVER && !seeded())
        thread->clock = deadline - duration;
    return weft_sleep_until(deadline);
}
