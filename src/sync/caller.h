/*
 * caller.h: who calls: a number that no other fiber or thread has at the same time, and never 0.
 *
 * A fiber's is made of its id, and odd; a thread's is an address that is its own, and even.
 */
#ifndef WEFT_SYNC_CALLER_H
#define WEFT_SYNC_CALLER_H

#include "os/os.h"
#include "sched/runtime/thread.h"

static inline uint64_t caller_id(void)
{
    struct thread *thread = thread_self();
    if (thread != NULL && thread->fiber != NULL)
        return thread->fiber->id << 1 | 1;
    return (uint64_t)(uintptr_t)weft__os_errno_address();
}

#endif
