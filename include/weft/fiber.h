/*
 * weft/fiber.h: start a fiber, yield, wait for its end, and what belongs to it.
 *
 * A fiber is a function call with a stack of its own. It runs on one of weft's threads until it
 * parks (sleeps, waits, yields) or ends, and may go on on another thread after that. The first call
 * that needs the runtime starts it; weft/runtime.h can set it up before.
 *
 * A stack ends in a guard of its own; code whose single frames are larger than that should be compiled with
 * -fstack-clash-protection, so that it cannot step over it. pthread_exit and pthread_cancel are not for
 * fibers: they end, or not, the thread that many fibers run on.
 *
 * C++: an exception that leaves the function becomes a panic (weft/panic.h). A fiber may park inside a catch
 * block, or in a destructor that an exception runs: weft takes along what C++ keeps of it for the thread. (Not
 * in a program that loads C++ by dlopen only after weft.)
 *
 * A fiber that is spawned costs a small record; it gets its stack when it first runs.
 *
 *     static void hello(void *arg) { puts(arg); }
 *     ...
 *     int error = weft_go(hello, "hello");            // nobody waits for it
 *
 *     weft_fiber *fiber;
 *     weft_spawn_options options = { .name = "hello", .stack_size = 256 * 1024 };
 *     if (weft_spawn(&fiber, hello, "hello", &options) == 0)
 *         weft_join(fiber);
 */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* A fiber, as seen by those who hold a handle to it. */
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
    /* Not 0: it shares its stack with others, and costs a few hundred bytes while it waits instead of a page; but
     * nobody else may use what is on its stack then. See docs/design/stacks.md. */
    int compact;
    /* Must be zero. */
    uintptr_t reserved[4];
} weft_spawn_options;

/* Starts a fiber that calls function(arg). Nobody waits for it; its memory is given back when it
 * ends.
 * Returns 0; -EINVAL if function is NULL; -ENOMEM; -EAGAIN if a limit is reached; -ECHILD in a
 * forked child; and where the runtime cannot start, what it lacks: -EAGAIN (a thread), -EMFILE,
 * -ENFILE, -ENOSPC (two or three descriptors), -ENOMEM. On failure nothing was started. Contexts:
 * fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_go(void (*function)(void *), void *arg);

/* Starts a fiber as weft_go does, with options (NULL: all defaults), and gives a handle to it in
 * *fiber. The handle is valid until weft_join, weft_join_until, weft_join_panic or weft_detach is done with
 * it: one of them must happen. With fiber == NULL there is no handle, as in weft_go.
 * Returns 0, or as weft_go; -EINVAL also for a stack size out of range or a reserved field set.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_spawn(weft_fiber **fiber, void (*function)(void *), void *arg,
                                      const weft_spawn_options *options);

/* Waits until the fiber has ended, then frees the handle. What the fiber wrote is visible after it.
 *
 * In a caller whose context is cancelled it returns before the fiber has ended, so that what the
 * fiber uses must not be freed yet. A clean-up after a cancellation waits to the end so:
 *
 *     weft_context_bind(NULL, NULL);                  // this wait is for the clean-up's own sake
 *     if (weft_join(fiber) == 0)
 *         free(what_it_used);
 *
 * Returns 0; -EDEADLK if a fiber joins itself; -EBUSY if somebody else is joining it already; -ECANCELED
 * or -ETIMEDOUT if the caller's context (weft/context.h) is cancelled; -EINVAL if fiber is NULL; -ECHILD
 * in a forked child; -EOWNERDEAD if a panic has ended the fiber (weft/panic.h), which is reported on stderr.
 * 0 and -EOWNERDEAD free the handle, and nothing else does.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_join(weft_fiber *fiber);

/* The same with a deadline. Returns also -ETIMEDOUT; then the handle is still valid. */
WEFT_API WEFT_MUST_USE int weft_join_until(weft_fiber *fiber, int64_t deadline);

/* Gives the handle up; the fiber runs on and frees its memory when it ends.
 * Returns 0; -EBUSY while somebody is joining it; -EINVAL if fiber is NULL; -ECHILD in a forked
 * child. Contexts: fiber, thread. */
WEFT_API int weft_detach(weft_fiber *fiber);

/* Lets other fibers that are ready run, then goes on. Returns at once if there are none. On a
 * thread it yields the thread.
 * Contexts: fiber, thread. */
WEFT_API void weft_yield(void);

/* The fiber that is running, or NULL on a thread. Valid as long as that fiber runs; it is not a
 * handle to join, unless you also got it from weft_spawn.
 * Contexts: fiber, thread. */
WEFT_API weft_fiber *weft_self(void);

/* A number that no other fiber of this process has or had; 0 for NULL.
 * Contexts: fiber, thread. The fiber must be valid. */
WEFT_API uint64_t weft_fiber_id(const weft_fiber *fiber);

/* The name given at spawn, or "" if none (or fiber is NULL); of a worker, that of its pool. The text lives as long as the
 * fiber, or the pool.
 * Contexts: fiber, thread. The fiber must be valid. */
WEFT_API const char *weft_fiber_name(const weft_fiber *fiber);

WEFT_END

#endif
