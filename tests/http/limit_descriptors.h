/*
 * limit_descriptors.h: changes the limit of descriptors of the test's process.
 */
#ifndef WEFT_TEST_HTTP_LIMIT_DESCRIPTORS_H
#define WEFT_TEST_HTTP_LIMIT_DESCRIPTORS_H

#include <sys/resource.h>

#include "test.h"

/* Sets the soft limit, to at most the hard one. Returns the soft limit before. */
static inline rlim_t limit_descriptors(rlim_t soft)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

/* Raises the soft limit to the hard one, and returns it. */
static inline rlim_t all_descriptors(void)
{
    (void)limit_descriptors(RLIM_INFINITY);
    return limit_descriptors(RLIM_INFINITY);
}

#endif
