/*
 * elsewhere.h: a fault on a stack that the program has made itself, below or above those of the fibers.
 */
#ifndef WEFT_TESTS_ELSEWHERE_H
#define WEFT_TESTS_ELSEWHERE_H

#include <ucontext.h>

#include "faults.h"

static char stack_below[64 * 1024];
static char *stack_above; /* on main's */
static ucontext_t elsewhere, back;

static void switch_to(char *stack)
{
    CHECK_EQ(getcontext(&elsewhere), 0);
    elsewhere.uc_stack.ss_sp = stack;
    elsewhere.uc_stack.ss_size = sizeof stack_below;
    elsewhere.uc_link = &back;
    makecontext(&elsewhere, fault_null_write, 0);
    CHECK_EQ(swapcontext(&back, &elsewhere), 0);
}

#endif
