/*
 * limiter.c: the rate limiter: a token bucket with a line (weft/limiter.h).
 *
 * The bucket. At time `counted` there are `level` whole events and `part`/period of one. Each
 * nanosecond adds rate/period of an event, that is `rate` units of 1/period: whole numbers, so that
 * nothing is rounded and nothing drifts. Products are 128 bits wide, since rate and period each
 * need up to 63. Every operation first refills the bucket up to now.
 *
 * What the takes in line have asked for is `reserved`: it is part of the level once it has come,
 * and the cap moves with it. Invariants, whenever the latch is free:
 *
 *     0 <= level <= burst + reserved
 *     0 <= part < period, and part = 0 if the level is at its cap
 *     reserved = the sum of `events` in line, at most WEFT_LIMITER_MAX
 *
 * So whether a take is woken on time or late, the level after it is the same: the turns follow from
 * the calls alone. A newcomer takes at once if level - reserved is enough for it. That overtakes no
 * take: the turns of all in line have come then, and their events stay. Otherwise its turn is when
 * the level reaches reserved + n, the smallest integral time at which the units suffice, and it
 * joins the end of the line.
 *
 * The line. Each take parks with a deadline of its own, `wake_at`, which is set to its turn. The
 * turn is known in O(1) when the take joins, and whenever it is the first. In between it may
 * change: to earlier if a take before it leaves, or the rate rises; to later if the rate falls.
 * Only the head of the line is corrected:
 *
 *     the first in line is claimed (and about to be woken), or its wake_at is its turn or earlier
 *
 * A take that wakes too early parks again: the first in line until its turn; any other until its
 * own deadline, since it will be woken when it is the first. advance_line() keeps the invariant: it
 * grants the takes at the head whose turn has come, and wakes the first of the others to set its
 * wake_at, if that is too late. It is called at every wake, leave and change. The cost: a leave or
 * a change wakes at most one take that is not due; after a fall of the rate each take in line wakes
 * once too early; otherwise each take is woken once.
 *
 * Where a take may be when advance_line() grants or wakes it:
 *
 *     parked                          it is claimed here, and woken after the latch is free
 *     claimed by its deadline         on its way to the latch, where it finds `granted`, or checks
 *                                     for itself
 *     claimed by its context          the same; if it was granted first it returns 0, and no event
 *                                     has to be given back
 *     claimed by an advance_line()    the same; woken with CHECK_AGAIN
 *
 * A pool has a take that is part of it (pool/rate.c), and may expel it. In any of these places the
 * take is removed from the line, and finds `expelled` when it comes to the latch. If all that can
 * be reserved is reserved, such a take joins the line for no events: when it is the first it is
 * granted at once, and its caller tries again.
 *
 * `granted` is read under the latch, except by a take that was woken with GRANTED: its waker had
 * set it before, and the limiter is not accessed again. A take is on the stack of the call that
 * waits, and is out of the line before that call returns.
 *
 * Rejected:
 *  - A turn that is fixed at the call (one number, the time at which the next turn begins): leaving
 *    would cost O(n), or the events.
 *  - A deadline for the head alone: each take would be woken twice.
 *  - A timer that serves the line: it needs the runtime, which threads alone do not, and memory
 *    that may lack.
 */
#include "sync/limiter.h"

#include <errno.h>
#include <string.h>
#include <weft/context.h>

#include "base/assert.h"
#include "sched/check/seeded.h"
#include "sched/check/test_point.h"
#include "sched/core/cancel.h"
#include "sched/core/park.h"
#include "sched/fiber/compact.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/object_latch.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_limiter, .text = "waits for a rate limiter");

/* For the product of two numbers of 63 bits. C11 has no such type; both compilers do. */
__extension__ typedef unsigned __int128 wide;

/* What a take is woken with. */
enum { GRANTED = 0, CHECK_AGAIN = 1, EXPELLED = 2 };

/* The bucket; under the latch. */

/* Caps the level, after the burst or what is reserved has become less. */
static void cap(struct weft_limiter *limiter)
{
    if (limiter->level - limiter->reserved < limiter->burst)
        return;
    limiter->level = limiter->burst + limiter->reserved;
    limiter->part = 0;
}

/* Adds what the time up to now has brought. */
static void refill(struct weft_limiter *limiter, int64_t now)
{
    if (now <= limiter->counted)
        return; /* another call has read the clock later */
    wide units = (wide)(now - limiter->counted) * (wide)limiter->rate + (wide)limiter->part;
    wide events = units / (wide)limiter->period;
    int64_t room = limiter->burst + limiter->reserved - limiter->level;
    limiter->counted = now;
    limiter->part = (int64_t)(units - events * (wide)limiter->period);
    limiter->level += events < (wide)room ? (int64_t)events : room;
    cap(limiter);
}

/* The time when the level reaches `level`, which is above what there is; WEFT_NEVER if the clock
 * does not reach that time. */
static int64_t time_of(const struct weft_limiter *limiter, int64_t level)
{
    wide units = (wide)(level - limiter->level) * (wide)limiter->period - (wide)limiter->part;
    wide wait = (units + (wide)limiter->rate - 1) / (wide)limiter->rate;
    if (wait >= (wide)(WEFT_NEVER - limiter->counted))
        return WEFT_NEVER;
    return limiter->counted + (int64_t)wait;
}

/* The line; under the latch. */

static void line_add(struct weft_limiter *limiter, struct take *take)
{
    take->next = NULL;
    take->previous = limiter->last;
    if (limiter->last != NULL)
        limiter->last->next = take;
    else
        limiter->first = take;
    limiter->last = take;
    limiter->reserved += take->events;
}

static void line_remove(struct weft_limiter *limiter, struct take *take)
{
    if (take->previous != NULL)
        take->previous->next = take->next;
    else
        limiter->first = take->next;
    if (take->next != NULL)
        take->next->previous = take->previous;
    else
        limiter->last = take->previous;
    limiter->reserved -= take->events;
}

/* Empties the line in a forked child: its takes are in the parent. */
static void line_forget(struct weft_limiter *limiter)
{
    limiter->first = limiter->last = NULL;
    limiter->reserved = 0;
    cap(limiter);
}

/* Grants the takes whose turn has come, and wakes the first of the others if its wake_at is too
 * late. */
static void advance_line(struct weft_limiter *limiter, struct woken *woken)
{
    struct take *first;
    while ((first = limiter->first) != NULL && first->events <= limiter->level) {
        line_remove(limiter, first);
        limiter->level -= first->events;
        first->granted = true;
        if (waiter_claim(first->waiter, GRANTED))
            woken_add(woken, first->waiter);
    }
    cap(limiter);
    if (first != NULL && first->wake_at > time_of(limiter, first->events) &&
        waiter_claim(first->waiter, CHECK_AGAIN))
        woken_add(woken, first->waiter);
}

/* Takes. */

/* Takes n events if they are there. Returns 0; -EINVAL if there can never be so many; -ETIMEDOUT if
 * the turn is after the deadline; or -EAGAIN if the turn, in *turn, is to be waited for. Under the
 * latch. */
static int take_now(struct weft_limiter *limiter, int64_t n, int64_t now, int64_t deadline,
                    int64_t *turn)
{
    if (weft__runtime_forked())
        line_forget(limiter);
    refill(limiter, now);
    if (n > limiter->burst)
        return -EINVAL;
    if (limiter->level - limiter->reserved >= n) {
        limiter->level -= n;
        return 0;
    }
    if (n > WEFT_LIMITER_MAX - limiter->reserved)
        return -ETIMEDOUT;
    *turn = time_of(limiter, limiter->reserved + n);
    return *turn != WEFT_NEVER && *turn <= deadline ? -EAGAIN : -ETIMEDOUT;
}

/* For a take that was woken and is in line: -EAGAIN if it is to park again, with wake_at set; else
 * the reason for which it has to leave. Under the latch. */
static int stay(struct weft_limiter *limiter, struct take *take, int64_t now, int64_t deadline)
{
    int error = take->firm ? 0 : weft__cancelled();
    if (error != 0)
        return error;
    if (now >= deadline)
        return -ETIMEDOUT;
    take->wake_at = deadline;
    if (take != limiter->first)
        return -EAGAIN;
    int64_t turn = time_of(limiter, take->events);
    if (turn > deadline)
        return -ETIMEDOUT;
    take->wake_at = turn;
    return -EAGAIN;
}

/* For a take that was not woken with GRANTED. -EAGAIN: it is to park again, and the latch is held;
 * else it is out of the line. */
static int check_again(struct weft_limiter *limiter, struct take *take, int result,
                       int64_t deadline)
{
    for (;;) {
        struct woken woken;
        woken_begin(&woken);
        int64_t now = weft__now();
        /* Its park has timed out, so its time has come: the clock of a thread is not weft's clock
         * in a test run. (If a context has timed out: the deadline of that is not before
         * wake_at.) */
        if (result == -ETIMEDOUT && now < take->wake_at)
            now = take->wake_at;
        object_latch_acquire(&limiter->latch);
        result = take->expelled ? -ECANCELED : 0;
        bool in_line = !take->granted && !take->expelled;
        if (in_line) {
            refill(limiter, now);
            advance_line(limiter, &woken);
        }
        if (in_line && !take->granted && (result = stay(limiter, take, now, deadline)) != -EAGAIN) {
            line_remove(limiter, take);
            advance_line(limiter, &woken);
        }
        if (result == -EAGAIN && woken.first == NULL)
            return -EAGAIN;
        object_latch_release(&limiter->latch);
        woken_wake(&woken);
        if (result != -EAGAIN)
            return result;
    }
}

/* Waits in line with this take. The latch is held, and released. */
static int enqueue_and_park(struct weft_limiter *limiter, struct take *take, int64_t deadline)
{
    struct waiter own;
    int result;
    line_add(limiter, take);
    do {
        take->waiter = weft__waiter_begin(&own);
        result = weft__park(take->waiter, wait_id(&wait_limiter) | (take->firm ? WAIT_FIRM : 0),
                            object_latch_unlock, &limiter->latch, take->wake_at);
        result = result == GRANTED ? 0 : check_again(limiter, take, result, deadline);
    } while (result == -EAGAIN);
    take->waiter = NULL; /* it is not in line any more */
    return result;
}

/* Waits in line. The latch is held, and released. -EAGAIN: a compact fiber has no memory for its
 * take. */
static int wait_in_line(struct weft_limiter *limiter, int64_t n, int64_t turn, int64_t deadline)
{
    struct take own = {.events = n, .wake_at = turn};
    if (likely(!on_compact()))
        return enqueue_and_park(limiter, &own, deadline);
    struct take *take = weft__stash(sizeof *take);
    if (take == NULL) {
        object_latch_release(&limiter->latch);
        return -EAGAIN;
    }
    *take = own;
    int result = enqueue_and_park(limiter, take, deadline);
    weft__unstash(take);
    return result;
}

/* The deadline, or that of the caller's context if it comes first. */
static int64_t earlier_deadline(int64_t deadline)
{
    int64_t of_context = weft_context_deadline(weft_context_current());
    return of_context < deadline ? of_context : deadline;
}

/* Takes n events inside the runtime, or waits for them. -EAGAIN: a compact fiber has no memory to
 * wait with. */
static int take_or_wait(struct weft_limiter *limiter, int64_t n, int64_t deadline)
{
    int64_t turn;
    bool fiber = enter_if_fiber();
    int64_t now = weft__now();
    object_latch_acquire(&limiter->latch);
    int result = take_now(limiter, n, now, deadline, &turn);
    if (result == -EAGAIN)
        result = wait_in_line(limiter, n, turn, deadline);
    else
        object_latch_release(&limiter->latch);
    leave_if_fiber(fiber);
    return result;
}

static int take_at_once(struct weft_limiter *limiter, int64_t n, int64_t deadline)
{
    int64_t turn;
    test_point();
    int64_t now = weft__now();
    object_latch_acquire(&limiter->latch);
    int result = take_now(limiter, n, now, deadline, &turn);
    object_latch_release(&limiter->latch);
    return result;
}

int weft_limiter_take_until(weft_limiter *limiter, int64_t n, int64_t deadline)
{
    if (limiter == NULL || n < 1)
        return -EINVAL;
    int result = take_at_once(limiter, n, deadline);
    if (likely(result != -EAGAIN))
        return result;
    if (weft__runtime_forked())
        return -ECHILD;
    if ((result = weft__cancelled()) != 0)
        return result;
    deadline = earlier_deadline(deadline);
    while (unlikely((result = take_or_wait(limiter, n, deadline)) == -EAGAIN)) {
        int error = weft__stash_wait(deadline);
        if (error != 0)
            return error;
    }
    return result;
}

int weft_limiter_take(weft_limiter *limiter, int64_t n)
{
    return weft_limiter_take_until(limiter, n, WEFT_NEVER);
}

int weft_limiter_try_take(weft_limiter *limiter, int64_t n)
{
    if (limiter == NULL || n < 1)
        return -EINVAL;
    int result = take_at_once(limiter, n, WEFT_NOW);
    return result == -ETIMEDOUT ? -EAGAIN : result;
}

/* For an object with a lock of its own. */

bool weft__limiter_take_now(struct weft_limiter *limiter)
{
    int64_t turn, now = weft__now();
    object_latch_acquire(&limiter->latch);
    bool taken = take_now(limiter, 1, now, WEFT_NOW, &turn) == 0;
    object_latch_release(&limiter->latch);
    return taken;
}

void weft__limiter_give_back(struct weft_limiter *limiter, struct woken *woken)
{
    int64_t now = weft__now();
    object_latch_acquire(&limiter->latch);
    refill(limiter, now);
    limiter->level++;
    advance_line(limiter, woken);
    object_latch_release(&limiter->latch);
}

int weft__limiter_await(struct weft_limiter *limiter, struct take *take, void (*unlock)(void *),
                        void *object)
{
    int64_t turn = WEFT_NEVER, now = weft__now();
    object_latch_acquire(&limiter->latch);
    int result = take_now(limiter, 1, now, WEFT_NEVER, &turn);
    *take = (struct take){.events = limiter->reserved < WEFT_LIMITER_MAX,
                          .wake_at = turn,
                          .firm = true,
                          .granted = result == 0};
    unlock(object);
    if (result == 0) {
        object_latch_release(&limiter->latch);
        return 0;
    }
    result = enqueue_and_park(limiter, take, WEFT_NEVER);
    return result == 0 && take->events == 0 ? -EAGAIN : result;
}

void weft__limiter_expel(struct weft_limiter *limiter, struct take *take, struct woken *woken)
{
    int64_t now = weft__now();
    object_latch_acquire(&limiter->latch);
    if (!take->granted && !take->expelled) {
        take->expelled = true;
        line_remove(limiter, take);
        if (waiter_claim(take->waiter, EXPELLED))
            woken_add(woken, take->waiter);
        refill(limiter, now);
        advance_line(limiter, woken);
    }
    object_latch_release(&limiter->latch);
}

/* Its life. */

static bool in_range(int64_t number)
{
    return number >= 1 && number <= WEFT_LIMITER_MAX;
}

int weft_limiter_open(weft_limiter **out, const weft_limiter_options *options)
{
    static const weft_limiter_options none;
    if (out == NULL || options == NULL ||
        memcmp(options->reserved, none.reserved, sizeof none.reserved) != 0)
        return -EINVAL;
    int64_t period = options->period != 0 ? options->period : WEFT_S;
    int64_t burst = options->burst != 0 ? options->burst : 1;
    if (!in_range(options->rate) || !in_range(burst) || period < 1)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    struct weft_limiter *limiter = weft__os_alloc_zeroed(sizeof *limiter);
    if (limiter == NULL)
        return -ENOMEM;
    limiter->rate = options->rate;
    limiter->period = period;
    limiter->burst = limiter->level = burst; /* full: `counted` is 0 */
    *out = limiter;
    return 0;
}

int weft_limiter_set(weft_limiter *limiter, int64_t rate, int64_t burst)
{
    if (limiter == NULL || !in_range(rate) || !in_range(burst))
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    struct woken woken;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    int64_t now = weft__now();
    object_latch_acquire(&limiter->latch);
    refill(limiter, now);
    limiter->rate = rate;
    limiter->burst = burst;
    advance_line(limiter, &woken);
    object_latch_release(&limiter->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
    return 0;
}

void weft_limiter_close(weft_limiter *limiter)
{
    if (limiter == NULL)
        return;
    object_latch_acquire(&limiter->latch);
    bool waited_for = limiter->first != NULL && !weft__runtime_forked();
    object_latch_release(&limiter->latch);
    if (waited_for)
        fatal("a limiter is closed that a caller waits for");
    weft__os_free(limiter);
}
