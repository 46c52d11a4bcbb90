/*
 * order.h: finds locks that are taken in an order that can deadlock; debug builds only.
 *
 * A lock object has a number, 0 until its first use, so that a new lock in old memory is a new lock.
 * What these need to know of a lock is where it is, for reports, and its number. `site` is the code address of the call that takes it.
 */
#ifndef WEFT_SYNC_LOCK_ORDER_H
#define WEFT_SYNC_LOCK_ORDER_H

#include <stdint.h>

#ifdef WEFT_DEBUG

/* The caller is about to take a lock, and may have to wait for it. Reports and aborts if that can
 * deadlock: the caller has it already, or it has others that somebody has taken in another order. */
void weft__lock_order_wanted(const void *lock, uint32_t *number, void *site);
/* It has taken it. */
void weft__lock_order_taken(const void *lock, uint32_t *number, void *site);
/* It is about to give it back. */
void weft__lock_order_released(const uint32_t *number);
/* The lock's life ends. */
void weft__lock_order_forget(uint32_t *number);

#else

static inline void weft__lock_order_wanted(const void *lock, uint32_t *number, void *site)
{
    (void)lock;
    (void)number;
    (void)site;
}

static inline void weft__lock_order_taken(const void *lock, uint32_t *number, void *site)
{
    (void)lock;
    (void)number;
    (void)site;
}

static inline void weft__lock_order_released(const uint32_t *number)
{
    (void)number;
}

static inline void weft__lock_order_forget(uint32_t *number)
{
    (void)number;
}

#endif

#endif
