/*
 * waiters.h: the list of those who wait for an object, in order.
 *
 * The object has one pointer, to the first; NULL if nobody waits. The list is a ring, so that the last
 * is the first's previous. Everything here is done under the object's lock. A waiter that is in no
 * list has no previous: that is how one that gave up learns whether it still has to leave.
 *
 * Those who were taken out and claimed hang together by `next` alone until they are woken, after the
 * object was unlocked.
 */
#ifndef WEFT_SYNC_WAITERS_H
#define WEFT_SYNC_WAITERS_H

#include "base/assert.h"
#include "sched/core/park.h"

static inline bool waiter_listed(const struct waiter *waiter)
{
    return waiter->previous != NULL;
}

static inline void waiters_add_last(void **list, struct waiter *waiter)
{
    struct waiter *first = *list;
    if (first == NULL) {
        waiter->next = waiter->previous = waiter;
        *list = waiter;
        return;
    }
    waiter->next = first;
    waiter->previous = first->previous;
    first->previous->next = waiter;
    first->previous = waiter;
}

static inline void waiters_add_first(void **list, struct waiter *waiter)
{
    waiters_add_last(list, waiter);
    *list = waiter;
}

/* Takes it out, if it is in the list; tells whether it was. */
static inline bool waiters_remove(void **list, struct waiter *waiter)
{
    if (!waiter_listed(waiter))
        return false;
    should(waiter->next != NULL);
    waiter->previous->next = waiter->next;
    waiter->next->previous = waiter->previous;
    if (*list == waiter)
        *list = waiter->next != waiter ? waiter->next : NULL;
    waiter->previous = NULL;
    return true;
}

static inline struct waiter *waiters_take_first(void **list)
{
    struct waiter *first = *list;
    if (first != NULL)
        (void)waiters_remove(list, first);
    return first;
}

/* Takes out the first that can still be claimed, and those before it, which gave up; NULL if there is
 * none. */
static inline struct waiter *waiters_claim_first(void **list, int result)
{
    struct waiter *waiter;
    do
        waiter = waiters_take_first(list);
    while (waiter != NULL && !waiter_claim(waiter, result));
    return waiter;
}

/* Those who were claimed, in order. */
struct woken {
    struct waiter *first, **end;
    uint32_t count;
};

static inline void woken_begin(struct woken *woken)
{
    woken->first = NULL;
    woken->end = &woken->first;
    woken->count = 0;
}

static inline void woken_add(struct woken *woken, struct waiter *waiter)
{
    waiter->next = NULL;
    *woken->end = waiter;
    woken->end = &waiter->next;
    woken->count++;
}

/* Wakes them; the object is unlocked, and may be gone. A fiber must have entered the runtime. */
static inline void woken_wake(struct woken *woken)
{
    for (struct waiter *waiter = woken->first, *next; waiter != NULL; waiter = next) {
        next = waiter->next;
        weft__wake(waiter);
    }
}

/* Takes all out and claims them; the number of those who had given up. */
static inline uint32_t waiters_claim_all(void **list, int result, struct woken *woken)
{
    uint32_t missed = 0;
    for (struct waiter *waiter; (waiter = waiters_take_first(list)) != NULL;) {
        if (waiter_claim(waiter, result))
            woken_add(woken, waiter);
        else
            missed++;
    }
    return missed;
}

#endif
