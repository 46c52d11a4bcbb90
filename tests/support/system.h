/*
 * system.h: what the process has of the system: open descriptors, memory of the heap; and whether
 * it runs in an emulator.
 */
#ifndef WEFT_TEST_SYSTEM_H
#define WEFT_TEST_SYSTEM_H

#include <dirent.h>
#include <ucontext.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "test.h"

static inline int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* The bytes that malloc has given out and not got back; always 0 where libc does not tell
 * (musl). */
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

/* Gives unused memory of the heap back to the system, where libc can. */
static inline void heap_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Calls the function on a stack that is not the thread's or fiber's, as libraries of coroutines
 * do. */
static inline void on_foreign_stack(void (*function)(void))
{
    enum { SIZE = 1 << 20 };
    static ucontext_t own, other;
    char *stack = malloc(SIZE);
    CHECK(stack != NULL && getcontext(&other) == 0);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = SIZE;
    other.uc_link = &own;
    makecontext(&other, function, 0);
    CHECK_EQ(swapcontext(&own, &other), 0);
    free(stack);
}

/* Whether an emulator of another CPU runs the test, which has limits of its own: the kernel names
 * the CPU that it runs on (since Linux 6.1). */
static inline bool test_emulated(void)
{
#if defined(__x86_64__)
    const char *built_for = "x86_64";
#else
    const char *built_for = "aarch64";
#endif
    char arch[64] = "";
    FILE *file = fopen("/proc/sys/kernel/arch", "r");
    if (file == NULL)
        return false;
    bool known = fscanf(file, "%63s", arch) == 1;
    fclose(file);
    return known && strcmp(arch, built_for) != 0;
}

#endif
