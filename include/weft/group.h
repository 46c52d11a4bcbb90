/*
 * weft/group.h: groups: functions that run at the same time, belong together, and do not outlive
 * the scope they were started in. Each runs in a fiber of its own, or as a task of a pool
 * (weft_pool_group in weft/task.h).
 *
 *     static int fetch(void *url) { ... return 0; }          // or a negative error
 *
 *     weft_group *group;
 *     int error = weft_group_open(&group, &(weft_group_options){ .limit = 8 });
 *     if (error != 0)
 *         return error;
 *     for (int i = 0; i < count && error == 0; i++)
 *         error = weft_group_go(group, fetch, urls[i]);      // waits while 8 run
 *     int first = weft_group_close(group);                   // waits for all: the first error
 *     return first != 0 ? first : error;                     // error: one was not started
 *
 * Cancellation. A group has a context (weft/context.h), and each of its functions is bound to it.
 * The first error cancels it (unless the group keeps going: see the options): the waits of the
 * other functions end, functions that were started and have not begun are skipped, and no more are
 * started. The context is opened under that of the caller, so cancelling the caller cancels the
 * group.
 *
 * The error of a group is 0 until one of these happens. The first one sets it for good:
 *
 *   - what a function returned, if that is not 0;
 *   - -EOWNERDEAD: a function panicked (weft/panic.h);
 *   - -EFAULT: a function crashed, in a pool that isolates crashes;
 *   - -ECANCELED: a pool dropped a function;
 *   - -ECANCELED or -ETIMEDOUT: the context was cancelled, by weft_group_cancel, by its timeout, or
 *     through a parent, whether or not a function has noticed.
 *
 * Results. A group that collects keeps what each function returned and its argument, in the order
 * of the calls. With weft_group_go_copy the arguments need no memory of the caller's:
 *
 *     struct square { int number; long result; };
 *     static int square(void *arg) { struct square *own = arg; own->result = ...; return 0; }
 *
 *     error = weft_group_open(&group, &(weft_group_options){ .collect = 1 });
 *     for (int i = 0; i < 100 && error == 0; i++)
 *         error = weft_group_go_copy(group, square, &(struct square){ i }, sizeof(struct square));
 *     error = weft_group_wait(group, &first);
 *     for (int64_t i = 0; i < weft_group_count(group); i++) {
 *         void *arg;
 *         if (weft_group_result(group, i, &error, &arg) == 0 && error == 0)
 *             printf("%ld\n", ((struct square *)arg)->result);
 *     }
 *     weft_group_close(group);
 *
 * No context ends a wait for a group: when weft_group_close returns, no function of the group runs
 * any more, except functions that left on purpose (weft_group_leave).
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
    /* The context under which the group's own is opened. Default: the one that the caller is bound
     * to, if any. */
    weft_context *context;
    /* The number of functions that may run at once; weft_group_go waits while that many run.
     * Default: no limit. See weft_group_set_limit. */
    int64_t limit;
    /* A duration, counted from the call that opens the group. When it is over the group is
     * cancelled with -ETIMEDOUT. Default 0: never. */
    int64_t timeout;
    /* Not zero: an error does not cancel the other functions, and a function that was started is
     * called even if the group is cancelled before it begins. The error is still that of the
     * group. */
    int keep_going;
    /* Not zero: the result and the argument of each function are kept until the group is closed,
     * for weft_group_result. That costs some 64 bytes for each function. */
    int collect;
    uintptr_t reserved[4]; /* must be zero */
} weft_group_options;

/* Opens a group; options NULL: all defaults.
 * Returns 0; -EINVAL if group is NULL, the limit or the timeout negative, or a reserved field set;
 * or as weft_context_open.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_open(weft_group **group, const weft_group_options *options);

/* Starts a fiber in the group that calls function(arg). If the function returns something other
 * than 0, that becomes the error of the group, unless it has one already. The call waits while the
 * limit is reached; waiting calls are served in the order in which they came. If the group is
 * cancelled after this call and before the fiber first runs, the function is not called (unless the
 * group keeps going).
 * Returns 0; -ECANCELED or -ETIMEDOUT if the group's context is cancelled, also while the call
 * waits; the same if the caller's own context is cancelled and the call would have to wait; -EINVAL
 * if group or function is NULL; or as weft_go. On an error nothing was started.
 * Contexts: fiber, thread; also functions of the group. If all functions of a group with a limit
 * wait in this call for their own group, they wait for each other until the group is cancelled. */
WEFT_API WEFT_MUST_USE int weft_group_go(weft_group *group, int (*function)(void *), void *arg);

/* Starts a fiber in the group as weft_group_go does, if that needs no waiting.
 * Returns as weft_group_go; -EAGAIN if the limit is reached, or another call waits in
 * weft_group_go.
 * Contexts: fiber, thread; also functions of the group. */
WEFT_API WEFT_MUST_USE int weft_group_try_go(weft_group *group, int (*function)(void *), void *arg);

/* Copies `size` bytes from arg, and starts a fiber in the group as weft_group_go does, which calls
 * the function with the address of the copy. The copy is a block of the heap, aligned for any type.
 * It exists until the function returns; in a group that collects, also until the group is closed.
 * Returns as weft_group_go; -EINVAL also if arg is NULL or size is 0; -ENOMEM.
 * Contexts: fiber, thread; also functions of the group. */
WEFT_API WEFT_MUST_USE int weft_group_go_copy(weft_group *group, int (*function)(void *),
                                              const void *arg, size_t size);

/* Sets the number of functions that may run at once; 0: no limit. A higher limit lets calls that
 * wait in weft_group_go proceed at once, in order. With a lower one, the functions that run go on,
 * and none starts until fewer than that run.
 * Returns 0; -EINVAL if group is NULL or the limit negative; -ECHILD in a forked child.
 * Contexts: fiber, thread; also functions of the group. */
WEFT_API int weft_group_set_limit(weft_group *group, int64_t limit);

/* Cancels the group's context; the error of the group, if it has none yet, is -ECANCELED. When the
 * call returns, each wait that is bound to the group has ended or is ending, and no function of the
 * group begins any more (unless the group keeps going). NULL is allowed.
 * Contexts: fiber, thread; also functions of the group. */
WEFT_API void weft_group_cancel(weft_group *group);

/* The context of the group, which exists until the group is closed; NULL for NULL.
 * Contexts: fiber, thread. */
WEFT_API weft_context *weft_group_context(weft_group *group);

/* Waits until no function of the group runs. More can be started after it.
 * Returns 0, with *error set to the error of the group, 0 if it has none (error may be NULL). These
 * errors are of the wait itself, and leave *error untouched: -EDEADLK if the caller runs a function
 * of the group, however deep inside other functions; -EINVAL if group is NULL; -ECHILD in a forked
 * child.
 * Contexts: fiber, thread. */
WEFT_API int weft_group_wait(weft_group *group, int *error);

/* Waits until no function of the group runs, at most until `deadline`. WEFT_NOW asks without
 * waiting.
 * Returns 0, with *error set to the error of the group, 0 if it has none (error may be NULL). These
 * errors are of the wait itself, and leave *error untouched: -ETIMEDOUT if the deadline has passed
 * and functions still run; -EDEADLK if the caller runs a function of the group, however deep inside
 * other functions; -EINVAL if group is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_wait_until(weft_group *group, int64_t deadline, int *error);

/* Gives a channel (element size 0), for use in a select, that is closed when no function of the
 * group runs. If none runs at this call the channel is closed already. It is closed once: functions
 * that are started later do not open it. While they run, another call gives a new channel, which is
 * closed at the next moment when none runs. Once the channel is closed, weft_group_wait returns at
 * once, unless more functions were started. Each channel belongs to the group, and exists until
 * that is closed. A function of the group that waits for the channel waits for itself, until the
 * group is cancelled.
 * Returns 0; -EINVAL if an argument is NULL; -ENOMEM; -ECHILD in a forked child.
 * Contexts: fiber, thread; also functions of the group.
 * Undefined: sending to the channel, closing it, destroying it. */
WEFT_API WEFT_MUST_USE int weft_group_done(weft_group *group, weft_chan **done);

/* The number of functions that a group that collects has started, as it was a moment ago: the calls
 * of weft_group_go, weft_group_try_go and weft_group_go_copy that returned 0, and those under way.
 * 0 for NULL, and for a group that does not collect.
 * Contexts: fiber, thread. */
WEFT_API int64_t weft_group_count(weft_group *group);

/* Gives the result of the function with this index in a group that collects. Functions are counted
 * from 0, in the order of the calls that started them. *error gets what the function returned;
 * -EOWNERDEAD if it panicked; -EFAULT if it crashed in a pool that isolates crashes; -ECANCELED if
 * it was never called, because the group was cancelled before it began or the pool dropped it; 0 if
 * it has left the group. *arg gets its argument, or the address of the copy. Both pointers may be
 * NULL. While calls that start functions are under way an index may still change: if one of them
 * fails, later functions move up.
 * Returns 0; -EBUSY if the function has not ended yet; -ENOENT if fewer were started; -EINVAL if
 * group is NULL or does not collect, or index is negative. On an error *error and *arg are
 * untouched.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_result(weft_group *group, int64_t index, int *error,
                                             void **arg);

/* Describes the first panic by which a function of the group ended, in *info. Later panics are
 * reported on stderr at once; the first is reported when the group is closed, unless this call has
 * returned it.
 * Returns 0; -ENOENT if no function panicked; -EINVAL if an argument is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_panic(weft_group *group, weft_panic_info *info);

/* The number of functions of the group that run or are about to, as it was a moment ago; 0 for
 * NULL.
 * Contexts: fiber, thread. */
WEFT_API int64_t weft_group_running(const weft_group *group);

/* Waits until no function of the group runs, and frees the group.
 * Returns the error of the group, 0 if it has none. -EDEADLK (the caller runs a function of the
 * group), -EINVAL (group is NULL) and -ECHILD (in a forked child) mean that nothing was freed; if a
 * function of the group may return one of these itself, weft_group_wait tells the two apart.
 * Contexts: fiber, thread.
 * Undefined: any use of the group during it, except by its functions, and after it. */
WEFT_API int weft_group_close(weft_group *group);

/* Opens a group, calls body(group, arg) in the caller, waits for all functions of the group and
 * frees it: nothing that was started in the group outlives this call. An error that the body
 * returns counts as that of a function of the group. The body is not bound to the group's context:
 * an error of a function does not end the waits of the body. If the body panics, the group is
 * cancelled (unless it keeps going) and waited for, and the panic goes on.
 * Returns the error of the group, 0 if it has none; or as weft_group_open; -EINVAL if body is NULL.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_group_scope(const weft_group_options *options,
                                            int (*body)(weft_group *group, void *arg), void *arg);

/* Makes the function that calls this leave its group on purpose: the group no longer waits for it
 * or counts it, the function is unbound from the group's context, and what it returns is ignored.
 * If a function of a group runs inside another one, the inner one leaves.
 * Returns 0; -EINVAL if the caller runs no function of a group, or one that has left it already.
 * Contexts: fiber, thread. */
WEFT_API int weft_group_leave(void);

WEFT_END

#endif
