/*
 * inject.h: the queue that anyone may put ready fibers into, and every processor takes from.
 */
#ifndef WEFT_SCHED_CORE_INJECT_H
#define WEFT_SCHED_CORE_INJECT_H

#include "sched/fiber/chain.h"

void weft__inject_push_any(struct chain chain);
/* The same for fibers that were woken: they go before those that are not, but for every fourth. */
void weft__inject_push_woken_any(struct chain chain);
/* Takes up to `most` from the front; fewer if fewer are there. */
struct chain weft__inject_take_any(uint32_t most);
/* How many there are, seen from afar. */
uint32_t weft__inject_length(void);

#endif
