/*
 * x86_64.S: the first frame of a fiber, calls that a panic can leave, calls that return by a jump,
 * and weft's one thread-local word.
 */
        .text

/* The stack holds the entry and its argument (context_make). Unwinding ends here. */
        .globl  weft__context_entry
        .hidden weft__context_entry
        .type   weft__context_entry, @function
        .p2align 4
weft__context_entry:
        .cfi_startproc
        .cfi_personality 0x1b, weft__personality
        .cfi_undefined %rip
        endbr64
        popq    %rax
        popq    %rdi
        callq   *%rax
        ud2
        .cfi_endproc
        .size   weft__context_entry, . - weft__context_entry

/* int weft__guard_call(struct guard *guard, void (*function)(void *), void *arg):
 * arch/stack_switch.h. Stores the stack pointer of this frame in guard->sp, the first field; the
 * frame has all that a call preserves. weft__personality (sched/fiber/cxx.c) catches a C++
 * exception that unwinds to here. */
        .globl  weft__guard_call
        .hidden weft__guard_call
        .type   weft__guard_call, @function
        .p2align 4
weft__guard_call:
        .cfi_startproc
        .cfi_personality 0x1b, weft__personality
        endbr64
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx, 0
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r12, 0
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r13, 0
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r14, 0
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r15, 0
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        stmxcsr 0(%rsp)
        fnstcw  4(%rsp)
        movq    %rsp, 0(%rdi)
        movq    %rdx, %rdi
        callq   *%rsi
        xorl    %eax, %eax
1:      addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %r15
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r15
        popq    %r14
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r14
        popq    %r13
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r13
        popq    %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r12
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        retq
        .cfi_endproc
        .size   weft__guard_call, . - weft__guard_call

        .globl  weft__guard_land
        .hidden weft__guard_land
        .type   weft__guard_land, @function
        .p2align 4
weft__guard_land:
        .cfi_startproc
        .cfi_undefined %rip
        endbr64
        movq    0(%rdi), %rsp
        ldmxcsr 0(%rsp)
        fldcw   4(%rsp)
        movl    $1, %eax
        jmp     1b
        .cfi_endproc
        .size   weft__guard_land, . - weft__guard_land

/* int weft__context_call(a, b, c, d, function): returns function(a, b, c, d), by a jump:
 * arch/stack_switch.h. */
        .globl  weft__context_call
        .hidden weft__context_call
        .type   weft__context_call, @function
        .p2align 4
weft__context_call:
        .cfi_startproc
        endbr64
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        callq   *%r8
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        .cfi_register %rip, %rdx
        notrack jmpq *%rdx
        .cfi_endproc
        .size   weft__context_call, . - weft__context_call

/* Thread-local: the record of the running thread (sched/runtime/thread.h). It is defined here and
 * read by the two instructions in arch/stack_switch.h only, so that no compiler, at any
 * optimisation level, can keep its address across a switch. */
        .section .tbss, "awT", @nobits
        .globl  weft__self
        .hidden weft__self
        .type   weft__self, @object
        .size   weft__self, 8
        .p2align 3
weft__self:
        .zero   8

/* Marks this file for indirect branch tracking: every target of a jump here begins with its mark.
 * Not for shadow stacks (SHSTK), which context_switch does not switch:
 * without that mark, no program that links weft gets them. */
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
