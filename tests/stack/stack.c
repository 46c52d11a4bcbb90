/*
 * stack.c: stacks: sizes, reuse, guards, trimming, and what happens without memory.
 *
 * No fiber runs: the test acts as the scheduler, and as its clock.
 */
#include "stack/stack.h"
#include "stack/stack_guard.h"
#include "system.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "os/failure.h"
#include "os/os.h"
#include "test.h"

enum { DEFAULT_CLASS = 2 /* 64 KiB */ };

/* A time of the monotonic clock: trimming is given the time. */
#define BEGIN ((int64_t)1000 * 1000 * 1000)
#define PERIOD ((int64_t)100 * 1000 * 1000)

static char *guard_low(const struct stack *stack)
{
    return weft__stack_low(stack) - ((size_t)1 << stack->guard);
}

static size_t usable(const struct stack *stack)
{
    return (size_t)(weft__stack_top(stack) - weft__stack_low(stack));
}

/* The pages from low to top that are memory. */
static size_t resident(const struct stack *stack)
{
    size_t page = weft__os_page_size(), pages = usable(stack) / page, count = 0;
    unsigned char *map = malloc(pages);
    CHECK(map != NULL);
    CHECK_EQ(mincore(weft__stack_low(stack), usable(stack), map), 0);
    for (size_t i = 0; i < pages; i++)
        count += map[i] & 1;
    free(map);
    return count;
}

static void touch(const struct stack *stack, char mark)
{
    *weft__stack_low(stack) = mark;
    weft__stack_top(stack)[-1] = mark;
}

static void start(void)
{
    weft__stack_start(true, true, true);
}

static void get_all(struct stack_cache *cache, struct stack **stacks, int count, int class)
{
    for (int i = 0; i < count; i++)
        stacks[i] = weft__stack_get(cache, class);
}

static void put_all(struct stack_cache *cache, struct stack **stacks, int count)
{
    for (int i = 0; i < count; i++)
        weft__stack_put(cache, stacks[i]);
}

/* Gets that many stacks, touches them, and puts them back. */
static void use_all(struct stack **stacks, int count)
{
    get_all(NULL, stacks, count, DEFAULT_CLASS);
    for (int i = 0; i < count; i++)
        touch(stacks[i], 'a');
    put_all(NULL, stacks, count);
}

static void write_there(void *address)
{
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    *(volatile char *)address = 1;
}

/* The signal that a write there raises, 0 if none. */
static int write_kills(char *address)
{
    const char *written;
    int status = test_in_child(write_there, address, &written);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void classes(void)
{
    CHECK_EQ(weft__stack_class(0), -1);
    CHECK_EQ(weft__stack_class(1), -1);
    for (int class = 0; class < STACK_CLASSES; class ++) {
        size_t size = (size_t)1 << (class + STACK_LOG_MIN);
        CHECK_EQ(weft__stack_class(size), class);
        CHECK_EQ(weft__stack_class(size - 1), class > 0 ? class : -1);
        CHECK_EQ(weft__stack_class(size + 1), class + 1 < STACK_CLASSES ? class + 1 : -1);
    }
    CHECK_EQ(weft__stack_class(SIZE_MAX), -1);
}

static void every_size(void)
{
    struct stack *stacks[STACK_CLASSES][2];
    start();
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (int i = 0; i < 2; i++) {
            struct stack *stack = stacks[class][i] = weft__stack_get(NULL, class);
            size_t size = (size_t)1 << (class + STACK_LOG_MIN);
            CHECK(stack != NULL);
            CHECK_EQ(stack->class, class);
            CHECK((size_t)(weft__stack_start_at(stack) - weft__stack_low(stack)) >= size);
            CHECK(weft__stack_start_at(stack) <= weft__stack_top(stack));
            CHECK_EQ((uintptr_t)weft__stack_start_at(stack) % 16, 0);
            touch(stack, 'a');
        }
    for (int class = 0; class < STACK_CLASSES; class ++) {
        struct stack *a = stacks[class][0], *b = stacks[class][1];
        CHECK(weft__stack_top(a) <= guard_low(b) || weft__stack_top(b) <= guard_low(a));
        put_all(NULL, stacks[class], 2);
    }
    CHECK_EQ(weft__stack_figures().made, 2 * STACK_CLASSES);
    CHECK_EQ(weft__stack_figures().kept, 2 * STACK_CLASSES);
    char *low = weft__stack_low(stacks[DEFAULT_CLASS][0]);
    unsigned char map;
    CHECK_EQ(mincore(low, 1, &map), 0);
    weft__stack_stop();
    CHECK(mincore(low, 1, &map) != 0);
    CHECK_EQ(weft__stack_figures().made, 0);
    CHECK_EQ(weft__stack_figures().kept, 0);
}

static void last_put_is_next(void)
{
    struct stack_cache cache = {.class = DEFAULT_CLASS}, *caches[] = {&cache, NULL};
    start();
    for (int i = 0; i < 2; i++) {
        struct stack *a = weft__stack_get(caches[i], DEFAULT_CLASS);
        struct stack *b = weft__stack_get(caches[i], DEFAULT_CLASS);
        CHECK(a != NULL && b != NULL && a != b);
        weft__stack_put(caches[i], a);
        weft__stack_put(caches[i], b);
        CHECK_PTR(weft__stack_get(caches[i], DEFAULT_CLASS), b);
        CHECK_PTR(weft__stack_get(caches[i], DEFAULT_CLASS), a);
    }
    weft__stack_stop();
}

/* The descriptors of stacks of two processors may share a line of the cache: a put into the cache
 * must not write to its descriptor. */
static void cache_leaves_descriptors_alone(void)
{
    struct stack_cache cache = {.class = DEFAULT_CLASS};
    start();
    struct stack *stack = weft__stack_get(&cache, DEFAULT_CLASS);
    struct stack *other = weft__stack_get(&cache, DEFAULT_CLASS);
    weft__stack_put(&cache, other);
    struct stack before = *stack;
    before.next = stack->next = other; /* any value */
    weft__stack_put(&cache, stack);
    CHECK_EQ(memcmp(stack, &before, sizeof before), 0);
    CHECK_PTR(weft__stack_get(&cache, DEFAULT_CLASS), stack);
    CHECK_EQ(memcmp(stack, &before, sizeof before), 0);
    weft__stack_stop();
}

static void cache_takes_its_own_class_only(void)
{
    struct stack_cache cache = {.class = DEFAULT_CLASS};
    start();
    struct stack *other = weft__stack_get(&cache, DEFAULT_CLASS + 1);
    CHECK_EQ(other->class, DEFAULT_CLASS + 1);
    weft__stack_put(&cache, other);
    CHECK_EQ(cache.count, 0);
    CHECK_EQ(weft__stack_figures().kept, 1);
    struct stack *own = weft__stack_get(&cache, DEFAULT_CLASS);
    weft__stack_put(&cache, own);
    CHECK_EQ(cache.count, 1);
    CHECK_EQ(weft__stack_figures().kept, 1);
    CHECK_PTR(weft__stack_get(&cache, DEFAULT_CLASS + 1), other);
    weft__stack_stop();
}

enum { MANY = STACK_CACHE_MOST + 1 };

static void full_cache_moves_stacks_to_the_depot(void)
{
    struct stack_cache cache = {.class = DEFAULT_CLASS};
    struct stack *stacks[MANY];
    weft__stack_start(true, false, true); /* one by one */
    get_all(&cache, stacks, MANY, DEFAULT_CLASS);
    for (int i = 0; i < MANY; i++) {
        weft__stack_put(&cache, stacks[i]);
        CHECK(cache.count <= STACK_CACHE_MOST);
        CHECK_EQ(cache.count + weft__stack_figures().kept, i + 1);
    }
    CHECK(cache.count > 0 && weft__stack_figures().kept > 0);
    /* The newest stayed. */
    uint32_t kept = cache.count;
    for (uint32_t i = 0; i < kept; i++)
        CHECK_PTR(weft__stack_get(&cache, DEFAULT_CLASS), stacks[MANY - 1 - i]);
    /* The others are in the depot: none is carved anew, none is got twice. */
    for (uint32_t i = kept; i < MANY; i++) {
        struct stack *stack = weft__stack_get(&cache, DEFAULT_CLASS);
        int found = 0;
        for (uint32_t j = 0; j < MANY - kept; j++)
            if (stacks[j] == stack) {
                stacks[j] = NULL;
                found++;
            }
        CHECK_EQ(found, 1);
    }
    CHECK_EQ(weft__stack_figures().made, MANY);
    weft__stack_stop();
}

/* A flush empties the cache into the depot, which is LIFO as well: the newest stack is got
 * first. */
static void flush_empties_the_cache(void)
{
    struct stack_cache cache = {.class = DEFAULT_CLASS};
    struct stack *stacks[3];
    weft__stack_start(true, false, true); /* one by one */
    weft__stack_cache_flush(&cache);
    get_all(&cache, stacks, 3, DEFAULT_CLASS);
    put_all(&cache, stacks, 3);
    CHECK(!weft__stack_trim_wanted());
    weft__stack_cache_flush(&cache);
    CHECK_EQ(cache.count, 0);
    CHECK_EQ(weft__stack_figures().kept, 3);
    CHECK(weft__stack_trim_wanted());
    for (int i = 2; i >= 0; i--)
        CHECK_PTR(weft__stack_get(&cache, DEFAULT_CLASS), stacks[i]);
    CHECK_EQ(weft__stack_figures().made, 3);
    weft__stack_stop();
    CHECK(!weft__stack_trim_wanted());
}

/* The front does not reduce the size of the stack, and lasts until the stack is put back. */
static void front_is_above_the_frames(void)
{
    start();
    for (size_t size = 1; size <= STACK_FRONT_MOST; size += 341) {
        struct stack *stack = weft__stack_get(NULL, DEFAULT_CLASS);
        char *start = weft__stack_start_at(stack), *front = weft__stack_front(stack, size);
        CHECK(front + size <= start && front > start - size - 64);
        CHECK_PTR(weft__stack_start_at(stack), front);
        CHECK_EQ((uintptr_t)front % 64, 0);
        CHECK(front - weft__stack_low(stack) >= (ptrdiff_t)1 << (DEFAULT_CLASS + STACK_LOG_MIN));
        memset(front, 'f', size);
        weft__stack_put(NULL, stack);
        CHECK_PTR(weft__stack_start_at(stack), start);
        CHECK(weft__stack_get(NULL, DEFAULT_CLASS) == stack);
    }
    weft__stack_stop();
}

static void faults_below(const struct stack *stack)
{
    CHECK(stack->guard != 0);
    CHECK_EQ(write_kills(weft__stack_low(stack)), 0);
    CHECK_EQ(write_kills(weft__stack_top(stack) - 1), 0);
    CHECK_EQ(write_kills(weft__stack_low(stack) - 1), SIGSEGV);
    CHECK_EQ(write_kills(guard_low(stack)), SIGSEGV);
    CHECK(weft__stack_in_guard(stack, guard_low(stack)));
    CHECK(weft__stack_in_guard(stack, weft__stack_low(stack) - 1));
    CHECK(!weft__stack_in_guard(stack, guard_low(stack) - 1));
    CHECK(!weft__stack_in_guard(stack, weft__stack_low(stack)));
}

/* Trims until no stack is left to trim; returns the time of the last call. */
static int64_t trim_all(int64_t now)
{
    for (int calls = 0; calls < 1000; calls++) {
        int64_t next = weft__stack_trim(now);
        if (next == STACK_TRIM_IDLE)
            return now;
        CHECK(next > now);
        now = next;
    }
    test_fail(__FILE__, __LINE__, "trimming does not come to an end");
}

/* For the kind of guards that is chosen. */
static void guards_fault(void)
{
    for (int class = 0; class < 4; class ++) {
        struct stack *pair[2];
        get_all(NULL, pair, 2, class);
        for (int i = 0; i < 2; i++) {
            touch(pair[i], 'a');
            faults_below(pair[i]);
        }
        put_all(NULL, pair, 2);
    }
    /* A decommitted stack keeps its guard. */
    trim_all(BEGIN);
    CHECK_EQ(weft__stack_figures().cold, 8);
    faults_below(weft__stack_get(NULL, DEFAULT_CLASS));
    weft__stack_stop();
}

/* Whether the kernel makes guards by advice, one or several in a call. An emulator may accept the
 * advice and do nothing. */
static bool guards_work(bool many)
{
    size_t page = weft__os_page_size();
    char *memory = weft__os_map(3 * page);
    CHECK(memory != NULL);
    int error = many ? weft__os_guard_install_many(memory, 2 * page, page, 2)
                     : weft__os_guard_install(memory, page);
    bool works = error == 0 && write_kills(memory) != 0;
    if (works) {
        CHECK_EQ(write_kills(memory + page), 0);
        CHECK_EQ(write_kills(memory + 2 * page), many ? SIGSEGV : 0);
    }
    weft__os_unmap(memory, 3 * page);
    return works;
}

static void guards_by_install(void)
{
    weft__stack_start(true, true, false);
    if (!guards_work(false)) {
        printf("  not tested: no MADV_GUARD_INSTALL here\n");
        weft__stack_stop();
        return;
    }
    CHECK_EQ(weft__stack_guard_kind(), STACK_GUARD_INSTALL);
    guards_fault();
}

enum { TAKEN_MOST = 1000 }; /* enough for the largest batch of guards */

/* Gets many stacks by a cache, at times with a guard refused: the most that were carved ahead. */
static uint64_t take_many(struct stack_cache *cache, uint64_t count, bool refused)
{
    static struct stack *taken[TAKEN_MOST];
    uint64_t most = 0;
    for (uint64_t i = 0; i < count; i++) {
        weft__os_fail(OS_GUARD, refused && most > 0 && cache->count == 0, false);
        taken[i] = weft__stack_get(cache, DEFAULT_CLASS);
        weft__os_fail(OS_GUARD, 0, false);
        CHECK(taken[i] != NULL && taken[i]->guard != 0);
        CHECK_EQ(weft__stack_figures().made, i + 1 + cache->count);
        most = cache->count > most ? cache->count : most;
    }
    for (uint64_t i = 0; i < count; i += 1 + count / 5)
        faults_below(taken[i]);
    return most;
}

/* A class with many stacks carves some ahead for a cache. All have guards, also where the kernel
 * cannot make several in one call, or refuses to. */
static void guards_of_many(void)
{
    bool works = guards_work(true);
    uint64_t scaled = (uint64_t)test_scale(TAKEN_MOST);
    uint64_t count = scaled < TAKEN_MOST ? scaled : TAKEN_MOST;
    bool enough = works && count == TAKEN_MOST;
    for (int how = 0; how < 3; how++) {
        struct stack_cache cache = {.class = DEFAULT_CLASS};
        weft__stack_start(true, how != 1, true);
        uint64_t ahead = take_many(&cache, count, how == 2);
        CHECK(ahead < OS_GUARDS_MOST && (how != 1 || ahead == 0));
        CHECK(ahead == OS_GUARDS_MOST - 1 || how == 1 || !enough);
        weft__stack_stop();
    }
    if (!works)
        printf("  not tested: no process_madvise for guards here\n");
}

static void guards_by_mprotect(void)
{
    weft__stack_start(false, true, true);
    CHECK_EQ(weft__stack_guard_kind(), STACK_GUARD_MPROTECT);
    guards_fault();
}

static void unguarded_works(void)
{
    for (int i = 0; i < 3; i++) {
        struct stack *stack = weft__stack_get(NULL, DEFAULT_CLASS);
        CHECK(stack != NULL && stack->guard == 0);
        CHECK(!weft__stack_in_guard(stack, weft__stack_low(stack) - 1));
        touch(stack, 'a');
        CHECK_EQ(write_kills(weft__stack_low(stack) - 1), 0);
    }
}

static void no_guards(void)
{
    weft__stack_start(false, true, false);
    CHECK_EQ(weft__stack_guard_kind(), STACK_GUARD_NONE);
    const char *said = test_stderr_of(unguarded_works);
    CHECK(strstr(said, "guards are turned off") != NULL);
    CHECK(strstr(strchr(said, '\n'), "guard") == NULL); /* one warning */
    weft__stack_stop();
}

static void refused_install_falls_to_mprotect(void)
{
    weft__os_fail(OS_GUARD, 1, false);
    start();
    weft__os_fail(OS_GUARD, 0, false);
    CHECK_EQ(weft__stack_guard_kind(), STACK_GUARD_MPROTECT);
    weft__os_fail(OS_MAP, 1, false);
    start();
    weft__os_fail(OS_MAP, 0, false);
    CHECK_EQ(weft__stack_guard_kind(), STACK_GUARD_MPROTECT);
    weft__stack_stop();
}

static void refused_guards(void)
{
    weft__os_fail(OS_GUARD, 1, true);
    unguarded_works();
    weft__os_fail(OS_GUARD, 0, false);
}

static void refused_guards_are_reported_once(void)
{
    weft__stack_start(false, true, true);
    struct stack *before = weft__stack_get(NULL, DEFAULT_CLASS + 1);
    CHECK(before->guard != 0);
    const char *said = test_stderr_of(refused_guards);
    CHECK(strstr(said, "weft: from now on stacks have no guard") == said);
    CHECK(strstr(said, "vm.max_map_count") != NULL);
    CHECK_STR(strchr(said, '\n'), "\n");
    /* Later stacks have guards again. */
    CHECK(before->guard != 0);
    CHECK(weft__stack_get(NULL, DEFAULT_CLASS)->guard != 0);
    weft__stack_stop();
}

static void many_guarded(void)
{
    start();
    int64_t count = test_scale(100000);
    if (weft__stack_guard_kind() != STACK_GUARD_INSTALL && count > 20000)
        count = 20000; /* a mapping for each guard: those are limited */
    struct stack **stacks = calloc((size_t)count, sizeof(void *));
    CHECK(stacks != NULL);
    get_all(NULL, stacks, (int)count, 0);
    for (int64_t i = 0; i < count; i++)
        CHECK(stacks[i] != NULL && stacks[i]->guard != 0);
    CHECK_EQ(weft__stack_figures().made, count);
    put_all(NULL, stacks, (int)count);
    CHECK_EQ(weft__stack_figures().kept, count);
    for (int64_t i = count - 1; i >= 0; i--)
        CHECK_PTR(weft__stack_get(NULL, 0), stacks[i]);
    CHECK_EQ(weft__stack_figures().made, count);
    free(stacks);
    weft__stack_stop();
}

/* The first stacks of a class have guards of 8 MiB, whatever kind the later ones have. */
static void the_first_have_wide_guards(void)
{
    enum { WIDE = 8 << 20, SOME = 100, ALL = 1000 };
    struct stack *stacks[ALL];
    for (int install = 0; install < 2; install++) {
        weft__stack_start(install, install, true);
        for (int i = 0; i < ALL; i++) {
            stacks[i] = weft__stack_get(NULL, DEFAULT_CLASS);
            CHECK(stacks[i] != NULL && stacks[i]->guard != 0);
            if (i < SOME)
                CHECK(weft__stack_in_guard(stacks[i], weft__stack_low(stacks[i]) - WIDE));
        }
        CHECK(!weft__stack_in_guard(stacks[ALL - 1], weft__stack_low(stacks[ALL - 1]) - WIDE));
        /* Not under valgrind: with that many mappings each child that dies takes it ten seconds. */
        for (int i = 0; i < ALL && test_scale(100) > 5; i += SOME - 1)
            faults_below(stacks[i]);
        weft__stack_stop();
    }
}

/* Without the address space, or where a part of it cannot be opened, guards are smaller. */
static void wide_guards_may_be_refused(void)
{
    for (int call = 0; call < 2; call++) {
        start();
        weft__os_fail(call == 0 ? OS_MAP : OS_GUARD, 1, false);
        struct stack *stack = weft__stack_get(NULL, DEFAULT_CLASS);
        weft__os_fail(call == 0 ? OS_MAP : OS_GUARD, 0, false);
        CHECK(stack != NULL);
        faults_below(stack);
        CHECK(stack->guard <= 16);
        weft__stack_stop();
    }
}

static void addresses_of_stacks_are_known(void)
{
    int local = 0;
    start();
    CHECK(!weft__stack_anywhere(&local));
    struct stack *one = weft__stack_get(NULL, 0), *other = weft__stack_get(NULL, DEFAULT_CLASS);
    CHECK(weft__stack_anywhere(weft__stack_low(one)) && weft__stack_anywhere(guard_low(other)));
    CHECK(weft__stack_anywhere(weft__stack_top(other) - 1));
    char *low = weft__stack_low(one);
    weft__stack_stop();
    CHECK(!weft__stack_anywhere(low));
}

static void unused_stacks_are_decommitted(void)
{
    enum { COUNT = 200 };
    struct stack *stacks[COUNT];
    size_t page = weft__os_page_size();
    start();
    CHECK_EQ(weft__stack_trim(BEGIN), STACK_TRIM_IDLE);
    for (int i = 0; i < COUNT; i++) {
        stacks[i] = weft__stack_get(NULL, DEFAULT_CLASS);
        memset(weft__stack_low(stacks[i]), 'a', usable(stacks[i])); /* a deep stack */
        CHECK_EQ(resident(stacks[i]), usable(stacks[i]) / page);
    }
    put_all(NULL, stacks, COUNT);
    CHECK(weft__stack_trim_wanted());
    int64_t end = trim_all(BEGIN);
    CHECK(end <= BEGIN + 2 * PERIOD);
    CHECK(!weft__stack_trim_wanted());
    CHECK_EQ(weft__stack_figures().cold, COUNT);
    CHECK_EQ(weft__stack_figures().kept, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(resident(stacks[i]), 0);
    CHECK_EQ(weft__stack_trim(end + PERIOD), STACK_TRIM_IDLE);
    /* They can be got again, as new. */
    for (int i = 0; i < COUNT; i++) {
        struct stack *stack = weft__stack_get(NULL, DEFAULT_CLASS);
        CHECK_EQ(*weft__stack_low(stack), 0);
        touch(stack, 'b');
    }
    CHECK_EQ(weft__stack_figures().made, COUNT);
    CHECK_EQ(weft__stack_figures().cold, 0);
    weft__stack_stop();
}

static void nothing_is_decommitted_within_a_period(void)
{
    start();
    struct stack *stack;
    use_all(&stack, 1);
    for (int64_t now = BEGIN; now < BEGIN + PERIOD; now += PERIOD / 10)
        CHECK(weft__stack_trim(now) != STACK_TRIM_IDLE);
    CHECK_EQ(weft__stack_figures().cold, 0);
    CHECK_EQ(*weft__stack_low(stack), 'a');
    weft__stack_stop();
}

static void one_trim_is_bounded(void)
{
    enum { COUNT = 1000, BATCH = 64 };
    struct stack *stacks[COUNT];
    start();
    get_all(NULL, stacks, COUNT, 0);
    put_all(NULL, stacks, COUNT);
    int calls = 0;
    uint64_t cold = 0;
    for (int64_t now = BEGIN; now != STACK_TRIM_IDLE; now = weft__stack_trim(now), calls++) {
        uint64_t more = weft__stack_figures().cold;
        CHECK(more - cold <= BATCH);
        cold = more;
    }
    CHECK_EQ(weft__stack_figures().cold, COUNT);
    CHECK(calls >= COUNT / BATCH);
    weft__stack_stop();
}

static void stacks_in_regular_use_stay_warm(void)
{
    enum { COUNT = 10, HOT = 3 };
    struct stack *stacks[COUNT];
    start();
    use_all(stacks, COUNT);
    /* In each period the same three are in use. */
    int64_t now = BEGIN;
    for (int periods = 0; periods < 5; periods++, now += PERIOD) {
        struct stack *used[HOT];
        CHECK(weft__stack_trim(now) != STACK_TRIM_IDLE);
        for (int i = 0; i < HOT; i++) {
            used[i] = weft__stack_get(NULL, DEFAULT_CLASS);
            CHECK_PTR(used[i], stacks[COUNT - 1 - i]);
            CHECK_EQ(*weft__stack_low(used[i]), 'a');
            CHECK_EQ(resident(used[i]), 2);
        }
        for (int i = HOT - 1; i >= 0; i--)
            weft__stack_put(NULL, used[i]);
    }
    CHECK_EQ(weft__stack_figures().cold, COUNT - HOT);
    CHECK_EQ(weft__stack_figures().kept, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(resident(stacks[i]), i < COUNT - HOT ? 0 : 2);
    /* Warm stacks are got before cold ones. */
    for (int i = 0; i < HOT; i++)
        CHECK(*weft__stack_low(weft__stack_get(NULL, DEFAULT_CLASS)) == 'a');
    CHECK_EQ(*weft__stack_low(weft__stack_get(NULL, DEFAULT_CLASS)), 0);
    weft__stack_stop();
}

/* Pending stacks that are needed again are got with their content. */
static void pending_stacks_can_be_got(void)
{
    enum { COUNT = 100 };
    struct stack *stacks[COUNT];
    start();
    use_all(stacks, COUNT);
    int64_t now = BEGIN;
    while (weft__stack_figures().cold == 0)
        now = weft__stack_trim(now);
    CHECK(weft__stack_figures().cold < COUNT);
    uint64_t warm = 0, cold = weft__stack_figures().cold;
    for (int i = 0; i < COUNT; i++) {
        struct stack *stack = weft__stack_get(NULL, DEFAULT_CLASS);
        warm += *weft__stack_low(stack) == 'a';
        touch(stack, 'b');
    }
    CHECK_EQ(warm, COUNT - cold);
    CHECK_EQ(weft__stack_figures().made, COUNT);
    CHECK(!weft__stack_trim_wanted());
    trim_all(now);
    for (int i = 0; i < COUNT; i++) /* stacks in use are not trimmed */
        CHECK_EQ(*weft__stack_low(stacks[i]), 'b');
    weft__stack_stop();
}

/* Gets a stack when the system is asked again, which is not at once after it refused. */
static struct stack *get_when_asked_again(int class)
{
    struct stack *stack;
    while ((stack = weft__stack_get(NULL, class)) == NULL)
        sched_yield();
    return stack;
}

static void no_memory_no_stack(void)
{
    static const enum weft__os_call calls[] = {OS_ALLOC, OS_MAP};
    start();
    for (int i = 0; i < 2; i++) {
        weft__os_fail(calls[i], 1, true);
        size_t before = 0;
        while (weft__os_calls(calls[i]) < 40) {
            CHECK_PTR(weft__stack_get(NULL, DEFAULT_CLASS + i), NULL);
            if (before == 0 && weft__os_calls(calls[i]) >= 20) /* malloc's cache is full */
                before = heap_in_use();
        }
        CHECK_EQ(heap_in_use(), before);
        CHECK_EQ(weft__stack_figures().made, i);
        weft__os_fail(calls[i], 0, false);
        (void)get_when_asked_again(DEFAULT_CLASS + i);
        CHECK_EQ(weft__stack_figures().made, i + 1);
    }
    weft__stack_stop();
}

static void full_arena_and_no_memory(void)
{
    start();
    weft__os_fail(OS_MAP, 2, true);
    struct stack *last = NULL, *stack;
    uint64_t made = 0;
    while ((stack = weft__stack_get(NULL, DEFAULT_CLASS)) != NULL) {
        touch(stack, 'a');
        last = stack;
        made++;
    }
    CHECK(made > 0);
    CHECK_EQ(weft__stack_figures().made, made);
    weft__stack_put(NULL, last); /* a put makes room for a get */
    CHECK_PTR(weft__stack_get(NULL, DEFAULT_CLASS), last);
    CHECK_PTR(weft__stack_get(NULL, DEFAULT_CLASS), NULL);
    weft__os_fail(OS_MAP, 0, false);
    (void)get_when_asked_again(DEFAULT_CLASS);
    CHECK_EQ(weft__stack_figures().made, made + 1);
    weft__stack_stop();
}

int main(void)
{
    RUN_ALL_PLAIN("no fibers", classes, every_size, last_put_is_next,
                  cache_leaves_descriptors_alone, cache_takes_its_own_class_only,
                  full_cache_moves_stacks_to_the_depot, flush_empties_the_cache, guards_by_install,
                  front_is_above_the_frames, guards_of_many, guards_by_mprotect, no_guards,
                  refused_install_falls_to_mprotect, the_first_have_wide_guards,
                  wide_guards_may_be_refused, addresses_of_stacks_are_known,
                  refused_guards_are_reported_once, many_guarded, unused_stacks_are_decommitted,
                  nothing_is_decommitted_within_a_period, one_trim_is_bounded,
                  stacks_in_regular_use_stay_warm, pending_stacks_can_be_got, no_memory_no_stack,
                  full_arena_and_no_memory);
    return 0;
}
