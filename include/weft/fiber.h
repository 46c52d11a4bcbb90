/*
 * weft/fiber.h: starts fibers, yields, waits for their end.
 *
 * A fiber is a function call with a stack of its own. It runs on one of weft's threads until it
 * parks (sleeps, waits, yields) or ends, and may go on on another thread after that. The first call
 * that needs the runtime starts it; weft/runtime.h can configure it before.
 *
 *     static void hello(void *arg) { puts(arg); }
 *     ...
 *     int error = weft_go(hello, "hello");            // detached: no handle, no join
 *
 *     weft_fiber *fiber;
 *     weft_spawn_options options = { .name = "hello", .stack_size = 256 * 1024 };
 *     if (weft_spawn(&fiber, hello, "hello", &options) == 0)
 *         weft_join(fiber);
 *
 * Memory. A spawned fiber costs about 200 bytes; it gets its stack when it first runs. The stack
 * ends in a guard. Code with single frames larger than the guard should be compiled with
 * -fstack-clash-protection, so that it cannot step over it.
 *
 * C++. An exception that leaves the function becomes a panic (weft/panic.h). A fiber may park
 * inside a catch block, or in a destructor that an exception runs: weft saves what the C++ runtime
 * keeps of it for the thread. (Not in a program that loads C++ by dlopen only after weft.)
 *
 * pthread_exit and pthread_cancel are not for fibers: they would end the thread, which runs many.
 */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* A handle to a fiber. */
typedef struct weft_fiber weft_fiber;

/* Zero means default in every field. */
typedef struct weft_spawn_options {
    /* Shown in reports; copied, at most 31 bytes of it. Default: no name. */
    const char *name;
    /* Bytes of stack, at least: 16 KiB to 1 GiB, rounded up to a power of two. Default 64 KiB, or
     * what weft_configure set. Only pages that are touched cost memory. */
    size_t stack_size;
    /* The context that the fiber is bound to (weft/context.h). Default: none. */
    struct weft_context *context;
    /* Not 0: the fiber shares a stack with others. While it waits it costs a few hundred bytes
     * instead of a page; but no other fiber or thread may access its stack then. See
     * docs/design/stacks.md. */
    int compact;
    /* Must be zero. */
    uintptr_t reserved[4];
} weft_spawn_options;

/* Starts a detached fiber that calls function(arg). Its memory is given back when it ends.
 * Returns 0; -EINVAL if function is NULL; -ENOMEM; -EAGAIN if a limit is reached; -ECHILD in a
 * forked child; and if the runtime cannot start, what it lacks: -EAGAIN (a thread), -EMFILE,
 * -ENFILE, -ENOSPC (two or three descriptors), -ENOMEM. On failure nothing was started.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_go(void (*function)(void *), void *arg);

/* Starts a fiber as weft_go does, with options (NULL: all defaults), and stores a handle to it in
 * *fiber. The handle must be given up by weft_join, weft_join_until, weft_join_panic or
 * weft_detach, and is valid until then. With fiber == NULL there is no handle, as in weft_go.
 * Returns 0, or as weft_go; -EINVAL also for a stack size out of range or a reserved field set.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_spawn(weft_fiber **fiber, void (*function)(void *), void *arg,
                                      const weft_spawn_options *options);

/* Waits until the fiber has ended, then frees the handle. After that the caller sees all that the
 * fiber wrote.
 *
 * If the caller's context is cancelled the call returns before the fiber has ended, and what the
 * fiber uses must not be freed yet. A clean-up after a cancellation waits until the end like this:
 *
 *     weft_context_bind(NULL, NULL);                  // the cancelled context no longer applies
 *     if (weft_join(fiber) == 0)
 *         free(what_it_used);
 *
 * Returns 0; -EOWNERDEAD if a panic has ended the fiber (weft/panic.h), which is reported on
 * stderr; -EDEADLK if a fiber joins itself; -EBUSY if another caller is joining it; -ECANCELED or
 * -ETIMEDOUT if the caller's context (weft/context.h) is cancelled; -EINVAL if fiber is NULL;
 * -ECHILD in a forked child. 0 and -EOWNERDEAD free the handle; any other result leaves it valid.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_join(weft_fiber *fiber);

/* Waits until the fiber has ended as weft_join does, at most until `deadline`. WEFT_NOW never
 * waits.
 * Returns as weft_join; -ETIMEDOUT also if the deadline has passed: the handle is still valid.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_join_until(weft_fiber *fiber, int64_t deadline);

/* Gives up the handle. The fiber goes on, and its memory is given back when it ends. If it has
 * ended by a panic, the panic is reported on stderr.
 * Returns 0; -EBUSY while another caller is joining it; -EINVAL if fiber is NULL; -ECHILD in a
 * forked child. Only 0 frees the handle.
 * Contexts: fiber, thread. */
WEFT_API int weft_detach(weft_fiber *fiber);

/* Lets other ready fibers run, then goes on.
 * Returns at once if there are none. On a thread it yields the thread.
 * Contexts: fiber, thread. */
WEFT_API void weft_yield(void);

/* The calling fiber, or NULL on a thread. Valid until that fiber ends. It can be joined only if
 * weft_spawn gave it out as a handle.
 * Contexts: fiber, thread. */
WEFT_API weft_fiber *weft_self(void);

/* A number that no other fiber of this process has or had; 0 for NULL.
 * Contexts: fiber, thread. The fiber must be valid. */
WEFT_API uint64_t weft_fiber_id(const weft_fiber *fiber);

/* The name given at spawn; the name of the pool for a worker of one; "" if there is none or fiber
 * is NULL. The text is valid as long as the fiber, or the pool.
 * Contexts: fiber, thread. The fiber must be valid. */
WEFT_API const char *weft_fiber_name(const weft_fiber *fiber);

WEFT_END

#endif
