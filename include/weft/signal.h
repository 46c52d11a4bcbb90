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
 * While a signal is open in this way, its former action (to end the process, a handler) is
 * replaced: each arrival puts the number of the signal, an int, into the channel. If the channel is
 * full, or the system lacks memory for it, that arrival is dropped: give the channel as much room
 * as arrivals count. Several handles may have the same signal open; each gets every arrival. When
 * the last one is closed, the former action is restored, unless the program has installed another
 * meanwhile.
 *
 * Linux merges arrivals of one signal that are pending at the same time, except for real-time
 * signals (from SIGRTMIN on). A signal that all threads block does not arrive; weft's threads have
 * the signal mask of the thread that started the runtime. System calls that a signal interrupts are
 * restarted (SA_RESTART).
 *
 * In a forked child a signal has the action that it had before it was opened. An open handle keeps
 * weft_shutdown waiting, as an open timer does.
 */
#ifndef WEFT_SIGNAL_H
#define WEFT_SIGNAL_H

#include <weft/base.h>
#include <weft/chan.h>

WEFT_BEGIN

typedef struct weft_signal weft_signal;

/* Opens a channel for the `count` signals whose numbers are given, with room for `capacity`
 * arrivals (0 counts as 1).
 * Returns 0; -EINVAL if a pointer is NULL, count is 0, or a number is no signal, cannot be caught
 * (SIGKILL, SIGSTOP), or is a fault of the running code (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 * SIGSYS); -ENOMEM; -EMFILE, -ENFILE; -ECHILD in a forked child; an error of weft_go. On an error
 * nothing has changed.
 * Contexts: fiber, thread. */
WEFT_API WEFT_MUST_USE int weft_signal_open(weft_signal **signal, const int *numbers, size_t count,
                                            size_t capacity);

/* The channel of the handle, whose elements are of type int. Valid until the handle is closed. NULL
 * for NULL.
 * Contexts: fiber, thread.
 * Undefined: sending to the channel, closing or destroying it. */
WEFT_API weft_chan *weft_signal_chan(weft_signal *signal);

/* Closes the handle and frees its channel, with the arrivals in it. A caller that waits on the
 * channel is reported, and the process aborts, as for weft_chan_destroy.
 * Returns 0; -EINVAL if signal is NULL; -ECHILD in a forked child.
 * Contexts: fiber, thread.
 * Undefined: any use of the handle or its channel during or after it. */
WEFT_API int weft_signal_close(weft_signal *signal);

WEFT_END

#endif
