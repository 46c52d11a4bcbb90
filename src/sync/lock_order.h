/*
 * lock_order.h: reports locks that are taken in an order that can deadlock; debug builds only.
 *
 * A lock is identified by a number, 0 until its first use, and not by its address: a new lock in
 * the memory of an old one is another lock. The address is for reports. `site` is the code address
 * of the call that takes the lock.
 */
#ifndef WEFT_SYNC_LOCK_ORDER_H
#define WEFT_SYNC_LOCK_ORDER_H

#include <stdint.h>

#ifdef WEFT_DEBUG

/* The caller is about to take a lock, and may have to wait for it. Reports and aborts if that can
 * deadlock: the caller holds this lock already, or it holds a lock that was wanted while this one
 * was held. */
void weft__lock_order_wanted(const void *lock, uint32_t *number, void *site);
/* The caller has taken a lock, with or without waiting. */
void weft__lock_order_taken(const void *lock, uint32_t *number, void *site);
/* The caller is about to release a lock. */
void weft__lock_order_released(const uint32_t *number);
/* A lock is destroyed: its place in any order is forgotten. */
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
