/*
 * crash.h: fibers that can be abandoned where they fault: see crash.c.
 */
#ifndef WEFT_SCHED_FIBER_CRASH_H
#define WEFT_SCHED_FIBER_CRASH_H

#include <weft/panic.h>

#include "base/atomic.h"
#include "base/compiler.h"

struct machine;
struct thread;
struct weft__os_fault;

/* Belongs to a fiber that may be abandoned. Not on its stack, which a fault may have destroyed. */
struct crash {
    bool *armed;      /* true while the fiber runs code that may be left at any instruction */
    atomic_i64 *left; /* how many more fibers may be abandoned; shared by all of a pool */
    struct weft_fiber *replacement; /* made and not started; goes on in place of the fiber */
    /* For the replacement: */
    struct weft_fiber *fiber; /* that was abandoned */
    struct panic *panic;      /* allocated in advance; the crash is described in it */
};

/* Decides whether the fiber of the thread can be abandoned for this fault, whose backtrace is in
 * *info. Returns its struct crash, and takes one from `left`; or NULL: the process has to die. Then
 * *why says what forbids it, unless the fiber is not one that may be abandoned at all. In the
 * signal handler. */
struct crash *weft__crash_of(struct thread *thread, const struct weft__os_fault *fault,
                             const weft_panic_info *info, const char **why);
/* Abandons the fiber of the machine as soon as the signal handler returns. In the signal
 * handler. */
void weft__crash_abandon(struct crash *crash, const weft_panic_info *info, struct machine *machine,
                         struct weft__os_fault *fault);
/* First step after a fiber was abandoned, on the machine's stack: reads the machine's requests,
 * which entering the runtime did not. The machine may have no processor after that. */
void weft__crash_attend(struct machine *machine);
/* Second step: retires the fiber for ever and makes its replacement ready. */
void weft__crash_retire(struct weft_fiber *fiber);

/* Whether fibers can be abandoned at all. Under a sanitizer they are not: its report is wanted. */
enum { CRASH_POSSIBLE = !WEFT_ASAN && !WEFT_TSAN };

#endif
