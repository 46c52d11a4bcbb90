/*
 * dying.h: cases that run in a child, which must die of a signal and write why.
 */
#ifndef WEFT_TEST_DYING_H
#define WEFT_TEST_DYING_H

#include "test.h"

static const char *output; /* of the last case, on stderr */

static inline void dying_call(void *function)
{
    ((void (*)(void))(uintptr_t)function)();
}

/* Runs the case in a child and returns its status. */
static inline int run_case(void (*function)(void))
{
    int status = test_in_child(dying_call, (void *)(uintptr_t)function, &output);
    fprintf(stderr, "--- stderr of the child:\n%s---\n", output);
    return status;
}

static inline void check_dies(void (*function)(void), int signal)
{
    int status = run_case(function);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), signal);
}

static inline bool said(const char *text)
{
    return strstr(output, text) != NULL;
}

#endif
