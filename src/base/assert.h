/*
 * assert.h: three levels of assertion, and the way out when the program or weft is broken.
 *
 *   must(condition)      always on, for what costs next to nothing: corruption stops where it
 *                        starts
 *   should(condition)    debug builds only: anything cheap enough for a test run
 *   fatal(format, ...)   the program has a bug that cannot be an error code: says so and aborts
 *
 * The functions write to stderr and abort, which are system calls: os/fatal.c implements them. This
 * is the only place where code of src/base calls up.
 */
#ifndef WEFT_BASE_ASSERT_H
#define WEFT_BASE_ASSERT_H

#include "base/compiler.h"

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

/* Writes "weft: <text>" to stderr in one write, then a backtrace, calls the function of
 * weft__fatal_shows, and aborts. Allocates nothing. */
#define fatal(...) weft__fatal(__VA_ARGS__)
_Noreturn void weft__fatal(const char *format, ...) printf_like(1, 2);

/* Sets the function that fatal calls before it aborts: it writes the state of the runtime. NULL for
 * none. */
void weft__fatal_shows(void (*show)(void));

/* Writes "weft: <text>" to stderr in one write, and returns. Allocates nothing. */
void weft__warn(const char *format, ...) printf_like(1, 2);

_Noreturn void weft__assert_failed(const char *condition, const char *file, int line);

#define must(condition) \
    (likely(condition) ? (void)0 : weft__assert_failed(#condition, __FILE_NAME__, __LINE__))

#ifdef WEFT_DEBUG
#define should(condition) must(condition)
#else
#define should(condition) ((void)sizeof(!(condition)))
#endif

#endif
