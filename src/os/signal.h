/*
 * signal.h: signals. Rules of all calls: os/os.h.
 */
#ifndef WEFT_OS_SIGNAL_H
#define WEFT_OS_SIGNAL_H

#include <stdbool.h>

enum { OS_SIGNALS_MOST = 65 }; /* numbers are below */

/* Whether a program may ask to receive the signal: it can be caught, is not used by libc, and is no
 * fault of the running code, into which the handler would return. */
bool weft__os_signal_allowed(int signal);

/* Has the handler called for the signal, on whatever thread gets it, in signal context, with all
 * signals blocked. Notes the action that was there. The signal is allowed, and not caught yet. */
int weft__os_signal_catch(int signal, void (*handler)(int));

/* Puts the noted action back, unless the program has installed another since. */
void weft__os_signal_restore(int signal, void (*handler)(int));

/* In the handler: puts the noted action back and raises the signal again, which then does what it
 * would have done without weft. */
void weft__os_signal_as_before(int signal);

#endif
