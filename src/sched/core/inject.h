/*
 * inject.h: the queue that anyone may put ready fibers into, and every processor takes from.
 */
#ifndef WEFT_SCHED_CORE_INJECT_H
#define WEFT_SCHED_CORE_INJECT_H

#include "sched/fiber/fiber.h"

/* A chain of fibers, linked by next. */
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

void weft__inject_push_any(struct chain chain);
/* The same for fibers that were woken: they go before those that are not, but for every fourth. */
void weft__inject_push_woken_any(struct chain chain);
/* Takes up to `most` from the front; fewer if fewer are there. */
struct chain weft__inject_take_any(uint32_t most);
/* How many there are, seen from afar. */
uint32_t weft__inject_length(void);

#endif
