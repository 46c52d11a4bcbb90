/*
 * stack_guard.h: what makes an access below a stack fault.
 */
#ifndef WEFT_STACK_STACK_GUARD_H
#define WEFT_STACK_STACK_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/stack.h"

enum stack_guard {
    STACK_GUARD_INSTALL,  /* MADV_GUARD_INSTALL: any number of stacks */
    STACK_GUARD_MPROTECT, /* a mapping each: up to half of vm.max_map_count */
    STACK_GUARD_NONE,
};

/* Sizes are given by their logarithms. A wide guard is made with its arena, the others with each
 * stack: stack_guard.c has the table. */
enum { GUARD_FEW = 16, GUARD_WIDE = 23, GUARD_WIDE_MOST = 128 };
#if defined(__aarch64__)
enum { GUARD_LEAST = 16 }; /* 64 KiB: the distance at which compilers probe large frames */
#else
enum { GUARD_LEAST = 12 };
#endif

/* Finds the best kind of guard that works and is allowed, and whether one call can make several.
 * Called while no stack exists. */
void weft__stack_guard_start(bool allow_install, bool allow_many, bool allow_mprotect);
enum stack_guard weft__stack_guard_kind(void);

/* The size of the guards of the next arena of a class that has `made` stacks. */
uint8_t weft__stack_guard_choose(uint64_t made);

/* Maps an arena of `count` stacks, `room` bytes each, with wide guards below them. NULL if the
 * system refuses. */
char *weft__stack_guard_map_wide(uint32_t count, size_t room);

/* Makes the guards of `count` stacks that follow each other, `stride` apart, unless they are wide.
 * A stack that gets none has guard 0 then. */
void weft__stack_guard_make(struct stack *first, uint32_t count, size_t stride);

/* How many guards one call can make: worth carving that many stacks at once. */
uint32_t weft__stack_guard_batch(void);

/* For tests: how many guards mprotect may make, where the text is that of vm.max_map_count. */
int64_t weft__stack_guards_most(const char *max_map_count);

#endif
