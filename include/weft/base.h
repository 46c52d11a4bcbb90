/*
 * weft/base.h: what every other weft header stands on.
 *
 * Errors. Every call that can fail returns 0 (or a count) on success and a negative errno value on
 * failure; out-parameters are left untouched on failure. No call of weft reports through errno or
 * changes it, also across a park. But a function that has used errno must not read it after a call
 * that can park: the compiler may remember the address of errno, and the fiber may have moved to
 * another thread. (A separate small function that reads errno and is not inlined is safe.) The
 * codes that weft uses:
 *
 *   -EINVAL     an argument makes no sense
 *   -ENOMEM     no memory, or no address space
 *   -EAGAIN     a limit is reached for now (threads, fibers), or a try form would have to wait
 *   -EMFILE, -ENFILE, -ENOSPC   the runtime cannot start: it needs two or three descriptors
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the caller's context was cancelled (weft/context.h)
 *   -ESHUTDOWN  closed
 *   -EDEADLK    the call would wait for itself
 *   -EBUSY      too late or too early for this call, or another caller has it
 *   -EOWNERDEAD a panic ended what the caller waited for, or called (weft/panic.h)
 *   -ECHILD     this process is a fork of one that runs weft; weft does not run here
 *
 * Contexts. "fiber" means code started by weft; "thread" means any other thread, main included;
 * "signal handler" means just that. Each declaration names the contexts in which it may be called.
 *
 * Versions. A program that was built with version 0.M.P runs with each later release of the same
 * minor version M: their library has the same name, libweft.so.0.M, and what it offered stays. A
 * declaration that a release after 0.M.0 has added says so ("Since 0.M.P"); all others are in every
 * release of the minor version. Another minor version has a library of another name, so that both
 * may be installed. Options structs have reserved fields, so that they can grow.
 */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 2
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION "0.2.0"

/* Whether the headers are those of this version or a later one; for #if. */
#define WEFT_VERSION_AT_LEAST(major, minor, patch) \
    ((major) < WEFT_VERSION_MAJOR ||               \
     ((major) == WEFT_VERSION_MAJOR &&             \
      ((minor) < WEFT_VERSION_MINOR ||             \
       ((minor) == WEFT_VERSION_MINOR && (patch) <= WEFT_VERSION_PATCH))))

#ifdef __cplusplus
#define WEFT_BEGIN extern "C" {
#define WEFT_END }
#else
#define WEFT_BEGIN
#define WEFT_END
#endif

#define WEFT_API __attribute__((visibility("default")))
#define WEFT_MUST_USE __attribute__((warn_unused_result))

WEFT_BEGIN

/* The version of the library that the program runs with, e.g. "0.2.0".
 * Contexts: fiber, thread, signal handler. */
WEFT_API const char *weft_version(void);

/* What an error code of weft says, in English; accepts the code with either sign. The text is
 * constant and never NULL.
 * Contexts: fiber, thread, signal handler. */
WEFT_API const char *weft_strerror(int error);

WEFT_END

#endif
