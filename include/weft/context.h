/*
 * weft/context.h: contexts: tell a whole tree of work to stop.
 *
 * A context is cancelled by a call or when its time is up, and with it all contexts that were
 * opened under it. A fiber or thread is bound to at most one context. When that is cancelled, the
 * wait that the fiber is in ends with -ECANCELED (or -ETIMEDOUT, if a timeout did it), and each
 * later call that would have to wait returns the same at once. A call that needs no waiting still
 * does its work.
 *
 *     weft_context *request;
 *     weft_context_options options = { .timeout = 2 * WEFT_S };
 *     if (weft_context_open(&request, NULL, &options) != 0)
 *         ...
 *     weft_spawn_options work = { .context = request };
 *     error = weft_spawn(&fiber, handle, job, &work);      // bound from its first instruction
 *     ...
 *     weft_context_cancel(request);                        // its waits end now
 *     weft_join(fiber);
 *     weft_context_close(request);
 *
 * A context ends all waits except those of calls that return void (weft_mutex_lock and such), and
 * those whose header says so: closing a timer, waiting for a group. A clean-up that has to wait
 * after a cancellation unbinds itself first: weft_context_bind(NULL, NULL).
 *
 * A fiber does not inherit a context. It gets one at its spawn, by weft_context_bind, or by a group
 * (weft/group.h).
 *
 * Lifetime. A context exists until its handle is closed, no fiber or thread is bound to it, and all
 * contexts opened under it are gone. So a handle may be closed while work goes on under it: closing
 * cancels that work.
 */
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include <weft/base.h>
#include <weft/chan.h>
#include <weft/time.h>

WEFT_BEGIN

typedef struct weft_context weft_context;

/* Zero means default in every field. */
typedef struct weft_context_options {
    /* A duration, counted from the call that opens the context: when it is over the context is
     * cancelled with -ETIMEDOUT. 0: never. The deadlines of its ancestors hold as well: the
     * earliest counts (weft_context_deadline). */
    int64_t timeout;
    /* A value for weft_context_value, in this context and all under it; key NULL: none. */
    const void *key;
    void *value;
    uintptr_t reserved[5]; /* must be zero */
} weft_context_options;

/* Opens a context under `parent`, or a root if parent is NULL; options NULL: all defaults. Under a
 * parent that is cancelled the new context is cancelled from the start, with the same error.
 * Returns 0; -EINVAL if context is NULL, the timeout is negative or a reserved field is set;
 * -ENOMEM; -ECHILD in a forked child; with a timeout also what starting the runtime may return
 * (weft_go).
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_context_open(weft_context **context, weft_context *parent,
                                             const weft_context_options *options);

/* Cancels the context and all under it, with -ECANCELED. A context that is cancelled already keeps
 * its error. When the call returns, each wait that was bound to one of them has ended or is ending.
 * NULL is allowed. In a forked child the call does nothing.
 * Contexts: fiber, thread. */
WEFT_API void weft_context_cancel(weft_context *context);

/* Cancels the context as weft_context_cancel does and gives the handle up. For a context with a
 * timeout it waits until a timer that is just firing has done so; no context ends that wait. NULL
 * is allowed. In a forked child the call does nothing.
 * Contexts: fiber, thread.
 * Undefined: any use of the handle after it. */
WEFT_API void weft_context_close(weft_context *context);

/* 0 while the context is not cancelled; then -ECANCELED or -ETIMEDOUT, whichever cause was first. 0
 * for NULL.
 * Contexts: fiber, thread. */
WEFT_API int weft_context_error(const weft_context *context);

/* The point in time (weft/time.h) at which a timeout cancels the context: its own or an ancestor's,
 * whichever is earlier. WEFT_NEVER if there is none, and for NULL.
 * Contexts: fiber, thread. */
WEFT_API int64_t weft_context_deadline(const weft_context *context);

/* The value under `key` of this context or of the nearest ancestor that has one; NULL if none has,
 * and for a NULL context or key. Keys are compared as pointers: use the address of a static
 * variable.
 * Contexts: fiber, thread. */
WEFT_API void *weft_context_value(const weft_context *context, const void *key);

/* *done gets a channel (element size 0) that is closed when the context is cancelled, to take part
 * in a select. Each call gives the same channel. It belongs to the context, and exists as long as
 * that.
 * Returns 0; -EINVAL if an argument is NULL; -ENOMEM; -ECHILD in a forked child.
 * Contexts: fiber, thread.
 * Undefined: sending to the channel, closing it, destroying it. */
WEFT_API WEFT_MUST_USE int weft_context_done(weft_context *context, weft_chan **done);

/* Binds the caller to the context, or to none if context is NULL, until it binds itself again or
 * ends. If `before` is not NULL it gets the context that the caller was bound to, or NULL. To bind
 * that one again, it must still exist: the caller's own bond no longer keeps it.
 * Returns 0; -ENOMEM (never if context is NULL); -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_context_bind(weft_context *context, weft_context **before);

/* The context that the caller is bound to, or NULL. It exists at least as long as the caller is
 * bound to it.
 * Contexts: fiber, thread. */
WEFT_API weft_context *weft_context_current(void);

WEFT_END

#endif
