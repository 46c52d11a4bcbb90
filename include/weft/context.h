/*
 * weft/context.h: contexts: tell a whole tree of work to stop.
 *
 * A context can be cancelled, by hand or when its time is up, and with it all contexts that were opened under
 * it. A fiber (or thread) is bound to at most one context; when that is cancelled, the wait that the
 * fiber is in ends with -ECANCELED (or -ETIMEDOUT, if a timeout did it), and every later one returns
 * at once with the same, if it would have to wait. What can be done without waiting is still done.
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
 * All waits are bound in this way, but for those that return void (weft_mutex_lock and such), and
 * where a header says so: closing a timer, waiting for a group. A clean-up that has to wait after a
 * cancellation unbinds itself first: weft_context_bind(NULL, NULL).
 *
 * Fibers do not inherit a context: it is given at spawn, by weft_context_bind, or by a group
 * (weft/group.h).
 *
 * Lifetime. A context is there until it is closed, no fiber is bound to it, and all contexts opened
 * under it are gone. So a handle may be given up while work still goes on under it: closing cancels that
 * work.
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
    /* A duration, from the call that opens the context: after that it is cancelled, with -ETIMEDOUT. 0: never.
     * Its ancestors' deadlines hold as well: the earliest counts (weft_context_deadline). */
    int64_t timeout;
    /* A value to find by weft_context_value, here and below; key NULL: none. */
    const void *key;
    void *value;
    uintptr_t reserved[5]; /* must be zero */
} weft_context_options;

/* Opens a context under `parent`, or one of its own if parent is NULL.
 * Returns 0; -EINVAL if context is NULL, the timeout negative or a reserved field set; -ENOMEM; -ECHILD in a forked
 * child; with a timeout also what starting the runtime may return (weft_go). Under a parent that is cancelled the new
 * one is cancelled from the start.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_context_open(weft_context **context, weft_context *parent,
                                             const weft_context_options *options);

/* Cancels the context and all under it, with -ECANCELED; nothing happens if it is so already. When it
 * returns, every wait that was bound to it has ended or is ending. NULL is fine.
 * Contexts: fiber, thread. */
WEFT_API void weft_context_cancel(weft_context *context);

/* Cancels the context and gives the handle up. One with a timeout waits for a timer that is just
 * firing. NULL is fine.
 * Contexts: fiber, thread. Undefined: any use of the handle after it. */
WEFT_API void weft_context_close(weft_context *context);

/* 0 while it is not cancelled; then -ECANCELED or -ETIMEDOUT, whichever came first. 0 for NULL.
 * Contexts: fiber, thread. */
WEFT_API int weft_context_error(const weft_context *context);

/* The point in time (weft/time.h) at which a timeout cancels it, its own or an ancestor's, whichever is first;
 * WEFT_NEVER if there is none.
 * Contexts: fiber, thread. */
WEFT_API int64_t weft_context_deadline(const weft_context *context);

/* The value under key, of this context or the nearest ancestor that has one; NULL if there is none.
 * Keys are compared as pointers: use the address of a static variable.
 * Contexts: fiber, thread. */
WEFT_API void *weft_context_value(const weft_context *context, const void *key);

/* A channel (element size 0) that is closed when the context is cancelled, to take part in a select.
 * It belongs to the context: never send to it, close or destroy it.
 * Returns 0; -EINVAL if an argument is NULL; -ENOMEM.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_context_done(weft_context *context, weft_chan **done);

/* Binds the caller to the context, or with NULL to none, until it binds itself anew or ends. If
 * `before` is not NULL it gets what the caller was bound to before, so that it can be bound again: that
 * must still be open then.
 * Returns 0; -ENOMEM (never for NULL); -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_context_bind(weft_context *context, weft_context **before);

/* The context that the caller is bound to, or NULL. Valid while it is bound.
 * Contexts: fiber, thread. */
WEFT_API weft_context *weft_context_current(void);

WEFT_END

#endif
