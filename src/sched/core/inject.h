/*
 * inject.h: the inject queue, into which any thread may put ready fibers and from which every
 * processor takes them. See inject.c.
 */
#ifndef WEFT_SCHED_CORE_INJECT_H
#define WEFT_SCHED_CORE_INJECT_H

#include "sched/fiber/chain.h"

/* Appends ready fibers, from any thread. The chain may be empty. */
void weft__inject_push_any(struct chain chain);
/* Appends fibers that a thread or an event has woken. They are taken before the others, except that
 * every fourth place goes to one of those. */
void weft__inject_push_woken_any(struct chain chain);
/* Takes up to `most` fibers from the front; fewer if fewer are queued. */
struct chain weft__inject_take_any(uint32_t most);
/* The number of queued fibers, read without the lock. */
uint32_t weft__inject_length(void);

#endif
