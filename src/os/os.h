/*
 * os.h: the contract between weft and the operating system.
 *
 * Everything that weft asks of libc or of the kernel goes through the calls declared in these
 * headers. src/os/linux/ implements them, each header in the file of the same name. A port to
 * another system is a folder beside it that implements the same calls; nothing above src/os/
 * changes.
 *
 *   memory.h        the heap, mappings, guard pages
 *   clock.h         the monotonic clock, sleeping, a tick counter
 *   futex.h         wait for a word to change, wake the threads that wait for it
 *   thread.h        threads, their ends, forks, the process-wide barrier
 *   poll.h          readiness of many descriptors, wake-up descriptors
 *   socket.h        sockets
 *   file.h          files, pipes and plain descriptors
 *   ring.h          a queue of file operations that the kernel completes (io_uring)
 *   spawn.h         child processes
 *   signal.h        signals
 *   resolve.h       names of hosts and services
 *   process.h       this process: environment, CPUs, the ways out
 *   backtrace.h     call chains, and what a code address is called
 *   fault.h         faults of the running code (SIGSEGV and its like)
 *   crash_output.h  what is written if the process dies
 *   mutex_watch.h   which mutexes the program holds (debug builds)
 *
 * Beside the contract, and on top of it: lock.h, latch.h and membarrier.h (how weft's own code
 * excludes and orders), text.h (reports), huge_pages.h (a policy), and failure.h, by which tests
 * make calls of the contract fail.
 *
 * Rules of every call, not repeated at each:
 *
 *   Result    0, or a value, or a negative errno value; a pointer, or NULL without memory. On
 *             failure out-parameters are as they were.
 *   errno     is as it was. A fiber moves between threads and errno belongs to a thread, so errno
 *             is no channel between the seam and the code above it.
 *   Signals   do not end a call: it begins again. -EINTR is returned by no call.
 *   Threads   any thread may make any call, also two at once, unless the call says otherwise.
 *   Waiting   a call does not wait, unless it says so.
 *   Time      in nanoseconds of the clock that weft__os_now reads. A deadline in the past is
 *             allowed; INT64_MAX is none.
 *   Handles   descriptors are close-on-exec.
 *   Failure   the kind (OS_...) that a test names to make the call fail stands in brackets at the
 *             end of its comment: see failure.h.
 */
#ifndef WEFT_OS_OS_H
#define WEFT_OS_OS_H

#include "os/backtrace.h"
#include "os/clock.h"
#include "os/crash_output.h"
#include "os/fault.h"
#include "os/file.h"
#include "os/futex.h"
#include "os/memory.h"
#include "os/mutex_watch.h"
#include "os/poll.h"
#include "os/process.h"
#include "os/resolve.h"
#include "os/ring.h"
#include "os/signal.h"
#include "os/socket.h"
#include "os/spawn.h"
#include "os/thread.h"

#endif
