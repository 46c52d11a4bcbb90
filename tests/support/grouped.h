/*
 * grouped.h: waits for a group, for tests that want its error.
 */
#ifndef WEFT_TEST_GROUPED_H
#define WEFT_TEST_GROUPED_H

#include <weft/weft.h>

#include "test.h"

static inline int group_error(weft_group *group)
{
    int error = INT32_MIN;
    CHECK_EQ(weft_group_wait(group, &error), 0);
    return error;
}

#endif
