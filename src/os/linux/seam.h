/*
 * seam.h: what the files of the seam (sys_*.c) share: fault injection, and leaving errno alone.
 */
#ifndef WEFT_OS_LINUX_SEAM_H
#define WEFT_OS_LINUX_SEAM_H

#include "os/os.h"

/* A test has asked for failures or for counts. Read by every call, and written only by tests. */
extern atomic_u32 weft__watched;

static inline bool weft__is_watched(void)
{
    return __builtin_expect(atomic_u32_load_relaxed(&weft__watched), 0);
}

/* Counts one call of that kind; true if it must fail. */
bool weft__failure_count(enum weft__os_call call);
static inline bool weft__failure_due(enum weft__os_call call)
{
    return weft__is_watched() && weft__failure_count(call);
}

/* One more of these is held, or one less. */
void weft__live_change(enum weft__os_live what, int64_t change);
static inline void weft__live(enum weft__os_live what, int64_t change)
{
    if (weft__is_watched())
        weft__live_change(what, change);
}

/* Around a wait that has a time: the kernel lets it end later by the thread's timer slack, 50 us by default. That is
 * not set once for a thread of weft's own, since whatever runs on it, a fiber's code, would have it too, and so would
 * the threads and processes that this starts. */
long weft__os_exact_begin(void);
void weft__os_exact_end(long slack);

/* For what saves the counters of coverage builds: it cannot count itself. */
#ifdef WEFT_COVERAGE
#define UNCOUNTED __attribute__((no_profile_instrument_function))
#else
#define UNCOUNTED
#endif

/* errno belongs to the user's calls: a function that begins with KEEP_ERRNO leaves it as it was. */
struct kept_errno {
    int *address;
    int value;
};

static inline struct kept_errno errno_keep(void)
{
    int *address = weft__os_errno_address();
    return (struct kept_errno){address, *address};
}

static inline void errno_give_back(struct kept_errno *kept)
{
    *kept->address = kept->value;
}

#define KEEP_ERRNO \
    __attribute__((cleanup(errno_give_back), unused)) struct kept_errno kept_errno = errno_keep()

#endif
