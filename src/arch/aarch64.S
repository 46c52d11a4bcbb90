/*
 * aarch64.S: the first frame of a fiber, calls that a panic can leave, and
 * weft's one thread-local word.
 */
        .text

/* The stack holds the entry and its argument (context_make). Unwinding ends here. */
        .globl  weft__context_entry
        .hidden weft__context_entry
        .type   weft__context_entry, %function
        .p2align 4
weft__context_entry:
        .cfi_startproc
        .cfi_personality 0x1b, weft__personality
        .cfi_undefined x30
        hint    #36             /* bti j */
        ldp     x9, x0, [sp], #16
        mov     x30, #0
        blr     x9
        brk     #1
        .cfi_endproc
        .size   weft__context_entry, . - weft__context_entry

/* int weft__guard_call(struct guard *guard, void (*function)(void *), void *arg):
 * arch/stack_switch.h. Stores the stack pointer of this frame in guard->sp, the first field; the
 * frame has all that a call preserves. weft__personality (sched/fiber/cxx.c) catches a C++
 * exception that unwinds to here. */
        .globl  weft__guard_call
        .hidden weft__guard_call
        .type   weft__guard_call, %function
        .p2align 4
weft__guard_call:
        .cfi_startproc
        .cfi_personality 0x1b, weft__personality
        hint    #34             /* bti c */
        stp     x29, x30, [sp, #-176]!
        .cfi_adjust_cfa_offset 176
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        mov     x29, sp
        stp     x19, x20, [sp, #16]
        .cfi_rel_offset x19, 16
        .cfi_rel_offset x20, 24
        stp     x21, x22, [sp, #32]
        .cfi_rel_offset x21, 32
        .cfi_rel_offset x22, 40
        stp     x23, x24, [sp, #48]
        .cfi_rel_offset x23, 48
        .cfi_rel_offset x24, 56
        stp     x25, x26, [sp, #64]
        .cfi_rel_offset x25, 64
        .cfi_rel_offset x26, 72
        stp     x27, x28, [sp, #80]
        .cfi_rel_offset x27, 80
        .cfi_rel_offset x28, 88
        stp     d8, d9, [sp, #96]
        .cfi_rel_offset d8, 96
        .cfi_rel_offset d9, 104
        stp     d10, d11, [sp, #112]
        .cfi_rel_offset d10, 112
        .cfi_rel_offset d11, 120
        stp     d12, d13, [sp, #128]
        .cfi_rel_offset d12, 128
        .cfi_rel_offset d13, 136
        stp     d14, d15, [sp, #144]
        .cfi_rel_offset d14, 144
        .cfi_rel_offset d15, 152
        mrs     x10, fpcr
        str     x10, [sp, #160]
        mov     x9, sp
        str     x9, [x0]
        mov     x0, x2
        blr     x1
        mov     w0, #0
1:
        ldp     x19, x20, [sp, #16]
        ldp     x21, x22, [sp, #32]
        ldp     x23, x24, [sp, #48]
        ldp     x25, x26, [sp, #64]
        ldp     x27, x28, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        ldp     x29, x30, [sp], #176
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        ret
        .cfi_endproc
        .size   weft__guard_call, . - weft__guard_call

        .globl  weft__guard_land
        .hidden weft__guard_land
        .type   weft__guard_land, %function
        .p2align 4
weft__guard_land:
        .cfi_startproc
        .cfi_undefined x30
        hint    #34             /* bti c */
        ldr     x9, [x0]
        mov     sp, x9
        ldr     x10, [sp, #160]
        msr     fpcr, x10
        mov     w0, #1
        b       1b
        .cfi_endproc
        .size   weft__guard_land, . - weft__guard_land

/* Thread-local: the record of the running thread (sched/runtime/thread.h). It is defined here and
 * read by the few instructions in arch/stack_switch.h only, so that no compiler, at any
 * optimisation level, can keep its address across a switch. */
        .section .tbss, "awT", %nobits
        .globl  weft__self
        .hidden weft__self
        .type   weft__self, %object
        .size   weft__self, 8
        .p2align 3
weft__self:
        .zero   8

/* Marks this file for branch target identification: every target of a jump here begins with its
 * mark. Not for guarded control stacks (GCS), which context_switch does not switch: without that
 * mark, no program that links weft gets them. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4
        .long   16
        .long   5
        .asciz  "GNU"
        .long   0xc0000000
        .long   4
        .long   1               /* BTI */
        .long   0

        .section .note.GNU-stack, "", %progbits
