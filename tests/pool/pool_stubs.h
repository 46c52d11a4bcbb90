/*
 * pool_stubs.h: the parts of fibers, contexts, panics and crashes that the model of the pool
 * (pool_model.c) needs.
 */
#ifndef WEFT_MODEL_POOL_STUBS_H
#define WEFT_MODEL_POOL_STUBS_H

#include <errno.h>

#include "explore.h"
#include "pool/failure.h"
#include "pool/pool_internal.h"
#include "pool/schedule.h"
#include "pool/worker.h"
#include "stack/slab.h"
#include "sync/context.h"

enum { FIBERS = 4 };

/* Fibers. */

static struct weft_fiber fibers[FIBERS];
static struct extra extras[FIBERS];
static struct foreign records[FIBERS]; /* of their threads */
static struct processor processors[FIBERS];
static int errors[FIBERS];
static int fiber_count;

/* Tasks that are active, as far as their own code can tell. */
static int64_t active;
static int became_inactive; /* how often a task did */

/* When a worker last had no task: since then all places may have been taken. */
static struct {
    int64_t active;
    int became_inactive;
    bool paused;
} free_since[FIBERS];
static bool paused; /* and the call has returned */

static void note_free(int index)
{
    free_since[index].active = active;
    free_since[index].became_inactive = became_inactive;
    free_since[index].paused = paused;
}

atomic_u32 weft__runtime_running;

int weft__runtime_start(void)
{
    return -ENOSYS;
}

int weft__fiber_make(struct weft_fiber **fiber, void (*function)(void *), void *arg, void *site)
{
    MODEL_CHECK(fiber_count < FIBERS);
    int index = fiber_count++;
    fibers[index].function = function;
    fibers[index].arg = arg;
    processors[index].index = (uint32_t)index;
    note_free(index);
    *fiber = &fibers[index];
    return 0;
}

struct extra *weft__fiber_extra(struct weft_fiber *fiber)
{
    fiber->extra.value = &extras[fiber - fibers];
    return &extras[fiber - fibers];
}

void weft__fiber_discard(struct weft_fiber *fiber)
{
}

static void run_fiber(void *arg)
{
    struct weft_fiber *fiber = arg;
    int index = (int)(fiber - fibers);
    records[index].thread.fiber = fiber;
    records[index].thread.processor = &processors[index];
    records[index].thread.errno_address = &errors[index];
    thread_word_set(&records[index]);
    fiber->function(fiber->arg);
}

static void start_fiber(struct weft_fiber *fiber, const char *name)
{
    model_thread(name, run_fiber, fiber, true);
}

void weft__fiber_start(struct weft_fiber *fiber, bool next)
{
    static const char *const names[FIBERS] = {"worker 1", "worker 2", "worker 3", "worker 4"};
    start_fiber(fiber, names[fiber - fibers]);
}

weft_fiber *weft_self(void)
{
    struct thread *thread = thread_self();
    return thread != NULL ? thread->fiber : NULL;
}

void weft_yield(void)
{
}

int weft_sleep(int64_t duration)
{
    return 0;
}

bool weft__os_alloc_fails(void)
{
    return false;
}

void *weft__slab_get(size_t size, size_t *room)
{
    *room = size;
    return weft__os_alloc(size);
}

void weft__slab_put(void *piece, size_t room)
{
    weft__os_free(piece);
}

int64_t weft_now(void)
{
    return weft__os_now_coarse();
}

int64_t weft_after(int64_t duration)
{
    return weft_now() + duration;
}

struct foreign *weft__foreign_self(void)
{
    static struct foreign none;
    return &none;
}

/* A context is a flag: whether it was cancelled. No fiber is bound. */

struct weft_context {
    atomic_u32 cancelled;
    void *owner;
    void (*freed)(void *owner);
};

int weft_context_open(weft_context **context, weft_context *parent,
                      const weft_context_options *options)
{
    *context = weft__os_alloc_zeroed(sizeof **context);
    return 0;
}

void weft_context_cancel(weft_context *context)
{
    atomic_u32_store_release(&context->cancelled, 1);
}

void weft__context_cancel(weft_context *context, int error)
{
    weft_context_cancel(context);
}

void weft_context_close(weft_context *context)
{
    if (context->freed != NULL)
        context->freed(context->owner);
    weft__os_free(context);
}

void weft__context_own(weft_context *context, void *owner, void (*on_cancel)(void *owner),
                       void (*freed)(void *owner))
{
    (void)on_cancel; /* no group is cancelled */
    context->owner = owner;
    context->freed = freed;
}

int weft_context_error(const weft_context *context)
{
    return atomic_u32_load_acquire(&context->cancelled) ? -ECANCELED : 0;
}

int weft_context_bind(weft_context *context, weft_context **before)
{
    if (before != NULL)
        *before = NULL;
    return 0;
}

weft_context *weft_context_current(void)
{
    return NULL;
}

void weft__context_hold(weft_context *context)
{
}

void weft__context_drop(weft_context *context)
{
}

void weft__context_expire_at(weft_context *context, int64_t deadline)
{
    model_fail("a context with a deadline");
}

/* Not used by the model: no task panics, crashes or has fiber-locals. */

void weft__pools_add(weft_pool *opened)
{
}

void weft__pools_remove(weft_pool *closed)
{
}

void weft__schedules_stop(weft_pool *stopping)
{
}

int weft__isolated_make(weft_pool *isolating)
{
    return -ENOSYS;
}

void weft__isolated_end(struct worker *isolated)
{
}

void weft__locals_end(struct locals **locals)
{
}

int weft__stack_class(size_t size)
{
    return 0;
}

bool weft__guarded(struct guard *guard, void (*function)(void *), void *arg)
{
    function(arg);
    return false;
}

void weft__panic_free(struct panic *panic)
{
}

void weft__panic_report(struct panic *panic)
{
}

const weft_panic_info *weft__panic_info(struct panic *panic)
{
    return &panic->info;
}

bool weft__pool_notify_panic(weft_pool *of, struct panic *panic, void (*function)(void *),
                             void *arg)
{
    model_fail("a task panicked");
}

void weft__pool_panicked(weft_pool *of, const struct plain_task *panicked, struct panic *panic)
{
    model_fail("a task panicked");
}

bool weft__pool_call_option(weft_pool *of, void (*function)(void *), void *arg)
{
    function(arg);
    return false;
}

#endif
