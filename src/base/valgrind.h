/*
 * valgrind.h: what Valgrind is told and asked: its client requests, as far as weft needs them.
 *
 * The requests are part of every build, so that the installed library works under Valgrind whether
 * or not Valgrind's own header was there when it was built. A request is a sequence of instructions
 * that changes nothing on a CPU and that Valgrind recognizes; the sequences and numbers are those
 * of its manual and are fixed for each CPU. One request costs about a nanosecond.
 *
 * ThreadSanitizer and AddressSanitizer have no part in it.
 */
#ifndef WEFT_BASE_VALGRIND_H
#define WEFT_BASE_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum valgrind_request {
    VALGRIND_RUNS = 0x1001, /* how many Valgrinds are around the program */
    VALGRIND_STACK_REGISTER = 0x1501,
    VALGRIND_STACK_DEREGISTER = 0x1502,
};

/* The answer; 0 without Valgrind. */
static always_inline uintptr_t valgrind_ask(enum valgrind_request request, uintptr_t first,
                                            uintptr_t second)
{
    volatile uint64_t asked[6] = {(uint64_t)request, first, second};
#if defined(__x86_64__)
    uint64_t answer = 0;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(&asked[0])
                     : "cc", "memory");
    return answer;
#elif defined(__aarch64__)
    register uint64_t answer __asm__("x3") = 0;
    register volatile uint64_t *place __asm__("x4") = &asked[0];
    __asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(answer)
                     : "r"(place)
                     : "cc", "memory");
    return answer;
#else
    (void)asked;
    return 0;
#endif
}

static inline bool valgrind_runs(void)
{
    return valgrind_ask(VALGRIND_RUNS, 0, 0) != 0;
}

/* Its number, for valgrind_forget_stack. */
static inline uint32_t valgrind_note_stack(const char *low, const char *high)
{
    return (uint32_t)valgrind_ask(VALGRIND_STACK_REGISTER, (uintptr_t)low, (uintptr_t)high);
}

static inline void valgrind_forget_stack(uint32_t number)
{
    (void)valgrind_ask(VALGRIND_STACK_DEREGISTER, number, 0);
}

#endif
