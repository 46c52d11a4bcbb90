/*
 * local.h: the fiber-local values of a fiber or thread (weft/local.h): see local.c.
 */
#ifndef WEFT_SCHED_FIBER_LOCAL_H
#define WEFT_SCHED_FIBER_LOCAL_H

#include "sched/runtime/runtime.h"

struct locals;

/* Runs the destructors and frees the values; *locals becomes NULL. */
void weft__locals_end(struct locals **locals);
/* Holds the lock of the keys across a fork. */
void weft__locals_fork(enum fork_step step);

#endif
