/*
 * thread.h: what weft knows of an OS thread, and the way in and out of the runtime.
 *
 * The thread-local word (arch/stack_switch.h) points to the thread's record: a machine's, or a foreign
 * thread's, made when it first needs one. Fiber code must read it anew after anything that can
 * switch.
 */
#ifndef WEFT_SCHED_RUNTIME_THREAD_H
#define WEFT_SCHED_RUNTIME_THREAD_H

#include "arch/stack_switch.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/membarrier.h"
#include "sched/core/cancel.h"
#include "sched/core/idle.h"
#include "sched/core/steal.h"
#include "sched/fiber/fiber.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/fiber/panic.h"
#include "sched/runtime/runtime.h"

/* Bits of thread.requests: fibers are wanted from its processor; its processor is claimed for a moment
 * (steal.c); its processor is gone for good (handoff.c); each entry into the runtime is a point where others may go first (seeded.c,
 * chaos.c). */
enum { REQUEST_SHED = 1, REQUEST_CLAIMED = 2, REQUEST_GONE = 4, REQUEST_POINTS = 8 };
struct thread {
    struct weft_fiber *fiber; /* running on it; NULL on a foreign thread */
    /* Held by it; NULL on a foreign thread. Of use only inside the runtime: outside, others may have
     * taken it away, which its thread learns from `requests` when it comes back. */
    struct processor *processor;
    struct fiber_cache *fibers; /* where it takes and leaves records */
    int *errno_address;
    int64_t clock;         /* the time, if it was read just now, for those who look next; else 0 */
    struct cxx_state *cxx; /* the thread's; never NULL: without C++ one that is always zero */
    bool wake_wanted;      /* a machine is to be woken as soon as this thread is outside */
    uint32_t spins;        /* weft_spin locks held by what runs on it */
    /* Not 0: in the runtime, so the processor's private state may be in use. See sched/core/steal.c. */
    atomic_u32 inside;
#ifdef WEFT_DEBUG
    void *held; /* locks of a foreign thread: sync/order.c */
#endif
    char apart[CACHE_LINE];
    atomic_u32
        requests; /* what others ask of it; a line of its own, since they look at it often */
    char apart_too[CACHE_LINE];
};

/* A thread that is not a machine. */
struct foreign {
    struct thread thread;
    struct scope scope;
    struct foreign *next, *previous; /* all of them */
    struct fiber_cache cache;
    struct locals *locals;
    struct bond bond; /* to its context */
    struct upper upper;
};

static inline struct thread *thread_self(void)
{
    return thread_word();
}

/* The record of the calling thread, which is not a machine; NULL without memory. */
struct foreign *weft__foreign_self(void);
/* Forgets the calling thread's record, if it has one and no values are in it. */
void weft__foreign_leave(void);
/* How many fibers foreign threads have started, those that are gone included. */
uint64_t weft__foreign_started(void);
/* How many threads weft has a record of. */
uint32_t weft__foreign_count(void);
/* Lets all foreign threads forget their stock of records; the runtime has stopped. */
void weft__foreign_stop(void);
void weft__foreign_fork(enum fork_step step);

/* Enters the runtime from fiber code: from here to runtime_leave the thread has a processor, which is its
 * own alone. Returns the record of the thread, which may be another one from here on. The order of store
 * and load is what the claim in sched/core/steal.c relies on. */
static inline struct thread *runtime_enter(struct thread *thread)
{
    should(thread->fiber != NULL && atomic_u32_load_relaxed(&thread->inside) == 0);
    atomic_u32_store_relaxed(&thread->inside, 1);
    barrier_light();
    /* Pairs with the release by which a thief gives its claim back, or keeps the processor. */
    if (unlikely(atomic_u32_load_acquire(&thread->requests) != 0))
        return weft__handle_requests(thread);
    return thread;
}

static inline void runtime_leave(struct thread *thread)
{
    bool wake = thread->wake_wanted;
    thread->wake_wanted = false;
    /* Pairs with the thief's acquire: it sees the processor as we left it. */
    atomic_u32_store_release(&thread->inside, 0);
    if (unlikely(wake))
        weft__wake_one();
}

#ifdef WEFT_DEBUG
/* Where the caller's list of held locks begins; NULL without memory. */
static inline void **weft__held(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL)
        thread = (struct thread *)weft__foreign_self();
    if (thread == NULL)
        return NULL;
    return thread->fiber != NULL ? &thread->fiber->held : &thread->held;
}
#endif

/* The same for calls that fibers and threads make: fiber code must be inside the runtime to use its
 * processor, a thread has none. What enter returns is for leave, which may happen on another thread. */
static inline bool enter_if_fiber(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL || thread->fiber == NULL)
        return false;
    runtime_enter(thread);
    return true;
}

static inline void leave_if_fiber(bool fiber)
{
    if (fiber)
        runtime_leave(thread_self());
}

/* Of the calling fiber or thread: its words for the floors above (struct upper); NULL without a
 * record of a thread, or without extras of a fiber, or if they cannot be made. */
static inline struct upper *upper_self(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL)
        return NULL;
    if (thread->fiber == NULL)
        return &((struct foreign *)thread)->upper;
    struct extra *extra = fiber_extra(thread->fiber);
    return extra != NULL ? &extra->upper : NULL;
}
/* Makes them first. */
struct upper *weft__upper_make(void);

/* The waiter of the caller, ready to be put in a list: `own` if the caller is a thread. See park.h. */
static inline struct waiter *weft__waiter_begin(struct waiter *own)
{
    struct thread *thread = thread_self();
    struct waiter *waiter = own;
    if (likely(thread != NULL && thread->fiber != NULL))
        waiter = &thread->fiber->waiter;
    else
        own->is_fiber = false;
    waiter->result = 0;
    return waiter;
}

#endif
