/*
 * faults.h: functions that fault, each in its own way. Sanitizers leave these signals alone in a
 * test that includes this.
 */
#ifndef WEFT_TESTS_FAULTS_H
#define WEFT_TESTS_FAULTS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/compiler.h"
#include "sched/fiber/fiber.h"
#include "test.h"

#define FAULTS_OPTIONS \
    "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:use_sigaltstack=0"

const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return FAULTS_OPTIONS;
}

const char *__tsan_default_options(void)
{
    return FAULTS_OPTIONS;
}

/* Functions with a real fault, not a report of a sanitizer, and not inlined or reached by a
 * jump. */
#define FAULTS \
    __attribute__((no_sanitize("undefined", "address", "thread"), unused)) static noinline void

static int *volatile faults_nowhere;
static volatile int faults_zero, faults_number = 100, faults_result;
static void (*volatile faults_no_function)(void);

FAULTS fault_null_write(void)
{
    *(volatile int *)faults_nowhere = 1;
    faults_result = 0;
}

FAULTS fault_wild_read(void)
{
    faults_result = *(volatile int *)(uintptr_t)0x4142434445464748u;
}

FAULTS fault_null_call(void)
{
    faults_no_function();
    faults_result = 0;
}

FAULTS fault_divide(void)
{
    faults_result = faults_number / faults_zero;
}

FAULTS fault_illegal(void)
{
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#else
    __asm__ volatile("udf #0");
#endif
    faults_result = 0;
}

/* An access behind the end of a mapped file. */
FAULTS fault_bus(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    FILE *file = tmpfile();
    CHECK(file != NULL && ftruncate(fileno(file), (off_t)page) == 0);
    volatile char *memory =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    CHECK(memory != MAP_FAILED);
    memory[page] = 1;
}

/* Overwrites all frames of the fiber, up to the top of its stack, before it faults. */
FAULTS fault_smash(void)
{
    volatile uintptr_t here[4];
    volatile uintptr_t *volatile at = here;
    while ((char *)(uintptr_t)at < weft__stack_top(weft_self()->stack))
        *at++ = 0x5a5a5a5a5a5a5a5au;
    *(volatile int *)faults_nowhere = 1;
}

/* Calls itself until the stack is full. */
__attribute__((no_sanitize("address"), unused)) static noinline int fault_recurse(int depth)
{
    volatile char frame[256];
    frame[depth % 256] = (char)depth;
    if (depth >= 0)
        faults_result = fault_recurse(depth + 1);
    return frame[depth % 256] + faults_result;
}

FAULTS fault_overflow(void)
{
    faults_result = fault_recurse(0);
}

/* A fault on a stack that the program has made, below or above those of the fibers. */
static char stack_below[64 * 1024] __attribute__((unused));
static char *stack_above __attribute__((unused)); /* on the stack of main */
static ucontext_t other_stack, back;

static __attribute__((unused)) void fault_on_stack(char *stack)
{
    CHECK_EQ(getcontext(&other_stack), 0);
    other_stack.uc_stack.ss_sp = stack;
    other_stack.uc_stack.ss_size = sizeof stack_below;
    other_stack.uc_link = &back;
    makecontext(&other_stack, fault_null_write, 0);
    CHECK_EQ(swapcontext(&back, &other_stack), 0);
}

#endif
