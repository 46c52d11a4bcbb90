/*
 * weft/group.h: groups: functions that run at the same time, belong together, and do not outlive
 * the scope they were started in. Each runs in a fiber of its own, or as a task of a pool
 * (weft_pool_group in weft/task.h).
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
 * Cancellation. A group has a context (weft/context.h), and each of its functions is bound to it.
 * The first error cancels it: the waits of the others end, what was started and has not begun is
 * skipped, and no more are started. The context is opened under that of the opener, so cancelling
 * the opener cancels the group.
 *
 * The error of a group is the first of: what a function returned, if not 0; -EOWNERDEAD for one
 * that panicked (weft/panic.h); -EFAULT for one that crashed in a pool that isolates crashes;
 * -ECANCELED for one that a pool has dropped; and -ECANCELED or -ETIMEDOUT when the context is
 * cancelled, by weft_group_cancel, by its timeout, or through a parent, whether or not a function
 * has noticed. It stays what it is once it is not 0.
 *
 * Results. A group that collects keeps what each function returned, in the order of the calls, and
 * its argument; with weft_group_go_copy the arguments need no memory of the caller's:
 *
 *     struct square { int number; long result; };
 *     static int square(void *arg) { struct square *own = arg; own->result = ...; return 0; }
 *
 *     error = weft_group_open(&group, &(weft_group_options){ .collect = 1 });
 *     for (int i = 0; i < 100; i++)
 *         error = weft_group_go_copy(group, square, &(struct square){ .number = i }, sizeof(struct square));
 *     error = weft_group_wait(group, &first);
 *     for (int64_t i = 0; i < weft_group_count(group); i++) {
 *         void *arg;
 *         if (weft_group_result(group, i, &error, &arg) == 0 && error == 0)
 *             printf("%ld\n", ((struct square *)arg)->result);
 *     }
 *     weft_group_close(group);
 *
 * Waiting for a group is not ended by a context: whatever happens, when weft_group_close returns,
 * no function of the group runs any more, except those that left on purpose (weft_group_leave).
 */
#ifndef WEFT_GROUP_H
#define WEFT_GROUP_H

#include <weft/base.h>
#include <weft/chan.h>
#include <weft/context.h>
#include <weft/panic.h>

WEFT_BEGIN

typedef struct weft_group weft_group;

/* Zero means default in every field. */
typedef struct weft_group_options {
    /* Under which context that of the group is opened. Default: what the caller is bound to, if it
     * is bound. */
    weft_context *context;
    /* At most so many of its functions run at once; weft_group_go waits for a place. Default: no
     * limit. See weft_group_set_limit. */
    int64_t limit;
    /* A duration, from the call that opens the group: after that the group is cancelled, with
     * -ETIMEDOUT. Default 0: never. */
    int64_t timeout;
    /* Not zero: an error does not cancel the others, and what was started is called even if the
     * group is cancelled before it begins. The error is still that of the group. */
    int keep_going;
    /* Not zero: the result and the argument of each function are kept until the group is closed:
     * weft_group_result. Costs some 64 bytes for each. */
    int collect;
    uintptr_t reserved[4]; /* must be zero */
} weft_group_options;

/* Opens a group; options NULL: all defaults.
 * Returns 0; -EINVAL if group is NULL, the limit or the timeout negative, or a reserved field set;
 * or as weft_context_open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_open(weft_group **group, const weft_group_options *options);

/* Starts a fiber in the group that calls function(arg). What that returns, if not 0, is the group's
 * error if it is the first. Waits while the limit is reached; those who wait are served in order.
 * If the group is cancelled after this call and before the fiber first runs, the function is not
 * called (unless the group keeps going).
 * Returns 0; the error with which the group's context is cancelled (-ECANCELED or -ETIMEDOUT), also
 * while it waits: then nothing was started; -ECANCELED or -ETIMEDOUT also if the caller's own
 * context is cancelled while it would have to wait; -EINVAL if an argument is NULL; or as weft_go.
 * Contexts: fiber, thread; also functions of the group. Note: with a limit, functions that start
 * more in their own group can all come to wait for a place. */
WEFT_API WEFT_MUST_USE int weft_group_go(weft_group *group, int (*function)(void *), void *arg);

/* Starts a fiber in the group that calls function(arg), if there is a place for it now: as
 * weft_group_go, without waiting.
 * Returns as weft_group_go; -EAGAIN if the limit is reached or others wait for a place.
 * Contexts: fiber, thread; also functions of the group. */
WEFT_API WEFT_MUST_USE int weft_group_try_go(weft_group *group, int (*function)(void *), void *arg);

/* Copies `size` bytes from arg, and starts a fiber in the group, as weft_group_go does, that calls
 * the function with the address of the copy. The copy is aligned for any type. It can be used until
 * the function returns; in a group that collects, until the group is closed (and by the function
 * until it returns, should it leave the group). Any size is fine: the copy is a block of the heap.
 * Returns as weft_group_go; -EINVAL also if size is 0; -ENOMEM.
 * Contexts: fiber, thread; also functions of the group. */
WEFT_API WEFT_MUST_USE int weft_group_go_copy(weft_group *group, int (*function)(void *),
                                              const void *arg, size_t size);

/* Sets how many functions may run at once; 0: no limit. More places: those who wait in
 * weft_group_go get them at once, in order. Fewer: those that run go on, and none starts until
 * fewer than that run.
 * Returns 0; -EINVAL if group is NULL or the limit negative; -ECHILD in a forked child.
 * Contexts: fiber, thread; also functions of the group. */
WEFT_API int weft_group_set_limit(weft_group *group, int64_t limit);

/* Cancels the group's context; the group's error, if it has none yet, is -ECANCELED. When it
 * returns, every wait that is bound to the group has ended or is ending, and no function of the
 * group begins any more (unless it keeps going).
 * Contexts: fiber, thread; also functions of the group. NULL is fine. */
WEFT_API void weft_group_cancel(weft_group *group);

/* The context of the group: valid until it is closed. NULL for NULL.
 * Contexts: fiber, thread. */
WEFT_API weft_context *weft_group_context(weft_group *group);

/* Waits until no function of the group runs. More can be started after it.
 * Returns 0, with *error set to the error of the group, 0 if there is none (error may be NULL).
 * What follows is of the wait alone, and *error is untouched: -EDEADLK from a function of the
 * group, also from one that runs inside another function which is of the group; -EINVAL if group is
 * NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API int weft_group_wait(weft_group *group, int *error);

/* Waits until no function of the group runs, or the deadline has passed. WEFT_NOW asks without
 * waiting.
 * Returns 0, with *error set to the error of the group, 0 if there is none (error may be NULL).
 * What follows is of the wait alone, and *error is untouched: -ETIMEDOUT if the deadline has passed
 * and some still run; -EDEADLK from a function of the group, also from one that runs inside another
 * function which is of the group; -EINVAL if group is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_wait_until(weft_group *group, int64_t deadline, int *error);

/* A channel (element size 0) that is closed when no function of the group runs, to take part in a
 * select. It is closed once and stays closed: if none runs at the time of this call *done is closed
 * already, and functions that are started after it was closed do not open it. For those, call again
 * while they run: that gives a new channel, to be closed at the next moment when none runs. When it
 * is closed, weft_group_wait returns at once, unless more were started. Each channel belongs to the
 * group, and is there until that is closed: never send to it, close or destroy it. A function of
 * the group that waits for it waits for itself, until the group is cancelled.
 * Returns 0; -EINVAL if an argument is NULL; -ENOMEM; -ECHILD in a forked child.
 * Contexts: fiber, thread; also functions of the group. */
WEFT_API WEFT_MUST_USE int weft_group_done(weft_group *group, weft_chan **done);

/* How many functions a group that collects has started, as it was a moment ago: each call of
 * weft_group_go and its kin that returned 0, and those under way. 0 for NULL, and for a group that
 * does not collect.
 * Contexts: fiber, thread. */
WEFT_API int64_t weft_group_count(weft_group *group);

/* How a function of a group that collects has ended: of the index-th that was started, from 0 on,
 * in the order of the calls (weft_group_go and its kin). *error gets what it returned; -EOWNERDEAD
 * if it panicked; -EFAULT if it crashed in a pool that isolates crashes; -ECANCELED if it was never
 * called, because the group was cancelled before it began or the pool has dropped it; 0 if it has
 * left the group. *arg gets its argument, or the address of the copy. Either may be NULL. While
 * calls of weft_group_go are under way an index may still change, if one before it fails to start.
 * Returns 0; -EBUSY if the function has not ended yet; -ENOENT if fewer were started; -EINVAL if
 * group is NULL or does not collect, or index is negative. On an error *error and *arg are
 * untouched.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_result(weft_group *group, int64_t index, int *error,
                                             void **arg);

/* *info gets what is known of the panic by which a function of the group ended, of the first if
 * there were several: those that follow are reported on stderr at once, and the first when the
 * group is closed, unless this was called.
 * Returns 0; -ENOENT if none panicked; -EINVAL if an argument is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_panic(weft_group *group, weft_panic_info *info);

/* How many functions of the group run, or are about to, as it was a moment ago; 0 for NULL.
 * Contexts: fiber, thread. */
WEFT_API int64_t weft_group_running(const weft_group *group);

/* Waits until no function of the group runs, and frees it.
 * Returns the error of the group, 0 if there is none. -EDEADLK (from a function of the group),
 * -EINVAL (group is NULL) and -ECHILD (in a forked child) mean that nothing was freed; if functions
 * of the group may return one of these themselves, weft_group_wait tells the two apart.
 * Contexts: fiber, thread.
 * Undefined: any use of the group during or after it, except by its functions. */
WEFT_API int weft_group_close(weft_group *group);

/* Opens a group, calls body(group, arg) in the caller, waits for all and frees it: so nothing
 * started in the group outlives this call. If the body panics the group is cancelled and waited
 * for, and the panic goes on.
 * Returns the error of the group, to which what the body returns counts as that of any function; or
 * why the group could not be opened; -EINVAL if body is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_scope(const weft_group_options *options,
                                            int (*body)(weft_group *group, void *arg), void *arg);

/* The function that calls it leaves its group on purpose: the group no longer waits for it or
 * counts it, it is unbound from the group's context, and what it returns is nobody's error. Of a
 * function that runs inside another, the inner one leaves.
 * Returns 0; -EINVAL if the caller is not in a function of a group, or that has left it.
 * Contexts: fiber, thread. */
WEFT_API int weft_group_leave(void);

WEFT_END

#endif
