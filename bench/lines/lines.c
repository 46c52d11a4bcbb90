/*
 * lines.c: the functions that instrumented code calls, and the table of lines (lines.h).
 *
 * This file is not instrumented. The table is open-addressed and never shrinks; a compare-and-swap
 * of its number claims a line's entry. Two racing accesses count as if one had come first, as in a
 * cache.
 */
#include "lines.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/runtime/thread.h"

enum {
    LINE_SHIFT = 6,
    LINE_SLOTS = 1 << 22,
    SITE_SLOTS = 1 << 14,
    NO_PROCESSOR = 64,
    TURN = 40,        /* accesses between two sched_yield, on average */
    SITES_SHOWN = 40, /* in a report */
};

struct line_entry {
    uint64_t number; /* number of the line; 0: free */
    uint64_t copies; /* bit i: processor i has a copy */
};

struct site {
    uintptr_t address; /* of the accessing code; 0: free */
    uint64_t transfers;
};

static struct line_entry lines[LINE_SLOTS];
static struct site sites[SITE_SLOTS];
static uint64_t transfers;
static bool counting;

static __thread uint32_t accesses, random_state;

static uint32_t next_random(void)
{
    if (random_state == 0)
        random_state = (uint32_t)(uintptr_t)&random_state | 1;
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static unsigned int processor_index(void)
{
    const struct thread *thread = thread_self();
    return thread != NULL && thread->processor != NULL ? thread->processor->index : NO_PROCESSOR;
}

static struct line_entry *entry_of(uint64_t number)
{
    uint64_t slot = (number * 0x9e3779b97f4a7c15U) >> 42;
    for (uint64_t probes = 0; probes < LINE_SLOTS; probes++) {
        struct line_entry *entry = &lines[(slot + probes) % LINE_SLOTS];
        uint64_t found = __atomic_load_n(&entry->number, __ATOMIC_RELAXED);
        if (found == number)
            return entry;
        if (found == 0 && (__atomic_compare_exchange_n(&entry->number, &found, number, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
                           found == number))
            return entry;
    }
    fprintf(stderr, "lines: the table is full\n");
    abort();
}

static void count(uintptr_t address)
{
    __atomic_fetch_add(&transfers, 1, __ATOMIC_RELAXED);
    uintptr_t slot = address % SITE_SLOTS;
    for (;; slot = (slot + 1) % SITE_SLOTS) {
        uintptr_t found = __atomic_load_n(&sites[slot].address, __ATOMIC_RELAXED);
        if (found == 0)
            __atomic_compare_exchange_n(&sites[slot].address, &found, address, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (found == 0 || found == address)
            break;
    }
    __atomic_fetch_add(&sites[slot].transfers, 1, __ATOMIC_RELAXED);
}

static void track(const volatile void *memory, bool writes, unsigned int processor, void *site)
{
    struct line_entry *entry = entry_of((uint64_t)(uintptr_t)memory >> LINE_SHIFT);
    uint64_t mine = UINT64_C(1) << processor;
    uint64_t before = __atomic_load_n(&entry->copies, __ATOMIC_RELAXED);
    if (writes ? before == mine : (before & mine) != 0)
        return;
    before = writes ? __atomic_exchange_n(&entry->copies, mine, __ATOMIC_RELAXED)
                    : __atomic_fetch_or(&entry->copies, mine, __ATOMIC_RELAXED);
    if (before != 0 && (writes ? before != mine : (before & mine) == 0) &&
        __atomic_load_n(&counting, __ATOMIC_RELAXED))
        count((uintptr_t)site);
}

static void touch(const volatile void *memory, bool writes, void *site)
{
    unsigned int processor = processor_index();
    if (processor < NO_PROCESSOR)
        track(memory, writes, processor, site);
    if (++accesses >= TURN / 2 + next_random() % TURN) {
        accesses = 0;
        sched_yield();
    }
}

void lines_begin(void)
{
    memset(sites, 0, sizeof sites);
    transfers = 0;
    __atomic_store_n(&counting, true, __ATOMIC_SEQ_CST);
}

uint64_t lines_end(void)
{
    __atomic_store_n(&counting, false, __ATOMIC_SEQ_CST);
    return transfers;
}

static int by_transfers(const void *left, const void *right)
{
    uint64_t a = ((const struct site *)left)->transfers,
             b = ((const struct site *)right)->transfers;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* Frames of these primitives do not tell what a line is used for. */
static bool is_primitive(const char *file)
{
    static const char *const primitives[] = {
        "atomic.h:", "lock.h:", "latch.h:", "latch.c:", "lock.c:"};
    for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++) {
        if (strncmp(file, primitives[i], strlen(primitives[i])) == 0)
            return true;
    }
    return false;
}

/* Returns the innermost frame outside of primitives, as "function file:line". */
static void describe(uintptr_t address, char *place, size_t size)
{
    char command[256], function[256], file[256];
    snprintf(place, size, "%#lx", (unsigned long)address);
    snprintf(command, sizeof command, "addr2line -ifse /proc/%d/exe %#lx", (int)getpid(),
             (unsigned long)(address - 1));
    FILE *frames = popen(command, "r");
    if (frames == NULL)
        return;
    while (fgets(function, sizeof function, frames) != NULL &&
           fgets(file, sizeof file, frames) != NULL) {
        function[strcspn(function, "\n")] = 0;
        file[strcspn(file, " \n")] = 0;
        snprintf(place, size, "%s %s", function, file);
        if (!is_primitive(file))
            break;
    }
    pclose(frames);
}

void lines_report(uint64_t operations, double least)
{
    qsort(sites, SITE_SLOTS, sizeof *sites, by_transfers);
    for (int i = 0; i < SITES_SHOWN && sites[i].transfers != 0; i++) {
        double each = (double)sites[i].transfers / (double)operations;
        if (each < least)
            break;
        char place[520];
        describe(sites[i].address, place, sizeof place);
        printf("    %8.4f  %s\n", each, place);
    }
}

/* ---- functions that the compiler calls ---- */

#define SITE __builtin_return_address(0)

#define PLAIN(size)                                  \
    void __tsan_read##size(void *memory);            \
    void __tsan_write##size(void *memory);           \
    void __tsan_unaligned_read##size(void *memory);  \
    void __tsan_unaligned_write##size(void *memory); \
    void __tsan_volatile_read##size(void *memory);   \
    void __tsan_volatile_write##size(void *memory);  \
    void __tsan_read##size(void *memory)             \
    {                                                \
        touch(memory, false, SITE);                  \
    }                                                \
    void __tsan_write##size(void *memory)            \
    {                                                \
        touch(memory, true, SITE);                   \
    }                                                \
    void __tsan_unaligned_read##size(void *memory)   \
    {                                                \
        touch(memory, false, SITE);                  \
    }                                                \
    void __tsan_unaligned_write##size(void *memory)  \
    {                                                \
        touch(memory, true, SITE);                   \
    }                                                \
    void __tsan_volatile_read##size(void *memory)    \
    {                                                \
        touch(memory, false, SITE);                  \
    }                                                \
    void __tsan_volatile_write##size(void *memory)   \
    {                                                \
        touch(memory, true, SITE);                   \
    }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define FETCH(bits, type, name, builtin)                                             \
    type __tsan_atomic##bits##_##name(volatile type *memory, type value, int order); \
    type __tsan_atomic##bits##_##name(volatile type *memory, type value, int order)  \
    {                                                                                \
        (void)order;                                                                 \
        touch(memory, true, SITE);                                                   \
        return builtin(memory, value, __ATOMIC_SEQ_CST);                             \
    }

#define EXCHANGE(bits, type, name)                                                             \
    int __tsan_atomic##bits##_##name(volatile type *memory, type *expected, type desired,      \
                                     int order, int otherwise);                                \
    int __tsan_atomic##bits##_##name(volatile type *memory, type *expected, type desired,      \
                                     int order, int otherwise)                                 \
    {                                                                                          \
        (void)order, (void)otherwise;                                                          \
        touch(memory, true, SITE);                                                             \
        return __atomic_compare_exchange_n(memory, expected, desired, false, __ATOMIC_SEQ_CST, \
                                           __ATOMIC_SEQ_CST);                                  \
    }

#define ATOMIC(bits, type)                                                          \
    type __tsan_atomic##bits##_load(const volatile type *memory, int order);        \
    type __tsan_atomic##bits##_load(const volatile type *memory, int order)         \
    {                                                                               \
        (void)order;                                                                \
        touch(memory, false, SITE);                                                 \
        return __atomic_load_n(memory, __ATOMIC_SEQ_CST);                           \
    }                                                                               \
    void __tsan_atomic##bits##_store(volatile type *memory, type value, int order); \
    void __tsan_atomic##bits##_store(volatile type *memory, type value, int order)  \
    {                                                                               \
        (void)order;                                                                \
        touch(memory, true, SITE);                                                  \
        __atomic_store_n(memory, value, __ATOMIC_SEQ_CST);                          \
    }                                                                               \
    FETCH(bits, type, exchange, __atomic_exchange_n)                                \
    FETCH(bits, type, fetch_add, __atomic_fetch_add)                                \
    FETCH(bits, type, fetch_sub, __atomic_fetch_sub)                                \
    FETCH(bits, type, fetch_and, __atomic_fetch_and)                                \
    FETCH(bits, type, fetch_or, __atomic_fetch_or)                                  \
    FETCH(bits, type, fetch_xor, __atomic_fetch_xor)                                \
    EXCHANGE(bits, type, compare_exchange_strong)                                   \
    EXCHANGE(bits, type, compare_exchange_weak)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void __tsan_read_range(void *memory, unsigned long size);
void __tsan_read_range(void *memory, unsigned long size)
{
    for (unsigned long at = 0; at < size; at += 1 << LINE_SHIFT)
        touch((char *)memory + at, false, SITE);
}

void __tsan_write_range(void *memory, unsigned long size);
void __tsan_write_range(void *memory, unsigned long size)
{
    for (unsigned long at = 0; at < size; at += 1 << LINE_SHIFT)
        touch((char *)memory + at, true, SITE);
}
