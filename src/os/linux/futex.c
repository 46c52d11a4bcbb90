/*
 * futex.c: waiting for a word in memory: os/futex.h.
 */
#include "os/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/seam.h"

int weft__os_futex_wait(atomic_u32 *word, uint32_t expected, int64_t deadline)
{
    KEEP_ERRNO;
    bool timed = deadline != INT64_MAX;
    struct timespec until = to_timespec(deadline < 0 ? 0 : deadline);
    long slack = timed ? weft__os_exact_begin() : 0;
    /* FUTEX_WAIT_BITSET takes an absolute time on the monotonic clock. */
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                          timed ? &until : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
    int error = result == 0 ? 0 : weft__os_error();
    weft__os_exact_end(slack);
    return error == -EINTR ? 0 : error;
}

void weft__os_futex_wake(atomic_u32 *word, int count)
{
    KEEP_ERRNO;
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}
