/*
 * assert.h: three levels of assertion, and the way out when the program or weft is broken.
 *
 *   must(condition)      always on, for what costs next to nothing: corruption stops where it
 *                        starts
 *   should(condition)    debug builds: anything cheap enough for a test run
 *   fatal(format, ...)   the user's program has a bug that cannot be an error code: say it, abort
 */
#ifndef WEFT_BASE_ASSERT_H
#define WEFT_BASE_ASSERT_H

#include "base/compiler.h"

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

/* Writes "weft: <text>" to stderr in one write, then a backtrace and what weft__fatal_shows was
 * given, and aborts. */
#define fatal(...) weft__fatal(__VA_ARGS__)
_Noreturn void weft__fatal(const char *format, ...) printf_like(1, 2);

/* What is called before an abort: it writes the state of the runtime. */
void weft__fatal_shows(void (*show)(void));

/* Writes "weft: <text>" to stderr in one write. */
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
