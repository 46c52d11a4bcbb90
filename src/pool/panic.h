/*
 * panic.h: what becomes of panics in tasks, and in the functions that a pool was given.
 */
#ifndef WEFT_POOL_PANIC_H
#define WEFT_POOL_PANIC_H

#include "pool/pool.h"
#include "sched/panic.h"

/* A task panicked: it is counted, and on_panic is told; true if there is one. Outside the latch. */
bool weft__pool_tell_panic(weft_pool *pool, struct panic *panic, void (*function)(void *),
                           void *arg);
/* The same for a task that nobody else asks for: without on_panic it is reported. Ends the panic. */
void weft__pool_panicked(weft_pool *pool, const struct task *task, struct panic *panic);
/* Calls one of the functions of the options; true if it panicked, which is counted and reported. */
bool weft__pool_call_option(weft_pool *pool, void (*function)(void *), void *arg);

#endif
