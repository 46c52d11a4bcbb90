/*
 * inject.c: the inject queue: two lists under a lock.
 *
 * It receives fibers that foreign threads spawn or wake, the overflow of a full ring, and what a
 * processor sheds for a thief; always as a chain, so that many fibers cost one lock. The length is
 * kept beside the lists for readers without the lock. It is stored under the lock; the barriers of
 * the idle protocol (sched/core/idle.c) order its readers.
 *
 * Fibers that a thread has woken, or an event that a machine without a processor has taken, are in
 * a list of their own, `woken`, which goes first. If both lists have fibers, one of four is taken
 * from the other list. All others go through that list, first come, first served: fibers that are
 * new, have yielded, were shed, or come back from C code.
 *
 * Rejected: a lock-free MPMC queue. Batches make the lock rare, and a list of fibers needs no
 * memory of its own.
 */
#include "sched/core/inject.h"

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "sched/fiber/chain.h"

enum { WOKEN_ROW = 3 }; /* woken fibers in a row while other fibers wait */

static struct {
    _Alignas(CACHE_LINE) struct lock lock;
    struct chain chain;
    struct chain woken;
    uint32_t row;
    _Alignas(CACHE_LINE) atomic_u32 length;
} queue;

static void append(struct chain *to, struct chain chain)
{
    if (chain.count == 0)
        return;
    lock_acquire(&queue.lock);
    if (to->last != NULL)
        to->last->next = chain.first;
    else
        to->first = chain.first;
    to->last = chain.last;
    to->count += chain.count;
    atomic_u32_store_relaxed(&queue.length, queue.chain.count + queue.woken.count);
    lock_release(&queue.lock);
}

void weft__inject_push_any(struct chain chain)
{
    append(&queue.chain, chain);
}

void weft__inject_push_woken_any(struct chain chain)
{
    append(&queue.woken, chain);
}

/* Takes up to `most` fibers from both lists; under the lock. */
static struct chain take_both(uint32_t most)
{
    struct chain taken = {NULL, NULL, 0};
    while (taken.count < most && queue.woken.count + queue.chain.count > 0) {
        bool woken = queue.woken.count > 0 && (queue.row < WOKEN_ROW || queue.chain.count == 0);
        queue.row = woken ? queue.row + 1 : 0;
        chain_add(&taken, chain_take(woken ? &queue.woken : &queue.chain));
    }
    return taken;
}

struct chain weft__inject_take_any(uint32_t most)
{
    struct chain taken = {NULL, NULL, 0};
    lock_acquire(&queue.lock);
    if (queue.woken.count > 0) {
        taken = take_both(most);
    } else if (queue.chain.count <= most) {
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
    atomic_u32_store_relaxed(&queue.length, queue.chain.count + queue.woken.count);
    lock_release(&queue.lock);
    return taken;
}

uint32_t weft__inject_length(void)
{
    return atomic_u32_load_relaxed(&queue.length);
}
