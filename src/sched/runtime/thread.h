/*
 * thread.h: what weft knows of an OS thread, and how fiber code enters and leaves the runtime.
 *
 * The thread-local word (arch/stack_switch.h) points to the struct thread of the calling thread.
 * That is the beginning of a struct machine, or of a struct foreign, which is made when the thread
 * first needs one. Fiber code must read the word anew after anything that can switch.
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

/* Bits of thread.requests. SHED: an idle processor wants fibers of its processor. CLAIMED: a thief
 * has its processor for a moment (steal.c). GONE: its processor is gone for good (handoff.c).
 * POINTS: each entry into the runtime is a test point (seeded.c, chaos.c). */
enum { REQUEST_SHED = 1, REQUEST_CLAIMED = 2, REQUEST_GONE = 4, REQUEST_POINTS = 8 };
struct thread {
    struct weft_fiber *fiber; /* that runs on the thread; NULL on a foreign thread */
    /* That the thread holds; NULL on a foreign thread. Valid only inside the runtime: outside,
     * another thread may take it away, which this one learns from `requests` at its next entry. */
    struct processor *processor;
    struct fiber_cache *fibers; /* to allocate fibers from */
    int *errno_address;         /* NULL on a foreign thread */
    int64_t clock;              /* the time, if it was read just now; 0: unknown */
    struct cxx_state *cxx;      /* of the thread; never NULL: weft__cxx_state */
    bool wake_wanted;           /* a machine is to be woken when this thread leaves the runtime */
    uint32_t spins;             /* weft_spin locks that the fiber or thread holds */
    /* Not 0: inside the runtime, so the private state of the processor may be in use: steal.c. */
    atomic_u32 inside;
#ifdef WEFT_DEBUG
    void *held_locks; /* of a foreign thread: list of its locks, for the check of lock order */
#endif
    char apart[CACHE_LINE];
    atomic_u32 requests; /* of other threads; in a line of its own, since they read it often */
    char apart_too[CACHE_LINE];
};

/* A foreign thread: one that is not a machine. */
struct foreign {
    struct thread thread;
    struct scope scope;
    struct foreign *next, *previous; /* list of all */
    struct fiber_cache cache;
    struct locals *locals;
    struct bond bond; /* to the context of the thread */
    struct upper upper;
};

static inline struct thread *thread_self(void)
{
    return thread_word();
}

/* Returns the struct foreign of the calling thread, made if need be; NULL without memory. */
struct foreign *weft__foreign_self(void);
/* Frees the struct foreign of the calling thread, unless there is none or it is in use. */
void weft__foreign_leave(void);
/* Returns how many fibers foreign threads have started, including threads that are gone. */
uint64_t weft__foreign_started(void);
/* Returns how many foreign threads weft knows. */
uint32_t weft__foreign_count(void);
/* Empties the fiber caches of all foreign threads, whose fibers are about to be freed at a stop. */
void weft__foreign_stop(void);
void weft__foreign_fork(enum fork_step step);

/* Enters the runtime from fiber code: until runtime_leave the thread has a processor and exclusive
 * access to it. Returns the thread that the fiber is on, which may be another one than before. The
 * claim in sched/core/steal.c relies on the order of the store and the load. */
static inline struct thread *runtime_enter(struct thread *thread)
{
    should(thread->fiber != NULL && atomic_u32_load_relaxed(&thread->inside) == 0);
    atomic_u32_store_relaxed(&thread->inside, 1);
    barrier_light();
    /* Pairs with the release by which a thief ends its claim, or keeps the processor. */
    if (unlikely(atomic_u32_load_acquire(&thread->requests) != 0))
        return weft__handle_requests(thread);
    return thread;
}

/* Leaves the runtime: from here on the processor may be claimed. */
static inline void runtime_leave(struct thread *thread)
{
    bool wake = thread->wake_wanted;
    thread->wake_wanted = false;
    /* Pairs with the acquire of a thief, which sees the processor as it was left here. */
    atomic_u32_store_release(&thread->inside, 0);
    if (unlikely(wake))
        weft__wake_one();
}

#ifdef WEFT_DEBUG
/* The head of the caller's list of held locks; NULL without memory. */
static inline void **weft__held_locks(void)
{
    struct thread *thread = thread_self();
    if (thread == NULL)
        thread = (struct thread *)weft__foreign_self();
    if (thread == NULL)
        return NULL;
    return thread->fiber != NULL ? &thread->fiber->held_locks : &thread->held_locks;
}
#endif

/* Enters the runtime if the caller is a fiber, for calls that both fibers and threads make: fiber
 * code must be inside the runtime to use its processor; a thread has none. The result is the
 * argument of leave_if_fiber, which the fiber may call on another thread. */
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

/* The words that floors above keep with the calling fiber or thread. NULL: weft does not know the
 * thread, or the fiber has no extras yet. */
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
/* Does the work of upper_self, and makes the words if need be; NULL without memory. */
struct upper *weft__upper_make(void);

/* Returns the waiter of the caller, ready to be put in a list: the fiber's, or `own` on a thread.
 * See park.h. */
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
