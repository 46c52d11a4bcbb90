/*
 * stack_switch.h: what a CPU must offer: contexts that can be switched, and one thread-local word.
 *
 * A context is where to go on: a stack pointer, an address, the frame pointer, and the
 * floating-point control words, which the ABI says a call preserves. The switch is written inline
 * and tells the compiler that every other register is lost, so the compiler saves what is live and
 * no more. A context is entered exactly once after each time it was saved or made.
 *
 * Unwinding. From the load of the stack pointer to the jump, the frame belongs to neither context:
 * a handler that takes a backtrace there (a sampling profiler) would read a return address where
 * none is. The unwind information says that there is no caller (SWITCH_BEGINS, SWITCH_ENDS), so
 * unwinding ends.
 *
 * Control words. Loading them is slow, and they are nearly always the same on both sides: they are
 * loaded only where they differ.
 *
 * Inline, because of the return predictor. A switch that is a call leaves one entry too many in it
 * (or, ended by a ret, the wrong one), and each return after that is mispredicted. Measured, a
 * yield of two fibers: 22 ns as a call ended by a jump, 13 ns ended by a ret, 9 ns inline.
 *
 * context_call, for the same reason. The predictor knows the callers of the fiber that was left,
 * not of the one that goes on. Returns within weft are most often the same for both; the return to
 * the program is not, where one fiber sends and the other receives. A jump is predicted from the
 * history of jumps instead, and costs nothing where a return would have been right. Measured, an
 * element from one fiber to another: 36 ns by a return, 27 ns by a jump.
 */
#ifndef WEFT_ARCH_STACK_SWITCH_H
#define WEFT_ARCH_STACK_SWITCH_H

#include <stddef.h>
#include <stdint.h>

/* Only a compiler that writes unwind information by directives of the assembler has any to
 * correct. */
#ifdef __GCC_HAVE_DWARF2_CFI_ASM
#if defined(__x86_64__)
#define SWITCH_BEGINS ".cfi_remember_state\n\t.cfi_undefined rip\n\t"
#else
#define SWITCH_BEGINS ".cfi_remember_state\n\t.cfi_undefined x30\n\t"
#endif
#define SWITCH_ENDS ".cfi_restore_state\n"
#else
#define SWITCH_BEGINS
#define SWITCH_ENDS
#endif

struct context {
    void *sp;
    void *pc;
    void *fp;
    uint64_t control; /* x86-64: mxcsr, and the x87 control word above it; aarch64: fpcr */
};

/* The first frame, in assembly: calls the entry with its argument, both found on the stack.
 * Unwinding ends there. Never called from C. */
void weft__context_entry(void);

/* weft__guard_call calls function(arg) and returns 0. If that, or what it calls, calls
 * weft__guard_land of the same guard meanwhile, it returns 1 instead, and all frames above it are
 * dropped. See sched/fiber/panic.h. */
struct guard;
int weft__guard_call(struct guard *guard, void (*function)(void *), void *arg);
_Noreturn void weft__guard_land(struct guard *guard);

enum { CONTEXT_WORDS = 4 };

/* The words above the first frame of a context that was made, for the use of its owner; zero at
 * first. The stack pointer of the first frame is their address. */
static inline void *context_words(void *top)
{
    return (uint64_t *)((uintptr_t)top & ~(uintptr_t)15) - CONTEXT_WORDS;
}

/* Makes a context that will call entry(arg) on the stack that ends at `top`. The entry never
 * returns. */
static inline void context_make(struct context *context, void *top, void (*entry)(void *),
                                void *arg)
{
    uint64_t *words = context_words(top), *sp = words - 2;
    for (int i = 0; i < CONTEXT_WORDS; i++)
        words[i] = 0;
    sp[0] = (uint64_t)(uintptr_t)entry;
    sp[1] = (uint64_t)(uintptr_t)arg;
    context->sp = sp;
    context->pc = (void *)(uintptr_t)weft__context_entry;
    context->fp = NULL;
    /* The values with which a process starts. */
#if defined(__x86_64__)
    context->control = 0x1f80 | (uint64_t)0x037f << 32;
#elif defined(__aarch64__)
    context->control = 0;
#else
#error "weft has a context switch for x86-64 and aarch64 only"
#endif
}

/* The stack pointer of the caller. */
static inline char *context_sp(void)
{
    char *sp;
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, %0" : "=r"(sp));
#else
    __asm__ volatile("mov %0, sp" : "=r"(sp));
#endif
    return sp;
}

/* Saves the running context and goes on in `load`; returns when a switch goes back to it. Only for
 * functions that are never inlined into code of the program: the compiler must know of every
 * register that is lost, and code of the program may use registers that weft is not compiled
 * for. */
static inline void context_switch(struct context *save, const struct context *load)
{
#if defined(__x86_64__)
    /* The low six bits of mxcsr are status, which a call need not preserve: they are not
     * compared. */
    __asm__ volatile("leaq    1f(%%rip), %%rax\n\t"
                     "movq    %%rsp, 0(%0)\n\t"
                     "movq    %%rax, 8(%0)\n\t"
                     "movq    %%rbp, 16(%0)\n\t"
                     "stmxcsr 24(%0)\n\t"
                     "fnstcw  28(%0)\n\t"
                     "movl    24(%0), %%eax\n\t"
                     "movzwl  28(%0), %%edx\n\t" SWITCH_BEGINS "movq    0(%1), %%rsp\n\t"
                     "movq    16(%1), %%rbp\n\t"
                     "xorl    24(%1), %%eax\n\t"
                     "testl   $0xffc0, %%eax\n\t"
                     "jne     2f\n\t"
                     "cmpw    28(%1), %%dx\n\t"
                     "jne     2f\n\t"
                     "jmpq    *8(%1)\n"
                     "2:\n\t"
                     "ldmxcsr 24(%1)\n\t"
                     "fldcw   28(%1)\n\t"
                     "jmpq    *8(%1)\n" SWITCH_ENDS "1:\n\t"
                     "endbr64"
                     : "+D"(save), "+S"(load)
                     :
                     : "memory", "cc", "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12",
                       "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                       "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#if defined(__AVX512F__)
                       ,
                       "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
                       "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0",
                       "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#endif
    );
#else
    register struct context *from __asm__("x0") = save;
    register const struct context *to __asm__("x1") = load;
    __asm__ volatile("adr     x2, 1f\n\t"
                     "mov     x3, sp\n\t"
                     "stp     x3, x2, [x0]\n\t"
                     "mrs     x4, fpcr\n\t"
                     "stp     x29, x4, [x0, #16]\n\t"
                     "ldp     x3, x2, [x1]\n\t" SWITCH_BEGINS "ldp     x29, x5, [x1, #16]\n\t"
                     "mov     sp, x3\n\t"
                     "cmp     x4, x5\n\t"
                     "b.eq    2f\n\t"
                     "msr     fpcr, x5\n"
                     "2:\n\t"
                     "br      x2\n" SWITCH_ENDS "1:\n\t"
                     "hint    #36" /* bti j */
                     : "+r"(from), "+r"(to)
                     :
                     : "memory", "cc", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
                       "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22",
                       "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3",
                       "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
                       "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
                       "v27", "v28", "v29", "v30", "v31");
#endif
}

/* Calls the function, which switches, and returns its result by a jump. Of use where this is the
 * last statement of a function that the program has called. */
typedef int context_function(void *a, int b, void *c, int64_t d);
#if defined(__x86_64__)
int weft__context_call(void *a, int b, void *c, int64_t d, context_function *function);
#endif
static inline int context_call(context_function *function, void *a, int b, void *c, int64_t d)
{
#if defined(__x86_64__)
    return weft__context_call(a, b, c, d, function);
#else
    return function(a, b, c, d); /* a jump would need a BTI mark at the return address */
#endif
}

/* The thread-local word. Hand-written instructions read it, so that the compiler has only its value
 * and never its address; the memory clobber keeps the read on its side of a switch. */
static inline void *thread_word(void)
{
    void *value;
#if defined(__x86_64__)
    __asm__ volatile("movq weft__self@gottpoff(%%rip), %0\n\t"
                     "movq %%fs:(%0), %0"
                     : "=r"(value)
                     :
                     : "memory");
#else
    void *offset;
    __asm__ volatile("adrp %1, :gottprel:weft__self\n\t"
                     "ldr  %1, [%1, #:gottprel_lo12:weft__self]\n\t"
                     "mrs  %0, tpidr_el0\n\t"
                     "ldr  %0, [%0, %1]"
                     : "=&r"(value), "=&r"(offset)
                     :
                     : "memory");
#endif
    return value;
}

static inline void thread_word_set(void *value)
{
    void *offset;
#if defined(__x86_64__)
    __asm__ volatile("movq weft__self@gottpoff(%%rip), %0\n\t"
                     "movq %1, %%fs:(%0)"
                     : "=&r"(offset)
                     : "r"(value)
                     : "memory");
#else
    void *pointer;
    __asm__ volatile("adrp %1, :gottprel:weft__self\n\t"
                     "ldr  %1, [%1, #:gottprel_lo12:weft__self]\n\t"
                     "mrs  %0, tpidr_el0\n\t"
                     "str  %2, [%0, %1]"
                     : "=&r"(pointer), "=&r"(offset)
                     : "r"(value)
                     : "memory");
#endif
}

#endif
