/*
 * x86_64.S: the first frame of a fiber, and weft's one thread-local word.
 */
        .text

/* The stack holds the entry and its argument (context_make). Unwinding ends here. */
        .globl  weft__context_entry
        .hidden weft__context_entry
        .type   weft__context_entry, @function
        .p2align 4
weft__context_entry:
        .cfi_startproc
        .cfi_undefined %rip
        endbr64
        popq    %rax
        popq    %rdi
        callq   *%rax
        ud2
        .cfi_endproc
        .size   weft__context_entry, . - weft__context_entry

/* Thread-local: the thread record of the running thread (sched/thread.h). It is defined here and read
 * by the two instructions in arch/context.h only, so that no compiler, at no optimisation level, can
 * keep its address across a switch. */
        .section .tbss, "awT", @nobits
        .globl  weft__self
        .hidden weft__self
        .type   weft__self, @object
        .size   weft__self, 8
        .p2align 3
weft__self:
        .zero   8

/* For indirect branch tracking: every target here begins with its mark. Not for shadow stacks (SHSTK), which the switch does
 * not switch: without that mark no program that links weft gets them. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4
        .long   16
        .long   5
        .asciz  "GNU"
        .long   0xc0000002
        .long   4
        .long   1               /* IBT */
        .long   0

        .section .note.GNU-stack, "", @progbits
