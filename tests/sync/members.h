/*
 * members.h: for tests of groups: a group, and functions for it to run.
 */
#ifndef WEFT_TEST_MEMBERS_H
#define WEFT_TEST_MEMBERS_H

#include <weft/weft.h>

#include "base/atomic.h"
#include "bodies.h"
#include "test.h"

static inline weft_group *make(const weft_group_options *options)
{
    weft_group *group;
    CHECK_EQ(weft_group_open(&group, options), 0);
    return group;
}

static inline int succeed(void *arg)
{
    if (arg != NULL)
        atomic_u32_add_relaxed((atomic_u32 *)arg, 1);
    return 0;
}

static inline int fail(void *error)
{
    return (int)(intptr_t)error;
}

static inline void *error_arg(int error)
{
    return (void *)(intptr_t)error;
}

/* Sleeps until it is cancelled. */
static inline int sleep_on(void *arg)
{
    return weft_sleep_until(WEFT_NEVER);
}

static inline int wait_for_gate(void *gate)
{
    CHECK_EQ(weft_wg_wait(gate), 0);
    return 0;
}

/* Waits for the gate even if the context is cancelled. */
static inline int wait_firmly(void *gate)
{
    CHECK_EQ(weft_context_bind(NULL, NULL), 0);
    CHECK_EQ(weft_wg_wait(gate), 0);
    return 0;
}

#endif
