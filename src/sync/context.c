/*
 * context.c: contexts: a tree of cancelers (sched/core/cancel.h) with deadlines and values.
 *
 * References. A context is freed when the last of these is gone: the handle, the bonds of fibers
 * and threads, and the contexts opened under it (each holds its parent, for values and for taking
 * itself out of the parent's list).
 *
 * Children. A child that is not cancelled and whose handle is held is in its parent's list, under
 * the parent's lock; so what is found there has a reference. Cancelling works down the tree without
 * recursion, so that its depth costs no stack:
 *
 *     to do = the context
 *     while there is one to do:
 *         cancel it (the first to set the reason goes on, others are done with it)
 *         lock it; move its children to the list of those to do, each with a reference; unlock
 *
 * A child that comes while its parent is being cancelled: it sees the reason, under the parent's
 * lock, or is in the list when the children are moved, which is under that lock and after the
 * reason was set. Only the one cancellation that set the parent's reason takes its children, so no
 * child is in two lists.
 *
 * The done channel is made when first asked for, under the lock, and closed by the cancellation,
 * which looks for it under the lock after the reason is set; one that is made after that is closed
 * by its maker.
 *
 * The owner (a group, or what a pool has under it) is told of the cancellation in the same place. It is read under the lock and
 * called outside it: the cancellation holds a reference to the context, and the owner's memory is
 * freed with the last one.
 *
 * A timeout is a timer (weft/timer.h) that cancels. It is closed with the handle.
 *
 * Lock order: a parent's lock, then the latch of a child's canceler.
 */
#include "sync/context.h"

#include <errno.h>
#include <string.h>
#include <weft/timer.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "os/lock.h"
#include "os/os.h"
#include "sched/core/cancel.h"
#include "sched/runtime/runtime.h"
#include "sched/runtime/thread.h"

struct weft_context {
    struct canceler canceler; /* first: sched/core/cancel.h */
    struct lock lock;
    atomic_u32 references;
    weft_context *parent;
    weft_context *next, **link; /* in the parent's list; link NULL: not there; the parent's lock */
    weft_context *children;     /* lock */
    weft_context *pending;      /* of the cancellation that took it from its parent */
    weft_chan *done;            /* NULL until asked for; lock */
    void *owner;                /* NULL: none; lock */
    void (*cancelled)(void *owner);
    void (*freed)(void *owner);
    weft_timer *timer;
    int64_t deadline;
    const void *key;
    void *value;
};

/* References. */

void weft__context_hold(weft_context *context)
{
    atomic_u32_add_relaxed(&context->references, 1);
}

void weft__context_drop(weft_context *context)
{
    /* Up the tree as far as this was the last one. Pairs with itself: the last one sees what the
     * others did. */
    while (context != NULL && atomic_u32_sub_acq_rel(&context->references, 1) == 1) {
        weft_context *parent = context->parent;
        weft_chan_destroy(context->done);
        if (context->owner != NULL)
            context->freed(context->owner);
        weft__os_free(context);
        context = parent;
    }
}

static weft_context *of_canceler(struct canceler *canceler)
{
    return canceler != NULL ? container_of(canceler, weft_context, canceler) : NULL;
}

static void hold_canceler(struct canceler *canceler)
{
    weft__context_hold(of_canceler(canceler));
}

static void drop_canceler(struct canceler *canceler)
{
    weft__context_drop(of_canceler(canceler));
}

/* Cancelling. */

/* Takes the children, with a reference each, and puts them before those in `pending`. */
static weft_context *take_children(weft_context *context, weft_context *pending)
{
    lock_acquire(&context->lock);
    while (context->children != NULL) {
        weft_context *child = context->children;
        context->children = child->next;
        child->link = NULL;
        weft__context_hold(child);
        child->pending = pending;
        pending = child;
    }
    weft_chan *done = context->done;
    void *owner = context->owner;
    lock_release(&context->lock);
    if (done != NULL)
        (void)weft_chan_close(done);
    if (owner != NULL)
        context->cancelled(owner);
    return pending;
}

static void cancel(weft_context *context, uint32_t reason)
{
    weft_context *pending = NULL;
    weft__context_hold(context);
    for (;;) {
        bool fiber = enter_if_fiber();
        bool first = weft__cancel(&context->canceler, reason);
        leave_if_fiber(fiber);
        if (first)
            pending = take_children(context, pending);
        weft__context_drop(context);
        if (pending == NULL)
            return;
        context = pending;
        pending = context->pending;
    }
}

void weft_context_cancel(weft_context *context)
{
    if (context != NULL && !weft__runtime_forked())
        cancel(context, ECANCELED);
}

void weft__context_cancel(weft_context *context, int error)
{
    if (!weft__runtime_forked())
        cancel(context, (uint32_t)-error);
}

void weft__context_expire_at(weft_context *context, int64_t deadline)
{
    if (deadline >= context->deadline && context->deadline != WEFT_NEVER)
        return; /* an ancestor's is earlier */
    context->deadline = deadline;
    if (context->timer != NULL)
        (void)weft_timer_start(context->timer, deadline, 0);
}

static void expire(void *context)
{
    cancel(context, ETIMEDOUT);
}

/* Opening and closing. */

static int start_timer(weft_context *context)
{
    int error = weft_timer_open(&context->timer, expire, context);
    if (error == 0 && context->deadline != WEFT_NEVER)
        (void)weft_timer_start(context->timer, context->deadline, 0);
    return error;
}

/* Puts a new context in its parent's list; its reason is the parent's if that is cancelled. */
static void add_child(weft_context *context, weft_context *parent)
{
    weft__context_hold(parent);
    context->parent = parent;
    lock_acquire(&parent->lock);
    uint32_t reason = (uint32_t)-canceler_error(&parent->canceler);
    if (reason != 0) {
        (void)weft__cancel(&context->canceler, reason); /* nobody is bound to it yet */
    } else {
        context->next = parent->children;
        context->link = &parent->children;
        if (context->next != NULL)
            context->next->link = &context->next;
        parent->children = context;
    }
    lock_release(&parent->lock);
}

int weft_context_open(weft_context **out, weft_context *parent, const weft_context_options *options)
{
    static const weft_context_options defaults;
    if (options == NULL)
        options = &defaults;
    if (out == NULL || options->timeout < 0 ||
        memcmp(options->reserved, defaults.reserved, sizeof defaults.reserved) != 0)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    weft_context *context = weft__os_alloc_zeroed(sizeof *context);
    if (context == NULL)
        return -ENOMEM;
    context->canceler.hold = hold_canceler;
    context->canceler.drop = drop_canceler;
    atomic_u32_store_relaxed(&context->references, 1);
    context->key = options->key;
    context->value = options->value;
    int64_t above = weft_context_deadline(parent);
    context->deadline = options->timeout > 0 ? weft_after(options->timeout) : WEFT_NEVER;
    /* With WEFT_NEVER the timer is there for weft__context_expire_at. */
    bool own = context->deadline < above || options->timeout == WEFT_NEVER;
    if (above < context->deadline)
        context->deadline = above;
    int error = own ? start_timer(context) : 0;
    if (error != 0) {
        weft__os_free(context);
        return error;
    }
    if (parent != NULL)
        add_child(context, parent);
    *out = context;
    return 0;
}

void weft__context_own(weft_context *context, void *owner, void (*cancelled)(void *owner),
                       void (*freed)(void *owner))
{
    lock_acquire(&context->lock);
    context->owner = owner;
    context->cancelled = cancelled;
    context->freed = freed;
    lock_release(&context->lock);
}

/* From its parent's list. */
static void remove_child(weft_context *context)
{
    if (context->parent == NULL)
        return;
    lock_acquire(&context->parent->lock);
    if (context->link != NULL) {
        *context->link = context->next;
        if (context->next != NULL)
            context->next->link = context->link;
        context->link = NULL;
    }
    lock_release(&context->parent->lock);
}

void weft_context_close(weft_context *context)
{
    if (context == NULL || weft__runtime_forked())
        return;
    cancel(context, ECANCELED);
    if (context->timer != NULL)
        (void)weft_timer_close(context->timer);
    remove_child(context);
    weft__context_drop(context);
}

/* Asking. */

int weft_context_error(const weft_context *context)
{
    return context != NULL ? canceler_error(&context->canceler) : 0;
}

int64_t weft_context_deadline(const weft_context *context)
{
    return context != NULL ? context->deadline : WEFT_NEVER;
}

void *weft_context_value(const weft_context *context, const void *key)
{
    if (key == NULL)
        return NULL;
    for (; context != NULL; context = context->parent)
        if (context->key == key)
            return context->value;
    return NULL;
}

int weft_context_done(weft_context *context, weft_chan **out)
{
    if (context == NULL || out == NULL)
        return -EINVAL;
    if (weft__runtime_forked())
        return -ECHILD;
    int error = 0;
    lock_acquire(&context->lock);
    if (context->done == NULL)
        error = weft_chan_make(&context->done, 0, 0);
    weft_chan *done = context->done;
    lock_release(&context->lock);
    if (error != 0)
        return error;
    if (weft_context_error(context) != 0)
        (void)weft_chan_close(done); /* the cancellation may have come before it was there */
    *out = done;
    return 0;
}

/* Binding. */

weft_context *weft_context_current(void)
{
    return of_canceler(weft__canceler_self());
}

int weft_context_bind(weft_context *context, weft_context **before)
{
    if (weft__runtime_forked())
        return -ECHILD;
    weft_context *current = weft_context_current();
    if (context != current) {
        struct bond *bond = weft__bond_self();
        if (bond == NULL) /* one that is bound has it, so it is not unbinding that fails */
            return -ENOMEM;
        weft__bond_set(bond, context != NULL ? &context->canceler : NULL);
    }
    if (before != NULL)
        *before = current;
    return 0;
}
