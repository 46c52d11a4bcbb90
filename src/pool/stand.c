/*
 * stand.c: who runs tasks in place of a worker: a submitter of a full pool, or one who could not make a worker.
 *
 * Such a task is one of the pool's like any other: it may submit to it while the pool stops, and must not wait for the pool,
 * or for a place that it has itself. So who stands in says for which pool, in a list that begins in its record: from the inside to the
 * outside, each on the stack of the call. Only its owner looks at it. Who has no record for that, and no memory for one, is in a list of all such.
 */
#include "base/assert.h"
#include "base/lock.h"
#include "pool/pool.h"

static struct {
    struct lock lock;
    struct stand_in *first; /* linked by `next` */
    atomic_u32 count;
} unrecorded;

/* Where the caller's list begins; NULL without memory. */
static struct stand_in **list(void)
{
    weft_fiber *fiber = weft_self();
    if (fiber != NULL)
        return weft__fiber_extra(fiber) != NULL ? &fiber_extra(fiber)->stands_in : NULL;
    struct foreign *foreign = weft__foreign_self();
    return foreign != NULL ? &foreign->stands_in : NULL;
}

static const void *self(void)
{
    const weft_fiber *fiber = weft_self();
    return fiber != NULL ? (const void *)fiber : weft__sys_errno_address(); /* a thread's own */
}

static struct stand_in *find_unrecorded(void)
{
    if (likely(atomic_u32_load_relaxed(&unrecorded.count) == 0)) /* its own it would see */
        return NULL;
    lock_acquire(&unrecorded.lock);
    struct stand_in *one = unrecorded.first;
    while (one != NULL && one->who != self())
        one = one->next;
    lock_release(&unrecorded.lock);
    return one;
}

/* The innermost; NULL if there is none. Asks a fiber for no memory. */
static struct stand_in *innermost(void)
{
    weft_fiber *fiber = weft_self();
    struct stand_in **first = fiber == NULL || fiber_extra(fiber) != NULL ? list() : NULL;
    return first != NULL && *first != NULL ? *first : find_unrecorded();
}

bool weft__pool_may_stand_in(void)
{
    const struct stand_in *inner = innermost();
    return list() != NULL && (inner == NULL || inner->depth < DEPTH_MOST);
}

bool weft__pool_stands_in(void)
{
    return innermost() != NULL;
}

void weft__stand_in_begin(struct stand_in *own, weft_pool *pool, bool has_place)
{
    struct stand_in *outer = innermost(), **first = list();
    *own = (struct stand_in){.pool = pool,
                             .outer = outer,
                             .who = self(),
                             .depth = outer != NULL ? outer->depth + 1 : 1,
                             .has_place = has_place,
                             .recorded = first != NULL};
    if (likely(first != NULL)) {
        *first = own;
        return;
    }
    lock_acquire(&unrecorded.lock);
    own->next = unrecorded.first;
    unrecorded.first = own;
    lock_release(&unrecorded.lock);
    atomic_u32_add_relaxed(&unrecorded.count, 1);
}

void weft__stand_in_end(const struct stand_in *own)
{
    if (weft__runtime_forked())
        return; /* by the task: the caller's record is the parent's */
    if (likely(own->recorded)) {
        struct stand_in **first = list();
        must(first != NULL && *first == own);
        *first = own->outer != NULL && own->outer->recorded ? own->outer : NULL;
        return;
    }
    atomic_u32_add_relaxed(&unrecorded.count, (uint32_t)-1);
    lock_acquire(&unrecorded.lock);
    struct stand_in **link = &unrecorded.first;
    while (*link != own)
        link = &(*link)->next;
    *link = own->next;
    lock_release(&unrecorded.lock);
}

enum role weft__pool_role(const weft_pool *pool)
{
    const struct worker *worker = weft__worker_self();
    enum role role = worker != NULL && worker->pool == pool ? ROLE_HOLDER : ROLE_STRANGER;
    for (const struct stand_in *one = innermost(); one != NULL && role != ROLE_HOLDER;
         one = one->outer)
        if (one->pool == pool)
            role = one->has_place ? ROLE_HOLDER : ROLE_GUEST;
    return role;
}
