/*
 * signal.c: catching signals, and restoring what was there: os/signal.h.
 */
#include "os/signal.h"
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "os/linux/seam.h"

static struct sigaction before[OS_SIGNALS_MOST]; /* of each caught signal */

bool weft__os_signal_allowed(int signal)
{
    /* A fault of the running code cannot wait for a fiber: the handler would return into the
     * fault. */
    static const int never[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    if (signal <= 0 || signal >= OS_SIGNALS_MOST || (signal >= 32 && signal < SIGRTMIN))
        return false;
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (signal == never[i])
            return false;
    return true;
}

int weft__os_signal_catch(int signal, void (*handler)(int))
{
    KEEP_ERRNO;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    return sigaction(signal, &action, &before[signal]) == 0 ? 0 : weft__os_error();
}

void weft__os_signal_restore(int signal, void (*handler)(int))
{
    KEEP_ERRNO;
    struct sigaction now;
    if (sigaction(signal, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == handler)
        sigaction(signal, &before[signal], NULL);
}

void weft__os_signal_as_before(int signal)
{
    KEEP_ERRNO;
    sigaction(signal, &before[signal], NULL);
    raise(signal); /* delivered after the handler has returned */
}
