/*
 * stack.c: arenas, guards, shelves and trimming.
 *
 * Stacks of one size (a class) are carved from arenas: large lazily committed mappings, so that a
 * million stacks are a few thousand mappings, not a million. A stack, once carved, is only unmapped
 * with its arena at shut-down. Its descriptor stands outside of it, so that a stack can be given
 * back to the system as a whole.
 *
 *        carve          get                 put           period without use        given back
 *   arena ----> in use <---- cache of a processor ----> shelf: warm ----> pending ----> cold
 *                  ^________________________________________|_______________|____________|
 *                                                get, in this order
 *
 * A stack whose fiber was abandoned (sched/fiber/crash.c) goes to none of these: it stays as it is, guard and all, and
 * so does its arena, also past shut-down.
 *
 * LIFO everywhere: the stack last used is the next one to be used, since its pages are in the
 * cache; a fresh page costs as much as 500 switches.
 *
 * Trimming. A shelf notes the fewest stacks it held during a period (its low water): so many nobody
 * needed. At the end of the period that many from its cold end become pending, and are then
 * decommitted a batch at a time, all of their pages: deep ones with them. A process that goes idle
 * has given everything back after two periods and then does not wake up for it any more.
 *
 * Colors. Frames at the same distance from the top of each stack would all fall into the same few
 * sets of the CPU's caches. So a stack's first frame begins up to 2 KiB below its top, in 16 steps;
 * and guard and color space come on top of the size, so that tops are not a power of two apart. In the color space
 * is a front as well, for who wants some memory in the page of the first frames.
 *
 * Guards. What is below the stack faults when touched. A frame larger than the guard steps over it, so guards are as large as
 * they can be for what they cost, which depends on how many stacks there are:
 *
 *   the first WIDE_MOST of a class      8 MiB: as much as the stack of most programs' main thread, so
 *                                       what runs there does not step over it. Address space without a
 *                                       page, in which the stacks are made accessible.
 *   up to FEW_MOST                      64 KiB
 *   beyond                              a page (64 KiB on aarch64): eight bytes of page tables for each
 *                                       page of a guard are two hundredths of what a parked fiber costs
 *
 * MADV_GUARD_INSTALL
 * does it without splitting the mapping; mprotect splits it, so it must end well before
 * vm.max_map_count; from then on stacks are unguarded, and that is said once. Locked memory (mlockall) refuses the first,
 * so there each guard is tried by mprotect. A call for each guard is dear: where many
 * stacks are needed, several are carved at once for the cache of a processor, and one call makes their guards.
 *
 * Locks: one per class; nothing else is taken while it is held.
 *
 * Rejected: descriptors inside the stack (a cold stack would lose its own; an overflow would
 * corrupt it); unmapping single stacks (splits mappings); mincore to find deep stacks (as dear as
 * giving back).
 */
#include "stack/stack.h"

#include <errno.h>

#include "base/assert.h"
#include "os/lock.h"
#include "os/os.h"

#if WEFT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(low, high) 0u
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

#if defined(__aarch64__)
enum { GUARD_LEAST = 16 }; /* 64 KiB: compilers probe at that distance */
#else
enum { GUARD_LEAST = 12 };
#endif

/* Guards by the logarithm of their size. */
enum { GUARD_FEW = 16, GUARD_WIDE = 23, WIDE_MOST = 128, FEW_MOST = 8192 };

enum {
    ARENA_SIZE_MIN = 1 << 20,
    ARENA_SIZE_MAX = 1 << 26,
    CACHE_MOVES = STACK_CACHE_MOST / 2,
    MAPPINGS_DEFAULT = 65530, /* vm.max_map_count where it cannot be read */
    MAPPINGS_LEFT = 8192,
    COLORS = 16,
    COLOR_LINES = 2,
    COLOR_SPACE = 4096, /* at least the colors and a front, and whole pages */
    TRIM_BATCH = 64,
    CARVE_SHARE = 64,
};
#define REFUSED_PAUSE ((int64_t)5 * 1000 * 1000)
#define TRIM_PERIOD ((int64_t)100 * 1000 * 1000)
#define TRIM_PAUSE ((int64_t)1000 * 1000)

struct arena {
    struct arena *next;
    char *memory;
    size_t size;
    uint32_t count, carved;
    uint8_t guard;   /* of its stacks, as theirs */
    bool quarantine; /* it has a stack that stays */
    struct stack stacks[];
};

static struct shelf {
    _Alignas(CACHE_LINE) struct lock lock;
    struct stack *warm, *pending, *cold;
    uint32_t warm_count, pending_count, cold_count;
    uint32_t low_water;
    atomic_ptr arenas;     /* newest first; only it may have stacks left to carve */
    int64_t refused_until; /* no arena is asked for before that */
    uint64_t made;
} shelves[STACK_CLASSES];

_Static_assert(COLORS *COLOR_LINES *FETCH_LINE + STACK_FRONT_MOST <= COLOR_SPACE,
               "of the size nothing is lost");

static enum stack_guard guard_kind;
static bool mprotect_allowed;
static uint32_t guards_at_once;  /* that one call can make */
static atomic_i64 mprotect_left; /* guards that mprotect may still make */
static atomic_u32 unguarded_said;
static atomic_u64 quarantined;
static atomic_i64 trimmable; /* warm and pending stacks of all shelves */
static int64_t period_end;   /* of the trim period; 0: none has begun; the trimmer's own */

/* Without the guard. */
static size_t room(int class)
{
    return ((size_t)1 << (class + STACK_LOG_MIN)) + COLOR_SPACE;
}

static size_t stride(const struct arena *arena, int class)
{
    return ((size_t)1 << arena->guard) + room(class);
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
        /* Without the lock, which a signal handler must not take: pairs with arena_open. */
        const struct arena *arena = atomic_ptr_load_acquire(&shelves[class].arenas);
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

/* What Valgrind and LeakSanitizer must know: this memory is a stack, and pointers in it count. The
 * guard is left out, since they would read it. */

static void tell_tools_made(struct stack *stack)
{
    stack->valgrind_id = VALGRIND_STACK_REGISTER(weft__stack_low(stack), weft__stack_top(stack));
#if WEFT_ASAN
    __lsan_register_root_region(weft__stack_low(stack), usable(stack));
#endif
}

static void tell_tools_gone(struct stack *stack)
{
    VALGRIND_STACK_DEREGISTER(stack->valgrind_id);
#if WEFT_ASAN
    __lsan_unregister_root_region(weft__stack_low(stack), usable(stack));
    __asan_unpoison_memory_region(weft__stack_low(stack), usable(stack));
#endif
}

/* Guards. */

/* How many guards mprotect may make. Each splits a mapping into three, and when vm.max_map_count is
 * reached no mapping can be made at all: a good part is left to the arenas and to the program. */
int64_t weft__stack_guards_most(const char *most_mappings)
{
    int64_t mappings = 0;
    for (const char *at = most_mappings; *at >= '0' && *at <= '9' && mappings < INT32_MAX; at++)
        mappings = mappings * 10 + (*at - '0');
    if (mappings == 0)
        mappings = MAPPINGS_DEFAULT;
    return mappings > 2 * MAPPINGS_LEFT ? (mappings - MAPPINGS_LEFT) / 2 : mappings / 4;
}

static int64_t mprotect_budget(void)
{
    char text[32] = "";
    (void)weft__os_read_file("/proc/sys/vm/max_map_count", text, sizeof text);
    return weft__stack_guards_most(text);
}

static int guard_by_mprotect(char *memory, size_t size)
{
    if (!mprotect_allowed)
        return -EPERM;
    if (atomic_i64_add_relaxed(&mprotect_left, -1) <= 0)
        return -ENOMEM;
    return weft__os_guard_mprotect(memory, size);
}

/* Why there is no guard; `install` and `mprotect` are what either attempt returned. */
static void say_unguarded(int install, int mprotect)
{
    const char *first = "", *second = "";
    if (install == -EINVAL)
        first = "memory is locked (mlockall), where MADV_GUARD_INSTALL fails; ";
    else if (install != -ENOSYS)
        first = "MADV_GUARD_INSTALL failed; ";
    if (mprotect == -ENOMEM)
        second = "no more mappings; see vm.max_map_count";
    else if (mprotect == -EPERM)
        second = install == -ENOSYS ? "guards are turned off" : "mprotect is turned off";
    else
        second = weft__os_strerror(-mprotect);
    weft__warn("from now on stacks have no guard: an overflow will not be noticed (%s%s)", first,
               second);
}

/* Locked memory refuses MADV_GUARD_INSTALL, and may be locked at any time (mlockall): mprotect works there. */
static void guard(struct stack *stack)
{
    int mprotect = -ENOSYS, install = -ENOSYS;
    size_t size = (size_t)1 << stack->guard;
    char *memory = stack->base - size;
    if (guard_kind == STACK_GUARD_INSTALL)
        install = weft__os_guard_install(memory, size);
    if (install != 0)
        mprotect = guard_by_mprotect(memory, size);
    if (install == 0 || mprotect == 0)
        return;
    stack->guard = 0;
    if (atomic_u32_exchange_acq_rel(&unguarded_said, 1) == 0)
        say_unguarded(install, mprotect);
}

/* So many that follow each other. */
static void guard_all(struct stack *first, uint32_t count)
{
    size_t size = (size_t)1 << first->guard;
    if (first->guard == GUARD_WIDE) /* it is there from the beginning */
        return;
    if (count > 1 && weft__os_guard_install_many(first->base - size, size + room(first->class),
                                                 size, count) == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        guard(&first[i]);
}

void weft__stack_start(bool allow_install, bool allow_many, bool allow_mprotect)
{
    guard_kind = allow_mprotect ? STACK_GUARD_MPROTECT : STACK_GUARD_NONE;
    mprotect_allowed = allow_mprotect;
    guards_at_once = 1;
    atomic_i64_store_relaxed(&mprotect_left, mprotect_budget());
    if (!allow_install)
        return;
    size_t size = (size_t)1 << GUARD_LEAST;
    char *probe = weft__os_map(2 * size);
    if (probe == NULL)
        return;
    /* Emulators accept any advice and do nothing: see whether it worked. */
    if (weft__os_guard_install(probe, size) == 0 && !weft__os_readable(probe)) {
        guard_kind = STACK_GUARD_INSTALL;
        char *second = probe + size;
        if (allow_many && weft__os_guard_install_many(second, 0, size, 1) == 0 &&
            !weft__os_readable(second))
            guards_at_once = OS_GUARDS_MOST;
    }
    weft__os_unmap(probe, 2 * size);
}

enum stack_guard weft__stack_guard_kind(void)
{
    return guard_kind;
}

/* Arenas. Each has twice as many stacks as the one before, so that a small program maps little. */

/* How large the guards of an arena are to be that is the next one of a shelf. */
static uint8_t choose_guard(const struct shelf *shelf)
{
    if (shelf->made < WIDE_MOST && mprotect_allowed &&
        atomic_i64_load_relaxed(&mprotect_left) > WIDE_MOST)
        return GUARD_WIDE;
    uint8_t guard = GUARD_LEAST;
    if (shelf->made < FEW_MOST)
        guard = GUARD_FEW; /* the same on aarch64 */
    return guard;
}

/* How many stacks it is to have. */
static uint32_t choose_count(const struct shelf *shelf, int class, uint8_t guard)
{
    const struct arena *before = atomic_ptr_load_relaxed(&shelf->arenas);
    size_t most = ARENA_SIZE_MAX / room(class), least = ARENA_SIZE_MIN / room(class);
    size_t count = before != NULL ? (size_t)before->count * 2 : least;
    if (guard == GUARD_WIDE)
        most = WIDE_MOST - (size_t)shelf->made;
    if (count > most)
        count = most;
    return count > 0 ? (uint32_t)count : 1;
}

/* Memory for so many stacks with such guards; NULL if there is none, or the guards cannot be had. */
static char *arena_map(int class, uint8_t guard, uint32_t count)
{
    size_t below = (size_t)1 << guard, each = below + room(class);
    if (guard != GUARD_WIDE)
        return weft__os_map(count * each);
    char *memory = weft__os_reserve(count * each);
    for (uint32_t i = 0; memory != NULL && i < count; i++)
        if (weft__os_open_reserved(memory + i * each + below, room(class)) != 0) {
            weft__os_unmap(memory, count * each);
            return NULL;
        }
    if (memory != NULL)
        atomic_i64_add_relaxed(&mprotect_left, -(int64_t)count);
    return memory;
}

static struct arena *arena_try(struct shelf *shelf, int class, uint8_t guard)
{
    uint32_t count = choose_count(shelf, class, guard);
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
    arena->next = atomic_ptr_load_relaxed(&shelf->arenas);
    atomic_ptr_store_release(&shelf->arenas, arena); /* pairs with weft__stack_anywhere */
    return arena;
}

/* With guards as large as can be had. */
static struct arena *arena_open(struct shelf *shelf, int class)
{
    uint8_t guard = choose_guard(shelf);
    struct arena *arena = arena_try(shelf, class, guard);
    if (arena == NULL && guard == GUARD_WIDE)
        arena = arena_try(shelf, class, GUARD_FEW);
    if (arena == NULL && guard != GUARD_LEAST)
        arena = arena_try(shelf, class, GUARD_LEAST);
    return arena;
}

/* One with a stack in quarantine stays as it is. */
static void arena_close(struct arena *arena)
{
    static struct arena *kept;
    if (arena->quarantine) {
        arena->next = kept;
        kept = arena;
        return;
    }
    for (uint32_t i = 0; i < arena->carved; i++)
        tell_tools_gone(&arena->stacks[i]);
    weft__os_unmap(arena->memory, arena->size);
    weft__os_free(arena);
}

/* The first of up to `most` stacks that follow each other, and how many they are. The shelf is locked. */
static struct stack *carve(struct shelf *shelf, int class, uint32_t most, uint32_t *count)
{
    struct arena *arena = atomic_ptr_load_relaxed(&shelf->arenas);
    if (arena == NULL || arena->carved == arena->count) {
        /* Where the system has just refused, asking again for each of many fibers is no use. */
        int64_t now = weft__os_now();
        if (now < shelf->refused_until)
            return NULL;
        arena = arena_open(shelf, class);
        if (arena == NULL) {
            shelf->refused_until = now + REFUSED_PAUSE;
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
        shelf->made++;
    }
    return first;
}

/* Shelves. */

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

/* The best stack that the shelf has, without carving; the shelf is locked. */
static struct stack *take_shelved(struct shelf *shelf)
{
    struct stack *stack = pop(&shelf->warm, &shelf->warm_count);
    if (stack == NULL)
        stack = pop(&shelf->pending, &shelf->pending_count);
    if (stack != NULL)
        atomic_i64_add_relaxed(&trimmable, -1);
    else
        stack = pop(&shelf->cold, &shelf->cold_count);
    if (shelf->warm_count < shelf->low_water)
        shelf->low_water = shelf->warm_count;
    return stack;
}

/* How many stacks to carve for a cache: one where there are few, more where many were needed. */
static uint32_t carve_for_cache(const struct shelf *shelf)
{
    uint64_t share = 1 + shelf->made / CARVE_SHARE;
    return share < guards_at_once ? (uint32_t)share : guards_at_once;
}

/* For a cache that is NULL, of another class, or empty. */
static noinline struct stack *shelf_get(struct stack_cache *cache, int class)
{
    struct shelf *shelf = &shelves[class];
    bool fits = cache != NULL && cache->class == class;
    uint32_t fresh = 0;
    lock_acquire(&shelf->lock);
    struct stack *stack = take_shelved(shelf);
    if (stack == NULL)
        stack = carve(shelf, class, fits ? carve_for_cache(shelf) : 1, &fresh);
    lock_release(&shelf->lock);
    if (fresh > 0)
        guard_all(stack, fresh);
    for (uint32_t i = fresh; i > 0; i--) {
        tell_tools_made(&stack[i - 1]);
        if (i > 1) /* the next in memory is the next to be taken */
            cache->free[cache->count++] = &stack[i - 1];
    }
    return stack;
}

/* Puts a chain of stacks on the shelf, its first on top. */
static void shelf_put(struct shelf *shelf, struct stack *first)
{
    struct stack *last = first;
    uint32_t count = 1;
    for (; last->next != NULL; last = last->next)
        count++;
    lock_acquire(&shelf->lock);
    last->next = shelf->warm;
    shelf->warm = first;
    shelf->warm_count += count;
    lock_release(&shelf->lock);
    atomic_i64_add_relaxed(&trimmable, count);
}

struct stack *weft__stack_get(struct stack_cache *cache, int class)
{
    if (unlikely(cache == NULL || cache->class != class || cache->count == 0))
        return shelf_get(cache, class);
    return cache->free[--cache->count];
}

/* Moves the oldest stacks of the cache, all but `keep`, to the shelf; there are more than that. */
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
    shelf_put(&shelves[cache->class], moved);
}

void weft__stack_put(struct stack_cache *cache, struct stack *stack)
{
#if WEFT_ASAN
    __asan_unpoison_memory_region(weft__stack_low(stack), usable(stack));
#endif
    if (unlikely(stack->front != 0)) /* else it is left alone: see stack.h */
        stack->front = 0;
    if (likely(cache != NULL && cache->class == stack->class)) {
        if (unlikely(cache->count == STACK_CACHE_MOST))
            cache_shrink(cache, CACHE_MOVES);
        cache->free[cache->count++] = stack;
        return;
    }
    stack->next = NULL;
    shelf_put(&shelves[stack->class], stack);
}

void weft__stack_quarantine(struct stack *stack)
{
    struct shelf *shelf = &shelves[stack->class];
    lock_acquire(&shelf->lock);
    for (struct arena *arena = atomic_ptr_load_relaxed(&shelf->arenas); arena != NULL;
         arena = arena->next)
        if (stack >= arena->stacks && stack < arena->stacks + arena->count)
            arena->quarantine = true;
    lock_release(&shelf->lock);
    atomic_u64_add_relaxed(&quarantined, 1);
}

void weft__stack_cache_flush(struct stack_cache *cache)
{
    if (cache->count > 0)
        cache_shrink(cache, 0);
}

/* Trimming. */

/* Ends a period: what the shelf did not need becomes pending. The shelf is locked. */
static void end_period(struct shelf *shelf)
{
    uint32_t keep = shelf->warm_count - shelf->low_water;
    struct stack **end = &shelf->warm;
    for (uint32_t i = 0; i < keep; i++)
        end = &(*end)->next;
    struct stack *surplus = *end;
    if (surplus != NULL && shelf->pending == NULL) {
        *end = NULL;
        shelf->pending = surplus;
        shelf->pending_count = shelf->low_water;
        shelf->warm_count = keep;
    }
    shelf->low_water = shelf->warm_count;
}

/* Gives up to TRIM_BATCH pending stacks back to the system; true if more are pending. They are off
 * the shelf meanwhile, so that the lock is not held across system calls. */
static bool give_back(struct shelf *shelf)
{
    struct stack *batch = NULL;
    uint32_t count = 0;
    lock_acquire(&shelf->lock);
    while (count < TRIM_BATCH && shelf->pending != NULL) {
        struct stack *stack = pop(&shelf->pending, &shelf->pending_count);
        push(&batch, &count, stack);
    }
    lock_release(&shelf->lock);
    atomic_i64_add_relaxed(&trimmable, -(int64_t)count);
    for (struct stack *stack = batch; stack != NULL; stack = stack->next)
        (void)weft__os_decommit(weft__stack_low(stack), usable(stack));
    lock_acquire(&shelf->lock);
    while (batch != NULL) {
        struct stack *stack = pop(&batch, &count);
        push(&shelf->cold, &shelf->cold_count, stack);
    }
    bool more = shelf->pending != NULL;
    lock_release(&shelf->lock);
    return more;
}

int64_t weft__stack_trim(int64_t now)
{
    if (now >= period_end) {
        period_end = now + TRIM_PERIOD;
        for (int class = 0; class < STACK_CLASSES; class ++) {
            struct shelf *shelf = &shelves[class];
            lock_acquire(&shelf->lock);
            end_period(shelf);
            lock_release(&shelf->lock);
        }
    }
    bool pending = false;
    for (int class = 0; class < STACK_CLASSES; class ++)
        pending |= give_back(&shelves[class]);
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
        struct shelf *shelf = &shelves[class];
        lock_acquire(&shelf->lock);
        figures.made += shelf->made;
        figures.cold += shelf->cold_count;
        figures.shelved += shelf->warm_count + shelf->pending_count + shelf->cold_count;
        lock_release(&shelf->lock);
    }
    return figures;
}

void weft__stack_stop(void)
{
    for (int class = 0; class < STACK_CLASSES; class ++) {
        struct shelf *shelf = &shelves[class];
        struct arena *arena = atomic_ptr_load_relaxed(&shelf->arenas);
        while (arena != NULL) {
            struct arena *next = arena->next;
            arena_close(arena);
            arena = next;
        }
        *shelf = (struct shelf){.warm = NULL};
    }
    atomic_i64_store_relaxed(&trimmable, 0);
    atomic_u32_store_relaxed(&unguarded_said, 0);
    period_end = 0;
}
