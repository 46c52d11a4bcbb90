/*
 * heap.c: counts heap allocations, in bytes and calls.
 *
 * The program is linked with --wrap, so that the calls of weft and of the cases come through here;
 * those that libc makes for itself do not. Calls are counted while a case asks for it. Go's
 * runtime.MemStats counts the same: all bytes allocated, freed or not. Neither includes stacks; the
 * peak of resident memory includes everything.
 */
#include <stdlib.h>

#include "base/atomic.h"
#include "bench.h"

static struct {
    atomic_u32 counts;
    atomic_i64 bytes, allocations;
} heap;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);

static void count(size_t size)
{
    if (!atomic_u32_load_relaxed(&heap.counts))
        return;
    atomic_i64_add_relaxed(&heap.bytes, (int64_t)size);
    atomic_i64_add_relaxed(&heap.allocations, 1);
}

void *__wrap_malloc(size_t size)
{
    count(size);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t number, size_t size)
{
    count(number * size);
    return __real_calloc(number, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    count(size);
    return __real_realloc(memory, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    count(size);
    return __real_posix_memalign(memory, alignment, size);
}

void bench_heap_start(void)
{
    atomic_i64_store_relaxed(&heap.bytes, 0);
    atomic_i64_store_relaxed(&heap.allocations, 0);
    atomic_u32_store_relaxed(&heap.counts, 1);
}

struct bench_heap bench_heap_read(void)
{
    return (struct bench_heap){.bytes = atomic_i64_load_relaxed(&heap.bytes),
                               .allocations = atomic_i64_load_relaxed(&heap.allocations)};
}
