/*
 * weft/runtime.h: configures the runtime and shuts it down. Both are optional.
 *
 * The runtime starts at the first call that needs it. Its settings are decided then, each by the
 * first of these that gives a value: weft_configure, the environment, the default.
 *
 *   processors   WEFT_PROCS       how many fibers run at the same time. Default: the CPUs this
 *                                 process may use (affinity), limited by the cgroup's CPU quota;
 *                                 if these change, the number follows within a second or two
 *   stack_size   WEFT_STACK_SIZE  bytes of stack for fibers that do not ask for a size; suffix K
 *                                 or M allowed. Default 64 KiB
 *   max_fibers   WEFT_MAX_FIBERS  fibers alive at once; above that, a spawn returns -EAGAIN.
 *                                 Default: no limit
 *   max_machines WEFT_MAX_MACHINES  threads at most. There are as many as processors, and more
 *   while
 *                                 fibers block in C code (weft/blocking.h). When all are in use a
 *                                 warning is written once to stderr, and fibers wait until one is
 *                                 free. Default 10,000
 *   no_fault_report               WEFT_FAULT_REPORT=0: do not install the handlers of SIGSEGV,
 *                                 SIGBUS, SIGFPE and SIGILL. They report which fiber overflowed its
 *                                 stack or faulted; pools that isolate crashes need them
 *   no_deadlock_check             WEFT_DEADLOCK_CHECK=0: do not report and abort when every fiber
 *                                 and every thread waits and nothing is left that could wake one.
 *                                 (That is detected only while the runtime runs, not if plain
 *                                 threads alone use weft; and not after main has called
 *                                 pthread_exit.)
 *
 * WEFT_WITHOUT, a comma-separated list of membarrier, guard_install, guard_many, guard_pages,
 * epoll_pwait2, io_uring, file_nowait, pidfd, makes weft act as on a kernel without them: for tests
 * and diagnosis.
 *
 * WEFT_CHAOS, a number from 1 to 100, is for tests: at that percentage of its calls of weft a fiber
 * yields first. See docs/testing.md.
 *
 * A value of the environment that makes no sense is reported on stderr and ignored; an empty one
 * counts as not set.
 */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include <weft/base.h>
#include <weft/time.h>

WEFT_BEGIN

/* The largest number of processors. */
#define WEFT_PROCS_MAX 256

/* Zero means default in every field. */
typedef struct weft_config {
    int processors;        /* 1 to WEFT_PROCS_MAX */
    int no_fault_report;   /* not zero: leave the signals of faults alone */
    int no_deadlock_check; /* not zero: a deadlock is not reported and does not abort */
    int max_machines;      /* 1 to 1,000,000 */
    size_t stack_size;     /* 16 KiB to 1 GiB, rounded up to a power of two */
    int64_t max_fibers;    /* at least 1 */
    uintptr_t reserved[8];
} weft_config;

/* Sets the configuration that the runtime uses when it starts; NULL: all defaults.
 * Returns 0; -EINVAL if a value is out of range or a reserved field is set; -EBUSY if the runtime
 * runs; -ECHILD in a forked child.
 * Contexts: thread. */
WEFT_API WEFT_MUST_USE int weft_configure(const weft_config *config);

/* The number of processors, or the number that the runtime would start with if it does not run. By
 * default it follows the CPUs that the process may use.
 * Contexts: fiber, thread. */
WEFT_API int weft_processors(void);

/* Waits until every fiber has ended and every timer is closed, then ends weft's threads and frees
 * all its memory. The next call that needs the runtime starts it again. Without a shut-down, fibers
 * cease when the process exits.
 *
 * Thread-specific destructors (of pthread keys, thread_local of C++) that run when weft's threads
 * end may use weft. The call waits for them, also beyond the deadline; a wait of more than a second
 * is reported on stderr. Destructors that run because of the shut-down find the runtime stopped: a
 * fiber that one spawns starts it again.
 *
 * Returns 0 (also if nothing was running); -ETIMEDOUT if fibers or timers are left at the deadline:
 * the runtime runs on; -EDEADLK from a fiber; -EBUSY if another thread is shutting down; -ECHILD in
 * a forked child.
 * Contexts: thread.
 * Undefined: any use of weft by other threads during the call; after it, any use of a handle from
 * before. */
WEFT_API WEFT_MUST_USE int weft_shutdown(int64_t deadline);

WEFT_END

#endif
