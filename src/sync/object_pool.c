/*
 * object_pool.c: objects that are kept for reuse (weft/object_pool.h).
 *
 * Each processor has a shard, used by the fibers on it. Foreign threads share some more, chosen by
 * the address of their stack. A shard has two stages, both last in, first out: RECENT, where put
 * puts, and IDLE. A get takes from RECENT, then from IDLE, then from other shards, and only then
 * makes an object.
 *
 * The clock is a timer that runs only while objects are kept. Each tick drops what is in IDLE and
 * moves RECENT there. So an object that is put and not used is dropped after one period at least,
 * and two at most. (An object that a thief moves from a shard that this tick has not reached yet to
 * one that it has passed is a tick late.)
 *
 * Ownership of a shard. One party at a time uses it. Its owner is the fiber that is on the
 * processor and inside the runtime. As long as no other party comes, the owner pays no locked
 * instruction. The first other one (a thief, the tick) pays for both and makes the shard shared:
 * from then on the latch decides, for the owner too.
 *
 *     owner                                       another party (claim_latched)
 *     busy = 1                                    latch
 *     barrier_light                               if not shared: shared = 1, barrier_heavy,
 *     if shared: busy = 0, latch                      wait until busy is 0
 *     ... uses the shard ...                      ... uses the shard ...
 *     busy = 0, or release the latch              release the latch
 *
 * By the two barriers at least one side sees the other: either the owner sees that the shard is
 * shared, and queues for the latch with busy at 0; or the other side sees busy, and waits for the
 * end of a section that waits for nothing. Each hand-over is a release and an acquire: busy one
 * way, shared or the latch the other. The holder of the latch may clear `shared` again: the tick
 * does at once, the owner when no thief has come for a while. So a processor from which thieves
 * take all the time costs them a latch each (and not 2 us for the barrier), and one that is left
 * alone costs nothing.
 *
 * A processor that changes hands between machines carries its shard along, like the rest of its
 * private state. The shards of foreign threads are always shared. An owner cannot move to another
 * processor in its section, since the section calls nothing that switches. No party has two shards
 * at once: a thief releases the victim before it takes its own. No party enters the runtime or
 * calls the program's code while it has a shard.
 *
 * The states of the clock:
 *
 *     STOPPED --- an object is kept ---> SETTING ---> RUNS
 *     RUNS --- tick ---> SETTING ---> STOPPED, and on if objects are kept
 *     STOPPED or RUNS --- close ---> SETTING ---> GONE, or back if objects are out
 *
 * The timer is started in SETTING only, and stages are moved in SETTING only. So close, which waits
 * for SETTING to end, finds no other party at the timer, and counts exactly what is out. Whenever
 * an object is kept and no party is about to look, the clock is not STOPPED:
 *
 *     put, or a thief with more than it needs     tick (clock_rearm)
 *     the object is in a shard                    clock = STOPPED
 *     barrier_light                               barrier_heavy
 *     if clock is STOPPED: start it               if anything is kept: start it
 *
 * The number of objects that are out needs no counter: it is the number made less those that shards
 * have, or have dropped.
 *
 * The tick destroys objects after the clock is set, from a list that only ticks access, one at a
 * time; close does so after the timer is closed. A put by a destroy function during close finds the
 * clock GONE, and close looks again.
 *
 * Forked child. The latches may be held by threads that do not exist there. The fork makes a fiber
 * a thread, so only the path of foreign threads has to check.
 *
 * Rejected:
 *  - A latch for the owner as well: two locked instructions (12 ns) for a get and a put.
 *  - One private object per processor and the rest under a latch, as Go has it: the second object
 *    in use costs what the first one saves.
 *  - A list of free slots per shard instead of links in the objects: a put could fail.
 */
#include <errno.h>
#include <stdalign.h>
#include <string.h>
#include <weft/fiber.h>
#include <weft/object_pool.h>
#include <weft/timer.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/latch.h"
#include "os/membarrier.h"
#include "os/os.h"
#include "sched/core/processor.h"
#include "sched/core/scheduler.h"
#include "sched/fiber/panic.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"
#include "sync/spin_wait.h"

#define IDLE_PERIOD WEFT_S

enum {
    FOREIGN_BITS = 2,
    FOREIGN_SHARDS = 1 << FOREIGN_BITS,
    STACK_SHIFT = 20,    /* two stacks of threads differ in the bits above these */
    STEAL_MOST = 32,     /* objects in one theft: their links are in another CPU's cache */
    UNSHARE_AFTER = 256, /* sections of the owner without a thief, until it owns the shard again */
    DESTROY_BATCH = 64,  /* objects that are destroyed between two yields */
    LARGE = 32768,       /* bytes from which on an object has pages of its own */
};

enum { RECENT, IDLE, STAGES };

enum { CLOCK_STOPPED, CLOCK_SETTING, CLOCK_RUNS, CLOCK_GONE };

/* Precedes each object. */
struct header {
    struct header *next;           /* in a stage, or a list that is about to be destroyed */
    struct weft_object_pool *pool; /* the pool that the object is out of; NULL while it is kept */
};

_Static_assert(sizeof(struct header) % alignof(max_align_t) == 0, "what follows it is aligned");

struct stage {
    struct header *first;
    atomic_u32 count; /* also read without the shard */
};

struct shard {
    _Alignas(CACHE_LINE) atomic_u32 busy; /* 1: the owner uses it without the latch */
    atomic_u32 shared;                    /* 1: the latch decides; changed under the latch */
    struct latch latch;
    uint32_t owner_sections; /* sections of the owner since the last theft, while shared */
    struct stage stages[STAGES];
    struct header *expired; /* objects that the tick will destroy; for ticks alone */
    atomic_u64 dropped;     /* objects that have left it to be destroyed */
};

struct weft_object_pool {
    weft_object_pool_options options;
    weft_timer *timer;
    uint32_t processors, shard_count;
    atomic_u32 clock;
    _Alignas(CACHE_LINE) atomic_u64 made;
    atomic_u64 destroyed;
    struct shard shards[];
};

/* Stages; for the party that has the shard. */

static inline void stage_push(struct stage *stage, struct header *first, struct header *last,
                              uint32_t count)
{
    last->next = stage->first;
    stage->first = first;
    atomic_u32_add_owner(&stage->count, count);
}

static inline struct header *stage_pop(struct stage *stage)
{
    struct header *header = stage->first;
    if (header != NULL) {
        stage->first = header->next;
        atomic_u32_add_owner(&stage->count, (uint32_t)-1);
    }
    return header;
}

static uint32_t stage_count(const struct stage *stage)
{
    return atomic_u32_load_relaxed(&stage->count);
}

static uint64_t shard_kept(const struct shard *shard)
{
    return (uint64_t)stage_count(&shard->stages[RECENT]) + stage_count(&shard->stages[IDLE]);
}

static uint64_t pool_kept(const struct weft_object_pool *pool)
{
    uint64_t kept = 0;
    for (uint32_t i = 0; i < pool->shard_count; i++)
        kept += shard_kept(&pool->shards[i]);
    return kept;
}

/* The use of the caller's own shard, from access_begin to access_end. */

struct access {
    struct shard *shard; /* NULL in a forked child */
    bool fiber;
    bool latched;
};

static noinline void owner_lock(struct shard *shard)
{
    atomic_u32_store_release(&shard->busy, 0);
    latch_acquire(&shard->latch);
    if (++shard->owner_sections >= UNSHARE_AFTER)
        atomic_u32_store_release(&shard->shared, 0); /* pairs with owner_begin */
}

/* Begins a section of the owner. True: it holds the latch. */
static inline bool owner_begin(struct shard *shard)
{
    atomic_u32_store_relaxed(&shard->busy, 1);
    barrier_light(); /* with barrier_heavy in claim_latched */
    bool shared = atomic_u32_load_acquire(&shard->shared) != 0;
    if (unlikely(shared))
        owner_lock(shard);
    return shared;
}

static noinline struct shard *foreign_begin(struct weft_object_pool *pool)
{
    if (weft__runtime_forked())
        return NULL;
    uint64_t stack = (uintptr_t)__builtin_frame_address(0) >> STACK_SHIFT;
    uint64_t hash = (stack * 0x9e3779b97f4a7c15u) >> (64 - FOREIGN_BITS);
    struct shard *shard = &pool->shards[pool->processors + hash];
    latch_acquire(&shard->latch);
    return shard;
}

static inline struct access access_begin(struct weft_object_pool *pool)
{
    struct access access = {.fiber = enter_if_fiber(), .latched = true};
    if (likely(access.fiber)) {
        uint32_t index = thread_self()->processor->index;
        if (likely(index < pool->processors)) {
            access.shard = &pool->shards[index];
            access.latched = owner_begin(access.shard);
        } else { /* the processor is newer than the pool */
            access.shard = foreign_begin(pool);
        }
    } else {
        access.shard = foreign_begin(pool);
    }
    return access;
}

static inline void access_end(struct access access)
{
    if (unlikely(access.latched))
        latch_release(&access.shard->latch);
    else
        atomic_u32_store_release(&access.shard->busy, 0); /* pairs with claim_latched */
    leave_if_fiber(access.fiber);
}

/* The use of another shard, until latch_release. */

/* Claims a shard whose latch is held. True if it was not shared until now. */
static bool claim_latched(struct shard *shard)
{
    shard->owner_sections = 0;
    if (atomic_u32_load_relaxed(&shard->shared) != 0)
        return false;
    atomic_u32_store_relaxed(&shard->shared, 1);
    barrier_heavy();
    struct backoff backoff = {0};
    while (atomic_u32_load_acquire(&shard->busy) != 0) /* pairs with access_end */
        spin_wait(&backoff);
    return true;
}

/* The clock. */

static noinline void clock_start(struct weft_object_pool *pool)
{
    uint32_t stopped = CLOCK_STOPPED;
    if (atomic_u32_cas_acq_rel(&pool->clock, &stopped, CLOCK_SETTING)) {
        weft_timer_start(pool->timer, weft_after(pool->options.idle_period), 0);
        atomic_u32_store_release(&pool->clock, CLOCK_RUNS); /* pairs with clock_take */
    }
}

/* Leaves SETTING, in which the timer is not running: the clock runs if objects are kept. */
static void clock_rearm(struct weft_object_pool *pool)
{
    atomic_u32_store_release(&pool->clock, CLOCK_STOPPED);
    barrier_heavy(); /* with barrier_light in clock_check */
    if (pool_kept(pool) > 0)
        clock_start(pool);
}

/* Starts the clock if it is stopped; called after an object was kept. */
static inline void clock_check(struct weft_object_pool *pool)
{
    barrier_light();
    if (unlikely(atomic_u32_load_relaxed(&pool->clock) == CLOCK_STOPPED))
        clock_start(pool);
}

/* Brings the clock to SETTING. Returns the state before it; or CLOCK_GONE, which stays. */
static uint32_t clock_take(struct weft_object_pool *pool)
{
    for (;;) {
        uint32_t state = atomic_u32_load_relaxed(&pool->clock);
        if (state == CLOCK_GONE)
            return state;
        if (state != CLOCK_SETTING && atomic_u32_cas_acq_rel(&pool->clock, &state, CLOCK_SETTING))
            return state;
        weft_yield();
    }
}

/* Making and destroying; without a shard, outside the runtime. */

struct construction {
    const weft_object_pool_options *options;
    void *object;
    int error;
};

static void construct(void *arg)
{
    struct construction *construction = arg;
    construction->error =
        construction->options->construct(construction->object, construction->options->arg);
}

struct destruction {
    struct weft_object_pool *pool;
    void *object;
};

static void destruct(void *arg)
{
    struct destruction *destruction = arg;
    destruction->pool->options.destroy(destruction->object, destruction->pool->options.arg);
}

/* Allocates the memory of an object, zeroed. A large object is a mapping of its own. In a heap that
 * has been in use calloc has to clear what it returns, so that all of the object is resident
 * however little of it is used; and what is freed stays with the arena of some thread. (10,000
 * clients of the HTTP server, whose exchanges use 20 of their 60 KB: 229 MB in the heap, 50 MB in
 * mappings.) */
static struct header *allocate(const struct weft_object_pool *pool)
{
    size_t size = sizeof(struct header) + pool->options.size;
    return size < LARGE ? weft__os_alloc_zeroed(size) : weft__os_map(size);
}

static void release(const struct weft_object_pool *pool, struct header *header)
{
    size_t size = sizeof(struct header) + pool->options.size;
    if (size < LARGE) {
        weft__os_free(header);
        return;
    }
    /* The kernel may refuse to cut a piece out of mappings that it has joined, if there are too
     * many: then the addresses are lost, but not the memory. */
    (void)weft__os_decommit(header, size);
    weft__os_unmap(header, size);
}

static int make(struct weft_object_pool *pool, void **object)
{
    const weft_object_pool_options *options = &pool->options;
    struct header *header = allocate(pool);
    if (header == NULL)
        return -ENOMEM;
    struct construction construction = {options, header + 1, 0};
    struct guard guard = {.panic = NULL};
    if ((options->construct != NULL && weft__guarded(&guard, construct, &construction)) ||
        construction.error != 0) {
        release(pool, header);
        if (guard.panic != NULL)
            weft__panic_resume(guard.panic); /* in the caller of the get */
        return construction.error;
    }
    header->pool = pool;
    atomic_u64_add_relaxed(&pool->made, 1);
    *object = header + 1;
    return 0;
}

/* Destroys the objects of a list. If a destroy function forks, the child stops there: the rest of
 * the list belongs to the parent. */
static void destroy(struct weft_object_pool *pool, struct header *list)
{
    for (uint32_t count = 1; list != NULL && !weft__runtime_forked(); count++) {
        struct header *header = list;
        list = header->next;
        struct destruction destruction = {pool, header + 1};
        if (pool->options.destroy != NULL)
            (void)weft__call_safely(destruct, &destruction); /* a panic does not stop the others */
        release(pool, header);
        atomic_u64_add_relaxed(&pool->destroyed, 1);
        if (count % DESTROY_BATCH == 0)
            weft_yield();
    }
}

/* Takes all objects of a stage. */
static struct header *stage_empty(struct stage *stage, uint32_t *count)
{
    struct header *first = stage->first;
    *count = stage_count(stage);
    stage->first = NULL;
    atomic_u32_store_relaxed(&stage->count, 0);
    return first;
}

static void drop_idle(struct shard *shard)
{
    struct stage *idle = &shard->stages[IDLE];
    uint32_t dropped, moved;
    shard->expired = stage_empty(idle, &dropped);
    atomic_u64_add_owner(&shard->dropped, dropped);
    idle->first = stage_empty(&shard->stages[RECENT], &moved);
    atomic_u32_store_relaxed(&idle->count, moved);
}

static void destroy_expired(struct weft_object_pool *pool)
{
    for (uint32_t i = 0; i < pool->shard_count; i++) {
        struct header *list = pool->shards[i].expired;
        pool->shards[i].expired = NULL;
        destroy(pool, list);
    }
}

static void sweep(struct weft_object_pool *pool)
{
    for (uint32_t i = 0; i < pool->shard_count; i++) {
        struct shard *shard = &pool->shards[i];
        if (shard_kept(shard) == 0)
            continue;
        latch_acquire(&shard->latch);
        bool was_private = claim_latched(shard);
        drop_idle(shard);
        if (was_private)
            atomic_u32_store_release(&shard->shared, 0); /* pairs with owner_begin */
        latch_release(&shard->latch);
    }
}

static void tick(void *arg)
{
    struct weft_object_pool *pool = arg;
    if (clock_take(pool) == CLOCK_GONE)
        return;
    sweep(pool);
    clock_rearm(pool);
    destroy_expired(pool);
}

/* Opening and closing. */

static bool options_valid(const weft_object_pool_options *options)
{
    static const weft_object_pool_options none;
    return options != NULL && options->size > 0 && options->size <= PTRDIFF_MAX >> 16 &&
           options->idle_period >= 0 &&
           memcmp(options->reserved, none.reserved, sizeof none.reserved) == 0;
}

int weft_object_pool_open(weft_object_pool **out, const weft_object_pool_options *options)
{
    if (out == NULL || !options_valid(options))
        return -EINVAL;
    int error = runtime_ensure();
    if (error != 0)
        return error;
    uint32_t processors = processor_count();
    uint32_t shard_count = processors + FOREIGN_SHARDS;
    size_t size = sizeof(struct weft_object_pool) + shard_count * sizeof(struct shard);
    struct weft_object_pool *pool = weft__os_alloc_aligned(CACHE_LINE, size);
    if (pool == NULL)
        return -ENOMEM;
    memset(pool, 0, size);
    pool->options = *options;
    if (options->idle_period == 0)
        pool->options.idle_period = IDLE_PERIOD;
    pool->processors = processors;
    pool->shard_count = shard_count;
    for (uint32_t i = processors; i < shard_count; i++)
        atomic_u32_store_relaxed(&pool->shards[i].shared, 1);
    error = weft_timer_open(&pool->timer, tick, pool);
    if (error != 0) {
        weft__os_free(pool);
        return error;
    }
    *out = pool;
    return 0;
}

/* The number of objects that are out; exact while no call gets, puts or sweeps. */
static uint64_t pool_out(const struct weft_object_pool *pool)
{
    uint64_t in = 0;
    for (uint32_t i = 0; i < pool->shard_count; i++) {
        const struct shard *shard = &pool->shards[i];
        in += shard_kept(shard) + atomic_u64_load_relaxed(&shard->dropped);
    }
    uint64_t made = atomic_u64_load_relaxed(&pool->made);
    return made > in ? made - in : 0;
}

int weft_object_pool_close(weft_object_pool *pool)
{
    if (pool == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    uint32_t before = clock_take(pool);
    if (pool_out(pool) > 0) {
        if (before == CLOCK_RUNS)
            atomic_u32_store_release(&pool->clock, CLOCK_RUNS);
        else
            clock_rearm(pool);
        return -EBUSY;
    }
    atomic_u32_store_release(&pool->clock, CLOCK_GONE);
    weft_timer_close(pool->timer);
    while (pool_kept(pool) > 0) {
        sweep(pool);
        destroy_expired(pool);
    }
    weft__os_free(pool);
    return 0;
}

/* Get and put. */

/* Puts a list into the caller's shard. Does nothing in a forked child. */
static inline void put_list(struct weft_object_pool *pool, uint32_t stage, struct header *first,
                            struct header *last, uint32_t count)
{
    struct access access = access_begin(pool);
    if (unlikely(access.shard == NULL))
        return;
    stage_push(&access.shard->stages[stage], first, last, count);
    access_end(access);
    clock_check(pool);
}

/* Takes the first half of a stage, at most STEAL_MOST objects. */
static struct header *stage_split(struct stage *stage, struct header **last, uint32_t *count)
{
    uint32_t take = (stage_count(stage) + 1) / 2;
    if (take > STEAL_MOST)
        take = STEAL_MOST;
    *count = take;
    if (take == 0)
        return NULL;
    struct header *first = stage->first, *end = first;
    for (uint32_t i = 1; i < take; i++)
        end = end->next;
    stage->first = end->next;
    atomic_u32_add_owner(&stage->count, -take);
    *last = end;
    return first;
}

/* Takes objects from another shard: returns the first, and moves the others to the caller's. */
static struct header *steal(struct weft_object_pool *pool, const struct shard *own)
{
    uint32_t start = (uint32_t)(own - pool->shards);
    for (uint32_t i = 1; i < pool->shard_count; i++) {
        struct shard *victim = &pool->shards[(start + i) % pool->shard_count];
        if (shard_kept(victim) == 0)
            continue;
        latch_acquire(&victim->latch);
        (void)claim_latched(victim);
        struct header *last;
        uint32_t count, stage = stage_count(&victim->stages[RECENT]) > 0 ? RECENT : IDLE;
        struct header *first = stage_split(&victim->stages[stage], &last, &count);
        latch_release(&victim->latch);
        if (count > 1)
            put_list(pool, stage, first->next, last, count - 1);
        if (count > 0)
            return first;
    }
    return NULL;
}

static noinline int get_elsewhere(struct weft_object_pool *pool, const struct shard *own,
                                  void **object)
{
    struct header *header = steal(pool, own);
    if (header == NULL)
        return make(pool, object);
    header->pool = pool;
    *object = header + 1;
    return 0;
}

int weft_object_pool_get(weft_object_pool *pool, void **object)
{
    if (unlikely(pool == NULL || object == NULL))
        return -EINVAL;
    struct access access = access_begin(pool);
    if (unlikely(access.shard == NULL))
        return -ECHILD;
    struct header *header = stage_pop(&access.shard->stages[RECENT]);
    if (unlikely(header == NULL))
        header = stage_pop(&access.shard->stages[IDLE]);
    access_end(access);
    if (unlikely(header == NULL))
        return get_elsewhere(pool, access.shard, object);
    header->pool = pool;
    *object = header + 1;
    return 0;
}

void weft_object_pool_put(weft_object_pool *pool, void *object)
{
    if (unlikely(pool == NULL || object == NULL))
        fatal("weft_object_pool_put was given no %s", pool == NULL ? "pool" : "object");
    struct header *header = (struct header *)object - 1;
    if (unlikely(header->pool != pool))
        fatal("weft_object_pool_put was given an object that is not out of this pool: put twice?");
    header->pool = NULL;
    put_list(pool, RECENT, header, header, 1);
}

int weft_object_pool_count(const weft_object_pool *pool, weft_object_pool_counts *counts)
{
    if (pool == NULL || counts == NULL)
        return -EINVAL;
    *counts = (weft_object_pool_counts){
        .kept = pool_kept(pool),
        .out = pool_out(pool),
        .made = atomic_u64_load_relaxed(&pool->made),
        .destroyed = atomic_u64_load_relaxed(&pool->destroyed),
    };
    return 0;
}
