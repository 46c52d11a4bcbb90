/*
 * test_point.c: hands a test point to the seeded scheduler or to chaos.
 *
 * The decision is by mode, not by function pointer: the mode is one word that the callers read
 * anyway.
 */
#include "sched/check/test_point.h"

#include "base/atomic.h"
#include "base/compiler.h"
#include "sched/check/chaos.h"
#include "sched/check/seeded.h"
#include "sched/runtime/thread.h"

atomic_u32 weft__testing;

struct thread *weft__test_enter(struct thread *thread)
{
    return seeded() ? weft__seeded_enter(thread) : weft__chaos_enter(thread);
}

noinline void weft__test_point(void)
{
    if (seeded())
        weft__seeded_point();
    else
        weft__chaos_point();
}
