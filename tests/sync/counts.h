/*
 * counts.h: the counts of an object pool, for its tests.
 */
#ifndef WEFT_TEST_COUNTS_H
#define WEFT_TEST_COUNTS_H

#include <weft/object_pool.h>

#include "test.h"

static inline weft_object_pool_counts counts_of(weft_object_pool *pool)
{
    weft_object_pool_counts counts;
    memset(&counts, 0x55, sizeof counts);
    CHECK_EQ(weft_object_pool_count(pool, &counts), 0);
    CHECK_EQ(counts.reserved[0], 0);
    return counts;
}

static inline void check_counts(weft_object_pool *pool, uint64_t kept, uint64_t out, uint64_t made,
                                uint64_t destroyed)
{
    weft_object_pool_counts counts = counts_of(pool);
    CHECK_EQ(counts.kept, kept);
    CHECK_EQ(counts.out, out);
    CHECK_EQ(counts.made, made);
    CHECK_EQ(counts.destroyed, destroyed);
}

#endif
