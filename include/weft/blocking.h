/*
 * weft/blocking.h: C code that blocks its thread.
 *
 * Nothing has to be said: a fiber may call a database client, getaddrinfo, fsync, a pthread mutex, or
 * compute for long. If other fibers wait meanwhile, weft gives the processor to another thread, and the
 * fiber goes on without one until it next calls weft; there it gets one back, or waits for one in line. It
 * takes weft some tens of microseconds up to some milliseconds to notice.
 *
 * Who knows that a call will block says so, and the others go on at once:
 *
 *     weft_blocking_enter();
 *     error = fsync(fd);
 *     weft_blocking_exit();
 *
 * While it blocks, the fiber has the thread for itself. After any call of weft it may be on another thread:
 * do not hold a pthread mutex across such calls, and do not keep an address of thread-local storage, errno's
 * included, across them.
 *
 * There are at most weft_config.max_machines threads (weft/runtime.h). docs/blocking.md has the whole story.
 */
#ifndef WEFT_BLOCKING_H
#define WEFT_BLOCKING_H

#include <weft/base.h>

WEFT_BEGIN

/* Gives the processor up: until weft_blocking_exit the caller runs beside the fibers, not as one of them.
 * Calls nest: only the outermost pair counts. A call of weft in between is allowed; it takes a processor
 * again, which the fiber then keeps as in code that is not marked. errno is kept. Does nothing on a thread
 * that is not weft's.
 * A weft_spin held by the fiber is reported and the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_blocking_enter(void);

/* Goes on as a fiber: takes an idle processor, or waits in line for one. errno is kept. Does nothing on a
 * thread that is not weft's. One without a weft_blocking_enter before it is reported and the process
 * aborts, and so is a fiber that ends without it.
 * Contexts: fiber, thread. */
WEFT_API void weft_blocking_exit(void);

/* Calls function(arg) between the two, and returns what it returns. A NULL is reported and the process
 * aborts.
 * Contexts: fiber, thread. */
WEFT_API void *weft_blocking(void *(*function)(void *), void *arg);

WEFT_END

#endif
