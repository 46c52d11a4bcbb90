/*
 * caller.h: identifies the caller: a number, never 0, that no other fiber or thread has at the same
 * time.
 *
 * The number of a fiber is made of its id, and is odd. That of a thread is the address of its
 * errno, and is even.
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
