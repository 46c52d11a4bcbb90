/*
 * crash_output.c: a text that is written to stderr if the process dies: by abort, an illegal
 * instruction or an arithmetic fault, through a sanitizer, or by exit: os/crash_output.h.
 *
 * Signals. While there is a text, weft's action for these signals is installed. The former action
 * is put back when the text ends, or was written: then the signal is raised again and takes that
 * action. A signal that fault.c handles is left alone, since that writes the text as well.
 *
 * Exit. A handler of exit cannot be taken back: it is registered once, and finds no text most of
 * the time.
 */
#include "os/crash_output.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/fault.h"
#include "os/file.h"
#include "os/linux/seam.h"
#include "os/process.h"

static const int signals[] = {SIGABRT, SIGILL, SIGFPE};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static struct sigaction before[SIGNALS];
static atomic_ptr output;  /* NULL: there is no text, or it was written */
static size_t output_size; /* stored before `output` */
static pid_t process;      /* that called weft__os_crash_output; a forked child does not write */

/* NULL unless the program is built with a sanitizer. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

void weft__os_crash_output_write(void)
{
    /* The first call takes it. Pairs with the release in weft__os_crash_output. */
    const char *text = atomic_ptr_exchange_acq_rel(&output, NULL);
    if (text != NULL && getpid() == process)
        weft__os_write_stderr(text, output_size);
}

static void on_signal(int signal);

/* Leaves a signal alone for which the program has installed another action since. */
static void restore_actions(void)
{
    struct sigaction now;
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == on_signal)
            sigaction(signals[i], &before[i], NULL);
}

static void write_and_die(int signal)
{
    weft__os_crash_output_write();
    restore_actions();
    raise(signal); /* delivered after the handler has returned */
}

UNCOUNTED static void on_signal(int signal)
{
    write_and_die(signal);
    weft__os_save_coverage();
}

static void register_exit(void)
{
    static bool registered;
    if (!registered)
        registered = atexit(weft__os_crash_output_write) == 0;
}

void weft__os_crash_output(const char *text, size_t size)
{
    KEEP_ERRNO;
    if (text == NULL) {
        atomic_ptr_store_release(&output, NULL);
        restore_actions();
    } else {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
        sigemptyset(&action.sa_mask);
        process = getpid();
        output_size = size;
        /* Pairs with the exchange in weft__os_crash_output_write. */
        atomic_ptr_store_release(&output, (void *)(uintptr_t)text);
        register_exit();
        for (int i = 0; i < SIGNALS; i++)
            if (!weft__os_fault_handles(signals[i]))
                sigaction(signals[i], &action, &before[i]);
    }
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(text != NULL ? weft__os_crash_output_write : NULL);
}
