/*
 * rescue.c: tasks in the hand of a worker that does not come back.
 *
 * A worker takes tasks in hand by the chunk (worker.c) and counts on each being short. If one of them
 * computes for long, or blocks its thread, those behind it would wait although a processor is idle. The
 * scheduler's watcher, which is awake now and then while some processor is idle and another busy
 * (sched/idle.c), looks: a chunk from which nothing was taken since its last look is emptied, and what is
 * left in it goes back to the queue. If a worker is wanted for that, or for what stood in the queue already, a
 * machine calls one as soon as it has the idle processor. If no processor is idle the monitor looks in its place
 * (sched/monitor.c), and takes one from a machine that is stuck.
 *
 * There are no more takers than processors; one whose processor was taken away does not count
 * (weft__pool_takers). One that ended nothing between two looks may be stuck: to get another in its place its
 * processor is taken first.
 *
 * Emptying it is one exchange of `taken`, the word that its worker takes by: each task goes to one of
 * them.
 *
 * Lock order: pools.lock, then the latch of a pool.
 */
#include "pool/pool.h"

#include "base/assert.h"

static struct {
    struct lock lock;
    weft_pool *first;
    bool known; /* to the scheduler */
} pools;

/* Under the latch: what is in hands that do not move goes back. Returns how many ended nothing since the last
 * look, and have their processor still. */
static int64_t rescue(weft_pool *pool)
{
    int64_t stuck = 0;
    for (struct worker *worker = worker_of(pool->takers.first); worker != NULL;
         worker = worker_of(worker->link.next)) {
        uint32_t ended = atomic_u32_load_relaxed(&worker->ended);
        stuck += (uint16_t)ended == worker->watched && !worker->called && !worker_lost(worker);
        worker->watched = (uint16_t)ended;
        weft__pool_empty_if_still(pool, worker->chunk);
    }
    weft__hands_look(pool, true);
    trays_close(pool);
    return stuck;
}

/* Under the latch: the hands of those whose processor was taken away. */
static void empty_lost_hands(weft_pool *pool)
{
    for (struct worker *worker = worker_of(pool->takers.first); worker != NULL;
         worker = worker_of(worker->link.next))
        if (worker_lost(worker))
            weft__pool_empty_chunk(pool, worker->chunk);
    trays_close(pool);
}

/* By the watcher: true if another worker is wanted anywhere. */
static bool look(void)
{
    bool wanted = false;
    lock_acquire(&pools.lock);
    for (weft_pool *pool = pools.first; pool != NULL; pool = pool->pools_next) {
        latch_acquire(&pool->latch);
        struct errands errands = {.first = NULL};
        int64_t stuck = rescue(pool);
        if (weft__pool_wants_taker(pool, stuck)) {
            wanted = true;
            pool->quick = false;
        }
        weft__pool_collect(pool);
        weft__pool_admit(pool, &errands);
        latch_release(&pool->latch);
        bool failed = weft__pool_run(pool, &errands);
        must(!failed); /* it makes none */
    }
    lock_release(&pools.lock);
    return wanted;
}

/* A worker is made, or could not be. The pool is still there: it is in the list, whose lock is held. */
static void tell_made(weft_pool *pool)
{
    latch_acquire(&pool->latch);
    pool->rescue_makes = false;
    latch_release(&pool->latch);
}

/* By a machine that has a processor. */
static void act(void)
{
    lock_acquire(&pools.lock);
    for (weft_pool *pool = pools.first; pool != NULL; pool = pool->pools_next) {
        struct errands errands = {.first = NULL};
        latch_acquire(&pool->latch);
        empty_lost_hands(pool);
        if (weft__pool_wants_taker(pool, 0))
            weft__pool_call_taker(pool, &errands); /* for the processor of this machine */
        pool->rescue_makes = errands.make_worker;
        latch_release(&pool->latch);
        bool failed = weft__pool_run(pool, &errands);
        if (errands.make_worker)
            tell_made(pool);
        if (failed)
            weft__pool_give_up(pool);
    }
    lock_release(&pools.lock);
}

static const char *name_of_worker(const struct worker *worker)
{
    return worker->pool->name;
}

void weft__pools_add(weft_pool *pool)
{
    lock_acquire(&pools.lock);
    pool->pools_next = pools.first;
    pool->pools_link = &pools.first;
    if (pools.first != NULL)
        pools.first->pools_link = &pool->pools_next;
    pools.first = pool;
    if (!pools.known) { /* once: others read these without a lock */
        weft__idle_look_too(look, act);
        weft__worker_parks = weft__pool_pass_baton;
        weft__worker_lands = weft__worker_lives_on;
        weft__worker_name = name_of_worker;
        pools.known = true;
    }
    lock_release(&pools.lock);
}

void weft__pools_remove(weft_pool *pool)
{
    lock_acquire(&pools.lock);
    *pool->pools_link = pool->pools_next;
    if (pool->pools_next != NULL)
        pool->pools_next->pools_link = pool->pools_link;
    lock_release(&pools.lock);
}
