/*
 * weft/blocking.h: C code that blocks its thread.
 *
 * A fiber may call a database client, getaddrinfo, fsync or a pthread mutex, or compute for long,
 * without any annotation. If other fibers wait meanwhile, weft gives the processor to another
 * thread. The fiber goes on without a processor until it next calls weft; there it gets one back,
 * or waits in line for one. weft takes some tens of microseconds up to some milliseconds to notice.
 *
 * A call that is known to block can be marked, and other fibers run at once:
 *
 *     weft_blocking_enter();
 *     error = fsync(fd);
 *     weft_blocking_exit();
 *
 * While it blocks, the fiber has the thread for itself. After any call of weft it may be on another
 * thread: do not hold a pthread mutex across such calls, and do not keep an address of thread-local
 * storage, errno's included, across them.
 *
 * There are at most weft_config.max_machines threads (weft/runtime.h). docs/blocking.md has
 * details.
 */
#ifndef WEFT_BLOCKING_H
#define WEFT_BLOCKING_H

#include <weft/base.h>

WEFT_BEGIN

/* Gives up the processor: until weft_blocking_exit the fiber runs beside the others, on a thread of
 * its own. Calls nest: only the outermost pair counts. A call of weft in between is allowed; it
 * takes a processor again, which the fiber then keeps as in code that is not marked. errno is kept.
 * Does nothing on a thread that is not weft's. A weft_spin held by the fiber is reported, and the
 * process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_blocking_enter(void);

/* Ends what weft_blocking_enter began: takes an idle processor, or waits in line for one. errno is
 * kept. Does nothing on a thread that is not weft's. A call without a weft_blocking_enter before
 * it, and a fiber that ends without this call, are reported, and the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void weft_blocking_exit(void);

/* Calls function(arg) between weft_blocking_enter and weft_blocking_exit, and returns what it
 * returns. A NULL function is reported, and the process aborts.
 * Contexts: fiber, thread. */
WEFT_API void *weft_blocking(void *(*function)(void *), void *arg);

WEFT_END

#endif
