/*
 * cxx_lean.h: a runtime of C++ with the least that it can have, and an exception of it.
 */
#ifndef WEFT_TEST_CXX_LEAN_H
#define WEFT_TEST_CXX_LEAN_H

#include <unwind.h>

#include "test.h"
#include <weft/weft.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): the names are those of the C++ ABI. */
void *__cxa_begin_catch(void *exception);
void __cxa_end_catch(void);
/* NOLINTEND */

static int begun, ended;

void *__cxa_begin_catch(void *exception) /* NOLINT(bugprone-reserved-identifier) */
{
    begun++;
    return exception;
}

void __cxa_end_catch(void) /* NOLINT(bugprone-reserved-identifier) */
{
    ended++;
}

static void raise_cxx(void *arg)
{
    static struct _Unwind_Exception exception;
    exception.exception_class = 0x4c45414e432b2b00u; /* "LEAN", "C++" */
    (void)_Unwind_RaiseException(&exception);
}

/* The message of the panic that the exception becomes; it was caught once. */
static const char *recovered(void)
{
    static weft_panic_info info;
    begun = ended = 0;
    CHECK_EQ(weft_recover(raise_cxx, NULL, &info), -EOWNERDEAD);
    CHECK_EQ(begun, 1);
    CHECK_EQ(ended, 1);
    return info.message;
}

#endif
