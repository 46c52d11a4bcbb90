/*
 * thread.c: foreign threads: threads that use weft and are not machines.
 *
 * A struct foreign is made when a thread first needs one. It is freed when the thread ends, or when
 * the thread shuts the runtime down. It holds what a processor or a fiber would hold for its
 * caller: a cache of fibers, fiber-local values, the panic scope. Waiting does not need one.
 *
 * Lock: foreign.lock guards the list and the sums; the depot's lock may be taken under it.
 */
#include "sched/runtime/thread.h"

#include "arch/stack_switch.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/core/cancel.h"
#include "sched/fiber/cxx.h"
#include "sched/fiber/fiber_alloc.h"
#include "sched/fiber/local.h"
#include "sched/runtime/runtime.h"

struct upper *weft__upper_make(void)
{
    const struct thread *thread = thread_self();
    if (thread != NULL && thread->fiber != NULL)
        (void)weft__fiber_extra(thread->fiber);
    else
        (void)weft__foreign_self();
    return upper_self();
}

static struct {
    struct lock lock;
    struct foreign *all;
    uint64_t started; /* fibers started by threads that are gone */
    uint32_t count;
} foreign;

static void forget(struct foreign *self)
{
    lock_acquire(&foreign.lock);
    if (self->previous != NULL)
        self->previous->next = self->next;
    else
        foreign.all = self->next;
    if (self->next != NULL)
        self->next->previous = self->previous;
    foreign.count--;
    foreign.started += atomic_u64_load_relaxed(&self->cache.started);
    weft__fiber_cache_flush(&self->cache);
    lock_release(&foreign.lock);
    thread_word_set(NULL);
    weft__os_free(self);
}

static void at_thread_exit(void *arg)
{
    struct foreign *self = arg;
    thread_word_set(self); /* destructors of the program may call weft */
    if (self->locals != NULL)
        weft__locals_end(&self->locals);
    if (thread_self() != &self->thread)
        return; /* a destructor forked, and this is the child: the word was cleared there */
    if (self->bond.canceler != NULL)
        weft__bond_set(&self->bond, NULL);
    forget(self);
}

noinline struct foreign *weft__foreign_self(void)
{
    struct foreign *self = (struct foreign *)thread_self();
    if (self != NULL)
        return self;
    self = weft__os_alloc_zeroed(sizeof *self);
    if (self == NULL)
        return NULL;
    if (weft__os_thread_at_exit(at_thread_exit, self) != 0) {
        weft__os_free(self);
        return NULL;
    }
    self->thread.fibers = &self->cache;
    self->thread.cxx = weft__cxx_state();
    lock_acquire(&foreign.lock);
    self->next = foreign.all;
    if (self->next != NULL)
        self->next->previous = self;
    foreign.all = self;
    foreign.count++;
    lock_release(&foreign.lock);
    thread_word_set(self);
    return self;
}

void weft__foreign_leave(void)
{
    struct foreign *self = (struct foreign *)thread_self();
    if (self == NULL || self->locals != NULL || self->bond.canceler != NULL ||
        self->scope.guard != NULL || self->scope.deferred != NULL)
        return; /* in use: it is freed when the thread ends */
    weft__os_thread_at_exit_cancel();
    forget(self);
}

uint64_t weft__foreign_started(void)
{
    lock_acquire(&foreign.lock);
    uint64_t started = foreign.started;
    for (struct foreign *one = foreign.all; one != NULL; one = one->next)
        started += atomic_u64_load_relaxed(&one->cache.started);
    lock_release(&foreign.lock);
    return started;
}

uint32_t weft__foreign_count(void)
{
    lock_acquire(&foreign.lock);
    uint32_t count = foreign.count;
    lock_release(&foreign.lock);
    return count;
}

void weft__foreign_stop(void)
{
    lock_acquire(&foreign.lock);
    for (struct foreign *one = foreign.all; one != NULL; one = one->next)
        one->cache = (struct fiber_cache){.free = NULL};
    foreign.started = 0;
    lock_release(&foreign.lock);
}

void weft__foreign_fork(enum fork_step step)
{
    if (step == FORK_BEFORE) {
        lock_acquire(&foreign.lock);
        return;
    }
    if (step == FORK_CHILD) {
        /* All others are threads of the parent. */
        foreign.all = (struct foreign *)thread_self();
        foreign.count = foreign.all != NULL;
        if (foreign.all != NULL)
            foreign.all->next = foreign.all->previous = NULL;
    }
    lock_release(&foreign.lock);
}
