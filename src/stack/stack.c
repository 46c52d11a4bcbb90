/*
 * stack.c: stacks of fibers: arenas, free lists and trimming.
 *
 * Stacks of one size (a class) are carved from arenas: large lazily committed mappings, so that a
 * million stacks are a few thousand mappings and not a million. Once carved, a stack is only
 * unmapped with its arena at shut-down. Its descriptor stands outside of it, so that all pages of a
 * stack can be given back to the system.
 *
 * The life of a stack. Free stacks are in the cache of a processor, without a lock, or in the depot
 * of their class, under its lock:
 *
 *        carve          get                 put           period without use        decommit
 *   arena ----> in use <---- cache of a processor ----> depot: warm ----> pending ----> cold
 *                  ^________________________________________|_______________|____________|
 *                                                get, in this order
 *
 * The stack of a fiber that was abandoned (sched/fiber/crash.c) is quarantined: it leaves this
 * cycle and stays as it is, guard and all, and so does its arena, also past shut-down.
 *
 * All lists are LIFO. The stack used last is the next one used, since its pages are in the CPU's
 * cache; a fresh page costs as much as 500 switches.
 *
 * Trimming. A depot notes the fewest warm stacks that it held during a period, its low water: that
 * many were not needed. At the end of the period that many, the ones unused for longest, become
 * pending, and are then decommitted in batches, with every page that they ever touched. A process
 * that goes idle has given everything back after two periods, and then no longer wakes up for it.
 *
 * Colors. Frames at the same distance from the top of each stack would all fall into the same few
 * sets of the CPU's caches. So the first frame of a stack begins up to 2 KiB below its top, in 16
 * steps; and guard and color space come on top of the size, so that tops are not a power of two
 * apart. The color space also has room for the front (stack.h).
 *
 * Guards are those of stack_guard.c.
 *
 * Locks: one per class; no other lock is taken while it is held.
 *
 * Rejected: descriptors inside the stack (a cold stack would lose its own, and an overflow would
 * corrupt it); unmapping single stacks (splits mappings); mincore to find deep stacks (costs as
 * much as giving them back).
 */
#include "stack/stack.h"

#include "base/assert.h"
#include "base/valgrind.h"
#include "os/lock.h"
#include "os/os.h"
#include "stack/stack_guard.h"

#if WEFT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

enum {
    ARENA_SIZE_MIN = 1 << 20,
    ARENA_SIZE_MAX = 1 << 26,
    CACHE_MOVES = STACK_CACHE_MOST / 2,
    COLORS = 16,
    COLOR_LINES = 2,
    COLOR_SPACE = 4096, /* whole pages, at least the colors and a front */
    TRIM_BATCH = 64,    /* stacks decommitted in one call */
    CARVE_SHARE = 64,   /* a cache gets a stack more at once for so many that the class has */
};
/* All of them picked out of thin air, in nanoseconds: how long the system is not asked for an arena
 * after it has refused one; the period of trimming; the pause between two batches. */
#define REFUSED_PAUSE ((int64_t)5 * 1000 * 1000)
#define TRIM_PERIOD ((int64_t)100 * 1000 * 1000)
#define TRIM_PAUSE ((int64_t)1000 * 1000)

struct arena {
    struct arena *next;
    char *memory;
    size_t size;
    uint32_t count, carved;
    uint8_t guard;   /* of each of its stacks, as struct stack has it */
    bool quarantine; /* it has a stack in quarantine */
    struct stack stacks[];
};

static struct depot {
    _Alignas(CACHE_LINE) struct lock lock;
    struct stack *warm, *pending, *cold;
    uint32_t warm_count, pending_count, cold_count;
    uint32_t low_water;
    atomic_ptr arenas;     /* newest first; only the newest may have stacks left to carve */
    int64_t refused_until; /* no arena is asked for before that time */
    uint64_t made;         /* stacks carved */
} depots[STACK_CLASSES];

_Static_assert(COLORS *COLOR_LINES *FETCH_LINE + STACK_FRONT_MOST <= COLOR_SPACE,
               "colors and front do not reduce the size");

static atomic_u64 quarantined;
static atomic_i64 trimmable; /* warm and pending stacks of all depots */
static int64_t period_end;   /* 0: no trim period has begun; used by the trimming thread only */

/* The bytes of a stack without its guard. */
static size_t room(int class)
{
    return ((size_t)1 << (class + STACK_LOG_MIN)) + COLOR_SPACE;
}

static size_t stride(const struct arena *arena, int class)
{
    return ((size_t)1 << arena->guard) + room(class);
}

void weft__stack_start(bool allow_install, bool allow_many, bool allow_mprotect)
{
    weft__stack_guard_start(allow_install, allow_many, allow_mprotect);
}

int weft__stack_class(size_t size)
{
    if (size < (size_t)1 << STACK_LOG_MIN)
        return -1;
    for (int class = 0; class < STACK_CLASSES; class ++)
        if (size <= (size_t)1 << (class + STACK_LOG_MIN))
            return class;
    return -1;
}

char *weft__stack_low(const struct stack *stack)
{
    return stack->base;
}

char *weft__stack_top(const struct stack *stack)
{
    return stack->base + room(stack->class);
}

char *weft__stack_start_at(const struct stack *stack)
{
    return weft__stack_top(stack) - (stack->color + stack->front) * FETCH_LINE;
}

void *weft__stack_front(struct stack *stack, size_t size)
{
    must(size <= STACK_FRONT_MOST && stack->front == 0);
    stack->front = (uint8_t)((size + FETCH_LINE - 1) / FETCH_LINE);
    return weft__stack_start_at(stack);
}

bool weft__stack_in_guard(const struct stack *stack, const void *address)
{
    const char *byte = address;
    return stack->guard != 0 && byte < stack->base &&
           (size_t)(stack->base - byte) <= (size_t)1 << stack->guard;
}

bool weft__stack_anywhere(const void *address)
{
    const char *byte = address;
    for (int class = 0; class < STACK_CLASSES; class ++) {
        /* Without the lock, which a signal handler must not take. Pairs with arena_try. */
        const struct arena *arena = atomic_ptr_load_acquire(&depots[class].arenas);
        for (; arena != NULL; arena = arena->next)
            if (byte >= arena->memory && byte < arena->memory + arena->size)
                return true;
    }
    return false;
}

static size_t usable(const struct stack *stack)
{
    return (size_t)(weft__stack_top(stack) - weft__stack_low(stack));
}

/* Valgrind and LeakSanitizer have to know that this memory is a stack and that pointers in it
 * count. The guard is left out, since they would read it. */

static void register_with_tools(struct stack *stack)
{
    stack->valgrind_id = valgrind_note_stack(weft__stack_low(stack), weft__stack_top(stack));
#if WEFT_ASAN
    __lsan_register_root_region(weft__stack_low(stack), usable(stack));
#endif
}

static void unregister_from_tools(struct stack *stack)
{
    valgrind_forget_stack(stack->valgrind_id);
#if WEFT_ASAN
    __lsan_unregister_root_region(weft__stack_low(stack), usable(stack));
    __asan_unpoison_memory_region(weft__stack_low(stack), usable(stack));
#endif
}

/* Arenas. Each has twice as many stacks as the one before, so that a small program maps little. */

/* How many stacks the next arena of the class has. */
static uint32_t choose_count(const struct depot *depot, int class, uint8_t guard)
{
    const struct arena *before = atomic_ptr_load_relaxed(&depot->arenas);
    size_t most = ARENA_SIZE_MAX / room(class), least = ARENA_SIZE_MIN / room(class);
    size_t count = before != NULL ? (size_t)before->count * 2 : least;
    if (guard == GUARD_WIDE)
        most = GUARD_WIDE_MOST - (size_t)depot->made;
    if (count > most)
        count = most;
    return count > 0 ? (uint32_t)count : 1;
}

/* Memory for `count` stacks with such guards; NULL if the system refuses. */
static char *arena_map(int class, uint8_t guard, uint32_t count)
{
    return guard == GUARD_WIDE ? weft__stack_guard_map_wide(count, room(class))
                               : weft__os_map(count * (((size_t)1 << guard) + room(class)));
}

static struct arena *arena_try(struct depot *depot, int class, uint8_t guard)
{
    uint32_t count = choose_count(depot, class, guard);
    struct arena *arena = weft__os_alloc_zeroed(sizeof *arena + count * sizeof arena->stacks[0]);
    if (arena == NULL)
        return NULL;
    arena->memory = arena_map(class, guard, count);
    if (arena->memory == NULL) {
        weft__os_free(arena);
        return NULL;
    }
    arena->guard = guard;
    arena->size = count * stride(arena, class);
    arena->count = count;
    weft__os_no_huge_pages(arena->memory, arena->size);
    arena->next = atomic_ptr_load_relaxed(&depot->arenas);
    atomic_ptr_store_release(&depot->arenas, arena); /* pairs with weft__stack_anywhere */
    return arena;
}

/* Opens an arena with the largest guards that the system grants. */
static struct arena *arena_open(struct depot *depot, int class)
{
    uint8_t guard = weft__stack_guard_choose(depot->made);
    struct arena *arena = arena_try(depot, class, guard);
    if (arena == NULL && guard == GUARD_WIDE)
        arena = arena_try(depot, class, GUARD_FEW);
    if (arena == NULL && guard != GUARD_LEAST)
        arena = arena_try(depot, class, GUARD_LEAST);
    return arena;
}

/* Closes the arena, unless it has a stack in quarantine. */
static void arena_close(struct arena *arena)
{
    static struct arena *kept;
    if (arena->quarantine) {
        arena->next = kept;
        kept = arena;
        return;
    }
    for (uint32_t i = 0; i < arena->carved; i++)
        unregister_from_tools(&arena->stacks[i]);
    weft__os_unmap(arena->memory, arena->size);
    weft__os_free(arena);
}

/* Carves up to `most` stacks that follow each other: the first, and how many. The depot is
 * locked. */
static struct stack *carve(struct depot *depot, int class, uint32_t most, uint32_t *count)
{
    struct arena *arena = atomic_ptr_load_relaxed(&depot->arenas);
    if (arena == NULL || arena->carved == arena->count) {
        /* Without memory, asking the system again for each of many fibers is wasted. */
        int64_t now = weft__os_now();
        if (now < depot->refused_until)
            return NULL;
        arena = arena_open(depot, class);
        if (arena == NULL) {
            depot->refused_until = now + REFUSED_PAUSE;
            return NULL;
        }
    }
    struct stack *first = &arena->stacks[arena->carved], *stack = first;
    for (*count = 0; *count < most && arena->carved < arena->count; (*count)++, stack++) {
        stack->base =
            arena->memory + arena->carved * stride(arena, class) + ((size_t)1 << arena->guard);
        stack->guard = arena->guard;
        stack->class = (uint8_t) class;
        stack->color = (uint8_t)(arena->carved % COLORS * COLOR_LINES);
        arena->carved++;
        depot->made++;
    }
    return first;
}

/* The depot. */

static struct stack *pop(struct stack **list, uint32_t *count)
{
    struct stack *stack = *list;
    if (stack != NULL) {
        *list = stack->next;
        (*count)--;
    }
    return stack;
}

static void push(struct stack **list, uint32_t *count, struct stack *stack)
{
    stack->next = *list;
    *list = stack;
    (*count)++;
}

/* The best stack that the depot holds, without carving; the depot is locked. */
static struct stack *take_kept(struct depot *depot)
{
    struct stack *stack = pop(&depot->warm, &depot->warm_count);
    if (stack == NULL)
        stack = pop(&depot->pending, &depot->pending_count);
    if (stack != NULL)
        atomic_i64_add_relaxed(&trimmable, -1);
    else
        stack = pop(&depot->cold, &depot->cold_count);
    if (depot->warm_count < depot->low_water)
        depot->low_water = depot->warm_count;
    return stack;
}

/* How many stacks to carve for a cache at once: one while the class has few, more when it has
 * many. */
static uint32_t carve_for_cache(const struct depot *depot)
{
    uint64_t share = 1 + depot->made / CARVE_SHARE;
    uint32_t most = weft__stack_guard_batch();
    return share < most ? (uint32_t)share : most;
}

/* weft__stack_get for a cache that is NULL, of another class, or empty. */
static noinline struct stack *depot_get(struct stack_cache *cache, int class)
{
    struct depot *depot = &depots[class];
    bool fits = cache != NULL && cache->class == class;
    uint32_t fresh = 0;
    lock_acquire(&depot->lock);
    struct stack *stack = take_kept(depot);
    if (stack == NULL)
        stack = carve(depot, class, fits ? carve_for_cache(depot) : 1, &fresh);
    lock_release(&depot->lock);
    if (fresh > 0)
        weft__stack_guard_make(stack, fresh, ((size_t)1 << stack->guard) + room(class));
    for (uint32_t i = fresh; i > 0; i--) {
        register_with_tools(&stack[i - 1]);
        if (i > 1) /* in memory order: the next one in memory is taken next */
            cache->free[cache->count++] = &stack[i - 1];
    }
    return stack;
}

/* Puts a chain of stacks into the depot; the first of the chain will be taken first. */
static void depot_put(struct depot *depot, struct stack *first)
{
    struct stack *last = first;
    uint32_t count = 1;
    for (; last->next != NULL; last = last->next)
        count++;
    lock_acquire(&depot->lock);
    last->next = depot->warm;
    depot->warm = first;
    depot->warm_count += count;
    lock_release(&depot->lock);
    atomic_i64_add_relaxed(&trimmable, count);
}

struct stack *weft__stack_get(struct stack_cache *cache, int class)
{
    if (unlikely(cache == NULL || cache->class != class || cache->count == 0))
        return depot_get(cache, class);
    return cache->free[--cache->count];
}

/* Moves all but the newest `keep` stacks of the cache to the depot; it has more than `keep`. */
static noinline void cache_shrink(struct stack_cache *cache, uint32_t keep)
{
    struct stack *moved = NULL;
    uint32_t count = cache->count - keep;
    for (uint32_t i = 0; i < count; i++) {
        cache->free[i]->next = moved;
        moved = cache->free[i];
    }
    for (uint32_t i = 0; i < keep; i++)
        cache->free[i] = cache->free[count + i];
    cache->count = keep;
    depot_put(&depots[cache->class], moved);
}

void weft__stack_put(struct stack_cache *cache, struct stack *stack)
{
#if WEFT_ASAN
    __asan_unpoison_memory_region(weft__stack_low(stack), usable(stack));
#endif
    if (unlikely(stack->front != 0)) /* no write unless needed: see struct stack_cache */
        stack->front = 0;
    if (likely(cache != NULL && cache->class == stack->class)) {
        if (unlikely(cache->count == STACK_CACHE_MOST))
            cache_shrink(cache, CACHE_MOVES);
        cache->free[cache->count++] = stack;
        return;
    }
    stack->next = NULL;
    depot_put(&depots[stack->class], stack);
}

void weft__stack_quarantine(struct stack *stack)
{
    struct depot *depot = &depots[stack->class];
    lock_acquire(&depot->lock);
    for (struct arena *arena = atomic_ptr_load_relaxed(&depot->arenas); arena != NULL;
         arena = arena->next)
        if (stack >= arena->stacks && stack < arena->stacks + arena->count)
            arena->quarantine = true;
    lock_release(&depot->lock);
    atomic_u64_add_relaxed(&quarantined, 1);
}

void weft__stack_cache_flush(struct stack_cache *cache)
{
    if (cache->count > 0)
        cache_shrink(cache, 0);
}

/* Trimming. */

/* Ends a period: the stacks that were not needed become pending. The depot is locked. */
static void end_period(struct depot *depot)
{
    uint32_t keep = depot->warm_count - depot->low_water;
    struct stack **end = &depot->warm;
    for (uint32_t i = 0; i < keep; i++)
        end = &(*end)->next;
    struct stack *surplus = *end;
    if (surplus != NULL && depot->pending == NULL) {
        *end = NULL;
        depot->pending = surplus;
        depot->pending_count = depot->low_water;
        depot->warm_count = keep;
    }
    depot->low_water = depot->warm_count;
}

/* Decommits up to TRIM_BATCH pending stacks; true if more are pending. They are in no list
 * meanwhile, so that the lock is not held across system calls. */
static bool decommit_batch(struct depot *depot)
{
    struct stack *batch = NULL;
    uint32_t count = 0;
    lock_acquire(&depot->lock);
    while (count < TRIM_BATCH && depot->pending != NULL) {
        struct stack *stack = pop(&depot->pending, &depot->pending_count);
        push(&batch, &count, stack);
    }
    lock_release(&depot->lock);
    atomic_i64_add_relaxed(&trimmable, -(int64_t)count);
    for (struct stack *stack = batch; stack != NULL; stack = stack->next)
        (void)weft__os_decommit(weft__stack_low(stack), usable(stack));
    lock_acquire(&depot->lock);
    while (batch != NULL) {
        struct stack *stack = pop(&batch, &count);
        push(&depot->cold, &depot->cold_count, stack);
    }
    bool more = depot->pending != NULL;
    lock_release(&depot->lock);
    return more;
}

int64_t weft__stack_trim(int64_t now)
{
    if (now >= period_end) {
        period_end = now + TRIM_PERIOD;
        for (int class = 0; class < STACK_CLASSES; class ++) {
            struct depot *depot = &depots[class];
            lock_acquire(&depot->lock);
            end_period(depot);
            lock_release(&depot->lock);
        }
    }
    bool pending = false;
    for (int class = 0; class < STACK_CLASSES; class ++)
        pending |= decommit_batch(&depots[class]);
    if (pending)
        return now + TRIM_PAUSE;
    if (weft__stack_trim_wanted())
        return now + TRIM_PERIOD;
    period_end = 0;
    return STACK_TRIM_IDLE;
}

bool weft__stack_trim_wanted(void)
{
    return atomic_i64_load_relaxed(&trimmable) > 0;
}

struct stack_figures weft__stack_figures(void)
{
    struct stack_figures figures = {.quarantined = atomic_u64_load_relaxed(&quarantined)};
    for (int class = 0; class < STACK_CLASSES; class ++) {
        struct depot *depot = &depots[class];
        lock_acquire(&depot->lock);
        figures.made += depot->made;
        figures.cold += depot->cold_count;
        figures.kept += depot->warm_count + depot->pending_count + depot->cold_count;
        lock_release(&depot->lock);
    }
    return figures;
}

void weft__stack_stop(void)
{
    for (int class = 0; class < STACK_CLASSES; class ++) {
        struct depot *depot = &depots[class];
        struct arena *arena = atomic_ptr_load_relaxed(&depot->arenas);
        while (arena != NULL) {
            struct arena *next = arena->next;
            arena_close(arena);
            arena = next;
        }
        *depot = (struct depot){.warm = NULL};
    }
    atomic_i64_store_relaxed(&trimmable, 0);
    period_end = 0;
}
