/*
 * sem.c: the counting semaphore: a latch, a count of units, and a line of requests.
 *
 * Everything is under the latch. Invariant, whenever it is free, requests that have given up not
 * counted:
 *
 *     a request is in line    =>  the first one wants more units than there are
 *
 * So an acquire that finds a line goes to its end. A release, or a request that leaves, grants
 * units to the head of the line as far as they suffice: it takes the units for the request, and
 * wakes it. No request is overtaken, and each is woken once.
 *
 * A request is on the stack of its call. While it is in line others access it, under the latch. A
 * request that gave up takes the latch before its call returns; one that was granted does not touch
 * the semaphore again.
 */
#include "sync/sem.h"

#include <errno.h>
#include <weft/fiber.h>

#include "base/assert.h"
#include "sched/check/test_point.h"
#include "sched/core/park.h"
#include "sched/fiber/compact.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/object_latch.h"
#include "sync/waiters.h"

static WAIT_KIND(wait_sem, .text = "acquires a semaphore");

/* Read without the latch by weft_sem_available. */
static atomic_i64 *available_of(const weft_sem *sem)
{
    return (atomic_i64 *)(uintptr_t)&sem->available;
}

static int64_t available(const weft_sem *sem)
{
    return atomic_i64_load_relaxed(available_of(sem));
}

static void change(weft_sem *sem, int64_t by)
{
    atomic_i64_add_owner(available_of(sem), by);
}

/* The line; under the latch. */

static void line_add(weft_sem *sem, struct request *request)
{
    struct request *last = sem->last;
    request->next = NULL;
    request->previous = last;
    request->listed = true;
    if (last != NULL)
        last->next = request;
    else
        sem->first = request;
    sem->last = request;
}

static void line_remove(weft_sem *sem, struct request *request)
{
    if (!request->listed)
        return;
    request->listed = false;
    if (request->previous != NULL)
        request->previous->next = request->next;
    else
        sem->first = request->next;
    if (request->next != NULL)
        request->next->previous = request->previous;
    else
        sem->last = request->previous;
}

/* Grants units to the head of the line, as far as they suffice. */
static void grant_units(weft_sem *sem, struct woken *woken)
{
    struct request *first;
    while ((first = sem->first) != NULL && first->units <= available(sem)) {
        line_remove(sem, first);
        if (!waiter_claim(first->waiter, 0))
            continue; /* it has given up */
        change(sem, -first->units);
        woken_add(woken, first->waiter);
    }
}

/* In a forked child there is no line: its requests are in the parent. */
static bool has_waiters(const weft_sem *sem)
{
    return sem->first != NULL && !weft__runtime_forked();
}

static bool take(weft_sem *sem, int64_t n)
{
    if (has_waiters(sem) || available(sem) < n)
        return false;
    change(sem, -n);
    return true;
}

/* Waits in line with this request. The latch is held, and released. */
static int enqueue_and_park(weft_sem *sem, struct request *request, int64_t n, uint32_t what,
                            int64_t deadline)
{
    struct waiter own;
    request->waiter = weft__waiter_begin(&own);
    request->units = n;
    line_add(sem, request);
    int result = weft__park(request->waiter, what, object_latch_unlock, &sem->latch, deadline);
    if (!wait_gave_up(result))
        return result;
    struct woken woken;
    woken_begin(&woken);
    object_latch_acquire(&sem->latch);
    line_remove(sem, request);
    grant_units(sem, &woken); /* the requests behind it may want fewer units */
    object_latch_release(&sem->latch);
    woken_wake(&woken);
    return result;
}

/* Waits in line. The latch is held, and released. -EAGAIN: a compact fiber has no memory for its
 * request. */
static int wait_in_line(weft_sem *sem, int64_t n, uint32_t what, int64_t deadline)
{
    struct request own;
    if (likely(!on_compact()))
        return enqueue_and_park(sem, &own, n, what, deadline);
    struct request *request = weft__stash(sizeof *request);
    if (request == NULL) {
        object_latch_release(&sem->latch);
        return -EAGAIN;
    }
    int result = enqueue_and_park(sem, request, n, what, deadline);
    weft__unstash(request);
    return result;
}

/* Acquires, or waits. -EAGAIN: a compact fiber has no memory to wait with. */
static always_inline int acquire_once(weft_sem *sem, int64_t n, uint32_t what, int64_t deadline)
{
    test_point();
    object_latch_acquire(&sem->latch);
    bool got = take(sem, n);
    object_latch_release(&sem->latch);
    if (likely(got))
        return 0;
    if (weft__runtime_forked())
        return -ECHILD;
    if (deadline <= WEFT_NOW)
        return -ETIMEDOUT;
    int result = 0;
    bool fiber = enter_if_fiber();
    object_latch_acquire(&sem->latch);
    if (take(sem, n))
        object_latch_release(&sem->latch);
    else
        result = wait_in_line(sem, n, what, deadline);
    leave_if_fiber(fiber);
    return result;
}

static int acquire(weft_sem *sem, int64_t n, uint32_t what, int64_t deadline)
{
    int result;
    while (unlikely((result = acquire_once(sem, n, what, deadline)) == -EAGAIN)) {
        int error = weft__stash_wait(deadline);
        if (error != 0 && !(what & WAIT_FIRM))
            return error;
        if (error != 0)
            weft_yield(); /* the context is cancelled: weft__stash_wait does not sleep */
    }
    return result;
}

int weft_sem_init(weft_sem *sem, int64_t n)
{
    if (sem == NULL || n < 0)
        return -EINVAL;
    *sem = (weft_sem)WEFT_SEM_INIT(n);
    return 0;
}

void weft_sem_acquire(weft_sem *sem, int64_t n)
{
    if (unlikely(sem == NULL || n < 1))
        fatal("weft_sem_acquire was given no semaphore, or asked for less than one unit");
    if (unlikely(acquire(sem, n, wait_id(&wait_sem) | WAIT_FIRM, WEFT_NEVER) != 0))
        fatal("a semaphore cannot be waited for in a forked child: no thread releases it there");
}

int weft_sem_acquire_until(weft_sem *sem, int64_t n, int64_t deadline)
{
    if (sem == NULL || n < 1)
        return -EINVAL;
    return acquire(sem, n, wait_id(&wait_sem), deadline);
}

int weft_sem_try_acquire(weft_sem *sem, int64_t n)
{
    if (sem == NULL || n < 1)
        return -EINVAL;
    test_point();
    object_latch_acquire(&sem->latch);
    bool got = take(sem, n);
    object_latch_release(&sem->latch);
    return got ? 0 : -EAGAIN;
}

static void give(weft_sem *sem, int64_t n)
{
    if (unlikely(available(sem) > WEFT_SEM_MAX - n))
        fatal("a semaphore was released above WEFT_SEM_MAX");
    change(sem, n);
}

static noinline void release_slow(weft_sem *sem, int64_t n)
{
    struct woken woken;
    woken_begin(&woken);
    bool fiber = enter_if_fiber();
    object_latch_acquire(&sem->latch);
    give(sem, n);
    grant_units(sem, &woken);
    object_latch_release(&sem->latch);
    woken_wake(&woken);
    leave_if_fiber(fiber);
}

void weft_sem_release(weft_sem *sem, int64_t n)
{
    if (unlikely(sem == NULL || n < 1))
        fatal("weft_sem_release was given no semaphore, or less than one unit");
    object_latch_acquire(&sem->latch);
    bool alone = !has_waiters(sem);
    if (likely(alone))
        give(sem, n);
    object_latch_release(&sem->latch);
    if (unlikely(!alone))
        release_slow(sem, n);
    test_point();
}

int64_t weft_sem_available(const weft_sem *sem)
{
    return sem != NULL ? available(sem) : 0;
}

void weft_sem_destroy(weft_sem *sem)
{
    if (sem == NULL)
        fatal("weft_sem_destroy was given no semaphore");
    object_latch_acquire(&sem->latch);
    bool waited_for = has_waiters(sem);
    object_latch_release(&sem->latch);
    if (waited_for)
        fatal("a semaphore is destroyed that a caller waits for");
    *sem = (weft_sem)WEFT_SEM_INIT(0);
}
