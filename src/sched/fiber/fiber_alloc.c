/*
 * fiber_alloc.c: slab allocator of struct weft_fiber.
 *
 * Fibers are cut from slabs, each larger than the one before up to a huge page. Slabs go back to
 * the system at shut-down only. Each processor and each foreign thread has a cache of free fibers
 * and exchanges batches with the depot (Bonwick). `started` and `ended` are counted in the cache of
 * the caller and summed only at shut-down, so that spawning shares no cache line between
 * processors. Identifiers are dealt out in batches in the same way: unique, not dense.
 *
 * The depot's lock is taken alone. New fibers are cut from a slab under it, and initialised after
 * it is released: the first touch of a small page takes microseconds, and while several processors
 * spawn many fibers each would wait for the page faults of the others. A walk over all fibers
 * holds the lock, so that no more are cut, and waits until those cut before are initialised
 * (`beginning`). So it never reads what the memory held before.
 *
 *     cut:   lock; beginning + 1; cut + n; unlock;   initialise;     beginning - 1 (release)
 *     walk:  lock; beginning == 0 (acquire)?         read the fibers; unlock
 */
#include "sched/fiber/fiber_alloc.h"

#include <string.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/huge_pages.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/panic.h"
#include "sched/runtime/thread.h"
#include "sched/time/timer.h"

enum {
    SLAB_FIRST = 16 * 1024,
    SLAB_MOST = HUGE_PAGE,
    CACHE_MOST = 128,
    CACHE_BATCH = 64,
    ID_BATCH = 1024
};

struct slab {
    struct slab *next;
    size_t size;
    uint32_t count;
    atomic_u32 cut; /* fibers cut so far; written under the lock, read by reports without it */
    _Alignas(64) struct weft_fiber fibers[];
};

/* The depot holds free fibers in batches, so that taking a batch does not walk through memory that
 * other CPUs have just written. In the first fiber of a batch `arg` is the next batch, and `id` the
 * number of fibers. */
static struct {
    _Alignas(CACHE_LINE) struct lock lock;
    struct weft_fiber *batches;
    struct slab *slabs;
    uint64_t id_next;
    atomic_u32 beginning; /* batches cut and not initialised yet; raised under the lock */
} depot = {.id_next = 1};

static void depot_push(struct weft_fiber *batch, uint32_t count)
{
    batch->arg = depot.batches;
    batch->id = count;
    depot.batches = batch;
}

static struct slab *slab_new(size_t size)
{
    struct slab *slab = weft__os_alloc_aligned(size < SLAB_MOST ? CACHE_LINE : SLAB_MOST, size);
    if (slab == NULL)
        return NULL;
    if (size == SLAB_MOST)
        (void)weft__huge_page_begin(slab);
    *slab = (struct slab){.next = depot.slabs, .size = size};
    slab->count = (uint32_t)((size - sizeof *slab) / sizeof slab->fibers[0]);
    return slab;
}

/* Cuts a batch, which the caller must pass to batch_begin. NULL without memory. Under the lock. */
static struct weft_fiber *depot_cut(uint32_t *count, bool *many)
{
    struct slab *slab = depot.slabs;
    if (slab == NULL || atomic_u32_load_relaxed(&slab->cut) == slab->count) {
        size_t size = slab == NULL             ? SLAB_FIRST
                      : slab->size < SLAB_MOST ? slab->size * 2
                                               : SLAB_MOST;
        slab = slab_new(size);
        if (slab == NULL)
            return NULL;
        depot.slabs = slab;
    }
    uint32_t cut = atomic_u32_load_relaxed(&slab->cut), left = slab->count - cut;
    *many = slab->size == SLAB_MOST;
    *count = left < CACHE_BATCH ? left : CACHE_BATCH;
    atomic_u32_add_relaxed(&depot.beginning, 1);
    /* Pairs with weft__fiber_count, which reads the head of the slab. */
    atomic_u32_store_release(&slab->cut, cut + *count);
    return &slab->fibers[cut];
}

/* Initialises a batch, without the lock. `many`: its pages are populated by one system call. */
static void batch_begin(struct weft_fiber *batch, uint32_t count, bool many)
{
    if (many)
        weft__os_populate(batch, count * sizeof *batch);
    memset(batch, 0, count * sizeof *batch);
    for (uint32_t i = 0; i < count; i++) {
        batch[i].waiter.is_fiber = true;
        batch[i].next = i + 1 < count ? &batch[i + 1] : NULL;
    }
    (void)atomic_u32_sub_acq_rel(&depot.beginning, 1); /* pairs with depot_begun */
}

/* Waits until every batch that is cut is initialised. Under the lock. */
static void depot_begun(void)
{
    while (atomic_u32_load_acquire(&depot.beginning) > 0)
        weft__os_yield();
}

/* Gets what the cache lacks: fibers, identifiers, or both. False without memory. */
static noinline bool cache_fill(struct fiber_cache *cache)
{
    struct weft_fiber *cut = NULL;
    uint32_t count = 0;
    bool many = false;
    lock_acquire(&depot.lock);
    if (cache->free == NULL && depot.batches != NULL) {
        cache->free = depot.batches;
        cache->count = (uint32_t)cache->free->id;
        depot.batches = cache->free->arg;
    } else if (cache->free == NULL) {
        cut = depot_cut(&count, &many);
    }
    if (cache->id_next == cache->id_end) {
        cache->id_next = depot.id_next;
        cache->id_end = depot.id_next += ID_BATCH;
    }
    lock_release(&depot.lock);
    if (cut != NULL) {
        batch_begin(cut, count, many);
        cache->free = cut;
        cache->count = count;
    }
    return cache->free != NULL;
}

/* Moves `count` fibers to the depot, as one batch. */
static noinline void cache_spill(struct fiber_cache *cache, uint32_t count)
{
    if (count == 0)
        return;
    struct weft_fiber *first = cache->free, *last = first;
    for (uint32_t i = 1; i < count; i++)
        last = last->next;
    cache->free = last->next;
    cache->count -= count;
    last->next = NULL;
    lock_acquire(&depot.lock);
    depot_push(first, count);
    lock_release(&depot.lock);
}

struct weft_fiber *weft__fiber_new(struct fiber_cache *cache)
{
    if (unlikely(cache->free == NULL || cache->id_next == cache->id_end) && !cache_fill(cache))
        return NULL;
    struct weft_fiber *fiber = cache->free;
    cache->free = fiber->next;
    cache->count--;
    /* The next one may be in the cache of another CPU: fetch it while this one is made. */
    fetch_line(cache->free);
    fiber->id = cache->id_next++;
    return fiber;
}

void weft__fiber_free(struct fiber_cache *cache, struct weft_fiber *fiber)
{
    if (unlikely(fiber_extra(fiber) != NULL)) {
        weft__os_free(fiber_extra(fiber));
        atomic_ptr_store_relaxed(&fiber->extra, NULL);
    }
    fiber->state = FIBER_NEW;
    fiber->next = cache->free;
    cache->free = fiber;
    if (unlikely(++cache->count > CACHE_MOST))
        cache_spill(cache, CACHE_BATCH);
}

void weft__fiber_free_any(struct weft_fiber *fiber)
{
    struct thread *thread = thread_self();
    if (thread != NULL) {
        weft__fiber_free(thread->fibers, fiber);
        return;
    }
    struct fiber_cache none = {.free = NULL};
    weft__fiber_free(&none, fiber);
    weft__fiber_cache_flush(&none);
}

void weft__fiber_cache_flush(struct fiber_cache *cache)
{
    cache_spill(cache, cache->count);
}

struct extra *weft__fiber_extra(struct weft_fiber *fiber)
{
    struct extra *extra = fiber_extra(fiber);
    if (extra == NULL && (extra = weft__os_alloc_zeroed(sizeof *extra)) != NULL)
        atomic_ptr_store_release(&fiber->extra, extra); /* pairs with fiber_extra */
    return extra;
}

void weft__fiber_each_parked(void (*visit)(struct weft_fiber *fiber, void *context), void *context)
{
    lock_acquire(&depot.lock);
    depot_begun();
    for (struct slab *slab = depot.slabs; slab != NULL; slab = slab->next)
        for (uint32_t i = 0; i < atomic_u32_load_relaxed(&slab->cut); i++)
            if (slab->fibers[i].state == FIBER_PARKED)
                visit(&slab->fibers[i], context);
    lock_release(&depot.lock);
}

bool weft__fiber_count(uint64_t counts[FIBER_STATES])
{
    enum { SLABS_MOST = 512 };
    memset(counts, 0, FIBER_STATES * sizeof *counts);
    const struct slab *slab = depot.slabs;
    for (int slabs = 0; slab != NULL && slabs < SLABS_MOST; slab = slab->next, slabs++) {
        uint32_t cut = atomic_u32_load_acquire(&slab->cut);
        for (uint32_t i = 0; i < cut; i++) {
            uint8_t state = slab->fibers[i].state;
            if (state < FIBER_STATES)
                counts[state]++;
        }
    }
    return slab == NULL;
}

uint64_t weft__fiber_count_unbegun(void)
{
    uint64_t unbegun = 0;
    /* A joiner may go on before the fiber that it joined is counted as ended; but that fiber has
     * had a turn. */
    for (uint32_t i = 0; i < processor_count(); i++)
        if (atomic_u32_load_relaxed(&weft__sched.processors[i].turn) != 0)
            return 0;
    for (const struct slab *slab = depot.slabs; slab != NULL; slab = slab->next) {
        uint32_t cut = atomic_u32_load_acquire(&slab->cut);
        for (uint32_t i = 0; i < cut; i++) {
            const struct weft_fiber *fiber = &slab->fibers[i];
            if (fiber->owner == OWNER_TIMER || fiber->function == NULL)
                continue; /* memory that has never been a fiber has no function */
            if (fiber->state != FIBER_NEW || fiber->stack != NULL)
                return 0;
            unbegun++;
        }
    }
    return unbegun;
}

/* Keeps the slab, never to be freed, if a fiber in it crashed: the program may refer to that fiber
 * for as long as the process lives. */
static bool keep_crashed(struct slab *slab)
{
    static struct slab *kept;
    bool any = false;
    for (uint32_t i = 0; i < atomic_u32_load_relaxed(&slab->cut); i++)
        any |= slab->fibers[i].state == FIBER_CRASHED;
    if (any) {
        slab->next = kept;
        kept = slab;
    }
    return any;
}

void weft__fiber_stop(void)
{
    while (depot.slabs != NULL) {
        struct slab *slab = depot.slabs;
        depot.slabs = slab->next;
        if (keep_crashed(slab))
            continue;
        /* Fibers whose handles were never given up may have extras or a panic. */
        for (uint32_t i = 0; i < atomic_u32_load_relaxed(&slab->cut); i++) {
            weft__os_free(fiber_extra(&slab->fibers[i]));
            weft__panic_free(weft__fiber_take_panic(&slab->fibers[i]));
        }
        weft__os_free(slab);
    }
    depot.batches = NULL;
}

uint64_t weft__fiber_alive(void)
{
    uint64_t ended = weft__timers_closed(), started = 0;
    /* Ended is read first: a fiber that has ended by then was started before. */
    for (uint32_t i = 0; i < processor_count(); i++)
        ended += atomic_u64_load_acquire(&weft__sched.processors[i].fibers.ended);
    for (uint32_t i = 0; i < processor_count(); i++)
        started += atomic_u64_load_acquire(&weft__sched.processors[i].fibers.started);
    return started + weft__foreign_started() + weft__timers_opened() - ended;
}
