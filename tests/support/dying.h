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
    test_killed(status, signal);
}

/* The code address in brackets after the text; "(nil)" is 0. The child is a fork: its code has the
 * same addresses. */
static inline uintptr_t address_after(const char *text)
{
    const char *place = strstr(output, text);
    CHECK(place != NULL);
    const char *end = strchr(place, '\n');
    place = strchr(place, '[');
    CHECK(place != NULL && end != NULL && place < end);
    return (uintptr_t)strtoull(place + 1, NULL, 16);
}

/* More than a function of a test is long. */
enum { FUNCTION_MOST = 2048 };

#define CHECK_IN(address, function)                              \
    do {                                                         \
        uintptr_t address_ = (address);                          \
        CHECK(address_ >= (uintptr_t)(function) &&               \
              address_ < (uintptr_t)(function) + FUNCTION_MOST); \
    } while (0)

static inline bool said(const char *text)
{
    return strstr(output, text) != NULL;
}

#endif
