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
 *  - one is opened only while there is a taker that has its processor, and all are closed when any of them leaves, when its
 *    task parks, or when it has lost the processor (rescue.c);
 *  - a worker that finds the queue empty closes all; so one is opened only while tasks are ready: those who look for a moment
 *    whether something comes look at the queue;
 *  - who looks at the hands now and then (hand.c) closes one that was open at the last look, so that those who lay now and then
 *    one are not overtaken for long.
 *
 * That its places are not missed: who has to know how many are inside (who finds the pool full, waits for all, or stops it)
 * closes all first. While somebody waits in line none is open, so nobody is overtaken.
 *
 * The tasks of a fiber that stays on its processor stay in their order: before one of another kind is offered under the latch the
 * tray of the processor is closed; and while `uses_trays` is 0 none is open, since all that makes it so closes them under the same latch.
 */
#include "base/assert.h"
#include "pool/pool.h"

#define SHUT (UINT32_MAX / 2) /* it may be added to */

struct tray {
    _Alignas(CACHE_LINE) atomic_u32 laid; /* tasks on it; SHUT and more: closed */
    uint32_t places;
    bool open;           /* this and the following under the latch */
    bool seen;           /* at the last look it was open */
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

void weft__tray_look(weft_pool *pool, struct hand *hand)
{
    struct tray *tray = open_tray_of(hand);
    if (tray != NULL && tray->seen)
        close_tray(pool, tray);
    else if (tray != NULL)
        tray->seen = true;
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

/* One that is not open. */
static struct tray *make_tray(void)
{
    struct tray *tray = weft__sys_alloc_aligned(CACHE_LINE, sizeof *tray);
    if (tray == NULL)
        return NULL;
    tray->open = false;
    tray->places = 0;
    atomic_u32_store_relaxed(&tray->laid, SHUT);
    return tray;
}

/* Whether one may be opened, for so many tasks; those who only start, or have lost their processor, take nothing. */
static bool may_open(const weft_pool *pool, int64_t room)
{
    int64_t ready = atomic_i64_load_relaxed(&pool->ready);
    return room >= PLACES_LEAST && ready > 0 && pool->blocked.length == 0 &&
           weft__pool_takers(pool) > weft__pool_starting(pool) &&
           weft__pool_takers_suffice(pool, ready + 1);
}

static bool open_tray(weft_pool *pool, struct hand *hand)
{
    int64_t room = (pool_limit(pool) - pool->inside) / (2 * (int64_t)pool->hand_count);
    if (!may_open(pool, room))
        return false;
    if (hand->tray == NULL && (hand->tray = make_tray()) == NULL)
        return false;
    struct tray *tray = hand->tray;
    tray->spare = weft__chunk_plain();
    if (tray->spare == NULL)
        return false;
    tray->places = room < CHUNK_PLAIN ? (uint32_t)room : CHUNK_PLAIN;
    tray->open = true;
    tray->seen = false;
    atomic_u32_store_relaxed(&tray->laid, 0); /* others look under the latch */
    pool->inside += tray->places;
    pool->trays_open++;
    return true;
}

bool weft__tray_renew(weft_pool *pool)
{
    struct hand *hand = hand_here(pool);
    bool suits = weft__pool_suits_trays(pool);
    if (atomic_u32_load_relaxed(&pool->uses_trays) != suits) /* workers read its line */
        atomic_u32_store_relaxed(&pool->uses_trays, suits);
    if (hand == NULL)
        return false;
    weft__tray_close(pool, hand);
    return suits && open_tray(pool, hand);
}

/* On the processor. */

bool weft__tray_lay(weft_pool *pool, void (*function)(void *), void *arg)
{
    struct hand *hand = hand_here(pool);
    struct tray *tray = likely(hand != NULL) ? hand->tray : NULL;
    if (unlikely(tray == NULL))
        return false;
    uint32_t count = atomic_u32_load_relaxed(&tray->laid);
    if (unlikely(count >= tray->places))
        return false;
    tray->tasks[count] = (struct plain_task){function, arg};
    return atomic_u32_add_acq_rel(&tray->laid, 1) < SHUT;
}
