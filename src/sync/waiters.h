/*
 * waiters.h: the list of the waiters of an object, in order; and the waiters to be woken once the
 * object is unlocked.
 *
 * The object has one pointer, to the first waiter; NULL if there is none. The list is a ring: the
 * last waiter is the `previous` of the first. A waiter that is in no list has no `previous`: that
 * is how a waiter that gave up learns whether it still has to leave. The list is changed under the
 * object's lock.
 *
 * Waiters that were taken out and claimed form a struct woken, linked by `next` alone, until they
 * are woken. That is done after the object is unlocked.
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

/* Takes a waiter out, if it is in the list; returns whether it was. */
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

/* Takes out waiters up to the first that can be claimed, and returns that; NULL if there is none.
 * The waiters before it had given up. */
static inline struct waiter *waiters_claim_first(void **list, int result)
{
    struct waiter *waiter;
    do
        waiter = waiters_take_first(list);
    while (waiter != NULL && !waiter_claim(waiter, result));
    return waiter;
}

/* Claimed waiters, in order. */
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

/* Wakes the waiters. The object is unlocked, and may be gone. A fiber must have entered the
 * runtime. */
static inline void woken_wake(struct woken *woken)
{
    for (struct waiter *waiter = woken->first, *next; waiter != NULL; waiter = next) {
        next = waiter->next;
        weft__wake(waiter);
    }
}

/* Takes out all waiters and claims them; returns how many had given up. */
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
