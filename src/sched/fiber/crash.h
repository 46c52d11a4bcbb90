/*
 * crash.h: fibers that are abandoned where they faulted: see crash.c.
 */
#ifndef WEFT_SCHED_FIBER_CRASH_H
#define WEFT_SCHED_FIBER_CRASH_H

#include <weft/panic.h>

#include "base/atomic.h"
#include "base/compiler.h"

struct machine;
struct thread;
struct weft__os_fault;

/* What a fiber has that may be abandoned; not on its stack, which a fault may have destroyed. */
struct crash {
    bool *armed;             /* code runs that may be left at any point, and for ever */
    atomic_i64 *left;        /* how many more may be abandoned; shared with others */
    struct weft_fiber *replacement; /* made, and not started: goes on in its place */
    /* Of the one that was abandoned, for the replacement: */
    struct weft_fiber *fiber;
    struct panic *panic; /* there from the beginning; what is known of the crash is written to it */
};

/* In the signal handler: what the fiber of the thread has for this fault, with this backtrace; or NULL: it has to be died of. *why is
 * set then, if the fiber could have been abandoned elsewhere. */
struct crash *weft__crash_of(struct thread *thread, const struct weft__os_fault *fault,
                             const weft_panic_info *info, const char **why);
/* The same: the fiber of the machine is abandoned as soon as the signal returns. */
void weft__crash_abandon(struct crash *crash, const weft_panic_info *info, struct machine *machine,
                         struct weft__os_fault *fault);
/* On the machine's stack: a fiber was abandoned. First: what the runtime was entered for without a look at it; the
 * machine may have no processor after that. Then: puts the fiber away. */
void weft__crash_attend(struct machine *machine);
void weft__crash_retire(struct weft_fiber *fiber);

/* Whether anything can be abandoned: not under a sanitizer, whose report is wanted. */
enum { CRASH_POSSIBLE = !WEFT_ASAN && !WEFT_TSAN };

#endif
