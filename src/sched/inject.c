/*
 * inject.c: the inject queue: a list under a lock.
 *
 * It gets fibers that foreign threads spawn or wake, the overflow of a full ring, and what a
 * processor sheds because another one is hungry; always as a chain, so that many cost one lock. The
 * length is kept beside it for those who only look: it is stored under the lock, and the looker
 * orders its look by the barriers of the idle protocol (sched/idle.c).
 *
 * Rejected: a lock-free MPMC queue. Batches make the lock rare, and the list needs no memory of its
 * own.
 */
#include "sched/inject.h"

static struct {
    _Alignas(CACHE_LINE) struct lock lock;
    struct chain chain;
    _Alignas(CACHE_LINE) atomic_u32 length;
} queue;

void weft__inject_push_any(struct chain chain)
{
    if (chain.count == 0)
        return;
    lock_acquire(&queue.lock);
    if (queue.chain.last != NULL)
        queue.chain.last->next = chain.first;
    else
        queue.chain.first = chain.first;
    queue.chain.last = chain.last;
    queue.chain.count += chain.count;
    atomic_u32_store_relaxed(&queue.length, queue.chain.count);
    lock_release(&queue.lock);
}

struct chain weft__inject_take_any(uint32_t most)
{
    struct chain taken = {NULL, NULL, 0};
    lock_acquire(&queue.lock);
    if (queue.chain.count <= most) {
        taken = queue.chain;
        queue.chain = (struct chain){NULL, NULL, 0};
    } else if (most > 0) {
        taken = (struct chain){queue.chain.first, queue.chain.first, most};
        for (uint32_t i = 1; i < most; i++)
            taken.last = taken.last->next;
        queue.chain.first = taken.last->next;
        queue.chain.count -= most;
        taken.last->next = NULL;
    }
    atomic_u32_store_relaxed(&queue.length, queue.chain.count);
    lock_release(&queue.lock);
    return taken;
}

uint32_t weft__inject_length(void)
{
    return atomic_u32_load_relaxed(&queue.length);
}
