/*
 * weft/group.h: groups: fibers that belong together, and do not outlive the scope they were started in.
 *
 *     static int fetch(void *url) { ... return 0; }          // or a negative error
 *
 *     weft_group *group;
 *     if (weft_group_open(&group, &(weft_group_options){ .limit = 8 }) != 0)
 *         return 1;
 *     for (int i = 0; i < count && error == 0; i++)
 *         error = weft_group_go(group, fetch, urls[i]);      // waits while 8 run
 *     error = weft_group_close(group);                       // waits for all: the first error
 *
 * A group has a context (weft/context.h), and each of its fibers is bound to it. The first that returns
 * an error cancels it: the waits of the others end, and no more are started. The context is opened under
 * that of the opener, so cancelling the opener cancels the group.
 *
 * A function that panics (weft/panic.h) has returned -EOWNERDEAD, as far as the group is concerned.
 *
 * Waiting for a group is not ended by a context: whatever happens, when weft_group_close returns, no
 * fiber of the group runs any more, except those that left on purpose (weft_group_leave).
 */
#ifndef WEFT_GROUP_H
#define WEFT_GROUP_H

#include <weft/base.h>
#include <weft/context.h>
#include <weft/panic.h>

WEFT_BEGIN

typedef struct weft_group weft_group;

/* Zero means default in every field. */
typedef struct weft_group_options {
    /* Under which context that of the group is opened. Default: what the caller is bound to, if it
     * is bound. */
    weft_context *context;
    /* At most so many of its fibers run at once; weft_group_go waits for a place. Default: no limit. */
    int64_t limit;
    /* A duration, from the call that opens the group: after that the group is cancelled, with -ETIMEDOUT.
     * Default 0: never. */
    int64_t timeout;
    /* Not zero: an error does not cancel the others; it is still what close returns. */
    int keep_going;
    uintptr_t reserved[4]; /* must be zero */
} weft_group_options;

/* Opens a group; options NULL: all defaults.
 * Returns 0; -EINVAL if group is NULL, the limit or the timeout negative, or a reserved field set; or
 * as weft_context_open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_open(weft_group **group, const weft_group_options *options);

/* Starts a fiber in the group that calls function(arg). What that returns, if not 0, is the group's
 * error if it is the first. Waits while the limit is reached.
 * Returns 0; the error with which the group's context is cancelled (-ECANCELED or -ETIMEDOUT): then
 * nothing was started; -ECANCELED or -ETIMEDOUT also if the caller's own context is cancelled while it
 * waits; -EINVAL if an argument is NULL; or as weft_go.
 * Contexts: fiber, thread; also fibers of the group. Note: with a limit, fibers that start more in
 * their own group can all come to wait for a place. */
WEFT_API WEFT_MUST_USE int weft_group_go(weft_group *group, int (*function)(void *), void *arg);

/* The same without waiting. Returns -EAGAIN if the limit is reached. */
WEFT_API WEFT_MUST_USE int weft_group_try_go(weft_group *group, int (*function)(void *), void *arg);

/* Cancels the group's context; its error, if it has none yet, is -ECANCELED.
 * Contexts: fiber, thread. NULL is fine. */
WEFT_API void weft_group_cancel(weft_group *group);

/* The context of the group: valid until it is closed.
 * Contexts: fiber, thread. */
WEFT_API weft_context *weft_group_context(weft_group *group);

/* Waits until no fiber of the group runs. More can be started after it.
 * Returns the first error, 0 if there was none; -EDEADLK from a fiber of the group; -EINVAL if group is
 * NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_group_wait(weft_group *group);

/* The same with a deadline. Returns also -ETIMEDOUT: then some still run, and a group whose error is
 * -ETIMEDOUT can be told apart by weft_group_running. (If the last fiber ends and a new one is started just
 * at the deadline, it may wait for that one too.) */
WEFT_API WEFT_MUST_USE int weft_group_wait_until(weft_group *group, int64_t deadline);

/* *info gets what is known of the panic by which a function of the group ended, of the first if there were
 * several: those that follow are reported on stderr at once, and the first when the group is closed, unless this
 * was called.
 * Returns 0; -ENOENT if none panicked; -EINVAL if an argument is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_panic(weft_group *group, weft_panic_info *info);

/* How many fibers of the group run, as it was a moment ago; 0 for NULL.
 * Contexts: fiber, thread. */
WEFT_API int64_t weft_group_running(const weft_group *group);

/* Waits until no fiber of the group runs, and frees it.
 * Returns as weft_group_wait. On -EDEADLK, -EINVAL and -ECHILD nothing was freed.
 * Contexts: fiber, thread. Undefined: any use of the group during or after it, except by its fibers. */
WEFT_API int weft_group_close(weft_group *group);

/* Opens a group, calls body(group, arg) in the caller, waits for all and frees it: so nothing started
 * in the group outlives this call.
 * If the body panics the group is cancelled and waited for, and the panic goes on.
 * Returns the first error: of the body, which cancels the group as that of any fiber does, or of a
 * fiber; or why the group could not be opened.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_scope(const weft_group_options *options,
                                            int (*body)(weft_group *group, void *arg), void *arg);

/* The calling fiber leaves its group on purpose: the group no longer waits for it or counts it, it is
 * unbound from the group's context, and what it returns is nobody's error.
 * Returns 0; -EINVAL if the caller is not a fiber of a group, or has left it.
 * Contexts: fiber. */
WEFT_API int weft_group_leave(void);

WEFT_END

#endif
