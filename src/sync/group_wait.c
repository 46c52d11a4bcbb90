/*
 * group_wait.c: counts the functions of a group that run: the limit, waiting for a place, waiting
 * for the end.
 *
 * Everything is under the latch of the group. Invariants, whenever it is free:
 *
 *     a waiter for a place that has not given up   =>  running >= limit, and the context was not
 *                                                      cancelled when it joined the line
 *     a waiter for the end                         =>  running > 0
 *     a done channel that is to be closed          =>  running > 0
 *
 * Places. A call that finds a line goes to its end. A party that gives a place back, or raises the
 * limit, grants places to the head of the line as far as there is room: it claims a waiter
 * (sched/core/park.h), counts it as running, and wakes it. So no waiter is overtaken, and a granted
 * place is counted before any other party can see it as free. A lower limit needs no action: every
 * later request for a place is compared with it.
 *
 * Besides a place, these end the wait for one:
 *
 *     the caller's own context    claims the waiter, which takes itself out of the line. It was not
 *                                 granted a place, since the claim for that fails and the next
 *                                 in line is tried
 *     the group's context         weft__group_cancelled claims all in line. A call that comes later
 *                                 sees the reason, which it reads under the latch: the reason is
 *                                 set before the line is emptied, and that is under the latch too
 *     both                        one claim wins
 *
 * A place and a cancellation. weft__group_enter looks at the group's context after it has taken a
 * place, at once or by waiting, and gives the place back if the context is cancelled. To look
 * before is not enough:
 *
 *     a function of the group               weft__group_enter
 *                                           looks: the context is not cancelled
 *     fails: the context is cancelled
 *     ends: gives its place back
 *                                           takes that place, and starts a function
 *
 * The call would return 0, although the group was cancelled before the place became free. The
 * reason is set before the place is given back, and a place is given back and taken under the
 * latch: so a look after the place is taken sees the reason.
 *
 * The end. The function that brings `running` to zero takes out all waiters for the end, and the
 * done channel if there is one, in the same hold of the latch. The release of the latch is the last
 * access to the group: the waiters are claimed by then, and the done channel has two holders, the
 * group and the function that closes it (as its last step, when a wait for the group may have
 * returned already). So a party that finds `running` at zero under the latch may free the group.
 *
 * Rejected: a channel of places whose capacity is the limit, and a wait group beside it. The limit
 * could not change. And only the wait group would know that no function runs; after the operation
 * that brings it to zero the group may be gone, so it would be too late to close a done channel.
 */
#include <errno.h>
#include <weft/chan.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/os.h"
#include "sched/check/test_point.h"
#include "sched/core/park.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/group_internal.h"
#include "sync/object_latch.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_group, .text = "waits for a group");
static WAIT_KIND(wait_place, .text = "waits for a place in a group");

/* A done channel. */
struct done {
    weft_chan *chan;
    struct done *next;
    atomic_u32 holders; /* the group, and the function that is to close it */
};

enum { CANCELLED = 1 }; /* how a wait for a place ends when the group is cancelled */

static int64_t running(const weft_group *group)
{
    return atomic_i64_load_relaxed(&group->running);
}

static void count(weft_group *group, int64_t by)
{
    atomic_i64_add_owner(&group->running, by);
}

/* Places. */

/* Grants places to the head of the line, as far as there is room; under the latch. */
static void grant_places(weft_group *group, struct woken *woken)
{
    struct waiter *first;
    while (running(group) < group->limit &&
           (first = waiters_claim_first(&group->place_waiters, 0)) != NULL) {
        count(group, 1);
        woken_add(woken, first);
    }
}

/* Takes a place if there is one and no line: 0 or -EAGAIN; under the latch. */
static int take_place(weft_group *group)
{
    if (group->place_waiters != NULL || running(group) >= group->limit)
        return -EAGAIN;
    count(group, 1);
    return 0;
}

/* Waits in line for a place. The latch is held, and released. */
static int wait_in_line(weft_group *group)
{
    struct waiter own, *waiter = weft__waiter_begin(&own);
    waiters_add_last(&group->place_waiters, waiter);
    int result =
        weft__park(waiter, wait_id(&wait_place), object_latch_unlock, &group->latch, WEFT_NEVER);
    if (wait_gave_up(result)) {
        object_latch_acquire(&group->latch);
        (void)waiters_remove(&group->place_waiters, waiter);
        object_latch_release(&group->latch);
    }
    return result == CANCELLED ? weft_context_error(group->context) : result;
}

static int wait_for_place(weft_group *group)
{
    bool fiber = enter_if_fiber();
    object_latch_acquire(&group->latch);
    int error = weft_context_error(group->context);
    if (error == 0)
        error = take_place(group);
    if (error == -EAGAIN)
        error = wait_in_line(group);
    else
        object_latch_release(&group->latch);
    leave_if_fiber(fiber);
    if (error != 0)
        return error;
    error = weft_context_error(group->context);
    if (error != 0)
        weft__group_exit(group);
    return error;
}

int weft__group_enter(weft_group *group, bool wait)
{
    test_point();
    object_latch_acquire(&group->latch);
    int place = take_place(group);
    object_latch_release(&group->latch);
    int error = weft_context_error(group->context); /* not before: see the opening comment */
    if (error != 0) {
        if (place == 0)
            weft__group_exit(group);
        return error;
    }
    if (place != -EAGAIN || !wait)
        return place;
    if (group->hooks != NULL)
        group->hooks->waiting(group, 1);
    error = wait_for_place(group);
    if (group->hooks != NULL)
        group->hooks->waiting(group, -1);
    return error;
}

void weft__group_cancelled(void *arg)
{
    weft_group *group = arg;
    struct woken woken;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    object_latch_acquire(&group->latch);
    (void)waiters_claim_all(&group->place_waiters, CANCELLED, &woken);
    /* A call that waits for the executor holds a place, and this one takes another, so the group
     * is not closed meanwhile. A call that takes a place later sees the reason then. */
    bool notify = group->hooks != NULL && running(group) > 0;
    if (notify)
        count(group, 1);
    object_latch_release(&group->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
    if (!notify)
        return;
    group->hooks->cancelled(group->executor, weft_context_error(group->context));
    weft__group_exit(group);
}

int weft_group_set_limit(weft_group *group, int64_t limit)
{
    if (group == NULL || limit < 0)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    struct woken woken;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    object_latch_acquire(&group->latch);
    group->limit = limit != 0 ? limit : NO_LIMIT;
    grant_places(group, &woken);
    object_latch_release(&group->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
    return 0;
}

int64_t weft_group_running(const weft_group *group)
{
    return group != NULL ? running(group) : 0;
}

/* The end. */

static void done_drop(struct done *done)
{
    /* Pairs with itself: the last holder sees what the other did. */
    if (atomic_u32_sub_acq_rel(&done->holders, 1) == 1) {
        weft_chan_destroy(done->chan);
        weft__os_free(done);
    }
}

static noinline void exit_and_wake(weft_group *group)
{
    struct woken woken;
    struct done *done = NULL;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    object_latch_acquire(&group->latch);
    count(group, -1);
    grant_places(group, &woken);
    if (running(group) == 0) {
        (void)waiters_claim_all(&group->end_waiters, 0, &woken);
        done = group->done;
        group->done = NULL;
    }
    object_latch_release(&group->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
    if (done != NULL) {
        (void)weft_chan_close(done->chan);
        done_drop(done);
    }
}

void weft__group_exit(weft_group *group)
{
    object_latch_acquire(&group->latch);
    bool wakes_none = group->place_waiters == NULL &&
                      (running(group) > 1 || (group->end_waiters == NULL && group->done == NULL));
    if (likely(wakes_none))
        count(group, -1);
    object_latch_release(&group->latch);
    if (unlikely(!wakes_none))
        exit_and_wake(group);
    test_point();
}

static int wait_for_end(weft_group *group, int64_t deadline)
{
    int result = 0;
    bool fiber = enter_if_fiber();
    object_latch_acquire(&group->latch);
    if (running(group) == 0) {
        object_latch_release(&group->latch);
    } else {
        struct waiter own, *waiter = weft__waiter_begin(&own);
        waiters_add_last(&group->end_waiters, waiter);
        result = weft__park(waiter, wait_id(&wait_group) | WAIT_FIRM, object_latch_unlock,
                            &group->latch, deadline);
        if (wait_gave_up(result)) {
            object_latch_acquire(&group->latch);
            if (!waiters_remove(&group->end_waiters, waiter))
                result = 0; /* none ran at a moment before it gave up */
            object_latch_release(&group->latch);
        }
    }
    leave_if_fiber(fiber);
    return result;
}

int weft__group_await(weft_group *group, int64_t deadline)
{
    if (group == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    if (weft__group_inside(group))
        return -EDEADLK;
    test_point();
    object_latch_acquire(&group->latch); /* so that the last function is done with the group */
    bool over = running(group) == 0;
    object_latch_release(&group->latch);
    if (over || deadline <= WEFT_NOW)
        return over ? 0 : -ETIMEDOUT;
    if (group->hooks != NULL)
        group->hooks->waiting(group, 1);
    int error = wait_for_end(group, deadline);
    if (group->hooks != NULL)
        group->hooks->waiting(group, -1);
    return error;
}

int weft_group_wait_until(weft_group *group, int64_t deadline, int *error)
{
    int result = weft__group_await(group, deadline);
    if (result == 0 && error != NULL)
        *error = weft__group_error(group);
    return result;
}

int weft_group_wait(weft_group *group, int *error)
{
    return weft_group_wait_until(group, WEFT_NEVER, error);
}

/* Done channels. */

static struct done *done_make(void)
{
    struct done *done = weft__os_alloc_zeroed(sizeof *done);
    if (done != NULL && weft_chan_make(&done->chan, 0, 0) != 0) {
        weft__os_free(done);
        return NULL;
    }
    return done;
}

/* The done channel of this moment: if functions run, the one to be closed; else the last one, which
 * is closed or about to be. NULL: there is none. Under the latch. */
static struct done *done_find(const weft_group *group)
{
    return running(group) > 0 ? group->done : group->dones;
}

/* Adds a new channel, or replaces *made by the one that another call has added meanwhile. True: the
 * caller is to close it, since no function runs. */
static bool done_add(weft_group *group, struct done **made)
{
    object_latch_acquire(&group->latch);
    bool over = running(group) == 0;
    struct done *done = done_find(group), *fresh = *made;
    if (done == NULL) {
        atomic_u32_store_relaxed(&fresh->holders, over ? 1 : 2);
        fresh->next = group->dones;
        group->dones = fresh;
        group->done = over ? NULL : fresh;
    }
    object_latch_release(&group->latch);
    if (done == NULL)
        return over;
    weft_chan_destroy(fresh->chan);
    weft__os_free(fresh);
    *made = done;
    return false;
}

int weft_group_done(weft_group *group, weft_chan **out)
{
    if (group == NULL || out == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    object_latch_acquire(&group->latch);
    struct done *done = done_find(group);
    object_latch_release(&group->latch);
    if (done == NULL) {
        if ((done = done_make()) == NULL)
            return -ENOMEM;
        if (done_add(group, &done))
            (void)weft_chan_close(done->chan);
    }
    *out = done->chan;
    return 0;
}

/* No function of the group runs. */
void weft__group_free_dones(weft_group *group)
{
    for (struct done *done = group->dones, *next; done != NULL; done = next) {
        next = done->next;
        done_drop(done);
    }
}
