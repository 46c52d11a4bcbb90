/*
 * heap.h: how much of the heap is in use.
 */
#pragma once

#include <stddef.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Bytes that malloc has given out and not got back; 0, always, where libc does not tell (musl). */
static inline size_t heap_in_use(void)
{
#ifndef __GLIBC__
    return 0;
#elif __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    struct mallinfo info = mallinfo();
    return (size_t)(unsigned)info.uordblks + (size_t)(unsigned)info.hblkhd;
#endif
}

/* Gives memory that is not in use back to the system, where libc can. */
static inline void heap_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
