/*
 * seam.h: what the implementation on Linux shares: leaving errno alone, exact waits, signal masks.
 */
#ifndef WEFT_OS_LINUX_SEAM_H
#define WEFT_OS_LINUX_SEAM_H

#include <signal.h>
#include <time.h>

#include "os/failure.h"
#include "os/thread.h"

/* A function that begins with KEEP_ERRNO leaves errno as it was: it is the program's. */
struct kept_errno {
    int *address;
    int value;
};

static inline struct kept_errno errno_keep(void)
{
    int *address = weft__os_errno_address();
    return (struct kept_errno){address, *address};
}

static inline void errno_restore(struct kept_errno *kept)
{
    *kept->address = kept->value;
}

#define KEEP_ERRNO \
    __attribute__((cleanup(errno_restore), unused)) struct kept_errno kept_errno = errno_keep()

/* Around a wait with a deadline. The kernel may end such a wait late, by the timer slack of the
 * thread: 50 us by default. `begin` makes the slack 1 ns and returns what it was, `end` sets that
 * again.
 *
 * Rejected: setting it once for each thread of weft's. The fibers that run there would have it too,
 * and so would the threads and processes that these start. */
long weft__os_exact_begin(void);
void weft__os_exact_end(long slack);

static inline struct timespec to_timespec(int64_t time)
{
    return (struct timespec){.tv_sec = time / 1000000000, .tv_nsec = time % 1000000000};
}

/* The mask that weft__os_threads_inherit has noted. */
const sigset_t *weft__os_machine_mask(void);

/* For the functions that write the counters of coverage builds, which cannot count themselves. */
#ifdef WEFT_COVERAGE
#define UNCOUNTED __attribute__((no_profile_instrument_function))
#else
#define UNCOUNTED
#endif

#endif
