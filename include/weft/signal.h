/*
 * weft/signal.h: signals as channels.
 *
 *     static const int ends[] = { SIGINT, SIGTERM };
 *     weft_signal *stop;
 *     if (weft_signal_open(&stop, ends, 2, 1) != 0)
 *         return 1;
 *     int number;
 *     error = weft_chan_receive(weft_signal_chan(stop), &number);    // or in a select
 *     ...
 *     weft_signal_close(stop);
 *
 * While a signal is open in this way its former action (ending the process, a handler) is out of force: each
 * arrival is an int in the channel, the number of the signal. If the channel is full, or the system has no memory to
 * keep it, that arrival is dropped; give it room for as many as count. Several may have the same signal open, each gets it. When the last one
 * is closed the former action is in force again (unless the program has installed another meanwhile).
 *
 * Linux itself merges several of the same signal that are pending at once, but for those from SIGRTMIN on. A
 * signal that all threads block does not arrive; weft's own threads have the mask of the thread that started
 * the runtime. System calls that a signal would interrupt are started again (SA_RESTART).
 *
 * In a fork of the process a signal acts as it did before it was opened. An open handle keeps weft_shutdown
 * waiting, as an open timer does.
 */
#ifndef WEFT_SIGNAL_H
#define WEFT_SIGNAL_H

#include <weft/base.h>
#include <weft/chan.h>

WEFT_BEGIN

typedef struct weft_signal weft_signal;

/* Opens a channel with room for `capacity` arrivals (0 counts as 1) of the signals whose numbers are given.
 * Returns 0; -EINVAL if a pointer is NULL, count is 0, or one of the numbers is no signal or one that cannot be
 * caught (SIGKILL, SIGSTOP) or concerns the code that runs at that moment (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGTRAP, SIGSYS); -ENOMEM; -EMFILE, -ENFILE; and as weft_go. On failure nothing has changed.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_signal_open(weft_signal **signal, const int *numbers, size_t count,
                                            size_t capacity);

/* The channel: elements are of type int. Valid until the handle is closed. Never send to it, close or destroy
 * it. NULL for NULL.
 * Contexts: fiber, thread. */
WEFT_API weft_chan *weft_signal_chan(weft_signal *signal);

/* Closes the handle, its channel too; what is in it is forgotten. Nobody may wait on the channel: that is
 * reported as for weft_chan_destroy. NULL is -EINVAL.
 * Returns 0, -EINVAL, or -ECHILD in a forked child.
 * Contexts: fiber, thread. Undefined: any use during or after it. */
WEFT_API int weft_signal_close(weft_signal *signal);

WEFT_END

#endif
