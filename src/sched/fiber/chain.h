/*
 * chain.h: FIFO list of fibers, linked by weft_fiber.next.
 */
#ifndef WEFT_SCHED_FIBER_CHAIN_H
#define WEFT_SCHED_FIBER_CHAIN_H

#include "sched/fiber/fiber.h"

struct chain {
    struct weft_fiber *first, *last;
    uint32_t count;
};

static inline void chain_add(struct chain *chain, struct weft_fiber *fiber)
{
    fiber->next = NULL;
    if (chain->last != NULL)
        chain->last->next = fiber;
    else
        chain->first = fiber;
    chain->last = fiber;
    chain->count++;
}

static inline struct weft_fiber *chain_take(struct chain *chain)
{
    struct weft_fiber *fiber = chain->first;
    if (fiber == NULL)
        return NULL;
    chain->first = fiber->next;
    if (chain->first == NULL)
        chain->last = NULL;
    chain->count--;
    return fiber;
}

#endif
