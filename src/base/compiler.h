/*
 * compiler.h: attributes and hints for the compiler, the sizes of cache lines, and which sanitizer
 * is on.
 */
#ifndef WEFT_BASE_COMPILER_H
#define WEFT_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

#define noinline __attribute__((noinline))
#ifdef WEFT_COVERAGE /* which counts branches: once, not in every inlined copy */
#define always_inline inline
#else
#define always_inline inline __attribute__((always_inline))
#endif
#define printf_like(text, first) __attribute__((format(printf, text, first)))

/* The distance that keeps the data of two threads off each other's lines: two lines, since the
 * hardware prefetches them in pairs. */
#define CACHE_LINE 128

/* One line of the cache, and prefetches of it. The empty statement keeps the prefetch: a function
 * that does nothing else has no effect that gcc knows of, and its calls would be removed. */
#define FETCH_LINE 64
static always_inline void fetch_line(const void *address)
{
    __builtin_prefetch(address);
    __asm__ volatile("");
}

static always_inline void fetch_line_to_write(const void *address)
{
    __builtin_prefetch(address, 1);
    __asm__ volatile("");
}

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#if defined(__has_feature)
#define WEFT_HAS_FEATURE(feature) __has_feature(feature)
#else
#define WEFT_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || WEFT_HAS_FEATURE(address_sanitizer)
#define WEFT_ASAN 1
#else
#define WEFT_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || WEFT_HAS_FEATURE(thread_sanitizer)
#define WEFT_TSAN 1
#else
#define WEFT_TSAN 0
#endif

#endif
