/*
 * object_latch.c: acquires an object's latch that is held: the slow path of sync/object_latch.h.
 */
#include "sync/object_latch.h"

#include "sched/runtime/runtime.h"
#include "sync/spin_wait.h"

enum { ROUNDS_IN_CHILD = 200 }; /* most of them naps: some milliseconds */

static noinline void acquire_in_child(struct latch *latch)
{
    struct backoff backoff = {0};
    while (backoff.round < ROUNDS_IN_CHILD && !latch_try(latch))
        spin_wait(&backoff);
}

void weft__object_latch_slow(struct latch *latch)
{
    if (weft__runtime_forked())
        acquire_in_child(latch);
    else
        weft__latch_slow(latch);
}
