/*
 * local.h: the fiber-local values of one fiber or thread (weft/local.h): see local.c.
 */
#ifndef WEFT_SCHED_FIBER_LOCAL_H
#define WEFT_SCHED_FIBER_LOCAL_H

#include "sched/runtime/runtime.h"

struct locals;

/* Runs the destructors, and frees the values. */
void weft__locals_end(struct locals **locals);
void weft__locals_fork(enum fork_step step);

#endif
