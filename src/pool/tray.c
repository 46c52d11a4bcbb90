/*
 * tray.c: what fibers submit, laid aside by their processor.
 *
 * Under the latch each task that is submitted takes the latch, and what is under it, from the CPU that had it last. Where
 * tasks are short that is most of what they cost. So there each processor has a tray for the pool: the fibers that run
 * on it lay plain tasks there, and only a whole tray goes into the queue, under the latch.
 *
 * An open tray has places for so many tasks, all of which count as inside. `laid` is all that is shared:
 *
 *     who submits, on the processor         who closes it, under the latch
 *     n = laid; is it below the places?     n = exchange of laid by SHUT, which is above all places
 *     tasks[n] = the task                   the first n tasks go to the end of the queue
 *     add 1 to laid: was that SHUT?         the other places are given back
 *     then it is not on the tray
 *
 * So each task was laid before the exchange, and is in the queue; or it comes too late, and its submitter goes to the latch.
 * The tray stays with its processor: what comes too late was written to where nobody reads. It is opened again by the owner
 * of the processor, under the latch.
 *
 * That no task is forgotten on a tray:
 *  - one is opened only while there is a taker; when the last of those leaves, or a task parks, all are closed;
 *  - a worker that finds the queue empty closes all, and so does who rescues (rescue.c);
 *  - who looks at the hands now and then (hand.c) closes one on which nothing was laid since the last look.
 *
 * That its places are not missed: who has to know how many are inside (who finds the pool full, waits for all, or stops it)
 * closes all first. While somebody waits in line none is open, so nobody is overtaken; and the latch is not taken for a task
 * of another kind before the tray of the same processor is closed, so the tasks of a fiber stay in their order.
 */
#include "base/assert.h"
#include "pool/pool.h"

enum { PLACES_LEAST = 8 };
#define SHUT (UINT32_MAX / 2) /* it may be added to */

struct tray {
    _Alignas(CACHE_LINE) atomic_u32 laid; /* tasks on it; SHUT and more: closed */
    uint32_t places;
    bool open;           /* this and the following under the latch */
    uint32_t watched;    /* `laid` at the last look */
    struct chunk *spare; /* of an open one: where its tasks can go */
    struct plain_task tasks[CHUNK_PLAIN];
};

void weft__tray_free(struct tray *tray)
{
    should(tray == NULL || !tray->open);
    weft__sys_free(tray);
}

/* Under the latch. */

static void close_tray(weft_pool *pool, struct tray *tray)
{
    /* Acquire: the tasks that were laid; and what their submitters wrote for them. */
    uint32_t count = atomic_u32_exchange_acq_rel(&tray->laid, SHUT);
    must(count <= tray->places);
    tray->open = false;
    pool->trays_open--;
    pool->inside -= tray->places - count;
    pool->stats.submitted += count;
    weft__queue_append(&pool->queues[queue_of(WEFT_NORMAL)], tray->tasks, count, tray->spare);
    change_ready(pool, count);
}

static struct tray *open_tray_of(struct hand *hand)
{
    return hand->tray != NULL && hand->tray->open ? hand->tray : NULL;
}

void weft__trays_close_all(weft_pool *pool)
{
    for (uint32_t i = 0; i < pool->hand_count; i++)
        weft__tray_close(pool, &pool->hands[i]);
}

void weft__tray_close(weft_pool *pool, struct hand *hand)
{
    struct tray *tray = open_tray_of(hand);
    if (tray != NULL)
        close_tray(pool, tray);
}

void weft__tray_close_if_still(weft_pool *pool, struct hand *hand)
{
    struct tray *tray = open_tray_of(hand);
    if (tray == NULL)
        return;
    uint32_t laid = atomic_u32_load_relaxed(&tray->laid);
    if (laid == tray->watched)
        close_tray(pool, tray);
    tray->watched = laid;
}

int64_t weft__trays_unused(const weft_pool *pool)
{
    int64_t unused = 0;
    for (uint32_t i = 0; pool->trays_open > 0 && i < pool->hand_count; i++) {
        struct tray *tray = open_tray_of(&pool->hands[i]);
        if (tray != NULL)
            unused += tray->places - atomic_u32_load_relaxed(&tray->laid);
    }
    return unused;
}

/* Opens the one of the caller's processor. */
static bool open_tray(weft_pool *pool, struct hand *hand)
{
    int64_t room = (pool_limit(pool) - pool->inside) / (2 * (int64_t)pool->hand_count);
    if (room < PLACES_LEAST || pool->takers.length == 0 || pool->blocked.length > 0 ||
        !weft__pool_takers_suffice(pool, atomic_i64_load_relaxed(&pool->ready) + 1))
        return false;
    if (hand->tray == NULL) {
        hand->tray = weft__sys_alloc_aligned(CACHE_LINE, sizeof *hand->tray);
        if (hand->tray == NULL)
            return false;
        hand->tray->open = false;
    }
    struct tray *tray = hand->tray;
    tray->spare = weft__chunk_plain();
    if (tray->spare == NULL)
        return false;
    tray->places = room < CHUNK_PLAIN ? (uint32_t)room : CHUNK_PLAIN;
    tray->open = true;
    tray->watched = SHUT;
    atomic_u32_store_relaxed(&tray->laid, 0); /* others look under the latch */
    pool->inside += tray->places;
    pool->trays_open++;
    return true;
}

/* On the processor. */

static bool lay(struct tray *tray, void (*function)(void *), void *arg)
{
    uint32_t count = atomic_u32_load_relaxed(&tray->laid);
    if (unlikely(count >= tray->places))
        return false;
    tray->tasks[count] = (struct plain_task){function, arg};
    return atomic_u32_add_acq_rel(&tray->laid, 1) < SHUT;
}

/* It is full, or was closed, or there is none. */
static noinline bool lay_anew(weft_pool *pool, struct hand *hand, void (*function)(void *),
                              void *arg)
{
    struct errands errands = {.first = NULL};
    latch_acquire(&pool->latch);
    weft__tray_close(pool, hand);
    bool suits = weft__pool_suits_trays(pool);
    bool opened = suits && open_tray(pool, hand);
    bool laid = opened && lay(hand->tray, function, arg);
    if (!suits)
        atomic_u32_store_relaxed(&pool->uses_trays, 0);
    if (!opened)
        weft__pool_settle(pool, &errands);
    latch_release(&pool->latch);
    if (weft__pool_run(pool, &errands))
        weft__pool_give_up(pool);
    return laid;
}

bool weft__tray_put(weft_pool *pool, void (*function)(void *), void *arg)
{
    struct hand *hand = hand_here(pool);
    return hand != NULL && ((likely(hand->tray != NULL) && lay(hand->tray, function, arg)) ||
                            lay_anew(pool, hand, function, arg));
}
