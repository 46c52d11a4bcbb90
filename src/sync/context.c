/*
 * context.c: contexts: a tree of cancelers (sched/core/cancel.h) with deadlines and values.
 *
 * References. A context is held by its handle, by the bonds of fibers and threads, and by the
 * contexts opened under it, which need it for values and to leave its list. The last reference
 * frees it.
 *
 * Children. A child that is not cancelled and whose handle is held is in its parent's list, under
 * the parent's lock; so a context that is found there has a reference. Cancelling works down the
 * tree without recursion, so that the depth of a tree costs no stack:
 *
 *     pending = the context
 *     while a context is pending:
 *         set its reason (only the first to set it goes on with its children)
 *         lock it; make its children pending, each with a reference; unlock
 *
 * A child that is added while its parent is being cancelled either sees the reason, which it reads
 * under the parent's lock, or is in the list when the children are taken, which is under that lock
 * and after the reason was set. Only the cancellation that set the parent's reason takes its
 * children, so no child is in two lists.
 *
 * The done channel is made when it is first asked for, under the lock. The cancellation closes it:
 * it looks for the channel under the lock, after the reason is set. A channel that is made after
 * that is closed by the call that made it.
 *
 * The owner (a group, or a block of a pool: pool/context.c) is notified at the same place: it is
 * read under the lock and called outside it. The cancellation holds a reference to the context, and
 * the owner's memory is freed with the last one.
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
    weft_context *next, **link; /* in the parent's list; link NULL: in none; the parent's lock */
    weft_context *children;     /* lock */
    weft_context *pending;      /* the next in the list of the cancellation that took it */
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
    /* Goes up the tree as long as the last reference is dropped. Pairs with itself: the drop of the
     * last reference sees what all others did. */
    while (context != NULL && atomic_u32_sub_acq_rel(&context->references, 1) == 1) {
        weft_context *parent = context->parent;
        weft_chan_destroy(context->done);
        if (context->owner != NULL)
            context->freed(context->owner);
        weft__os_free(context);
        context = parent;
    }
}

static weft_context *context_of(struct canceler *canceler)
{
    return canceler != NULL ? container_of(canceler, weft_context, canceler) : NULL;
}

static void hold_canceler(struct canceler *canceler)
{
    weft__context_hold(context_of(canceler));
}

static void drop_canceler(struct canceler *canceler)
{
    weft__context_drop(context_of(canceler));
}

/* Cancelling. */

/* The part of a cancellation that follows the reason: moves the children, with a reference each, to
 * the front of the list `pending`, which it returns; closes the done channel; notifies the
 * owner. */
static weft_context *propagate(weft_context *context, weft_context *pending)
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
            pending = propagate(context, pending);
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

/* Adds a new context to its parent's list, or cancels it if the parent is cancelled. */
static void add_child(weft_context *context, weft_context *parent)
{
    weft__context_hold(parent);
    context->parent = parent;
    lock_acquire(&parent->lock);
    uint32_t reason = (uint32_t)-canceler_error(&parent->canceler);
    if (reason != 0) {
        (void)weft__cancel(&context->canceler, reason); /* no fiber is bound to it yet */
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

/* Takes a context out of its parent's list, if it is there. */
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
        (void)weft_chan_close(done); /* the cancellation may have come before there was one */
    *out = done;
    return 0;
}

/* Binding. */

weft_context *weft_context_current(void)
{
    return context_of(weft__canceler_self());
}

int weft_context_bind(weft_context *context, weft_context **before)
{
    if (weft__runtime_forked())
        return -ECHILD;
    weft_context *current = weft_context_current();
    if (context != current) {
        struct bond *bond = weft__bond_self();
        if (bond == NULL) /* a bound fiber has a bond, so unbinding does not fail */
            return -ENOMEM;
        weft__bond_set(bond, context != NULL ? &context->canceler : NULL);
    }
    if (before != NULL)
        *before = current;
    return 0;
}
