/*
 * sleep.c: the clock, deadlines, sleep (weft/time.h).
 *
 * A sleep is a wait without an object (park.h): only the clock or a context ends it.
 *
 * A fiber that sleeps often, of which there may be a million, must have small frames while it is
 * parked, because the stack of a compact fiber is copied at each park. So the path of a fiber is
 * split into functions that are not inlined, and nothing lives across the park: the deadline is
 * read back from the fiber's timer.
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

/* The result of a sleep, from that of its park. -ETIMEDOUT is an end in time, unless the deadline
 * of a context came first. */
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

/* Ends the sleep of a fiber after its park; the deadline is read from its timer. */
static noinline int end_sleep(int result)
{
    const struct thread *thread = thread_self();
    int64_t deadline = thread->fiber->timer.deadline;
    bool bound = thread->fiber->bound;
    runtime_leave(thread_self());
    return likely(result == -ETIMEDOUT && !bound) ? 0 : slept(result, deadline);
}

static noinline int sleep_fiber(int64_t deadline)
{
    struct weft_fiber *fiber = thread_self()->fiber;
    fiber->timer.deadline = deadline; /* the park may end without arming the timer */
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
